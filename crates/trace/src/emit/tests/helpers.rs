//! Emulates the kernel helpers that programs call.

use super::machine::{Fault, MAP, Machine, RECORD};
use crate::emit::MapUse;
use crate::program::FRAMES;

const EFAULT: i64 = -14;
/// Larger than any record or key.
const MAX_SIZE: u64 = 1 << 16;

impl Machine<'_> {
    pub(super) fn call(&mut self, helper: i32) -> Result<u64, Fault> {
        let result = match helper {
            1 => return self.map_lookup(),
            2 => self.map_update()?,
            3 => self.map_delete()?,
            5 => return Ok(self.world.time),
            8 => return Ok(u64::from(self.world.cpu)),
            14 => return Ok(u64::from(self.world.tgid) << 32 | u64::from(self.world.pid)),
            16 => self.comm()?,
            26 => self.load_bytes(false)?,
            68 if self.get(5)? == 0 => self.load_bytes(true)?,
            67 => self.stack()?,
            35 => return Ok(self.world.thread),
            80 => return Ok(self.world.cgroup),
            113 => self.probe_read(false)?,
            114 => self.probe_text(true)?,
            115 => self.probe_text(false)?,
            other => return Err(format!("function {other}")),
        };
        Ok(result.cast_unsigned())
    }

    fn map(&self, register: u8) -> Result<u64, Fault> {
        let map = self.get(register)?.checked_sub(MAP).filter(|map| *map < 8);
        map.ok_or_else(|| format!("r{register} is not a map"))
    }

    fn map_lookup(&mut self) -> Result<u64, Fault> {
        let map = self.map(1)?;
        let key = self.bytes(self.get(2)?, self.maps.key_size(map))?;
        self.maps.lookup(map, &key)
    }

    fn map_update(&mut self) -> Result<i64, Fault> {
        if self.map(1)? == MapUse::Firsts as u64 {
            let key = self.bytes(self.get(2)?, self.maps.pair_size)?;
            let time = self.bytes(self.get(3)?, 8)?;
            return match self.get(4)? {
                0 => Ok(self.maps.keep_first(key, time)),
                flags => Err(format!("flags {flags}")),
            };
        }
        if self.map(1)? != 0 || self.maps.key_size == 0 || self.get(4)? != 1 {
            return Err("only the table gets new rows".into());
        }
        let key = self.bytes(self.get(2)?, self.maps.key_size)?;
        let row = self.bytes(self.get(3)?, self.maps.value_size)?;
        Ok(self.maps.insert(key, row))
    }

    fn map_delete(&mut self) -> Result<i64, Fault> {
        if self.map(1)? != MapUse::Firsts as u64 {
            return Err("only first events are removed".into());
        }
        let key = self.bytes(self.get(2)?, self.maps.pair_size)?;
        Ok(self.maps.forget_first(&key))
    }

    fn comm(&mut self) -> Result<i64, Fault> {
        if self.get(2)? != 16 {
            return Err("the kernel copies 16 bytes of the name".into());
        }
        self.write(self.get(1)?, &self.world.comm.clone())?;
        Ok(0)
    }

    fn stack(&mut self) -> Result<i64, Fault> {
        let size = 8 * FRAMES as u64;
        if self.get(1)? != RECORD || self.get(3)? != size || self.get(4)? != 0 {
            return Err("the context of bpf_get_stack is not the record".into());
        }
        let Some(frames) = &self.world.stack else {
            return Ok(EFAULT);
        };
        let bytes: Vec<u8> = frames.iter().flat_map(|f| f.to_ne_bytes()).collect();
        self.write(self.get(2)?, &bytes)?;
        Ok(bytes.len() as i64)
    }

    fn load_bytes(&mut self, whole: bool) -> Result<i64, Fault> {
        let Some(packet) = &self.world.packet else {
            return Err("there is no packet".into());
        };
        if self.get(1)? != RECORD {
            return Err("the context of bpf_skb_load_bytes is not the record".into());
        }
        let number = |register| {
            let number = self.get(register)?;
            usize::try_from(number).map_err(|e| e.to_string())
        };
        let (from, to, size) = (number(2)?, self.get(3)?, number(4)?);
        let packet = if whole { &self.world.whole } else { packet };
        let bytes = packet.get(from..from + size).map(<[u8]>::to_vec);
        let result = if bytes.is_some() { 0 } else { EFAULT };
        self.write(to, &bytes.unwrap_or_else(|| vec![0; size]))?;
        Ok(result)
    }

    /// Returns a byte of kernel or user memory.
    fn read_byte(&self, address: u64, user: bool) -> Option<u8> {
        match address.checked_sub(RECORD) {
            Some(at) if !user && at < 1 << 20 => Some(self.world.record_byte(at)),
            _ => self.world.memory_byte(address, user),
        }
    }

    fn size(&self) -> Result<usize, Fault> {
        let size = self.get(2)?;
        if size == 0 || size > MAX_SIZE {
            return Err(format!("{size} bytes"));
        }
        usize::try_from(size).map_err(|e| e.to_string())
    }

    fn probe_read(&mut self, user: bool) -> Result<i64, Fault> {
        let (to, size, from) = (self.get(1)?, self.size()?, self.get(3)?);
        let bytes = (0..size as u64).map(|i| self.read_byte(from.wrapping_add(i), user));
        let bytes: Option<Vec<u8>> = bytes.collect();
        let result = if bytes.is_some() { 0 } else { EFAULT };
        self.write(to, &bytes.unwrap_or_else(|| vec![0; size]))?;
        Ok(result)
    }

    fn probe_text(&mut self, user: bool) -> Result<i64, Fault> {
        let (to, size, from) = (self.get(1)?, self.size()?, self.get(3)?);
        // The whole buffer must be writable, even if the text is shorter.
        if self.bytes(to, size).is_err() {
            self.write(to, &vec![0xff; size])?;
        }
        let mut text = Vec::new();
        while text.len() < size && text.last() != Some(&0) {
            match self.read_byte(from.wrapping_add(text.len() as u64), user) {
                Some(byte) => text.push(byte),
                None => {
                    self.write(to, &vec![0; size])?;
                    return Ok(EFAULT);
                }
            }
        }
        if let Some(last) = text.last_mut() {
            *last = 0;
        }
        self.write(to, &text)?;
        Ok(i64::try_from(text.len()).unwrap_or(i64::MAX))
    }
}
