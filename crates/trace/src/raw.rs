//! Reads programs that are plain instructions without an object file. Classic BPF has the format of
//! `tcpdump -ddd` or `bpf_asm`. Extended BPF is text in the verifier's notation, hexadecimal text,
//! or bytes.

mod line;
mod scan;
#[cfg(test)]
mod tests;
mod text;

use crate::classic::{Classic, ClassicError};
use crate::elf::LegacyMap;
use crate::source::Problem;

/// Size of an extended instruction in bytes.
const INSN_BYTES: usize = 8;
/// First byte of the load of a 64-bit constant, which takes two instruction slots.
const LOAD_CONSTANT: u8 = 0x18;

/// The content of a file with instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Raw {
    /// A socket filter.
    Classic(Classic),
    /// An extended BPF program.
    Extended(Instructions),
}

/// Extended instructions and their maps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instructions {
    pub insns: Vec<[u8; INSN_BYTES]>,
    /// Maps that the text declares.
    pub maps: Vec<LegacyMap>,
    /// Instructions that load a map, and the index of the map.
    pub loads: Vec<(usize, u32)>,
    /// Source line of each instruction, from 1; empty for binary input.
    pub lines: Vec<u32>,
}

/// The reason why a file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RawError {
    #[error("line {number}: {}", problem.show(text).trim_end())]
    Line {
        /// Line number, from 1.
        number: u32,
        text: String,
        /// The position in the line, and the reason.
        problem: Problem,
    },
    /// The classic instructions are not a valid filter.
    #[error("{0}")]
    Classic(ClassicError),
    #[error("byte {at}: {problem}")]
    Bytes {
        /// Offset of the first invalid byte.
        at: usize,
        problem: &'static str,
    },
}

/// Reads a file of instructions. A file with control characters contains bytes rather than text. A
/// text with a leading instruction count or braces contains classic instructions rather than
/// extended ones.
///
/// # Errors
///
/// See [`RawError`].
pub fn read(bytes: &[u8]) -> Result<Raw, RawError> {
    let text = str::from_utf8(bytes)
        .ok()
        .filter(|text| !text.contains(|c: char| c.is_control() && !c.is_whitespace()));
    let Some(text) = text else {
        return binary(bytes).map(Raw::Extended);
    };
    if text.trim_start().starts_with('{') {
        let plain = text.replace(['{', '}'], " ");
        let insns = braces(&plain).map_err(RawError::Classic)?;
        return Ok(Raw::Classic(insns));
    }
    if is_classic(text) {
        return Classic::parse(text)
            .map(Raw::Classic)
            .map_err(RawError::Classic);
    }
    text::read(text).map(Raw::Extended)
}

/// Whether the text starts with an instruction count, alone on its line or followed by a comma.
pub fn is_classic(text: &str) -> bool {
    let first = text.trim_start().split([',', '\n']).next();
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
    text.contains([',', '\n']) && first.is_some_and(|word| is_number(word.trim()))
}

/// Parses the output of `tcpdump -dd` or `bpf_asm -c` without its braces: four comma-separated
/// numbers per line.
fn braces(text: &str) -> Result<Classic, ClassicError> {
    let lines = text.lines().map(|line| line.replace(',', " "));
    let lines: Vec<_> = lines.filter(|line| !line.trim().is_empty()).collect();
    Classic::parse(&format!("{}\n{}", lines.len(), lines.join("\n")))
}

fn binary(bytes: &[u8]) -> Result<Instructions, RawError> {
    let wrong = |at, problem| Err(RawError::Bytes { at, problem });
    let (insns, odd) = bytes.as_chunks::<INSN_BYTES>();
    if !odd.is_empty() {
        return wrong(
            insns.len() * INSN_BYTES,
            "the last instruction has fewer than eight bytes",
        );
    }
    if insns.is_empty() {
        return wrong(0, "there is no instruction");
    }
    let names_map = |insn: &[u8; INSN_BYTES]| {
        let source = if cfg!(target_endian = "little") {
            insn[1] >> 4
        } else {
            insn[1] & 15
        };
        insn[0] == LOAD_CONSTANT && source != 0
    };
    if let Some(at) = insns.iter().position(names_map) {
        let problem = "a binary program cannot refer to a map or a variable, because descriptors are valid in one \
                       process only. Write the program as text, with a line `map NAME TYPE KEY VALUE ENTRIES`";
        return wrong(at * INSN_BYTES, problem);
    }
    Ok(Instructions {
        insns: insns.to_vec(),
        ..Instructions::default()
    })
}
