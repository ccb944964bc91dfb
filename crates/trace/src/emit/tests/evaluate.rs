//! A reference evaluator, which computes the effect of a program on a table as the documentation of
//! [`crate::program`] defines it.

use std::collections::BTreeMap;

use super::world::World;
use crate::buckets;
use crate::program::{
    Aggregate, Comparison, Condition, ConditionKind, Context, FRAMES, FieldRead, Number, Operator,
    Pair, Part, Program, TEXT_ROOM, Text,
};

/// Tables of several events are tested against the kernel instead.
const NO_VARIABLES: &str = "programs of one event have no variables";

/// An aggregate of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Sum(u64),
    /// `None` before the first hit.
    Extreme(Option<i128>),
    /// Hits by bucket; empty buckets are absent.
    Buckets(BTreeMap<usize, u64>),
}

/// The hit count and the aggregates.
pub(super) type Row = (u64, Vec<Value>);

/// A table with a limited number of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) rows: BTreeMap<Vec<u8>, Row>,
    pub(super) room: usize,
    pub(super) dropped: u64,
}

impl Table {
    pub(super) fn new(program: &Program, room: usize) -> Self {
        let mut rows = BTreeMap::new();
        if program.keys.is_empty() {
            rows.insert(Vec::new(), empty(program));
        }
        Self {
            rows,
            room,
            dropped: 0,
        }
    }

    /// Processes one event.
    pub(super) fn event(&mut self, program: &Program, world: &World) {
        if let Some(filter) = &program.filter
            && !holds(filter, world)
        {
            return;
        }
        let key: Vec<u8> = program.keys.iter().flat_map(|k| part(k, world)).collect();
        if !self.rows.contains_key(&key) {
            if self.rows.len() >= self.room {
                self.dropped += 1;
                return;
            }
            self.rows.insert(key.clone(), empty(program));
        }
        let Some((hits, values)) = self.rows.get_mut(&key) else {
            return;
        };
        *hits += 1;
        for (kept, value) in program.values.iter().zip(values) {
            keep(value, kept.what, number(&kept.number, world));
        }
    }
}

/// First events of pairs, which wait for the second event of their pair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Waiting {
    times: BTreeMap<Vec<u8>, u64>,
    pub(super) unkept: u64,
}

impl Waiting {
    /// Processes one event: stores a first event, or passes a second event to the table.
    pub(super) fn event(&mut self, program: &Program, world: &World, table: &mut Table) {
        let key = |parts: &[Part]| {
            parts
                .iter()
                .flat_map(|k| part(k, world))
                .collect::<Vec<_>>()
        };
        match &program.pair {
            Pair::None => table.event(program, world),
            Pair::First(parts) => {
                let key = key(parts);
                if self.times.len() >= table.room && !self.times.contains_key(&key) {
                    self.unkept += 1;
                } else {
                    self.times.insert(key, world.time);
                }
            }
            Pair::Second(parts) => {
                if let Some(first) = self.times.remove(&key(parts)) {
                    let mut world = world.clone();
                    world.latency = world.time.wrapping_sub(first);
                    table.event(program, &world);
                }
            }
        }
    }
}

fn empty(program: &Program) -> Row {
    let values = program.values.iter().map(|kept| match kept.what {
        Aggregate::Sum => Value::Sum(0),
        Aggregate::Minimum { .. } | Aggregate::Maximum { .. } => Value::Extreme(None),
        Aggregate::Buckets => Value::Buckets(BTreeMap::new()),
        Aggregate::Saved { .. } => panic!("{NO_VARIABLES}"),
    });
    (0, values.collect())
}

fn keep(value: &mut Value, what: Aggregate, number: u64) {
    let wide = |signed| {
        if signed {
            i128::from(number.cast_signed())
        } else {
            i128::from(number)
        }
    };
    match (value, what) {
        (Value::Sum(sum), Aggregate::Sum) => *sum = sum.wrapping_add(number),
        (Value::Extreme(old), Aggregate::Minimum { signed }) => {
            *old = Some(old.map_or(wide(signed), |old| old.min(wide(signed))));
        }
        (Value::Extreme(old), Aggregate::Maximum { signed }) => {
            *old = Some(old.map_or(wide(signed), |old| old.max(wide(signed))));
        }
        (Value::Buckets(hits), Aggregate::Buckets) => {
            *hits.entry(buckets::index(number)).or_default() += 1;
        }
        (value, what) => panic!("{value:?} is not for {what:?}"),
    }
}

