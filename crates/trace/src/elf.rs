//! Objects as the compiler leaves them: whether libbpf can take one, and those of 2015, which it takes
//! no more.
//!
//! Until libbpf 1.0 a map was a `struct bpf_map_def` in a section `maps`, a section `version` had the
//! kernel that the object was for, and sections were numbered (`socket1`). The kernel's samples of
//! then, and much that was written after them, look like this. They are read here and loaded as plain
//! instructions: to write such an object anew as libbpf wants it would take BTF for its maps, which
//! it does not have.

mod function;
mod legacy;
#[cfg(test)]
mod tests;

use std::fmt;

use object::elf::{ELFMAG, EM_BPF, ET_REL, FileHeader64};
use object::read::elf::{ElfFile64, FileHeader as _};
use object::{
    Endianness, Object as _, ObjectSection as _, ObjectSymbol as _, RelocationTarget, SymbolKind,
};

pub use function::{Code, FileFunction, IndirectFunction, NoFunction, find_function};
pub use legacy::{LegacyMap, LegacyObject, LegacyProgram, read_legacy};

/// How the maps and programs of an object are declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Convention {
    /// As libbpf takes them.
    Libbpf,
    /// As they were before libbpf 1.0.
    Legacy,
}

/// What is wrong with a file that should be an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElfProblem {
    /// It does not begin as ELF does.
    NotElf,
    /// It ends in the middle of its headers or of a section.
    Truncated(String),
    /// It is for another processor, by its number.
    OtherMachine(u16),
    /// It is for machines of the other byte order.
    OtherByteOrder,
    /// It is a program or library, not an object.
    NotAnObject,
    /// It has no program.
    NoProgram,
    /// A program is not whole instructions.
    OddProgram(String),
    /// A map's definition cannot be read.
    BadMap(String),
    /// A relocation names what is not there, or is of a kind that such objects do not have.
    BadRelocation(String),
}

impl fmt::Display for ElfProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotElf => f.write_str("is no ELF file: expected what clang -target bpf -c writes"),
            Self::Truncated(what) => write!(f, "is damaged or cut off: {what}"),
            Self::OtherMachine(number) => write!(
                f,
                "is for the processor {number} of ELF, not for BPF: compile with clang -target bpf"
            ),
            Self::OtherByteOrder => f.write_str(
                "is for the other byte order: compile with clang -target bpf on, or for, such a machine",
            ),
            Self::NotAnObject => f.write_str("is linked already: expected an object (clang -c)"),
            Self::NoProgram => f.write_str("has no program: no section with instructions"),
            Self::OddProgram(section) => write!(
                f,
                "has a program that is not whole instructions of eight bytes: section {section}"
            ),
            Self::BadMap(words) | Self::BadRelocation(words) => f.write_str(words),
        }
    }
}

impl std::error::Error for ElfProblem {}

/// The convention of an object.
///
/// # Errors
///
/// It is no object for BPF on this machine, or is cut off.
pub fn inspect(bytes: &[u8]) -> Result<Convention, ElfProblem> {
    let file = open(bytes)?;
    let mut code = false;
    let mut legacy = false;
    for section in file.sections() {
        let name = section.name_bytes().map_err(truncated)?;
        let shown = String::from_utf8_lossy(name);
        let data = section.data().map_err(|error| at(&shown, error))?;
        let runs = section.kind() == object::SectionKind::Text && !data.is_empty();
        if runs && data.len() % 8 != 0 {
            return Err(ElfProblem::OddProgram(shown.into_owned()));
        }
        code |= runs;
        legacy |= name == b"maps" || runs && is_numbered(&shown);
    }
    if !code {
        return Err(ElfProblem::NoProgram);
    }
    Ok(if legacy {
        Convention::Legacy
    } else {
        Convention::Libbpf
    })
}

/// Names of the programs that a map of the object holds from the beginning (`.values`), so that others call them.
pub fn tail_calls(bytes: &[u8]) -> Vec<String> {
    let Ok(file) = open(bytes) else {
        return Vec::new();
    };
    let Some(maps) = file.section_by_name(".maps") else {
        return Vec::new();
    };
    let mut names = Vec::new();
    for (_, relocation) in maps.relocations() {
        if let RelocationTarget::Symbol(index) = relocation.target()
            && let Ok(symbol) = file.symbol_by_index(index)
            && symbol.kind() == SymbolKind::Text
            && let Ok(name) = symbol.name()
            && !names.iter().any(|known| known == name)
        {
            names.push(name.to_owned());
        }
    }
    names
}

/// The file, if it is an object for BPF in this byte order.
fn open(bytes: &[u8]) -> Result<ElfFile64<'_, Endianness>, ElfProblem> {
    if !bytes.starts_with(&ELFMAG) {
        return Err(ElfProblem::NotElf);
    }
    let header = FileHeader64::<Endianness>::parse(bytes).map_err(truncated)?;
    let endian = header.endian().map_err(truncated)?;
    if header.e_machine(endian) != EM_BPF {
        return Err(ElfProblem::OtherMachine(header.e_machine(endian)));
    }
    let own = if cfg!(target_endian = "little") {
        Endianness::Little
    } else {
        Endianness::Big
    };
    if endian != own {
        return Err(ElfProblem::OtherByteOrder);
    }
    if header.e_type(endian) != ET_REL {
        return Err(ElfProblem::NotAnObject);
    }
    ElfFile64::parse(bytes).map_err(truncated)
}

fn truncated(error: object::Error) -> ElfProblem {
    ElfProblem::Truncated(error.to_string())
}

fn at(section: &str, error: object::Error) -> ElfProblem {
    ElfProblem::Truncated(format!("section {section}: {error}"))
}

/// `socket1`, `sockops2`: the samples numbered their sections, because each may have one program.
fn is_numbered(section: &str) -> bool {
    ["socket", "sockops", "xdp"].iter().any(|word| {
        let rest = section.strip_prefix(word);
        rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
    })
}
