//! Generates random programs and events. Both use the same record layout: words of dynamic fields
//! at 8 to 23, pointers at 24 to 55, text and numbers from 56.

use super::evaluate::text;
use super::world::{KERNEL, Random, USER, World};
use crate::glob::Glob;
use crate::probe::Probe;
use crate::program::{
    Aggregate, Comparison, Condition, ConditionKind, Context, FRAMES, FieldRead, Kept, Number,
    Operator, Pair, Part, Program, Text,
};
use crate::source::Span;

const RECORD: u64 = 640;
const WORDS: [u32; 4] = [8, 12, 16, 20];
const POINTERS: [u32; 4] = [24, 32, 40, 48];

/// Generates an event. If `wild` is set, its words and pointers can refer to any address.
pub(super) fn world(random: &mut Random, wild: bool) -> World {
    let mut record = Vec::new();
    while record.len() < RECORD as usize {
        if random.once_in(2) {
            record.extend(random.number().to_ne_bytes());
        } else {
            letters(random, &mut record);
        }
    }
    record.truncate(RECORD as usize);
    for at in WORDS {
        let most = if random.once_in(4) { 300 } else { 12 };
        let length = random.below(most);
        let mut word = length << 16 | (56 + random.below(280));
        if wild && random.once_in(8) {
            word = random.next();
        }
        record[at as usize..][..4].copy_from_slice(&(word as u32).to_ne_bytes());
    }
    let (mut kernel, mut user) = (Vec::new(), Vec::new());
    for _ in 0..6 {
        letters(random, &mut kernel);
        letters(random, &mut user);
    }
    // The thread's structure: a pointer to its group, followed by the id of the group.
    let thread = KERNEL + kernel.len() as u64;
    kernel.extend((thread + 8).to_le_bytes());
    kernel.extend(random.below(3).to_le_bytes());
    for at in POINTERS {
        let start = if random.once_in(2) { KERNEL } else { USER };
        let mut pointer = start + random.below(user.len() as u64 + 4);
        if !wild {
            pointer = 0;
        } else if random.once_in(8) {
            pointer = random.number();
        }
        record[at as usize..][..8].copy_from_slice(&pointer.to_ne_bytes());
    }
    let mut comm = [0; 16];
    for byte in &mut comm[..random.below(16) as usize] {
        *byte = letter(random);
    }
    World {
        record,
        packet: None,
        whole: Vec::new(),
        pid: random.below(1 << 22) as u32,
        tgid: random.below(1 << 22) as u32,
        cpu: random.below(8) as u32,
        time: random.next() >> 8,
        latency: 0,
        cgroup: random.below(3),
        thread,
        comm,
        stack: match random.below(6) {
            0 => None,
            length @ 1..5 => Some((0..length).map(|_| 1 + random.below(3)).collect()),
            _ => Some((1..=FRAMES as u64).collect()),
        },
        kernel,
        user,
    }
}

fn letter(random: &mut Random) -> u8 {
    random.one_of(b"aabcABC-]\xc3")
}

/// Appends random letters, often with a NUL. Some lengths are close to 255.
fn letters(random: &mut Random, to: &mut Vec<u8>) {
    let length = match random.below(12) {
        0 => 250 + random.below(12),
        1..=4 => random.below(40),
        _ => random.below(9),
    };
    to.extend((0..length).map(|_| letter(random)));
    to.extend((!random.once_in(4)).then_some(0));
}

/// Generates a program.
pub(super) struct Maker<'a> {
    pub(super) random: Random,
    /// Source of the text that conditions compare with.
    pub(super) example: &'a World,
    /// Whether events are wild, see [`world`].
    pub(super) wild: bool,
}