fn part(part: &Part, world: &World) -> Vec<u8> {
    match part {
        Part::Number(n) => number(n, world).to_ne_bytes().to_vec(),
        Part::Stack => {
            let frames = world.stack.iter().flatten();
            let mut bytes: Vec<u8> = frames.flat_map(|frame| frame.to_ne_bytes()).collect();
            bytes.resize(8 * FRAMES, 0);
            bytes
        }
        Part::Address { offset } => world.record[*offset as usize..][..16].to_vec(),
        Part::Text(of) => {
            let mut bytes = text(of, world).unwrap_or_default();
            bytes.truncate(of.room() - 1);
            bytes.resize(of.room(), 0);
            bytes
        }
    }
}

/// Reads bytes of the record as a number.
fn read(world: &World, at: u64, size: u32, signed: bool) -> u64 {
    let mut number = 0;
    for byte in 0..u64::from(size) {
        number |= u64::from(world.record_byte(at + byte)) << (8 * byte);
    }
    let unused = 64 - 8 * size;
    if signed {
        ((number << unused).cast_signed() >> unused).cast_unsigned()
    } else {
        number
    }
}

/// Returns the offset and the size of a dynamic field.
fn locate(world: &World, word: u32, relative: bool) -> (u64, u64) {
    let value = read(world, u64::from(word), 4, false);
    let base = if relative { u64::from(word) + 4 } else { 0 };
    (base + (value & 0xffff), value >> 16)
}

fn field(field: FieldRead, world: &World) -> u64 {
    read(world, u64::from(field.offset), field.size, field.signed)
}

pub(super) fn number(of: &Number, world: &World) -> u64 {
    match of {
        Number::Constant(value) => *value,
        Number::Field(read) => field(*read, world),
        Number::DynamicField {
            word,
            relative,
            skip,
            size,
            signed,
        } => {
            let (at, length) = locate(world, *word, *relative);
            if u64::from(*skip) + u64::from(*size) > length {
                return 0;
            }
            read(world, at + u64::from(*skip), *size, *signed)
        }
        Number::Context(Context::Pid) => u64::from(world.pid),
        Number::Context(Context::Tgid) => u64::from(world.tgid),
        Number::Context(Context::Cpu) => u64::from(world.cpu),
        Number::Context(Context::Time) => world.time,
        Number::Context(Context::Cgroup) => world.cgroup,
        Number::Context(Context::Latency) => world.latency,
        Number::Read(_) | Number::Own(_) => panic!("{NO_VARIABLES}"),
        Number::OfThread(offsets) => {
            let step = |at: u64, offset: &u32| word(at.wrapping_add(u64::from(*offset)), world);
            offsets.iter().fold(world.thread, step)
        }
        Number::Binary(op, left, right) => operate(*op, number(left, world), number(right, world)),
        Number::Log2(inner) => {
            let wanted = u128::from(number(inner, world));
            (0..=64).find(|bits| 1_u128 << bits >= wanted).unwrap()
        }
        Number::Bucket { number: of, width } => number(of, world) / width * width,
    }
}

/// Reads eight bytes of kernel memory; 0 if the address is invalid.
fn word(at: u64, world: &World) -> u64 {
    let bytes = (0..8).map(|byte| world.memory_byte(at.wrapping_add(byte), false));
    let bytes: Option<Vec<u8>> = bytes.collect();
    let word = bytes.as_ref().and_then(|bytes| bytes.first_chunk());
    word.copied().map_or(0, u64::from_le_bytes)
}

