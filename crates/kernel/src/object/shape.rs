//! Layout of keys and values of a map, from the object's BTF.

use libbpf_rs::btf::types::{
    Array, Composite, DataSec, Enum, Enum64, Float, Int, IntEncoding, MemberAttr, Ptr, Var,
};
use libbpf_rs::btf::{Btf, BtfKind, BtfType, HasSize as _, TypeId};

/// Maximum nesting of types.
const DEEPEST: usize = 32;
/// Maximum number of types in a map, because nested arrays of structs multiply.
const MOST: usize = 10_000;

/// The layout of some bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// An integer.
    Number {
        /// Size in bytes.
        size: usize,
        signed: bool,
    },
    /// A character of one byte.
    Char,
    /// A boolean; zero is false.
    Bool {
        /// Size in bytes.
        size: usize,
    },
    /// A floating-point number.
    Float {
        /// Size in bytes.
        size: usize,
    },
    /// An address.
    Pointer,
    /// An enumeration.
    Enum {
        /// Size in bytes.
        size: usize,
        signed: bool,
        /// Values of the enumerators, and their names.
        names: Vec<(i64, String)>,
    },
    Array {
        element: Box<Shape>,
        count: usize,
    },
    /// A struct or union.
    Struct {
        /// Size in bytes.
        size: usize,
        members: Vec<Member>,
    },
    /// Bytes of unknown layout.
    Bytes {
        /// Size in bytes.
        size: usize,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The member's name; empty for an anonymous struct or union, whose members belong to the
    /// enclosing one.
    pub name: String,
    /// Offset in bits.
    pub offset: u32,
    /// Number of bits of a bit field.
    pub bits: Option<u8>,
    pub shape: Shape,
}

impl Shape {
    /// Returns the size in bytes.
    pub fn size(&self) -> usize {
        match self {
            Self::Number { size, .. }
            | Self::Bool { size }
            | Self::Float { size }
            | Self::Enum { size, .. }
            | Self::Struct { size, .. }
            | Self::Bytes { size } => *size,
            Self::Char => 1,
            Self::Pointer => 8,
            Self::Array { element, count } => element.size().saturating_mul(*count),
        }
    }

    /// Returns the layout of a type. If BTF has no type of that size, returns plain bytes.
    pub(crate) fn of(btf: Option<&Btf<'_>>, id: u32, size: usize) -> Self {
        let ty = btf.filter(|_| id != 0);
        let ty = ty.and_then(|btf| btf.type_by_id::<BtfType<'_>>(TypeId::from(id)));
        let mut left = MOST;
        let shape = btf
            .zip(ty)
            .and_then(|(btf, ty)| shape(btf, ty, DEEPEST, &mut left));
        match shape {
            Some(shape) if shape.size() == size => shape,
            _ => Self::Bytes { size },
        }
    }
}

/// Resolves typedefs and qualifiers.
fn plain<'a>(mut ty: BtfType<'a>) -> Option<BtfType<'a>> {
    for _ in 0..DEEPEST {
        if !ty.is_mod() && ty.kind() != BtfKind::Typedef {
            return Some(ty);
        }
        ty = ty.next_type()?;
    }
    None
}

fn text(name: Option<&std::ffi::OsStr>) -> String {
    name.map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

fn shape(btf: &Btf<'_>, ty: BtfType<'_>, depth: usize, left: &mut usize) -> Option<Shape> {
    let ty = plain(ty)?;
    *left = left.checked_sub(1)?;
    let depth = depth.checked_sub(1)?;
    Some(match ty.kind() {
        BtfKind::Int => int(Int::try_from(ty).ok()?),
        BtfKind::Float => Shape::Float {
            size: Float::try_from(ty).ok()?.size(),
        },
        BtfKind::Ptr => {
            Ptr::try_from(ty).ok()?;
            Shape::Pointer
        }
        BtfKind::Enum => {
            let ty = Enum::try_from(ty).ok()?;
            let names = ty.iter().map(|m| (m.value, text(m.name))).collect();
            let signed = ty.is_signed();
            Shape::Enum {
                size: ty.size(),
                signed,
                names,
            }
        }
        BtfKind::Enum64 => {
            let ty = Enum64::try_from(ty).ok()?;
            let value = |v: i128| v as i64;
            let names = ty.iter().map(|m| (value(m.value), text(m.name))).collect();
            Shape::Enum {
                size: ty.size(),
                signed: ty.is_signed(),
                names,
            }
        }
        BtfKind::Array => {
            let ty = Array::try_from(ty).ok()?;
            Shape::Array {
                element: Box::new(shape(btf, btf.type_by_id(ty.ty())?, depth, left)?),
                count: ty.capacity(),
            }
        }
        BtfKind::Struct | BtfKind::Union => composite(btf, ty, depth, left)?,
        BtfKind::DataSec => section(btf, ty, depth, left)?,
        _ => return None,
    })
}

fn int(ty: Int<'_>) -> Shape {
    let size = ty.size();
    // Compilers encode `char` as a signed integer.
    let named_char = ty.name().is_some_and(|name| name == "char");
    match ty.encoding {
        IntEncoding::Bool => Shape::Bool { size },
        IntEncoding::Char if size == 1 => Shape::Char,
        _ if named_char && size == 1 => Shape::Char,
        IntEncoding::Signed => Shape::Number { size, signed: true },
        _ => Shape::Number {
            size,
            signed: false,
        },
    }
}

fn composite(btf: &Btf<'_>, ty: BtfType<'_>, depth: usize, left: &mut usize) -> Option<Shape> {
    let all = Composite::try_from(ty).ok()?;
    let mut members = Vec::new();
    for member in all.iter() {
        let (bits, offset) = match member.attr {
            MemberAttr::Normal { offset } => (None, offset),
            MemberAttr::BitField { size, offset } => ((size != 0).then_some(size), offset),
        };
        let inner = btf.type_by_id(member.ty)?;
        members.push(Member {
            name: text(member.name),
            offset,
            bits,
            shape: shape(btf, inner, depth, left)?,
        });
    }
    Some(Shape::Struct {
        size: all.size(),
        members,
    })
}

/// Returns the layout of the variables in a section such as `.bss`.
fn section(btf: &Btf<'_>, ty: BtfType<'_>, depth: usize, left: &mut usize) -> Option<Shape> {
    let all = DataSec::try_from(ty).ok()?;
    let mut members = Vec::new();
    for variable in all.iter() {
        let named = btf.type_by_id::<Var<'_>>(variable.ty)?;
        members.push(Member {
            name: text(named.name()),
            offset: variable.offset.checked_mul(8)?,
            bits: None,
            shape: shape(btf, named.next_type()?, depth, left)?,
        });
    }
    Some(Shape::Struct {
        size: all.size(),
        members,
    })
}

/// Returns the shape of bytes with an unknown layout.
pub(super) fn bytes(size: u32) -> Shape {
    Shape::Bytes {
        size: size as usize,
    }
}