impl Maker<'_> {
    pub(super) fn program(&mut self) -> Program {
        let depth = self.random.below(4);
        let filter = (!self.random.once_in(4)).then(|| self.condition(depth));
        let keys = self.random.one_of(&[0, 1, 1, 1, 2, 3, 6]);
        let keys = (0..keys).map(|_| self.part()).collect();
        let values = self.random.one_of(&[0, 1, 2, 3, 8]);
        let values = (0..values).map(|_| self.kept()).collect();
        Program {
            probe: Probe::Tracepoint,
            classic: None,
            filter,
            keys,
            values,
            pair: Pair::None,
            ..Program::default()
        }
    }

    /// Generates two programs whose events form a pair with the same key.
    pub(super) fn pair_of_programs(&mut self) -> [Program; 2] {
        let count = 1 + self.random.below(3);
        let parts = (0..count).map(|_| match self.random.below(4) {
            0 => Part::Text(Text::Comm),
            _ => Part::Number(self.small()),
        });
        let key: Vec<_> = parts.collect();
        let first = Program {
            pair: Pair::First(key.clone()),
            ..Program::default()
        };
        let mut second = self.program();
        second.pair = Pair::Second(key);
        let latency = Number::Context(Context::Latency);
        second.values.push(Kept {
            number: latency.clone(),
            what: Aggregate::Sum,
        });
        if self.random.once_in(3) {
            second.filter = Some(Condition {
                kind: ConditionKind::Compare {
                    how: Comparison::Less,
                    signed: false,
                    left: latency,
                    right: Number::Constant(1 << 54),
                },
                span: Span::new(0, 0),
            });
        }
        [first, second]
    }

    fn part(&mut self) -> Part {
        match self.random.below(8) {
            0 if self.wild => Part::Stack,
            0..=3 => Part::Text(self.text()),
            _ => Part::Number(self.small()),
        }
    }

    fn kept(&mut self) -> Kept {
        let depth = self.random.below(3);
        let number = self.number(depth);
        let signed = self.random.once_in(2);
        let what = match self.random.below(7) {
            0 | 1 => Aggregate::Sum,
            2 | 3 => Aggregate::Minimum { signed },
            4 | 5 => Aggregate::Maximum { signed },
            _ => Aggregate::Buckets,
        };
        Kept { number, what }
    }

    fn text(&mut self) -> Text {
        match self.random.below(5) {
            0 => Text::Comm,
            1 => Text::Dynamic {
                word: self.random.one_of(&WORDS),
                relative: self.random.once_in(2),
            },
            2 if self.wild => Text::Pointer {
                field: FieldRead {
                    offset: self.random.one_of(&POINTERS),
                    size: 8,
                    signed: self.random.once_in(2),
                },
                user: self.random.once_in(2),
            },
            _ => {
                let long = self.random.once_in(6);
                let size = if long { 240 } else { 0 } + 1 + self.random.below(24);
                Text::Field {
                    offset: 56 + self.random.below(RECORD - 56 - size) as u32,
                    size: size as u32,
                }
            }
        }
    }

    fn field(&mut self) -> FieldRead {
        let size = self.random.one_of(&[1, 2, 4, 8]);
        let mut offset = 56 + self.random.below(RECORD - 64) as u32;
        if !self.random.once_in(4) {
            offset -= offset % size;
        }
        FieldRead {
            offset,
            size,
            signed: self.random.once_in(2),
        }
    }

    /// Generates a number that is often equal for several events.
    fn small(&mut self) -> Number {
        let depth = self.random.below(3);
        let number = self.number(depth);
        if self.random.once_in(2) {
            return number;
        }
        let mask = Number::Constant(3);
        Number::Binary(Operator::And, number.into(), mask.into())
    }

    pub(super) fn number(&mut self, depth: u64) -> Number {
        if depth == 0 {
            return match self.random.below(6) {
                0 => Number::Constant(self.random.number()),
                1 => Number::DynamicField {
                    word: self.random.one_of(&WORDS),
                    relative: self.random.once_in(2),
                    skip: self.random.below(16) as u32,
                    size: self.random.one_of(&[1, 2, 4, 8]),
                    signed: self.random.once_in(2),
                },
                2 => Number::Context(self.context()),
                3 if self.random.once_in(3) => self.task_field(),
                _ => Number::Field(self.field()),
            };
        }
        let inner = depth - 1;
        match self.random.below(8) {
            0 => Number::Log2(self.number(inner).into()),
            1 => Number::Bucket {
                number: self.number(inner).into(),
                width: self.random.number().max(1),
            },
            _ => {
                let op = self.operator();
                let uneven = self.random.below(inner + 1);
                let left = self.number(uneven);
                Number::Binary(op, left.into(), self.number(inner).into())
            }
        }
    }

    /// Generates a read of the thread's group id, or of memory near it.
    fn task_field(&mut self) -> Number {
        let wrong = if self.random.once_in(4) { 8 } else { 0 };
        Number::OfThread(vec![0, wrong])
    }

    fn context(&mut self) -> Context {
        let time = if self.wild {
            Context::Time
        } else {
            Context::Cpu
        };
        let all = [
            Context::Pid,
            Context::Tgid,
            Context::Cpu,
            Context::Cgroup,
            time,
        ];
        self.random.one_of(&all)
    }

    fn operator(&mut self) -> Operator {
        self.random.one_of(&[
            Operator::Plus,
            Operator::Minus,
            Operator::Times,
            Operator::Divided,
            Operator::Remainder,
            Operator::And,
            Operator::Or,
            Operator::Xor,
            Operator::ShiftLeft,
            Operator::ShiftRight,
            Operator::SignedDivided,
            Operator::SignedRemainder,
            Operator::SignedShiftRight,
        ])
    }

    pub(super) fn condition(&mut self, depth: u64) -> Condition {
        let kind = match self.random.below(if depth > 0 { 11 } else { 7 }) {
            0 | 1 => self.compare(),
            2 => {
                let depth = self.random.below(3);
                let left = self.number(depth);
                ConditionKind::AnyBit(left, Number::Constant(self.random.number()))
            }
            3 => {
                let text = self.text();
                let value = self.value(&text);
                ConditionKind::Equals(text, value)
            }
            4 | 5 => {
                let text = self.text();
                let glob = self.glob(&text);
                ConditionKind::Matches(text, glob)
            }
            6 => {
                let count = self.random.below(4);
                let all = (0..count).map(|_| self.random.number()).collect();
                ConditionKind::OneOf(self.small(), all)
            }
            7 => ConditionKind::Not(self.condition(depth - 1).into()),
            more => {
                let count = self.random.below(4);
                let all = (0..count).map(|_| self.condition(depth - 1)).collect();
                if more == 8 {
                    ConditionKind::All(all)
                } else {
                    ConditionKind::Any(all)
                }
            }
        };
        Condition {
            kind,
            span: Span::new(0, 0),
        }
    }

    fn compare(&mut self) -> ConditionKind {
        let deep = if self.random.once_in(20) { 11 } else { 3 };
        let (left, right) = (self.random.below(deep), self.random.below(deep));
        ConditionKind::Compare {
            how: self.random.one_of(&[
                Comparison::Equal,
                Comparison::NotEqual,
                Comparison::NotEqual,
                Comparison::Less,
                Comparison::LessOrEqual,
                Comparison::Greater,
                Comparison::GreaterOrEqual,
            ]),
            signed: self.random.once_in(2),
            left: self.number(left),
            right: if self.random.once_in(2) {
                Number::Constant(self.random.number())
            } else {
                self.number(right)
            },
        }
    }

    /// Generates a value that equals the text or nearly equals it.
    fn value(&mut self, of: &Text) -> Vec<u8> {
        let mut value = text(of, self.example).unwrap_or_default();
        // A wild word can yield up to 64 KiB.
        value.truncate(300);
        match self.random.below(6) {
            0 => value.push(letter(&mut self.random)),
            1 => value.truncate(value.len().saturating_sub(1)),
            2 => value.clear(),
            3 if self.random.once_in(4) => value.push(0),
            _ => {}
        }
        value
    }

    /// Generates a pattern that matches the text or nearly matches it.
    fn glob(&mut self, of: &Text) -> Glob {
        let text = self.value(of);
        let mut pattern = Vec::new();
        let mut rest = text.as_slice();
        while let [first, tail @ ..] = rest {
            rest = tail;
            match self.random.below(10) {
                0 => pattern.push(b'?'),
                1 => pattern.extend_from_slice(b"[!xyz]"),
                2 => pattern.extend_from_slice(b"[a-c]"),
                3 | 4 => {
                    rest = &rest[self.random.below(rest.len() as u64 + 1) as usize..];
                    pattern.push(b'*');
                }
                _ if *first == 0 => {}
                _ => pattern.extend_from_slice(&[b'\\', *first]),
            }
        }
        Glob::parse(&pattern).unwrap_or_else(|_| Glob::parse(b"*a*").unwrap())
    }
}
