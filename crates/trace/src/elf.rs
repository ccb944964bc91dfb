//! Determines which object files libbpf can load, and reads the legacy format that libbpf no longer
//! accepts.
//!
//! Before libbpf 1.0, a map was a `struct bpf_map_def` in the section `maps`. The section `version`
//! held the target kernel version, and section names had numbers (`socket1`). The kernel's samples
//! of 2015 and many later objects use this format. Legacy objects are read here and loaded as plain
//! instructions. Legacy objects cannot be converted to libbpf's format because they have no BTF for
//! their maps.

mod function;
mod legacy;
#[cfg(test)]
mod tests;

use object::elf::{ELFMAG, EM_BPF, ET_REL, FileHeader64};
use object::read::elf::{ElfFile64, FileHeader as _};
use object::{
    Endianness, Object as _, ObjectSection as _, ObjectSymbol as _, RelocationTarget, SymbolKind,
};

pub use function::{Code, FileFunction, IndirectFunction, NoFunction, find_function};
pub use legacy::{LegacyMap, LegacyObject, LegacyProgram, read_legacy};

/// The format in which an object declares its maps and programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Convention {
    /// The format that libbpf loads.
    Libbpf,
    /// The format from before libbpf 1.0.
    Legacy,
}

/// The reason why a file is not a usable object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ElfProblem {
    #[error("is not an ELF file: expected an object from clang -target bpf -c")]
    NotElf,
    /// The file ends in the middle of its headers or of a section.
    #[error("is damaged or truncated: {0}")]
    Truncated(String),
    #[error("is for ELF machine {0}, not for BPF: compile with clang -target bpf")]
    OtherMachine(u16),
    #[error("has the wrong byte order: compile with clang -target bpf on, or for, this machine")]
    OtherByteOrder,
    /// The file is an executable or a library.
    #[error("is already linked: expected an object (clang -c)")]
    NotAnObject,
    #[error("has no program: no section with instructions")]
    NoProgram,
    #[error("has a program whose size is not a multiple of eight bytes: section {0}")]
    OddProgram(String),
    /// A map definition is invalid.
    #[error("{0}")]
    BadMap(String),
    /// A relocation refers to something missing, or has an unsupported type.
    #[error("{0}")]
    BadRelocation(String),
}

/// Returns the format of an object.
///
/// # Errors
///
/// Returns an error if the file is truncated or is not a BPF object for this machine.
pub fn inspect(bytes: &[u8]) -> Result<Convention, ElfProblem> {
    let file = open(bytes)?;
    let mut code = false;
    let mut legacy = false;
    for section in file.sections() {
        let name = section.name_bytes().map_err(truncated)?;
        let shown = String::from_utf8_lossy(name);
        let data = section
            .data()
            .map_err(|error| truncated_section(&shown, error))?;
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

/// Returns the names of the programs that the object stores in its maps at load (`.values`), so
/// that other programs can tail-call them.
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

/// Parses the file if it is a BPF object in this machine's byte order.
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

fn truncated_section(section: &str, error: object::Error) -> ElfProblem {
    ElfProblem::Truncated(format!("section {section}: {error}"))
}

/// Whether a section name is numbered (`socket1`). The old samples number sections because each may
/// contain only one program.
fn is_numbered(section: &str) -> bool {
    ["socket", "sockops", "xdp"].iter().any(|word| {
        let rest = section.strip_prefix(word);
        rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
    })
}
