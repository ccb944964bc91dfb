//! Finds functions in executables and libraries, and the location of their code.

use std::collections::{BTreeMap, BTreeSet};

use object::elf::{
    EM_AARCH64, EM_X86_64, R_AARCH64_IRELATIVE, R_X86_64_IRELATIVE, SHF_ALLOC, STT_GNU_IFUNC,
};
use object::read::elf::{ElfFile64, ElfSymbol64, FileHeader as _, Rela as _, SectionHeader as _};
use object::{Endianness, Object as _, ObjectSegment as _, ObjectSymbol as _, SymbolKind};

/// A function that is named in a symbol table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFunction {
    /// Location of the code.
    pub code: Code,
    /// Other versions of this name whose code is elsewhere. Programs that were linked against an
    /// older library call these versions.
    pub other_versions: Vec<String>,
}

/// Location of a function's code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Code {
    /// Offset in the file, in bytes.
    Offset(u64),
    /// The dynamic linker selects the code in each process.
    Indirect(IndirectFunction),
}

/// A function of type `STT_GNU_IFUNC`. The symbol is a resolver that returns the address of the
/// function. The dynamic linker calls the resolver and stores the address in a slot in the memory
/// of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndirectFunction {
    /// The function's slots in this file, as distances from the start of the file's mapping.
    pub slots: Vec<u64>,
    /// Other indirect functions of the file, each with one slot.
    pub others: Vec<(String, u64)>,
}

/// The reason why a function was not found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoFunction {
    /// No symbol has the name. Contains the closest name, if one is close enough.
    #[error("{}", .0.as_ref().map_or("there is no such symbol".into(), |near| format!("did you mean {near}?")))]
    Unknown(Option<String>),
    /// The function does not have the requested version.
    #[error("available versions: {}", .0.join(", "))]
    UnknownVersion(Vec<String>),
    /// Several functions have the name. Contains the version of each, or `0xOFFSET`.
    #[error("there are several: {}", .0.join(", "))]
    Ambiguous(Vec<String>),
}

/// A symbol with the requested name.
struct Candidate {
    address: u64,
    is_indirect: bool,
    version: Option<String>,
    rank: Rank,
}

/// Priority of symbols with the same name, best first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// Newly linked programs call this symbol.
    Default,
    /// Only programs that were linked earlier call this symbol.
    OtherVersion,
    /// Only the source file that defines this symbol calls it.
    Local,
}

type File<'a> = ElfFile64<'a, Endianness>;

/// Finds a function by `NAME`, meaning its default version, or by `NAME@VERSION`.
///
/// # Errors
///
/// See [`NoFunction`].
pub fn find_function(bytes: &[u8], wanted: &str) -> Result<FileFunction, NoFunction> {
    let file = File::parse(bytes).map_err(|_| NoFunction::Unknown(None))?;
    let (name, version) = split_version(wanted);
    let mut near: Option<(usize, String)> = None;
    let mut all = Vec::new();
    for (known, candidate) in candidates(&file) {
        if known == name {
            all.push(candidate);
            continue;
        }
        let distance = strsim::damerau_levenshtein(&known, name);
        if distance <= 1 + name.len() / 4
            && near.as_ref().is_none_or(|(least, _)| distance < *least)
        {
            near = Some((distance, known));
        }
    }
    if all.is_empty() {
        return Err(NoFunction::Unknown(near.map(|(_, name)| name)));
    }
    let versions = |all: &[Candidate]| -> BTreeSet<String> {
        all.iter().filter_map(|one| one.version.clone()).collect()
    };
    if let Some((version, _)) = version {
        let known = versions(&all);
        all.retain(|one| one.version.as_deref() == Some(version));
        if all.is_empty() {
            return Err(NoFunction::UnknownVersion(known.into_iter().collect()));
        }
    }
    let best = all
        .iter()
        .map(|one| one.rank)
        .min()
        .unwrap_or(Rank::Default);
    let (preferred, mut others): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|one| one.rank == best);
    let mut addresses: BTreeMap<u64, &Candidate> = BTreeMap::new();
    for one in &preferred {
        addresses.entry(one.address).or_insert(one);
    }
    let Some((&address, one)) = addresses.first_key_value().filter(|_| addresses.len() == 1) else {
        let place = |one: &&Candidate| match &one.version {
            Some(version) => Some(format!("{name}@{version}")),
            None => Some(format!("{:#x}", offset(&file, one.address)?)),
        };
        return Err(NoFunction::Ambiguous(
            addresses.values().filter_map(place).collect(),
        ));
    };
    let code = match one.is_indirect {
        true => Code::Indirect(indirect(&file, address)),
        false => Code::Offset(offset(&file, address).ok_or(NoFunction::Unknown(None))?),
    };
    others.retain(|other| other.address != address);
    Ok(FileFunction {
        code,
        other_versions: versions(&others).into_iter().collect(),
    })
}

