//! Tests that printing a tree and parsing the text yields the same tree.

use noctule_trace::parse;
use noctule_trace::source::{Span, Spanned};
use noctule_trace::tree::{BinaryOp, EventName, Expr, ExprKind, Modifier, Name, UnaryOp};

use crate::dump;
use crate::golden::{FILES, sources};
use crate::random::Random;

const NOWHERE: Span = Span::new(0, 0);

const ARITHMETIC: [BinaryOp; 10] = [
    BinaryOp::BitOr,
    BinaryOp::BitXor,
    BinaryOp::BitAnd,
    BinaryOp::ShiftLeft,
    BinaryOp::ShiftRight,
    BinaryOp::Plus,
    BinaryOp::Minus,
    BinaryOp::Times,
    BinaryOp::Divided,
    BinaryOp::Remainder,
];

const COMPARISONS: [BinaryOp; 6] = [
    BinaryOp::Equal,
    BinaryOp::NotEqual,
    BinaryOp::Less,
    BinaryOp::LessOrEqual,
    BinaryOp::Greater,
    BinaryOp::GreaterOrEqual,
];

const MODIFIERS: [Modifier; 8] = [
    Modifier::Hex,
    Modifier::Symbol,
    Modifier::SymbolOffset,
    Modifier::Buckets(8),
    Modifier::Percentile(999),
    Modifier::Percentile(500),
    Modifier::Function,
    Modifier::Descending,
];

/// Names of fields; some are keywords elsewhere.
const NAMES: [&str; 10] = [
    "pid", "offset", "in", "and", "or", "not", "sym", "buckets", "hex", "_9",
];

const TEXTS: [&str; 6] = ["", "a b", "it's", "\"", "\u{e9}\0\n", ") && x"];

fn expr(kind: ExprKind) -> Expr {
    Expr {
        kind,
        span: NOWHERE,
    }
}

fn binary(op: BinaryOp, left: Expr, right: Expr) -> Expr {
    let op = Spanned::new(op, NOWHERE);
    expr(ExprKind::Binary(op, left.into(), right.into()))
}

fn name(random: &mut Random) -> Name {
    let event = EventName {
        system: "sched".into(),
        event: "sched_switch".into(),
    };
    Name {
        event: (random.below(4) == 0).then_some(event),
        field: (*random.of(&NAMES)).into(),
    }
}

fn number(random: &mut Random) -> i128 {
    let any = random.next();
    match random.below(5) {
        0 => i128::from(any),
        1 => i128::from(any as i64),
        2 => i128::from(i64::MIN),
        3 => -1,
        _ => i128::from(any % 9),
    }
}

fn operand(random: &mut Random) -> Expr {
    expr(match random.below(8) {
        0..4 => ExprKind::Name(name(random)),
        4 => ExprKind::Variable(name(random)),
        5 => ExprKind::Text((*random.of(&TEXTS)).into()),
        6 => ExprKind::Cpus("0-3:1/2,8".into()),
        _ => ExprKind::Number(number(random)),
    })
}

fn value(random: &mut Random, depth: usize) -> Expr {
    if depth == 0 {
        return operand(random);
    }
    match random.below(7) {
        0 => {
            let op = *random.of(&[UnaryOp::Minus, UnaryOp::Complement]);
            expr(ExprKind::Unary(op, value(random, depth - 1).into()))
        }
        1 => {
            let modifier = Spanned::new(random.of(&MODIFIERS).clone(), NOWHERE);
            expr(ExprKind::Modified(
                value(random, depth - 1).into(),
                modifier,
            ))
        }
        2 => condition(random, depth - 1),
        _ => {
            let op = *random.of(&ARITHMETIC);
            binary(op, value(random, depth - 1), value(random, depth - 1))
        }
    }
}

fn condition(random: &mut Random, depth: usize) -> Expr {
    let below = depth.saturating_sub(1);
    match random.below(7) {
        0..3 if depth > 0 => {
            let op = *random.of(&[BinaryOp::And, BinaryOp::Or]);
            binary(op, condition(random, below), condition(random, below))
        }
        3 if depth > 0 => expr(ExprKind::Unary(
            UnaryOp::Not,
            condition(random, below).into(),
        )),
        4 => {
            let elements = (0..=random.below(2)).map(|_| value(random, below));
            let elements = elements.collect();
            expr(ExprKind::In(value(random, below).into(), elements))
        }
        5 => {
            let text = expr(ExprKind::Text((*random.of(&TEXTS)).into()));
            binary(BinaryOp::Matches, value(random, below), text)
        }
        6 => binary(BinaryOp::BitAnd, value(random, below), value(random, below)),
        _ => {
            let op = *random.of(&COMPARISONS);
            binary(op, value(random, below), value(random, below))
        }
    }
}

#[test]
fn printed_trees_round_trip() {
    let mut random = Random::new(1);
    for round in 0..20_000 {
        let tree = condition(&mut random, round % 5);
        let printed = tree.to_string();
        let (again, problems) = parse::filter(&printed);
        assert_eq!(problems, [], "{printed:?}");
        assert_eq!(dump::expr(&again), dump::expr(&tree), "{printed:?}");
    }
}

#[test]
fn printed_commands_round_trip() {
    let mut count = 0;
    for (name, read) in FILES {
        for text in sources(name) {
            let (printed, problems) = match name {
                "filter" => {
                    let (expr, problems) = parse::filter(&text);
                    (expr.to_string(), problems)
                }
                "hist" => {
                    let (hist, problems) = parse::hist(&text);
                    (hist.to_string(), problems)
                }
                _ => {
                    let (trigger, problems) = parse::trigger(&text);
                    (trigger.to_string(), problems)
                }
            };
            if problems.is_empty() {
                assert_eq!(read(&printed), (read(&text).0, problems), "{printed}");
                count += 1;
            }
        }
    }
    assert!(count > 100);
}

#[test]
fn printing_follows_the_kernels_format() {
    let filters = [
        ("((a==1))&&(!(b&3))", "a == 1 && !(b & 3)"),
        ("a||(b==1)", "a || b == 1"),
        ("x.function!=f.isra.0", "x.function != f.isra.0"),
        ("x in{1,-2,\"t\"}", "x in {1, -2, \"t\"}"),
        ("(a+b)*-1-(-c)==0", "(a+b)*(-1)-(-(c)) == 0"),
        ("a.sym - offset==1", "a.sym - offset == 1"),
    ];
    for (text, printed) in filters {
        assert_eq!(parse::filter(text).0.to_string(), printed);
    }
    let hist = "vals=a , hitcount:key=call_site.sym-offset:x=b - $c:NOHC:size=0x800:\
        onmax($x).save(d,e):sort=a.descending if a>1";
    let printed = "hist:keys=call_site.sym-offset:vals=a,hitcount:x=b-$c:sort=a.descending:\
        size=2048:nohitcount:onmax($x).save(d,e) if a > 1";
    assert_eq!(parse::hist(hist).0.to_string(), printed);
}
