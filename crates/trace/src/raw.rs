//! Programs as plain instructions, without an object: classic ones as `tcpdump -ddd` and `bpf_asm`
//! print them, extended ones as text in the verifier's notation, in hexadecimal, or as bytes.

mod line;
mod scan;
#[cfg(test)]
mod tests;
mod text;

use std::fmt;

use crate::classic::{Classic, ClassicError};
use crate::elf::LegacyMap;
use crate::source::Problem;

/// Bytes of an extended instruction.
const INSN_BYTES: usize = 8;
/// The first byte of an instruction that loads a constant of 64 bits, and takes two places.
const LOAD_CONSTANT: u8 = 0x18;

/// What such a file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Raw {
    /// The filter of a socket.
    Classic(Classic),
    /// A program of extended BPF.
    Extended(Instructions),
}

/// Extended instructions, with the maps that they use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instructions {
    /// Eight bytes each.
    pub insns: Vec<[u8; INSN_BYTES]>,
    /// The maps that the text declares.
    pub maps: Vec<LegacyMap>,
    /// Instructions that load a map, and which of the maps.
    pub loads: Vec<(usize, u32)>,
    /// The line of the file that each instruction was made of, from 1; empty of bytes.
    pub lines: Vec<u32>,
}

/// Why a file holds no instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RawError {
    /// A line of the text is wrong.
    Line {
        /// Its number, from 1.
        number: u32,
        /// Its text.
        text: String,
        /// The place in the line, and what is wrong there.
        problem: Problem,
    },
    /// The classic instructions are no filter.
    Classic(ClassicError),
    /// The bytes are no instructions.
    Bytes {
        /// The first byte that is wrong.
        at: usize,
        /// What is wrong.
        problem: &'static str,
    },
}

impl fmt::Display for RawError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line {
                number,
                text,
                problem,
            } => write!(f, "line {number}: {}", problem.show(text).trim_end()),
            Self::Classic(error) => error.fmt(f),
            Self::Bytes { at, problem } => write!(f, "byte {at}: {problem}"),
        }
    }
}

impl std::error::Error for RawError {}

/// Reads a file of instructions. Its characters distinguish text from bytes, classic instructions from
/// extended ones by their number in front or by braces.
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

/// Whether a number stands in front, alone on its line or with a comma behind it.
pub fn is_classic(text: &str) -> bool {
    let first = text.trim_start().split([',', '\n']).next();
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
    text.contains([',', '\n']) && first.is_some_and(|word| is_number(word.trim()))
}

/// Classic instructions as `tcpdump -dd` and `bpf_asm -c` print them, without the braces: four numbers
/// with commas on each line.
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
            "instructions have eight bytes each, and the last one has fewer",
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
        let problem = "bytes cannot name a map or a variable: a descriptor has a meaning in one process \
                       only. Write the program as text, with a line `map NAME TYPE KEY VALUE ENTRIES`";
        return wrong(at * INSN_BYTES, problem);
    }
    Ok(Instructions {
        insns: insns.to_vec(),
        ..Instructions::default()
    })
}
