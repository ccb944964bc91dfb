//! A strict interpreter of BPF. Operations that the kernel's verifier rejects are errors: memory
//! outside of the stack, the record and map values; unwritten stack bytes and registers; misaligned
//! accesses; writes to read-only memory.

use super::maps::{Maps, VALUES};
use super::world::World;
use crate::asm::Insn;
use crate::emit::Emitted;

/// Address of the stack.
pub(super) const STACK: u64 = 0x1000_0000_0000;
/// Size of the stack in bytes.
pub(super) const STACK_SIZE: usize = 512;
/// Address of the record. The address is not a power of two, because the addresses of real records
/// are not.
pub(super) const RECORD: u64 = 0x2100_0000_0000;
/// Address of map 0; the other maps follow.
pub(super) const MAP: u64 = 0x4000_0000_0000;
/// More steps than any test program needs.
const STEPS: usize = 1_000_000;

/// The reason why a program failed.
pub(super) type Fault = String;

/// A run of a program.
pub(super) struct Machine<'a> {
    pub(super) world: &'a World,
    pub(super) maps: &'a mut Maps,
    pub(super) registers: [Option<u64>; 11],
    stack: [Option<u8>; STACK_SIZE],
}

/// Runs the program for one event.
pub(super) fn run(emitted: &Emitted, world: &World, maps: &mut Maps) -> Result<(), Fault> {
    interrupted(emitted, &[world], usize::MAX, maps).map(|_| ())
}

/// Runs the program for the first event. After `steps` steps, or at the end of the program, the
/// second event interrupts the first, the third interrupts the second, and so on. Returns whether
/// the first event reached that number of steps.
pub(super) fn interrupted(
    emitted: &Emitted,
    worlds: &[&World],
    steps: usize,
    maps: &mut Maps,
) -> Result<bool, Fault> {
    let Some((world, others)) = worlds.split_first() else {
        return Ok(true);
    };
    let mut machine = Machine {
        world,
        maps,
        registers: [None; 11],
        stack: [None; STACK_SIZE],
    };
    machine.registers[1] = Some(RECORD);
    machine.registers[10] = Some(STACK + STACK_SIZE as u64);
    let mut at = 0;
    for step in 0..STEPS {
        if step == steps {
            interrupted(emitted, others, steps, machine.maps)?;
        }
        let insn = *emitted
            .code
            .insns
            .get(at)
            .ok_or("execution continues past the end of the code")?;
        match machine.step(emitted, at, insn) {
            Ok(Some(next)) => at = next,
            Ok(None) => {
                if step < steps {
                    interrupted(emitted, others, steps, machine.maps)?;
                }
                return Ok(step >= steps);
            }
            Err(fault) => return Err(format!("instruction {at}: {fault}")),
        }
    }
    Err("the program does not terminate".into())
}

