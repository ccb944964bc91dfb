//! C type names in casts and `sizeof`.

use crate::format::EventFormat;

use super::program::Cast;
use super::value::Kind;

/// Words that do not change the width of a type.
const QUALIFIERS: [&str; 8] = [
    "const",
    "volatile",
    "__force",
    "__user",
    "__iomem",
    "__percpu",
    "__bitwise",
    "__rcu",
];

/// Returns the type of these words followed by `stars` asterisks. Returns `None` if neither C nor
/// the event's format determines the width.
pub(super) fn cast(words: &[&str], stars: usize, event: &EventFormat) -> Option<Cast> {
    let qualified = |word: &&&str| !QUALIFIERS.contains(*word);
    let words: Vec<&str> = words.iter().filter(qualified).copied().collect();
    let pointed = match words.as_slice() {
        ["void"] => Some(Kind::U8),
        words => integer(words).or_else(|| declared(words, event)),
    };
    Some(match (stars, pointed) {
        (0, _) if matches!(words.as_slice(), ["bool" | "_Bool"]) => Cast::Bool,
        (0, Some(kind)) if words != ["void"] => Cast::Int(kind),
        (0, _) => return None,
        (1, Some(kind)) => Cast::Pointer(kind),
        (1, None) => Cast::Opaque,
        _ => Cast::Pointer(Kind::U64),
    })
}

/// Whether the words are certainly a type rather than an enumerator.
pub(super) fn is_known(words: &[&str]) -> bool {
    let first = words.first().copied().unwrap_or_default();
    words.len() > 1
        || QUALIFIERS.contains(&first)
        || first == "void"
        || first.ends_with("_t")
        || integer(words).is_some()
}

/// Derives the width of a type from a field of the event with the same declared type.
fn declared(words: &[&str], event: &EventFormat) -> Option<Kind> {
    let name = words.join(" ");
    let field = event.fields.iter().find(|field| field.declared == name)?;
    Kind::of_size(field.size, field.signed)
}

/// Returns an integer type of C or the kernel.
fn integer(words: &[&str]) -> Option<Kind> {
    let [word] = words else {
        return composed(words);
    };
    Some(match *word {
        "u8" | "__u8" | "uint8_t" | "bool" | "_Bool" => Kind::U8,
        "s8" | "__s8" | "int8_t" => Kind::CHAR,
        "u16" | "__u16" | "uint16_t" | "__be16" | "__le16" | "__sum16" | "ushort" | "umode_t"
        | "sa_family_t" => Kind::new(2, false),
        "s16" | "__s16" | "int16_t" => Kind::new(2, true),
        "u32" | "__u32" | "uint32_t" | "__be32" | "__le32" | "__wsum" | "uint" | "gfp_t"
        | "dev_t" | "fmode_t" | "uid_t" | "gid_t" | "slab_flags_t" | "blk_opf_t" | "vm_fault_t"
        | "__poll_t" | "isolate_mode_t" => Kind::U32,
        "s32" | "__s32" | "int32_t" | "pid_t" | "clockid_t" | "__kernel_rwf_t" | "rwf_t" => {
            Kind::I32
        }
        "s64" | "__s64" | "int64_t" | "loff_t" | "ssize_t" | "ktime_t" | "time64_t" | "off_t"
        | "intptr_t" | "ptrdiff_t" => Kind::I64,
        "u64" | "__u64" | "uint64_t" | "__be64" | "__le64" | "size_t" | "ulong" | "sector_t"
        | "pgoff_t" | "ino_t" | "dma_addr_t" | "phys_addr_t" | "resource_size_t" | "uintptr_t" => {
            Kind::U64
        }
        _ => return composed(words),
    })
}

/// Returns a type of several words, such as `unsigned long int`.
fn composed(words: &[&str]) -> Option<Kind> {
    let is_type = |word: &&str| {
        matches!(
            *word,
            "unsigned" | "signed" | "char" | "short" | "int" | "long"
        )
    };
    if let ["enum", _] = words {
        return Some(Kind::U32);
    }
    if words.is_empty() || !words.iter().all(is_type) {
        return None;
    }
    let size = if words.contains(&"char") {
        1
    } else if words.contains(&"short") {
        2
    } else if words.contains(&"long") {
        8
    } else {
        4
    };
    Some(Kind::new(size, !words.contains(&"unsigned")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_the_kernels_widths() {
        let text = "name: e\nID: 1\n\tfield:xfs_agblock_t a;\toffset:8;\tsize:4;\tsigned:0;\n";
        let event = EventFormat::parse(text).unwrap();
        let cases = [
            ("unsigned long", 0, Some(Cast::Int(Kind::U64))),
            ("long long int", 0, Some(Cast::Int(Kind::I64))),
            ("unsigned", 0, Some(Cast::Int(Kind::U32))),
            ("const unsigned char", 0, Some(Cast::Int(Kind::U8))),
            ("gfp_t", 0, Some(Cast::Int(Kind::U32))),
            ("bool", 0, Some(Cast::Bool)),
            ("enum x", 0, Some(Cast::Int(Kind::U32))),
            ("xfs_agblock_t", 0, Some(Cast::Int(Kind::U32))),
            ("xfs_other_t", 0, None),
            ("void", 0, None),
            ("void", 1, Some(Cast::Pointer(Kind::U8))),
            ("const u32", 1, Some(Cast::Pointer(Kind::U32))),
            ("struct page", 1, Some(Cast::Opaque)),
            ("char", 2, Some(Cast::Pointer(Kind::U64))),
        ];
        for (text, stars, expected) in cases {
            let words: Vec<&str> = text.split(' ').collect();
            assert_eq!(cast(&words, stars, &event), expected, "{text}");
        }
        assert!(is_known(&["xfs_other_t"]) && is_known(&["struct", "page"]));
        assert!(!is_known(&["TCP_CLOSE"]));
    }
}
