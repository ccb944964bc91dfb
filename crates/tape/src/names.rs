//! Values that are written by name.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// The value with that name.
pub(crate) fn named<T: Copy>(all: &[T], name: impl Fn(T) -> &'static str, text: &str) -> Option<T> {
    all.iter().copied().find(|value| name(*value) == text)
}

/// Names that no file of this size can have by itself: damage.
const LONGEST: usize = 128;
const MOST: usize = 4096;

/// A name that the model keeps for as long as the program runs. There are few: kinds of loss, places,
/// maps. Of a damaged file no more than so many are kept.
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