impl Machine<'_> {
    /// Executes an instruction and returns the index of the next one, or `None` at the end.
    fn step(&mut self, emitted: &Emitted, at: usize, insn: Insn) -> Result<Option<usize>, Fault> {
        match insn.code & 7 {
            0 => {
                self.wide(emitted, at, insn)?;
                return Ok(Some(at + 2));
            }
            1 => {
                let address = self.get(insn.src)?.wrapping_add_signed(insn.offset.into());
                let value = self.load(address, size(insn.code)?)?;
                self.set(insn.dst, value)?;
            }
            3 if insn.code == 0xdb => {
                let address = self.get(insn.dst)?.wrapping_add_signed(insn.offset.into());
                let (value, before) = (self.get(insn.src)?, self.load(address, 8)?);
                match insn.imm {
                    0 => self.store(address, 8, before.wrapping_add(value))?,
                    0xe1 => {
                        self.store(address, 8, value)?;
                        self.set(insn.src, before)?;
                    }
                    0xf1 => {
                        if self.get(0)? == before {
                            self.store(address, 8, value)?;
                        }
                        self.set(0, before)?;
                    }
                    other => return Err(format!("atomic operation {other:#x}")),
                }
            }
            2 | 3 => {
                let value = if insn.code & 7 == 2 {
                    i64::from(insn.imm).cast_unsigned()
                } else {
                    self.get(insn.src)?
                };
                let address = self.get(insn.dst)?.wrapping_add_signed(insn.offset.into());
                self.store(address, size(insn.code)?, value)?;
            }
            4 => {
                let left = self.get(insn.dst)?;
                let value = match (insn.code, insn.imm) {
                    (0xdc, 16) => u16::from_be(left as u16).into(),
                    (0xdc, 32) => u32::from_be(left as u32).into(),
                    (0x84, _) => u64::from((left as u32).wrapping_neg()),
                    _ => alu_32(insn.code & 0xf0, left as u32, self.operand(insn)? as u32)?.into(),
                };
                self.set(insn.dst, value)?;
            }
            5 => return self.jump(at, insn),
            7 => {
                let right = self.operand(insn)?;
                let value = if insn.code & 0xf0 == 0xb0 {
                    right
                } else {
                    alu(insn.code & 0xf0, self.get(insn.dst)?, right)?
                };
                self.set(insn.dst, value)?;
            }
            _ => return Err(format!("class of {:#x}", insn.code)),
        }
        Ok(Some(at + 1))
    }

    fn wide(&mut self, emitted: &Emitted, at: usize, insn: Insn) -> Result<(), Fault> {
        let second = emitted.code.insns.get(at + 1).ok_or("half a constant")?;
        if insn.code != 0x18 || second.code != 0 {
            return Err("not a constant of 64 bits".into());
        }
        let map = emitted.code.maps.iter().find(|(place, _)| *place == at);
        let value = match (insn.src, map) {
            (0, None) => {
                u64::from(insn.imm.cast_unsigned()) | u64::from(second.imm.cast_unsigned()) << 32
            }
            (1, Some((_, map))) => MAP + u64::from(*map),
            _ => return Err("the list of maps is wrong".into()),
        };
        self.set(insn.dst, value)
    }

    fn jump(&mut self, at: usize, insn: Insn) -> Result<Option<usize>, Fault> {
        let op = insn.code & 0xf0;
        let taken = match op {
            0x80 => {
                let result = self.call(insn.imm)?;
                self.registers[1..6].fill(None);
                self.registers[0] = Some(result);
                false
            }
            0x90 => {
                self.get(0)?;
                return Ok(None);
            }
            0 => true,
            _ => compare(op, self.get(insn.dst)?, self.operand(insn)?)?,
        };
        let distance = if taken { insn.offset.into() } else { 0 };
        let next = (at + 1).checked_add_signed(distance);
        Ok(Some(next.ok_or("a jump to before the start of the code")?))
    }

    pub(super) fn get(&self, register: u8) -> Result<u64, Fault> {
        let value = self.registers.get(usize::from(register)).copied().flatten();
        value.ok_or_else(|| format!("r{register} is not set"))
    }

    fn set(&mut self, register: u8, value: u64) -> Result<(), Fault> {
        match self.registers[..10].get_mut(usize::from(register)) {
            Some(place) => *place = Some(value),
            None => return Err(format!("r{register} is read only")),
        }
        Ok(())
    }

    fn operand(&self, insn: Insn) -> Result<u64, Fault> {
        if insn.code & 8 != 0 {
            return self.get(insn.src);
        }
        if insn.src != 0 {
            return Err("a source register together with a constant".into());
        }
        Ok(i64::from(insn.imm).cast_unsigned())
    }

    fn load(&self, address: u64, size: usize) -> Result<u64, Fault> {
        if !address.is_multiple_of(size as u64) {
            return Err(format!("misaligned: {address:#x}"));
        }
        if let Some(at) = address.checked_sub(RECORD)
            && address < VALUES
        {
            // The first bytes of the record are a pointer to the registers. A packet filter may
            // read only four-byte numbers from its context.
            let kept_back = match self.world.packet {
                None => at < 8,
                Some(_) => size != 4,
            };
            if kept_back || at + size as u64 > self.world.record.len() as u64 {
                return Err(format!("byte {at} of the record"));
            }
            let bytes: Vec<u8> = (at..at + size as u64)
                .map(|at| self.world.record_byte(at))
                .collect();
            return Ok(number(&bytes));
        }
        Ok(number(&self.bytes(address, size)?))
    }

    fn store(&mut self, address: u64, size: usize, value: u64) -> Result<(), Fault> {
        if !address.is_multiple_of(size as u64) {
            return Err(format!("misaligned: {address:#x}"));
        }
        self.write(address, &value.to_le_bytes()[..size])
    }

    /// Reads bytes of the stack or of a map value.
    pub(super) fn bytes(&self, address: u64, size: usize) -> Result<Vec<u8>, Fault> {
        if let Some(range) = on_stack(address, size) {
            let bytes: Option<Vec<u8>> = self.stack[range].iter().copied().collect();
            return bytes
                .ok_or_else(|| format!("stack byte was never written: {:#x}", address - STACK));
        }
        let (place, at) = self.maps.place(address)?;
        let bytes = place
            .get(at..at + size)
            .ok_or("past the end of a map value")?;
        Ok(bytes.to_vec())
    }

    /// Writes to the stack or to a map value.
    pub(super) fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        if let Some(range) = on_stack(address, bytes.len()) {
            for (place, byte) in self.stack[range].iter_mut().zip(bytes) {
                *place = Some(*byte);
            }
            return Ok(());
        }
        let (place, at) = self.maps.place_mut(address)?;
        let place = place.get_mut(at..at + bytes.len());
        place
            .ok_or("past the end of a map value")?
            .copy_from_slice(bytes);
        Ok(())
    }
}

