//! Edge cases that random programs may miss.

use super::compare;
use super::evaluate::{Table, Value};
use super::world::{KERNEL, World};
use crate::emit::{EmitError, emit};
use crate::glob::Glob;
use crate::program::{
    Aggregate, Comparison, Condition, ConditionKind, FieldRead, Kept, Number, Operator, Part,
    Program, Text,
};
use crate::source::Span;

/// An event with these bytes at offset 16, followed by filler, and a dynamic field of this length
/// at offset 8.
fn world(bytes: &[u8], length: u32) -> World {
    let mut record = vec![b'#'; 9000];
    record[8..12].copy_from_slice(&(length << 16 | 16).to_ne_bytes());
    record[16..16 + bytes.len()].copy_from_slice(bytes);
    World {
        record,
        ..World::default()
    }
}

fn condition(kind: ConditionKind) -> Condition {
    let span = Span::new(0, 0);
    Condition { kind, span }
}

fn filter(kind: ConditionKind) -> Program {
    let filter = Some(condition(kind));
    Program {
        filter,
        ..Program::default()
    }
}

fn keys(parts: Vec<Part>) -> Program {
    Program {
        keys: parts,
        ..Program::default()
    }
}

fn values(numbers: Vec<Number>, what: Aggregate) -> Program {
    let values = numbers.into_iter().map(|number| Kept { number, what });
    Program {
        values: values.collect(),
        ..Program::default()
    }
}

const FIELD: Number = Number::Field(FieldRead {
    offset: 16,
    size: 8,
    signed: false,
});
const DYNAMIC: Text = Text::Dynamic {
    word: 8,
    relative: false,
};

fn text(size: u32) -> Text {
    Text::Field { offset: 16, size }
}

fn table(program: &Program, world: &World) -> Table {
    compare(program, std::slice::from_ref(world), 4).unwrap()
}

/// Returns whether the event passes; the interpreter and the evaluator must agree.
fn passes(kind: ConditionKind, world: &World) -> bool {
    let not = ConditionKind::Not(condition(kind.clone()).into());
    let hits = [kind, not].map(|kind| table(&filter(kind), world).rows[&Vec::new()].0);
    assert_eq!(hits[0] + hits[1], 1);
    hits[0] == 1
}

fn equals(text: Text, value: &[u8], world: &World) -> bool {
    passes(ConditionKind::Equals(text, value.to_vec()), world)
}

fn matches(text: Text, pattern: &[u8], world: &World) -> bool {
    let glob = Glob::parse(pattern).unwrap();
    passes(ConditionKind::Matches(text, glob), world)
}

/// Returns the only key, without trailing zeros.
fn key(part: Part, world: &World) -> Vec<u8> {
    let table = table(&keys(vec![part]), world);
    let key = table.rows.keys().next().unwrap();
    let end = key.iter().rposition(|byte| *byte != 0);
    key[..end.map_or(0, |end| end + 1)].to_vec()
}

#[test]
fn text_without_a_nul_ends_at_its_field() {
    let full = world(b"abcdefghijklmnop", 0);
    assert_eq!(key(Part::Text(text(12)), &full), b"abcdefghijkl");
    // The key holds 15 characters and a NUL.
    assert_eq!(key(Part::Text(text(16)), &full), b"abcdefghijklmno");
    for size in 1..=16 {
        let whole = &b"abcdefghijklmnop"[..size as usize];
        assert!(equals(text(size), whole, &full) && matches(text(size), whole, &full));
        assert!(!equals(text(size), &whole[1..], &full));
        assert!(!equals(text(size), b"abcdefghijklmnop#", &full));
        assert!(!matches(text(size), b"*#*", &full));
    }
}

#[test]
fn dynamic_text_ends_at_its_length() {
    let bytes = b"abc\0\0next";
    for (length, expected) in [(0, ""), (1, "a"), (3, "abc"), (4, "abc"), (9, "abc")] {
        let world = world(bytes, length);
        assert_eq!(key(Part::Text(DYNAMIC), &world), expected.as_bytes());
        assert!(equals(DYNAMIC, expected.as_bytes(), &world));
        assert!(matches(DYNAMIC, expected.as_bytes(), &world));
        assert!(!equals(DYNAMIC, b"abcn", &world) && !equals(DYNAMIC, b"ab", &world));
    }
}

