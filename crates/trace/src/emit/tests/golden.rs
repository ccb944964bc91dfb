//! The instructions of small programs, as text.

use std::fmt::Write as _;

use crate::asm::{Code, Insn};
use crate::emit::emit;
use crate::probe::Probe;
use crate::program::{
    Aggregate, Comparison, Condition, ConditionKind, FieldRead, Kept, Number, Part, Program, Text,
};
use crate::source::Span;

/// One instruction in the kernel's notation.
fn listing(insn: Insn) -> String {
    let Insn {
        code,
        dst,
        src,
        offset,
        imm,
    } = insn;
    let size = ["u32", "u16", "u8", "u64"][usize::from(code >> 3 & 3)];
    let operand = if code & 8 != 0 {
        format!("r{src}")
    } else {
        imm.to_string()
    };
    let alu = ["+=", "-=", "*=", "/=", "|=", "&=", "<<=", ">>="];
    let jumps = [
        "==", ">", ">=", "&", "!=", "s>", "s>=", "", "", "<", "<=", "s<", "s<=",
    ];
    match (code & 7, code & 0xf0) {
        (1, _) => format!("r{dst} = *({size} *)(r{src} {offset:+})"),
        (2, _) => format!("*({size} *)(r{dst} {offset:+}) = {imm}"),
        (3, _) => format!("*({size} *)(r{dst} {offset:+}) = r{src}"),
        (5, 0x00) => format!("goto {offset:+}"),
        (5, 0x80) => format!("call {imm}"),
        (5, 0x90) => "exit".into(),
        (5, op) => {
            let jump = jumps[usize::from(op >> 4) - 1];
            format!("if r{dst} {jump} {operand} goto {offset:+}")
        }
        (_, 0x90) => format!("r{dst} %= {operand}"),
        (_, 0xa0) => format!("r{dst} ^= {operand}"),
        (_, 0xb0) => format!("r{dst} = {operand}"),
        (_, 0xc0) => format!("r{dst} s>>= {operand}"),
        (_, op) => format!("r{dst} {} {operand}", alu[usize::from(op >> 4)]),
    }
}

fn text(code: &Code) -> String {
    let mut text = String::new();
    for (at, insn) in code.insns.iter().enumerate() {
        if insn.code == 0 {
            continue;
        }
        match code.maps.iter().find(|(place, _)| *place == at) {
            Some((_, map)) => writeln!(text, "{at:3} r{} = map {map}", insn.dst),
            None if insn.code == 0x18 => {
                let (low, high) = (insn.imm, code.insns[at + 1].imm);
                writeln!(text, "{at:3} r{} = {high:#x} {low:#010x}", insn.dst)
            }
            None => writeln!(text, "{at:3} {}", listing(*insn)),
        }
        .unwrap();
    }
    text
}

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
                filter: filter(above),
                keys: vec![Part::Number(field(16, 8))],
                values: kept(field(24, 4), Aggregate::Sum),
            },
        ),
        (
            "the greatest of those with the name",
            Program {
                probe: Probe::Tracepoint,
                filter: filter(ConditionKind::Equals(name, b"kworker/0".to_vec())),
                keys: Vec::new(),
                values: kept(field(32, 8), Aggregate::Maximum { signed: true }),
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
fn instructions_are_those_of_the_file() {
    let mut all = String::new();
    for (name, program) in programs() {
        let code = emit(&program).unwrap().code;
        writeln!(all, "# {name}\n\n{}", text(&code)).unwrap();
    }
    let expected = include_str!("golden.txt");
    assert!(all.trim_end() == expected.trim_end(), "now it is:\n{all}");
}
