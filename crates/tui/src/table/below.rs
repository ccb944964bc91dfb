//! The descendants of each row in a tree.

use std::ops::{Deref, Range};
use std::sync::Arc;

use crate::data::level::Key;

/// The descendants of one row. All rows of a tree share one list in tree order, in which the
/// descendants of a row are contiguous. Memory therefore does not grow with depth.
#[derive(Clone, Debug, Default)]
pub(crate) struct Below {
    all: Arc<[Key]>,
    part: Range<usize>,
}

impl From<Vec<Key>> for Below {
    fn from(keys: Vec<Key>) -> Self {
        Self {
            part: 0..keys.len(),
            all: keys.into(),
        }
    }
}

impl Deref for Below {
    type Target = [Key];

    fn deref(&self) -> &[Key] {
        &self.all[self.part.clone()]
    }
}

/// Returns the descendants of each node, given its children.
pub(crate) fn below_each(
    roots: &[usize],
    children: &[Vec<usize>],
    key: impl Fn(usize) -> Key,
) -> Vec<Below> {
    enum Step {
        Into(usize),
        OutOf(usize),
    }
    let mut keys = Vec::with_capacity(children.len());
    let mut parts = vec![0..0; children.len()];
    let mut next: Vec<Step> = roots.iter().copied().map(Step::Into).collect();
    while let Some(step) = next.pop() {
        match step {
            Step::Into(node) => {
                keys.push(key(node));
                parts[node].start = keys.len();
                next.push(Step::OutOf(node));
                next.extend(children[node].iter().copied().map(Step::Into));
            }
            Step::OutOf(node) => parts[node].end = keys.len(),
        }
    }
    let all: Arc<[Key]> = keys.into();
    let below = |part| Below {
        all: all.clone(),
        part,
    };
    parts.into_iter().map(below).collect()
}