#[test]
fn long_text_is_matched_up_to_255_characters() {
    for length in [253_usize, 254, 255, 256, 300] {
        let long = vec![b'a'; length];
        let mut bytes = long.clone();
        bytes.push(0);
        let mut world = world(&bytes, length as u32 + 1);
        world.kernel.clone_from(&bytes);
        world.record[8192 - 8..8192].copy_from_slice(&KERNEL.to_ne_bytes());
        let field = FieldRead {
            offset: 8192 - 8,
            size: 8,
            signed: false,
        };
        let user = false;
        for text in [DYNAMIC, Text::Pointer { field, user }, text(length as u32)] {
            assert!(equals(text.clone(), &long, &world));
            assert!(!equals(text.clone(), &long[1..], &world));
            assert!(!equals(text.clone(), &bytes[..length - 1], &world));
            assert!(matches(text.clone(), b"*aaa", &world));
            assert!(!matches(text.clone(), b"*b", &world));
            assert_eq!(key(Part::Text(text), &world), long[..length.min(255)]);
        }
    }
}

#[test]
fn empty_all_is_true_and_empty_any_is_false() {
    let world = world(b"", 0);
    assert!(passes(ConditionKind::All(vec![]), &world));
    assert!(!passes(ConditionKind::Any(vec![]), &world));
    let inner = [ConditionKind::All(vec![]), ConditionKind::Any(vec![])].map(condition);
    assert!(!passes(ConditionKind::All(inner.to_vec()), &world));
    assert!(passes(ConditionKind::Any(inner.to_vec()), &world));
}

#[test]
fn compares_64_bit_constants() {
    for value in [
        i64::MIN,
        -1 << 31,
        (-1 << 31) - 1,
        1 << 31,
        1 << 40,
        i64::MAX,
    ] {
        let world = world(&value.to_ne_bytes(), 0);
        for (signed, other, less) in [
            (true, value.wrapping_add(1), value < i64::MAX),
            (false, 0, false),
        ] {
            let kind = ConditionKind::Compare {
                how: Comparison::Less,
                signed,
                left: FIELD,
                right: Number::Constant(other.cast_unsigned()),
            };
            assert_eq!(passes(kind, &world), less, "{value}");
        }
    }
}

#[test]
fn keys_of_any_size_fit_next_to_text() {
    let world = world(&[7; 200], 40);
    let glob = Glob::parse(b"*").unwrap();
    for parts in [1, 31, 32, 33, 500] {
        let program = Program {
            keys: vec![Part::Number(FIELD); parts],
            ..filter(ConditionKind::Matches(DYNAMIC, glob.clone()))
        };
        assert_eq!(emit(&program).unwrap().key_size, 8 * parts);
        assert_eq!(table(&program, &world).rows.len(), 1);
    }
    let long = keys(vec![Part::Number(FIELD); 5000]);
    assert_eq!(emit(&long), Err(EmitError::TooLarge));
}

#[test]
fn rows_above_the_kernels_limit_are_rejected() {
    let world = world(&u64::MAX.to_ne_bytes(), 0);
    let eight = values(vec![FIELD; 8], Aggregate::Buckets);
    let row = table(&eight, &world).rows[&Vec::new()].clone();
    assert_eq!(row.1.len(), 8);
    let nine = values(vec![FIELD; 9], Aggregate::Buckets);
    assert_eq!(emit(&nine), Err(EmitError::TooLarge));
}

#[test]
fn extremes_start_with_the_first_number() {
    for signed in [false, true] {
        for what in [Aggregate::Minimum { signed }, Aggregate::Maximum { signed }] {
            for number in [0, 1, i64::MAX, i64::MIN, -1] {
                let world = world(&number.to_ne_bytes(), 0);
                let row = table(&values(vec![FIELD], what), &world).rows[&Vec::new()].clone();
                let kept = if signed {
                    i128::from(number)
                } else {
                    i128::from(number.cast_unsigned())
                };
                assert_eq!(row.1, [Value::Extreme(Some(kept))]);
            }
        }
    }
}