fn on_stack(address: u64, size: usize) -> Option<std::ops::Range<usize>> {
    let at = usize::try_from(address.checked_sub(STACK)?).ok()?;
    (at + size <= STACK_SIZE).then_some(at..at + size)
}

fn number(bytes: &[u8]) -> u64 {
    let bytes = bytes.iter().rev();
    bytes.fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Returns the size of a memory access in bytes.
fn size(code: u8) -> Result<usize, Fault> {
    if code & 0xe0 != 0x60 {
        return Err(format!("mode of {code:#x}"));
    }
    Ok([4, 2, 1, 8][usize::from(code >> 3 & 3)])
}

/// Executes a 64-bit operation as defined by the BPF instruction set standard.
fn alu(op: u8, left: u64, right: u64) -> Result<u64, Fault> {
    let bits = (right & 63) as u32;
    Ok(match op {
        0x00 => left.wrapping_add(right),
        0x10 => left.wrapping_sub(right),
        0x20 => left.wrapping_mul(right),
        0x30 => left.checked_div(right).unwrap_or(0),
        0x40 => left | right,
        0x50 => left & right,
        0x60..=0x70 | 0xc0 if right > 63 => return Err(format!("a shift by {right}")),
        0x60 => left << bits,
        0x70 => left >> bits,
        0x90 => left.checked_rem(right).unwrap_or(left),
        0xa0 => left ^ right,
        0xc0 => (left.cast_signed() >> bits).cast_unsigned(),
        _ => return Err(format!("operation {op:#x}")),
    })
}

/// Executes a 32-bit operation. Shifts use the low five bits of the distance, as the processors do.
fn alu_32(op: u8, left: u32, right: u32) -> Result<u32, Fault> {
    let right = if matches!(op, 0x60 | 0x70) {
        right & 31
    } else {
        right
    };
    Ok(alu(op, left.into(), right.into())? as u32)
}

fn compare(op: u8, left: u64, right: u64) -> Result<bool, Fault> {
    let signed = left.cast_signed().cmp(&right.cast_signed());
    Ok(match op {
        0x10 => left == right,
        0x20 => left > right,
        0x30 => left >= right,
        0x40 => left & right != 0,
        0x50 => left != right,
        0x60 => signed.is_gt(),
        0x70 => signed.is_ge(),
        0xa0 => left < right,
        0xb0 => left <= right,
        0xc0 => signed.is_lt(),
        0xd0 => signed.is_le(),
        _ => return Err(format!("jump {op:#x}")),
    })
}
