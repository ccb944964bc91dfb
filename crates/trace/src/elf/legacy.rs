//! Reads objects in the format from before libbpf 1.0.

use std::collections::BTreeMap;

use object::read::elf::ElfFile64;
use object::{
    Endianness, Object as _, ObjectSection as _, ObjectSymbol as _, RelocationFlags,
    RelocationTarget, SectionIndex, SectionKind, SymbolIndex, SymbolKind,
};

use super::{ElfProblem, open, truncated, truncated_section};

/// Maximum number of maps in an object: the kernel's limit for one program.
const MAX_MAPS: usize = 64;
/// Load of a 64-bit constant. A relocation turns the constant into the address of a map.
const LOAD_CONSTANT: u8 = 0x18;
const CALL: u8 = 0x85;
/// Value of the source register that marks the constant as a map descriptor.
const PSEUDO_MAP_FD: u8 = 1;

/// An object in the format that libbpf versions before 1.0 used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LegacyObject {
    pub license: String,
    /// The kernel version for which the object was compiled, as `LINUX_VERSION_CODE`; 0 if the
    /// object has none.
    pub version: u32,
    /// Maps in the order of their section.
    pub maps: Vec<LegacyMap>,
    /// Programs in the order of the object.
    pub programs: Vec<LegacyProgram>,
}

/// A `struct bpf_map_def`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacyMap {
    /// Name of the variable.
    pub name: String,
    /// `enum bpf_map_type`.
    pub kind: u32,
    /// Key size in bytes.
    pub key_size: u32,
    /// Value size in bytes.
    pub value_size: u32,
    /// Maximum number of entries.
    pub entries: u32,
    /// `BPF_F_...`.
    pub flags: u32,
}

/// A program: all instructions of one section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacyProgram {
    /// Name of the program's function.
    pub name: String,
    pub section: String,
    pub insns: Vec<[u8; 8]>,
    /// Indexes of instructions that load a map, each with the index of that map in the object.
    pub loads: Vec<(usize, u32)>,
}

type File<'a> = ElfFile64<'a, Endianness>;

/// Reads a legacy object.
///
/// # Errors
///
/// See [`ElfProblem`].
pub fn read_legacy(bytes: &[u8]) -> Result<LegacyObject, ElfProblem> {
    let file = open(bytes)?;
    let mut read = LegacyObject::default();
    let mut places = BTreeMap::new();
    if let Some(section) = file.section_by_name("maps") {
        let data = section
            .data()
            .map_err(|error| truncated_section("maps", error))?;
        (read.maps, places) = maps(&file, section.index(), data)?;
    }
    if let Some(section) = file.section_by_name("license") {
        let data = section
            .data()
            .map_err(|error| truncated_section("license", error))?;
        let end = data
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(data.len());
        read.license = String::from_utf8_lossy(&data[..end]).into_owned();
    }
    if let Some(section) = file.section_by_name("version") {
        let data = section
            .data()
            .map_err(|error| truncated_section("version", error))?;
        read.version = word(data, 0).unwrap_or(0);
    }
    for section in file.sections().filter(|s| s.kind() == SectionKind::Text) {
        let name = String::from_utf8_lossy(section.name_bytes().map_err(truncated)?).into_owned();
        let data = section
            .data()
            .map_err(|error| truncated_section(&name, error))?;
        if data.is_empty() {
            continue;
        }
        let (insns, odd) = data.as_chunks::<8>();
        if !odd.is_empty() {
            return Err(ElfProblem::OddProgram(name));
        }
        let mut program = LegacyProgram {
            name: first_function(&file, section.index()).unwrap_or_else(|| name.replace('/', "_")),
            section: name,
            insns: insns.to_vec(),
            loads: Vec::new(),
        };
        for (offset, relocation) in section.relocations() {
            let flags = relocation.flags();
            relocate(
                &file,
                &mut program,
                offset,
                (flags, relocation.target()),
                &places,
            )?;
        }
        read.programs.push(program);
    }
    if read.programs.is_empty() {
        return Err(ElfProblem::NoProgram);
    }
    Ok(read)
}