/// Splits `NAME@VERSION` or `NAME@@VERSION` into the name, the version and whether the version is
/// the default.
fn split_version(name: &str) -> (&str, Option<(&str, bool)>) {
    match name.split_once('@') {
        None => (name, None),
        Some((name, version)) => match version.strip_prefix('@') {
            Some(version) => (name, Some((version, true))),
            None => (name, Some((version, false))),
        },
    }
}

/// Returns all functions that the file defines, by name without version.
fn candidates<'a>(file: &'a File<'a>) -> impl Iterator<Item = (String, Candidate)> + 'a {
    let sections = file.elf_section_table();
    let versions = sections.versions(file.endian(), file.data()).ok().flatten();
    let dynamic = file.dynamic_symbols().filter_map(move |symbol| {
        let (name, mut candidate) = candidate(&symbol)?;
        if let Some(table) = &versions {
            let index = table.version_index(file.endian(), symbol.index());
            let version = table.version(index).ok().flatten();
            candidate.version =
                version.map(|version| String::from_utf8_lossy(version.name()).into_owned());
            if index.is_hidden() {
                candidate.rank = Rank::OtherVersion;
            }
        }
        Some((name.to_owned(), candidate))
    });
    // In this symbol table the linker appends the version to the name.
    let all = file.symbols().filter_map(|symbol| {
        let (name, mut candidate) = candidate(&symbol)?;
        let (name, version) = split_version(name);
        if let Some((version, is_default)) = version {
            candidate.version = Some(version.to_owned());
            if !is_default {
                candidate.rank = Rank::OtherVersion;
            }
        }
        Some((name.to_owned(), candidate))
    });
    dynamic.chain(all)
}

fn candidate<'a>(symbol: &ElfSymbol64<'a, '_, Endianness>) -> Option<(&'a str, Candidate)> {
    if symbol.kind() != SymbolKind::Text || symbol.is_undefined() {
        return None;
    }
    let candidate = Candidate {
        address: symbol.address(),
        is_indirect: symbol.elf_symbol().st_type() == STT_GNU_IFUNC,
        version: None,
        rank: match symbol.is_local() {
            true => Rank::Local,
            false => Rank::Default,
        },
    };
    Some((symbol.name().ok()?, candidate))
}

fn offset(file: &File<'_>, address: u64) -> Option<u64> {
    file.segments().find_map(|segment| {
        let distance = address.checked_sub(segment.address())?;
        let (start, size) = segment.file_range();
        (distance < size).then_some(start.checked_add(distance)?)
    })
}

fn indirect(file: &File<'_>, resolver: u64) -> IndirectFunction {
    let mut by_resolver = slots(file);
    let slots = by_resolver.remove(&resolver).unwrap_or_default();
    let mut others = BTreeMap::new();
    for (name, one) in candidates(file) {
        let slot = by_resolver
            .get(&one.address)
            .and_then(|slots| slots.first());
        if let (true, Rank::Default, Some(slot)) = (one.is_indirect, one.rank, slot) {
            others.entry(name).or_insert(*slot);
        }
    }
    IndirectFunction {
        slots,
        others: others.into_iter().collect(),
    }
}

/// Returns the slots that the dynamic linker fills, by resolver (relocations of type `IRELATIVE`).
/// Slots are distances from the start of the file's mapping.
fn slots(file: &File<'_>) -> BTreeMap<u64, Vec<u64>> {
    let mut slots: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let endian = file.endian();
    let kind = match file.elf_header().e_machine(endian) {
        EM_X86_64 => R_X86_64_IRELATIVE,
        EM_AARCH64 => R_AARCH64_IRELATIVE,
        _ => return slots,
    };
    let Some(first) = file.segments().find(|segment| segment.file_range().0 == 0) else {
        return slots;
    };
    let loaded = file
        .elf_section_table()
        .iter()
        .filter(|section| section.sh_flags(endian) & u64::from(SHF_ALLOC) != 0);
    let relocations = loaded.filter_map(|section| section.rela(endian, file.data()).ok().flatten());
    for relocation in relocations.flat_map(|(all, _)| all) {
        if relocation.r_type(endian, false) == kind {
            let resolver = relocation.r_addend(endian).cast_unsigned();
            let slot = relocation.r_offset(endian).wrapping_sub(first.address());
            slots.entry(resolver).or_default().push(slot);
        }
    }
    slots
}
