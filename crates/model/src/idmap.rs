//! Tables by ids, of which some have tens of thousands of rows that each batch looks up.

use std::collections::{HashMap, HashSet};

use foldhash::fast::RandomState;

/// A table whose keys are ids that the kernel gives out. Its hash is quick, and seeded: who can make groups and
/// processes cannot choose which of their ids meet.
pub type IdMap<K, V> = HashMap<K, V, RandomState>;

/// A set of such ids.
pub type IdSet<K> = HashSet<K, RandomState>;
