//! Emulates the maps of a program and converts its table to the evaluator's form.

use std::collections::BTreeMap;

use super::evaluate::{Row, Table, Value};
use super::machine::Fault;
use crate::buckets;
use crate::emit::{Emitted, MapUse, size_of_kept};
use crate::program::{Aggregate, Program};

/// Address of the first map value. Each map has 2^40 addresses, each value 2^20.
pub(super) const VALUES: u64 = 0x3000_0000_0000;

#[derive(Clone, Debug)]
pub(super) struct Maps {
    pub(super) key_size: usize,
    pub(super) value_size: usize,
    /// Index of the row by key.
    keys: BTreeMap<Vec<u8>, usize>,
    rows: Vec<Vec<u8>>,
    room: usize,
    dropped: Vec<u8>,
    memory: Vec<Vec<u8>>,
    globs: Vec<Vec<u8>>,
    zero: Vec<u8>,
    pub(super) pair_size: usize,
    /// Index of the time in `times` by the key of the first event.
    firsts: BTreeMap<Vec<u8>, usize>,
    /// Times of first events; removed ones keep their index.
    times: Vec<Vec<u8>>,
    unkept: Vec<u8>,
}

impl Maps {
    pub(super) fn new(emitted: &Emitted, room: usize) -> Self {
        let bytes = |glob: &[u64; 256]| glob.iter().flat_map(|w| w.to_ne_bytes()).collect();
        let is_array = emitted.key_size == 0;
        Self {
            key_size: emitted.key_size,
            value_size: emitted.value_size,
            keys: BTreeMap::new(),
            rows: vec![vec![0; emitted.value_size]; usize::from(is_array)],
            room,
            dropped: vec![0; 8],
            // Filled with garbage, as a previous event would leave it.
            memory: vec![memory(emitted); emitted.memories as usize],
            globs: emitted.globs.iter().map(bytes).collect(),
            zero: vec![0; emitted.value_size],
            pair_size: emitted.pair_size,
            firsts: BTreeMap::new(),
            times: Vec::new(),
            unkept: vec![0; 8],
        }
    }

    /// Stores a first event like `BPF_ANY`. First events have as much room as the table.
    pub(super) fn keep_first(&mut self, key: Vec<u8>, time: Vec<u8>) -> i64 {
        if !self.firsts.contains_key(&key) && self.firsts.len() >= self.room {
            return -7;
        }
        self.firsts.insert(key, self.times.len());
        self.times.push(time);
        0
    }

    pub(super) fn forget_first(&mut self, key: &[u8]) -> i64 {
        if self.firsts.remove(key).is_some() {
            0
        } else {
            -2
        }
    }

    /// Returns the number of first events that were lost because the map was full.
    pub(super) fn unkept(&self) -> u64 {
        word(&self.unkept, 0)
    }

    /// Returns the key size of a map in bytes.
    pub(super) fn key_size(&self, map: u64) -> usize {
        if map == MapUse::Table as u64 && self.key_size > 0 {
            return self.key_size;
        }
        if map == MapUse::Firsts as u64 {
            return self.pair_size;
        }
        4
    }

    /// Returns the address of a value, or 0.
    pub(super) fn lookup(&self, map: u64, key: &[u8]) -> Result<u64, Fault> {
        let slot = if map == MapUse::Table as u64 && self.key_size > 0 {
            self.keys.get(key).copied()
        } else if map == MapUse::Firsts as u64 {
            self.firsts.get(key).copied()
        } else {
            let index = key.try_into().map(u32::from_ne_bytes);
            Some(index.map_err(|_| "an index has four bytes")? as usize)
        };
        let slot = slot.filter(|slot| self.value(map, *slot).is_some());
        Ok(slot.map_or(0, |slot| VALUES + (map << 40) + ((slot as u64) << 20)))
    }

    /// Inserts a row for a key that has none, as with `BPF_NOEXIST`. Returns 0 or a negative errno.
    pub(super) fn insert(&mut self, key: Vec<u8>, row: Vec<u8>) -> i64 {
        if self.keys.contains_key(&key) {
            return -17;
        }
        if self.keys.len() >= self.room {
            return -7;
        }
        self.keys.insert(key, self.rows.len());
        self.rows.push(row);
        0
    }