/// Returns the maps, and the index of each map by its offset in the section.
#[allow(
    clippy::type_complexity,
    reason = "the maps and their indexes by offset"
)]
fn maps(
    file: &File<'_>,
    index: SectionIndex,
    data: &[u8],
) -> Result<(Vec<LegacyMap>, BTreeMap<u64, u32>), ElfProblem> {
    let mut names = BTreeMap::new();
    for symbol in file
        .symbols()
        .filter(|symbol| symbol.section_index() == Some(index))
    {
        if symbol.kind() != SymbolKind::Section {
            let name = symbol.name_bytes().map_err(truncated)?;
            names.insert(symbol.address(), String::from_utf8_lossy(name).into_owned());
        }
    }
    let bad = |words: String| Err(ElfProblem::BadMap(words));
    if names.is_empty() || names.len() > MAX_MAPS {
        return bad(format!(
            "the section maps has {} variables, expected 1 to {MAX_MAPS}",
            names.len()
        ));
    }
    let size = data.len() / names.len();
    if size < 16 || !data.len().is_multiple_of(names.len()) {
        return bad(format!(
            "the section maps has {} bytes for {} variables, not one struct bpf_map_def per variable",
            data.len(),
            names.len()
        ));
    }
    let mut maps = Vec::new();
    let mut places = BTreeMap::new();
    for (number, (from, name)) in names.into_iter().enumerate() {
        let begin = number * size;
        if from != begin as u64 {
            return bad(format!(
                "the map {name} is at offset {from}, which is not the start of a definition"
            ));
        }
        let definition = &data[begin..begin + size];
        let field = |index: usize| word(definition, index * 4).unwrap_or(0);
        // iproute2 extends the struct after the flags: ids, pinning, inner maps.
        if definition.iter().skip(20).any(|byte| *byte != 0) {
            return bad(format!(
                "the map {name} is a struct bpf_elf_map of iproute2 with pinning or inner \
                 maps: only tc and ip can load it"
            ));
        }
        places.insert(from, number as u32);
        maps.push(LegacyMap {
            name,
            kind: field(0),
            key_size: field(1),
            value_size: field(2),
            entries: field(3),
            flags: field(4),
        });
    }
    Ok((maps, places))
}

fn relocate(
    file: &File<'_>,
    program: &mut LegacyProgram,
    offset: u64,
    (flags, target): (RelocationFlags, RelocationTarget),
    places: &BTreeMap<u64, u32>,
) -> Result<(), ElfProblem> {
    let section = program.section.clone();
    let bad = |words: &str| {
        let words = format!("section {section}, relocation at byte {offset}: {words}");
        Err(ElfProblem::BadRelocation(words))
    };
    let (at, odd) = (offset / 8, offset % 8);
    let Some(insn) = usize::try_from(at)
        .ok()
        .and_then(|at| program.insns.get_mut(at))
    else {
        return bad("it is past the end of the program");
    };
    let RelocationTarget::Symbol(SymbolIndex(index)) = target else {
        return bad("it has no symbol");
    };
    let Ok(symbol) = file.symbol_by_index(SymbolIndex(index)) else {
        return bad("its symbol does not exist");
    };
    let name = String::from_utf8_lossy(symbol.name_bytes().unwrap_or_default()).into_owned();
    if insn[0] == CALL {
        return bad(&format!(
            "calls the function {name}; before libbpf 1.0 all functions were inline: \
             static __always_inline"
        ));
    }
    let in_maps_section = symbol.section_index().and_then(|index| {
        let section = file.section_by_index(index).ok()?;
        (section.name_bytes() == Ok(b"maps")).then_some(())
    });
    if in_maps_section.is_none() {
        return bad(&format!(
            "uses {name}, which is not a map; global variables need libbpf's map format (SEC(\".maps\"))"
        ));
    }
    if insn[0] != LOAD_CONSTANT || odd != 0 {
        return bad(&format!(
            "an instruction that does not load a map refers to the map {name}: {flags:?}"
        ));
    }
    let addend = i32::from_ne_bytes([insn[4], insn[5], insn[6], insn[7]]);
    let place = symbol.address().checked_add_signed(addend.into());
    let Some(number) = place.and_then(|place| places.get(&place)) else {
        return bad("it does not point to the start of a map");
    };
    insn[1] = if cfg!(target_endian = "little") {
        insn[1] & 0x0f | PSEUDO_MAP_FD << 4
    } else {
        insn[1] & 0xf0 | PSEUDO_MAP_FD
    };
    program.loads.push((at as usize, *number));
    Ok(())
}

/// Returns the name of the function at the start of a section.
fn first_function(file: &File<'_>, section: SectionIndex) -> Option<String> {
    let symbol = file.symbols().find(|symbol| {
        symbol.section_index() == Some(section)
            && symbol.kind() == SymbolKind::Text
            && symbol.address() == 0
    })?;
    Some(String::from_utf8_lossy(symbol.name_bytes().ok()?).into_owned())
}

fn word(data: &[u8], from: usize) -> Option<u32> {
    let bytes = data.get(from..from.checked_add(4)?)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}
