//! Functions of programs and libraries.

use object::read::elf::ElfFile64;
use object::{Endianness, Object as _, ObjectSegment as _, ObjectSymbol as _, SymbolKind};

/// Where a function lies in the file of a program or library.
///
/// # Errors
///
/// Its symbols do not name the function: the name that is nearest, if one is near.
pub fn function_offset(bytes: &[u8], name: &str) -> Result<u64, Option<String>> {
    let file = ElfFile64::<Endianness>::parse(bytes).map_err(|_| None)?;
    let mut near: Option<(usize, String)> = None;
    for symbol in file.symbols().chain(file.dynamic_symbols()) {
        if symbol.kind() != SymbolKind::Text || !symbol.is_definition() {
            continue;
        }
        let Ok(known) = symbol.name() else { continue };
        if known == name {
            let address = symbol.address();
            let offset = file.segments().find_map(|segment| {
                let behind = address.checked_sub(segment.address())?;
                let (start, size) = segment.file_range();
                (behind < size).then_some(start + behind)
            });
            return offset.ok_or(None);
        }
        let distance = strsim::damerau_levenshtein(known, name);
        if distance <= 1 + name.len() / 4
            && near.as_ref().is_none_or(|(least, _)| distance < *least)
        {
            near = Some((distance, known.to_owned()));
        }
    }
    Err(near.map(|(_, name)| name))
}
