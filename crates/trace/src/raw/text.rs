//! Parses extended instructions as text, one per line.

use std::collections::HashMap;

use super::line::{self, Line};
use super::{Instructions, RawError};
use crate::source::{Problem, Span, Spanned};

/// The kernel's instruction limit (`BPF_COMPLEXITY_LIMIT_INSNS`).
const MAX_INSNS: usize = 1_000_000;
/// Maximum number of maps in a program.
const MAX_MAPS: usize = 64;

/// A use of a name: the index of the instruction, the line and the name.
type Use = (usize, u32, Spanned<String>);

/// Parses all lines.
pub(super) fn read(text: &str) -> Result<Instructions, RawError> {
    let mut read = Instructions::default();
    let mut labels = HashMap::new();
    let (mut jumps, mut loads): (Vec<Use>, Vec<Use>) = (Vec::new(), Vec::new());
    let fail = |number: u32, problem| RawError::Line {
        number,
        text: text
            .lines()
            .nth(number as usize - 1)
            .unwrap_or("")
            .to_owned(),
        problem,
    };
    for (number, line) in (1..).zip(text.lines()) {
        let wrong = |problem| fail(number, problem);
        match line::read(line).map_err(wrong)? {
            Line::Nothing => {}
            Line::Map(map) => {
                let known = read.maps.iter().any(|known| known.name == map.node.name);
                if known || read.maps.len() == MAX_MAPS {
                    let text = if known {
                        "there is already a map with this name"
                    } else {
                        "a program has at most 64 maps"
                    };
                    return Err(wrong(Problem::new(map.span, text)));
                }
                read.maps.push(map.node);
            }
            Line::Label(label) => {
                if labels.insert(label.node, read.insns.len()).is_some() {
                    let text = "there is already a label with this name";
                    return Err(wrong(Problem::new(label.span, text)));
                }
            }
            Line::Instruction(one) => {
                let at = read.insns.len();
                jumps.extend(one.label.map(|label| (at, number, label)));
                loads.extend(one.map.map(|map| (at, number, map)));
                read.insns.push(one.insn.bytes());
                read.lines.push(number);
                if let Some(high) = one.high {
                    let [i0, i1, i2, i3] = high.to_ne_bytes();
                    read.insns.push([0, 0, 0, 0, i0, i1, i2, i3]);
                    read.lines.push(number);
                }
            }
        }
        if read.insns.len() > MAX_INSNS {
            let text = "a program has at most a million instructions";
            return Err(wrong(Problem::new(Span::new(0, 0), text)));
        }
    }
    if read.insns.is_empty() {
        let problem = Problem::new(Span::new(0, 0), "there is no instruction");
        return Err(fail(1, problem));
    }
    for (at, number, label) in jumps {
        let to = labels.get(&label.node).ok_or("there is no such label");
        let distance = to.and_then(|to| {
            let distance = to.cast_signed() - at.cast_signed() - 1;
            i16::try_from(distance).map_err(|_| "the label is more than 32767 instructions away")
        });
        let distance = distance.map_err(|text| fail(number, Problem::new(label.span, text)))?;
        read.insns[at][2..4].copy_from_slice(&distance.to_ne_bytes());
    }
    for (at, number, map) in loads {
        let which = read.maps.iter().position(|known| known.name == map.node);
        let Some(which) = which.and_then(|which| u32::try_from(which).ok()) else {
            let help = "declare it in a line `map NAME TYPE KEY VALUE ENTRIES`";
            let problem = Problem::new(map.span, "there is no such map").with_help(help);
            return Err(fail(number, problem));
        };
        read.loads.push((at, which));
    }
    Ok(read)
}