    fn value(&self, map: u64, slot: usize) -> Option<&Vec<u8>> {
        let single = |value| (slot == 0).then_some(value);
        match map {
            0 => self.rows.get(slot),
            1 => single(&self.dropped),
            2 => self.memory.get(slot),
            3 => self.globs.get(slot),
            4 => single(&self.zero),
            5 => self.times.get(slot),
            6 => single(&self.unkept),
            _ => None,
        }
    }

    /// Returns the value at an address, and the offset in the value.
    pub(super) fn place(&self, address: u64) -> Result<(&Vec<u8>, usize), Fault> {
        let (map, slot, at) = parts(address)?;
        let value = self.value(map, slot);
        Ok((
            value.ok_or_else(|| format!("there is no value at {address:#x}"))?,
            at,
        ))
    }

    pub(super) fn place_mut(&mut self, address: u64) -> Result<(&mut Vec<u8>, usize), Fault> {
        let (map, slot, at) = parts(address)?;
        let value = match map {
            0 => self.rows.get_mut(slot),
            1 => Some(&mut self.dropped),
            2 => self.memory.get_mut(slot),
            6 => Some(&mut self.unkept),
            _ => None,
        };
        Ok((
            value.ok_or_else(|| format!("there is no writable value at {address:#x}"))?,
            at,
        ))
    }

    /// Converts the table to the evaluator's form.
    pub(super) fn table(&self, program: &Program) -> Table {
        let row = |bytes: &Vec<u8>| decode(program, bytes);
        let rows = if self.key_size == 0 {
            BTreeMap::from([(Vec::new(), row(&self.rows[0]))])
        } else {
            let rows = self.keys.iter();
            rows.map(|(key, slot)| (key.clone(), row(&self.rows[*slot])))
                .collect()
        };
        Table {
            rows,
            room: self.room,
            dropped: word(&self.dropped, 0),
        }
    }
}

/// Returns the initial scratch memory, which no program holds.
fn memory(emitted: &Emitted) -> Vec<u8> {
    let mut memory = vec![b'a'; emitted.memory_size];
    if let Some(at) = emitted.busy {
        memory[at..at + 8].fill(0);
    }
    memory
}

/// Splits an address into map, value index and offset.
fn parts(address: u64) -> Result<(u64, usize, usize), Fault> {
    let outside = || format!("{address:#x} is not a map address");
    let at = address.checked_sub(VALUES).filter(|at| at >> 40 < 8);
    let at = at.ok_or_else(outside)?;
    let slot = usize::try_from(at >> 20 & 0xf_ffff).map_err(|_| outside())?;
    Ok((at >> 40, slot, (at & 0xf_ffff) as usize))
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// Decodes a row. Rows start with zeros ([`crate::emit`]), so minima are stored as complements and
/// signed extremes are shifted by 2^63.
pub(super) fn decode(program: &Program, bytes: &[u8]) -> Row {
    let hits = word(bytes, 0);
    let mut at = 8;
    let values = program.values.iter().map(|kept| {
        let extreme = |signed: bool, number: u64| {
            let number = if signed {
                i128::from((number ^ 1 << 63).cast_signed())
            } else {
                i128::from(number)
            };
            Value::Extreme((hits > 0).then_some(number))
        };
        let value = match kept.what {
            Aggregate::Sum => Value::Sum(word(bytes, at)),
            Aggregate::Minimum { signed } => extreme(signed, !word(bytes, at)),
            Aggregate::Maximum { signed } => extreme(signed, word(bytes, at)),
            Aggregate::Buckets => {
                let all = (0..buckets::COUNT).map(|i| (i, word(bytes, at + 8 * i)));
                Value::Buckets(all.filter(|(_, hits)| *hits > 0).collect())
            }
            Aggregate::Saved { .. } => panic!("programs of one event save nothing"),
        };
        at += size_of_kept(kept.what);
        value
    });
    (hits, values.collect())
}