fn operate(op: Operator, left: u64, right: u64) -> u64 {
    match op {
        Operator::Plus => left.wrapping_add(right),
        Operator::Minus => left.wrapping_sub(right),
        Operator::Times => left.wrapping_mul(right),
        Operator::Divided => left.checked_div(right).unwrap_or(u64::MAX),
        Operator::Remainder => left.checked_rem(right).unwrap_or(u64::MAX),
        Operator::And => left & right,
        Operator::Or => left | right,
        Operator::Xor => left ^ right,
        Operator::ShiftLeft => left << (right & 63),
        Operator::ShiftRight => left >> (right & 63),
        Operator::SignedDivided | Operator::SignedRemainder if right == 0 => u64::MAX,
        Operator::SignedDivided => (left.cast_signed())
            .wrapping_div(right.cast_signed())
            .cast_unsigned(),
        Operator::SignedRemainder => (left.cast_signed())
            .wrapping_rem(right.cast_signed())
            .cast_unsigned(),
        Operator::SignedShiftRight => (left.cast_signed() >> (right & 63)).cast_unsigned(),
    }
}

/// Returns the part of the text before its NUL that programs read, or `None` if the text cannot be
/// read.
pub(super) fn text(of: &Text, world: &World) -> Option<Vec<u8>> {
    let near = |at: u64, length: u64| {
        let bytes = (at..at + length).map(|at| world.record_byte(at));
        bytes.take_while(|byte| *byte != 0).collect()
    };
    match of {
        Text::Read { .. } => panic!("{NO_VARIABLES}"),
        Text::Comm => Some(world.comm.iter().copied().take_while(|b| *b != 0).collect()),
        Text::Field { offset, size } => Some(near(u64::from(*offset), u64::from(*size))),
        Text::Dynamic { word, relative } => {
            let (at, length) = locate(world, *word, *relative);
            Some(near(at, length))
        }
        Text::Pointer { field: of, user } => {
            let at = field(*of, world);
            let mut text = Vec::new();
            while text.len() < TEXT_ROOM {
                let address = at.wrapping_add(text.len() as u64);
                match world.memory_byte(address, *user)? {
                    0 => break,
                    byte => text.push(byte),
                }
            }
            Some(text)
        }
    }
}

/// Whether the text at a pointer equals the value. Memory after the NUL of the text does not
/// matter.
fn pointer_equals(at: u64, user: bool, value: &[u8], world: &World) -> bool {
    let mut rest = (0..).map(|i| world.memory_byte(at.wrapping_add(i), user));
    value.iter().all(|byte| rest.next() == Some(Some(*byte))) && rest.next() == Some(Some(0))
}

pub(super) fn holds(condition: &Condition, world: &World) -> bool {
    match &condition.kind {
        ConditionKind::Compare {
            how,
            signed,
            left,
            right,
        } => {
            let (left, right) = (number(left, world), number(right, world));
            let order = if *signed {
                left.cast_signed().cmp(&right.cast_signed())
            } else {
                left.cmp(&right)
            };
            match how {
                Comparison::Equal => order.is_eq(),
                Comparison::NotEqual => order.is_ne(),
                Comparison::Less => order.is_lt(),
                Comparison::LessOrEqual => order.is_le(),
                Comparison::Greater => order.is_gt(),
                Comparison::GreaterOrEqual => order.is_ge(),
            }
        }
        ConditionKind::AnyBit(left, right) => number(left, world) & number(right, world) != 0,
        ConditionKind::OneOf(left, all) => all.contains(&number(left, world)),
        ConditionKind::Equals(_, value) if value.contains(&0) => false,
        ConditionKind::Equals(Text::Pointer { field: of, user }, value) => {
            pointer_equals(field(*of, world), *user, value, world)
        }
        ConditionKind::Equals(of, value) => text(of, world).is_some_and(|text| text == *value),
        ConditionKind::Matches(of, glob) => text(of, world).is_some_and(|mut text| {
            text.truncate(TEXT_ROOM - 1);
            glob.matches(&text)
        }),
        ConditionKind::Not(inner) => !holds(inner, world),
        ConditionKind::All(all) => all.iter().all(|one| holds(one, world)),
        ConditionKind::Any(all) => all.iter().any(|one| holds(one, world)),
    }
}
