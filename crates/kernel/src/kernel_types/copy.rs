//! Creates the copy, which contains the selected types with all their members, but not the types
//! that they point to.

use std::collections::HashMap;

use super::raw::{HEAD, HEADER, Kind, Type, Types, word};

/// Returns BTF with these types and the types needed for their members, in their original order,
/// followed by an enumeration with these values.
pub(super) fn with_parts(
    types: &Types<'_>,
    roots: &[u32],
    (name, numbers_of): (&'static str, Vec<(&'static str, u32)>),
) -> Option<Vec<u8>> {
    let chosen = closure(types, roots)?;
    let mut numbers = HashMap::new();
    numbers.extend((1..).zip(&chosen).map(|(number, id)| (*id, number)));
    let mut copied = Vec::new();
    let mut texts = Texts::default();
    for id in &chosen {
        let it = types.get(*id)?;
        let begin = copied.len();
        copied.extend_from_slice(it.bytes);
        let copy = &mut copied[begin..];
        for at in names(it) {
            set(copy, at, texts.add(types.text(word(it.bytes, at)?)));
        }
        for at in references(it) {
            // A reference to a type that is not in the copy becomes `void`.
            let number = numbers.get(&word(it.bytes, at)?).copied();
            set(copy, at, number.unwrap_or(0));
        }
    }
    let info = Kind::ENUM.info(numbers_of.len());
    for word in [texts.add(name.as_bytes()), info, size_of::<u32>() as u32] {
        copied.extend(word.to_ne_bytes());
    }
    for (name, number) in &numbers_of {
        copied.extend(texts.add(name.as_bytes()).to_ne_bytes());
        copied.extend(number.to_ne_bytes());
    }
    Some(assembled(&copied, &texts.bytes))
}

/// Returns the ids of the types and of all types that they contain, in ascending order.
fn closure(types: &Types<'_>, roots: &[u32]) -> Option<Vec<u32>> {
    let mut is_chosen = vec![false; types.len()];
    let mut left = roots.to_vec();
    while let Some(id) = left.pop() {
        let Some(it) = types.get(id) else { continue };
        if !std::mem::replace(is_chosen.get_mut(id as usize)?, true) {
            let inside = references(it).map(|at| word(it.bytes, at));
            let inside: Vec<u32> = inside.collect::<Option<_>>()?;
            left.extend(inside.into_iter().filter(|part| follows(types, it, *part)));
        }
    }
    let chosen = (0..types.len() as u32).filter(|id| is_chosen[*id as usize]);
    Some(chosen.collect())
}

/// Returns whether the copy needs a type that another type refers to. Relocations follow members
/// and stop at pointers. Prototypes that tracepoint types point to are included, because their
/// parameters are counted.
fn follows(types: &Types<'_>, it: Type<'_>, to: u32) -> bool {
    match it.kind {
        Kind::PTR => types.get(to).is_some_and(|to| to.kind == Kind::FUNC_PROTO),
        Kind::FUNC_PROTO => false,
        _ => true,
    }
}

/// Returns the offsets of names in a type.
fn names(it: Type<'_>) -> impl Iterator<Item = usize> {
    let step = match it.kind {
        Kind::STRUCT | Kind::UNION | Kind::ENUM64 => 12,
        Kind::ENUM | Kind::FUNC_PROTO => 8,
        _ => 0,
    };
    let parts = if step == 0 { 0 } else { it.parts };
    std::iter::once(0).chain((0..parts).map(move |part| HEAD + part * step))
}

/// Returns the offsets of type ids in a type.
fn references(it: Type<'_>) -> impl Iterator<Item = usize> {
    let (own, first, step, parts) = match it.kind {
        Kind::INT | Kind::ENUM | Kind::ENUM64 | Kind::FWD | Kind::FLOAT => (false, 0, 0, 0),
        // The element type and the index type.
        Kind::ARRAY => (false, HEAD, 4, 2),
        Kind::STRUCT | Kind::UNION => (false, HEAD + 4, 12, it.parts),
        Kind::DATASEC => (false, HEAD, 12, it.parts),
        Kind::FUNC_PROTO => (true, HEAD + 4, 8, it.parts),
        _ => (true, 0, 0, 0),
    };
    let own = own.then_some(8).into_iter();
    own.chain((0..parts).map(move |part| first + part * step))
}

/// The string section, which starts with the empty string.
struct Texts<'a> {
    bytes: Vec<u8>,
    known: HashMap<&'a [u8], u32>,
}

impl Default for Texts<'_> {
    fn default() -> Self {
        Self {
            bytes: vec![0],
            known: HashMap::from([(&b""[..], 0)]),
        }
    }
}

impl<'a> Texts<'a> {
    fn add(&mut self, text: &'a [u8]) -> u32 {
        *self.known.entry(text).or_insert_with(|| {
            let at = self.bytes.len() as u32;
            self.bytes.extend_from_slice(text);
            self.bytes.push(0);
            at
        })
    }
}

fn set(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
}

fn assembled(types: &[u8], texts: &[u8]) -> Vec<u8> {
    let mut all = vec![0; HEADER];
    // Magic number, version 1, no flags: one word in native byte order.
    let begin = [0xeb9f_u16.to_ne_bytes(), [1, 0]].concat();
    all[..4].copy_from_slice(&begin);
    let sizes = [HEADER, 0, types.len(), types.len(), texts.len()];
    for (place, value) in sizes.into_iter().enumerate() {
        set(&mut all, 4 + 4 * place, value as u32);
    }
    all.extend_from_slice(types);
    all.extend_from_slice(texts);
    all
}
