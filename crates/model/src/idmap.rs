//! Hash tables keyed by ids. Some tables have tens of thousands of rows, and each batch looks up
//! all of them.

use std::collections::{HashMap, HashSet};

use foldhash::fast::RandomState;

/// A table keyed by ids that the kernel assigns. The hash function is fast and seeded, so users who
/// create cgroups and processes cannot cause collisions.
pub type IdMap<K, V> = HashMap<K, V, RandomState>;

/// A set of ids that the kernel assigns.
pub type IdSet<K> = HashSet<K, RandomState>;
