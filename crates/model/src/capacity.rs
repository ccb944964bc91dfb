//! Room of tables that were larger once.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};

/// A table of fewer places than this is left as it is.
const SMALL: usize = 1024;
/// So many places for each entry are too many.
const SPARSE: usize = 8;

/// Gives memory back when a table has far more places than entries, as after a burst. It keeps twice the
/// places that it needs, so that a table which grows and shrinks a little is not made anew each time.
pub fn shrink_sparse<K: Eq + Hash, V, S: BuildHasher>(table: &mut HashMap<K, V, S>) {
    let places = table.capacity();
    if places > SMALL && places / SPARSE > table.len() {
        table.shrink_to(2 * table.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_was_large_gives_back_and_one_in_use_does_not() {
        let mut table: HashMap<usize, usize> = (0..100_000).map(|i| (i, i)).collect();
        let full = table.capacity();
        table.retain(|key, _| *key < full / 2);
        shrink_sparse(&mut table);
        assert_eq!(table.capacity(), full);
        table.retain(|key, _| *key < 10);
        shrink_sparse(&mut table);
        assert!(table.capacity() < 100, "{}", table.capacity());
        assert_eq!(table.len(), 10);
    }

    #[test]
    fn a_small_table_is_left_as_it_is() {
        let mut table: HashMap<u32, ()> = HashMap::with_capacity(500);
        let before = table.capacity();
        shrink_sparse(&mut table);
        assert_eq!(table.capacity(), before);
    }
}
