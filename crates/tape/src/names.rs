//! Conversion of names in a recording to values and static strings.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Returns the value with the given name.
pub(crate) fn named<T: Copy>(all: &[T], name: impl Fn(T) -> &'static str, text: &str) -> Option<T> {
    all.iter().copied().find(|value| name(*value) == text)
}

/// Limits of interned names. Only a damaged file exceeds them.
const LONGEST: usize = 128;
const MOST: usize = 4096;

/// Returns a name as a static string, which the model needs for kinds of loss, places and maps. The
/// strings are leaked. They are few, and their number is limited in case a file is damaged.
pub(crate) fn intern(text: &str) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(text) {
        return known;
    }
    if text.len() > LONGEST || names.len() >= MOST {
        return "unknown";
    }
    let name: &'static str = Box::leak(text.into());
    names.insert(name);
    name
}
