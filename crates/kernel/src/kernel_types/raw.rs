//! The binary format of BTF (Documentation/bpf/btf.rst).

use std::collections::HashSet;

/// Size of the BTF header, and of the header of a type.
pub(super) const HEADER: usize = 24;
pub(super) const HEAD: usize = 12;

const MAGIC: u16 = 0xeb9f;

/// Kind of a type: `BTF_KIND_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind(u32);

impl Kind {
    pub(super) const INT: Self = Self(1);
    pub(super) const PTR: Self = Self(2);
    pub(super) const ARRAY: Self = Self(3);
    pub(super) const STRUCT: Self = Self(4);
    pub(super) const UNION: Self = Self(5);
    pub(super) const ENUM: Self = Self(6);
    pub(super) const FWD: Self = Self(7);
    pub(super) const TYPEDEF: Self = Self(8);
    pub(super) const VOLATILE: Self = Self(9);
    pub(super) const CONST: Self = Self(10);
    pub(super) const RESTRICT: Self = Self(11);
    pub(super) const FUNC: Self = Self(12);
    pub(super) const FUNC_PROTO: Self = Self(13);
    pub(super) const VAR: Self = Self(14);
    pub(super) const DATASEC: Self = Self(15);
    pub(super) const FLOAT: Self = Self(16);
    pub(super) const DECL_TAG: Self = Self(17);
    pub(super) const TYPE_TAG: Self = Self(18);
    pub(super) const ENUM64: Self = Self(19);

    /// Returns the `info` word of a type of this kind with that number of entries.
    pub(super) fn info(self, parts: usize) -> u32 {
        self.0 << 24 | parts as u32
    }

    /// Returns the number of bytes that follow the header of a type with `parts` entries; `None`
    /// for an unknown kind.
    fn more(self, parts: usize) -> Option<usize> {
        Some(match self {
            Self::INT | Self::VAR | Self::DECL_TAG => 4,
            Self::ARRAY => 12,
            Self::STRUCT | Self::UNION | Self::DATASEC | Self::ENUM64 => 12 * parts,
            Self::ENUM | Self::FUNC_PROTO => 8 * parts,
            Self::PTR | Self::FWD | Self::FUNC | Self::FLOAT => 0,
            Self::TYPEDEF | Self::VOLATILE | Self::CONST | Self::RESTRICT | Self::TYPE_TAG => 0,
            _ => return None,
        })
    }

    /// Returns whether noctule looks up types of this kind by name.
    fn is_looked_up(self) -> bool {
        let kinds = [Self::STRUCT, Self::UNION, Self::ENUM, Self::ENUM64];
        kinds.contains(&self) || [Self::FUNC, Self::TYPEDEF].contains(&self)
    }
}

/// A BTF type: its header and the entries after it, such as members or parameters.
#[derive(Clone, Copy)]
pub(super) struct Type<'a> {
    pub(super) kind: Kind,
    pub(super) parts: usize,
    pub(super) bytes: &'a [u8],
}

impl<'a> Type<'a> {
    /// Parses the type at the start of the bytes.
    fn first(bytes: &'a [u8]) -> Option<Self> {
        let info = word(bytes, 4)?;
        let (kind, parts) = (Kind(info >> 24 & 0x1f), info as usize & 0xffff);
        let bytes = bytes.get(..HEAD + kind.more(parts)?)?;
        Some(Self { kind, parts, bytes })
    }
}

/// The kernel's types.
pub(super) struct Types<'a> {
    types: &'a [u8],
    strings: &'a [u8],
    /// Offset of each type. Type 0 is `void`, which is not stored.
    begins: Vec<u32>,
}

impl<'a> Types<'a> {
    /// Parses BTF; `None` if it is invalid or contains an unknown kind.
    pub(super) fn parse(btf: &'a [u8]) -> Option<Self> {
        let magic = btf.first_chunk()?;
        let header = word(btf, 4)? as usize;
        let section = |at| {
            let begin = header + word(btf, at)? as usize;
            btf.get(begin..begin + word(btf, at + 4)? as usize)
        };
        let (types, strings) = (section(8)?, section(16)?);
        if u16::from_ne_bytes(*magic) != MAGIC || strings.last() != Some(&0) {
            return None;
        }
        let mut begins = vec![0];
        let mut at = 0;
        while at < types.len() {
            begins.push(at as u32);
            at += Type::first(&types[at..])?.bytes.len();
        }
        Some(Self {
            types,
            strings,
            begins,
        })
    }

    /// Returns the type with this id; `None` for `void` or an invalid id.
    pub(super) fn get(&self, id: u32) -> Option<Type<'a>> {
        let begin = *self.begins.get(id as usize).filter(|_| id != 0)?;
        Type::first(self.types.get(begin as usize..)?)
    }

    /// Returns the number of types, including `void`.
    pub(super) fn len(&self) -> usize {
        self.begins.len()
    }

    /// Returns the string at this offset.
    pub(super) fn text(&self, offset: u32) -> &'a [u8] {
        let text = self.strings.get(offset as usize..).unwrap_or_default();
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(0);
        &text[..end]
    }

    /// Returns the type's name, which may be empty.
    pub(super) fn name(&self, it: Type<'_>) -> &'a [u8] {
        word(it.bytes, 0).map_or(&[], |offset| self.text(offset))
    }

    /// Returns the ids of types with one of these names, in ascending order.
    pub(super) fn named(&self, names: &HashSet<String>) -> Vec<u32> {
        let names: HashSet<&[u8]> = names.iter().map(String::as_bytes).collect();
        // The first two bytes rule out nearly every type.
        let mut begins = vec![false; 1 << 16];
        for name in &names {
            begins[two(name)] = true;
        }
        let is_one = |id: &u32| {
            let it = self.get(*id).filter(|it| it.kind.is_looked_up());
            it.is_some_and(|it| {
                let offset = word(it.bytes, 0).unwrap_or(0) as usize;
                let begin = self.strings.get(offset..).unwrap_or_default();
                begins[two(begin)] && names.contains(self.name(it))
            })
        };
        (1..self.len() as u32).filter(is_one).collect()
    }
}

/// Returns the first two bytes as one number. A string of one byte ends with a zero.
fn two(text: &[u8]) -> usize {
    let byte = |at: usize| text.get(at).copied().map_or(0, usize::from);
    byte(0) << 8 | byte(1)
}

/// Returns the number at this offset.
pub(super) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at + 4)?;
    Some(u32::from_ne_bytes(word.try_into().ok()?))
}
