//! Names in a recording as static strings.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Limits of interned names. Only a damaged file exceeds them.
const LONGEST: usize = 128;
const MOST: usize = 4096;

/// Returns a name as a static string, which the model needs for kinds of loss, places and maps. The
/// strings are leaked. There are few strings, and their number is limited in case a file is
/// damaged.
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
