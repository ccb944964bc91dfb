//! Compares the instructions of small programs with a golden file.

use std::fmt::Write as _;

use crate::emit::emit;
use crate::probe::Probe;
use crate::program::{
    Aggregate, Comparison, Condition, ConditionKind, FieldRead, Kept, Number, Part, Program, Text,
};
use crate::source::Span;

fn programs() -> [(&'static str, Program); 3] {
    let field = |offset, size| {
        let signed = true;
        Number::Field(FieldRead {
            offset,
            size,
            signed,
        })
    };
    let filter = |kind| {
        let span = Span::new(0, 0);
        Some(Condition { kind, span })
    };
    let kept = |number, what| vec![Kept { number, what }];
    let above = ConditionKind::Compare {
        how: Comparison::Greater,
        signed: true,
        left: field(24, 4),
        right: Number::Constant(64),
    };
    let name = Text::Field {
        offset: 8,
        size: 16,
    };
    let dynamic = Text::Dynamic {
        word: 8,
        relative: false,
    };
    [
        (
            "keys=F:vals=G if G > 64",
            Program {
                probe: Probe::Tracepoint,
                classic: None,
                filter: filter(above),
                keys: vec![Part::Number(field(16, 8))],
                values: kept(field(24, 4), Aggregate::Sum),
                ..Program::default()
            },
        ),
        (
            "the maximum over events with a given name",
            Program {
                probe: Probe::Tracepoint,
                classic: None,
                filter: filter(ConditionKind::Equals(name, b"kworker/0".to_vec())),
                keys: Vec::new(),
                values: kept(field(32, 8), Aggregate::Maximum { signed: true }),
                ..Program::default()
            },
        ),
        (
            "dynamic text",
            Program {
                filter: filter(ConditionKind::Equals(dynamic, b"eth0".to_vec())),
                ..Program::default()
            },
        ),
    ]
}

#[test]
fn instructions_match_the_golden_file() {
    let mut all = String::new();
    for (name, program) in programs() {
        let code = emit(&program).unwrap().code;
        writeln!(all, "# {name}\n\n{code}").unwrap();
    }
    let expected = include_str!("golden.txt");
    assert!(all.trim_end() == expected.trim_end(), "now it is:\n{all}");
}
