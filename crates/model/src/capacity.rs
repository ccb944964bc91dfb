//! Returns memory of tables that have shrunk.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};

/// Capacity kept for each entry.
const PLACES: usize = 4;

/// Frees memory if a table has far more capacity than entries, as after a burst. A table whose size
/// changes only a little is not reallocated.
pub fn shrink_sparse<K: Eq + Hash, V, S: BuildHasher>(table: &mut HashMap<K, V, S>) {
    // `capacity()` does not count slots of removed entries, so it cannot be used as the condition.
    table.shrink_to(PLACES * table.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparse_table_shrinks_and_full_table_does_not() {
        let mut table: HashMap<usize, usize> = (0..100_000).map(|i| (i, i)).collect();
        let full = table.capacity();
        shrink_sparse(&mut table);
        assert_eq!(table.capacity(), full);
        table.retain(|key, _| *key < 10);
        shrink_sparse(&mut table);
        assert!(
            (40..100).contains(&table.capacity()),
            "{}",
            table.capacity()
        );
        assert_eq!(table.len(), 10);
    }

    #[test]
    fn empty_table_keeps_no_capacity() {
        let mut table: HashMap<u32, ()> = HashMap::with_capacity(500);
        shrink_sparse(&mut table);
        assert_eq!(table.capacity(), 0);
    }
}