/// Returns the value of a number; the interpreter and the evaluator must agree.
fn value(number: Number, world: &World) -> u64 {
    let table = table(&keys(vec![Part::Number(number)]), world);
    let key = table.rows.keys().next().unwrap().as_slice();
    u64::from_ne_bytes(key.try_into().unwrap())
}

#[test]
fn logarithms_and_division_handle_edge_cases() {
    let logarithms = [
        (0, 0),
        (1, 0),
        (2, 1),
        (3, 2),
        (4, 2),
        (1 << 63, 63),
        ((1 << 63) + 1, 64),
        (u64::MAX, 64),
    ];
    for (number, expected) in logarithms {
        let world = world(&number.to_ne_bytes(), 0);
        assert_eq!(value(Number::Log2(FIELD.into()), &world), expected);
        let divisions = [
            Operator::Divided,
            Operator::Remainder,
            Operator::SignedDivided,
            Operator::SignedRemainder,
        ];
        for op in divisions {
            for none in [
                Number::Constant(0),
                Number::Log2(Number::Constant(1).into()),
            ] {
                let number = Number::Binary(op, FIELD.into(), none.into());
                assert_eq!(value(number, &world), u64::MAX);
            }
        }
    }
}

#[test]
fn signed_division_rounds_towards_zero() {
    let least = i64::MIN;
    let cases = [
        (Operator::SignedDivided, -11, 4096, 0),
        (Operator::SignedDivided, -8193, 4096, -2),
        (Operator::SignedDivided, 7, -2, -3),
        (Operator::SignedDivided, -7, -2, 3),
        (Operator::SignedDivided, least, -1, least),
        (Operator::SignedDivided, least, 1, least),
        (Operator::SignedDivided, 7, least, 0),
        (Operator::SignedRemainder, -7, 2, -1),
        (Operator::SignedRemainder, 7, -2, 1),
        (Operator::SignedRemainder, least, -1, 0),
        (Operator::SignedShiftRight, -11, 12, -1),
        (Operator::SignedShiftRight, 8192, 12, 2),
    ];
    for (op, left, right, expected) in cases {
        let world = world(&i64::to_ne_bytes(left), 0);
        let right = Number::Constant(right.cast_unsigned());
        let number = Number::Binary(op, FIELD.into(), right.into());
        let found = value(number, &world).cast_signed();
        assert_eq!(found, expected, "{op:?} of {left}");
    }
}

#[test]
fn elements_past_a_dynamic_array_are_zero() {
    let element = |skip, size| Number::DynamicField {
        word: 8,
        relative: false,
        skip,
        size,
        signed: false,
    };
    let world = world(&[1, 2, 3, 4, 5, 6, 7, 8], 6);
    assert_eq!(value(element(4, 2), &world), 0x0605);
    assert_eq!(value(element(5, 1), &world), 6);
    assert_eq!(value(element(5, 2), &world), 0);
    assert_eq!(value(element(0, 8), &world), 0);
    assert_eq!(value(element(u32::MAX, 8), &world), 0);
}

#[test]
fn deeper_nesting_than_eight_spills_is_rejected() {
    let deep = |depth| {
        (0..depth).fold(FIELD, |inner, _| {
            Number::Binary(Operator::Minus, FIELD.into(), inner.into())
        })
    };
    let world = world(&5_u64.to_ne_bytes(), 0);
    assert_eq!(value(deep(9), &world), 0);
    let deeper = keys(vec![Part::Number(deep(10))]);
    assert_eq!(emit(&deeper), Err(EmitError::TooDeep));
}

#[test]
fn unreadable_fields_are_rejected() {
    let number = |offset, size| {
        let signed = false;
        Part::Number(Number::Field(FieldRead {
            offset,
            size,
            signed,
        }))
    };
    let text = |offset, size| Part::Text(Text::Field { offset, size });
    let word = |word| {
        let relative = true;
        Part::Text(Text::Dynamic { word, relative })
    };
    let bad = [
        number(0, 8),
        number(16, 3),
        number(8192, 1),
        text(4, 16),
        text(16, 0),
        text(16, u32::MAX),
        word(4),
        word(10),
        word(8192),
    ];
    for part in bad {
        assert_eq!(emit(&keys(vec![part])), Err(EmitError::Unreadable));
    }
}
