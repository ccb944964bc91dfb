//! The same batches and events come back.

use proptest::prelude::{ProptestConfig, any, proptest};

use super::world::World;
use super::{read, words, write};
use crate::tape::Tape;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn batches_and_events_come_back_as_they_were(
        seed in any::<u64>(),
        ticks in 1..40_usize,
        segment_s in 1..30_u64,
    ) {
        let folder = tempfile::tempdir().expect("a folder");
        let mut world = World::new(seed);
        let all: Vec<_> = (0..ticks).map(|_| world.tick()).collect();
        write(folder.path(), segment_s, &all);
        let (batches, events, damages) = read(folder.path());
        assert_eq!(damages, 0);
        let batch = |tick: &(_, noctule_model::Batch)| tick.1.clone();
        assert_eq!(words(batches.into_iter()), words(all.iter().map(batch)));
        let expected: Vec<_> = all.into_iter().flat_map(|tick| tick.0).collect();
        assert_eq!(events, expected);
    }

    #[test]
    fn a_window_begins_at_the_last_batch_that_is_not_after_it(
        seed in any::<u64>(),
        at in 0..30_usize,
        later_ns in 0..1_000_000_000_u64,
    ) {
        let folder = tempfile::tempdir().expect("a folder");
        let mut world = World::new(seed);
        let all: Vec<_> = (0..30).map(|_| world.tick()).collect();
        write(folder.path(), 7, &all);
        let tape = Tape::open(folder.path()).expect("a tape");
        let [span] = &tape.spans()[..] else { panic!("one run: {:?}", tape.spans()) };
        let from = all[at].1.time_unix_ns + later_ns;
        let found = tape.batches(span, from).next().expect("a batch");
        assert_eq!(format!("{found:?}"), format!("{:?}", all[at].1));
        // Before the first there is none: it begins with the first.
        let first = tape.batches(span, 0).next().expect("a batch");
        assert_eq!(first.sequence, all[0].1.sequence);
    }
}

#[test]
fn where_it_comes_from_is_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), 9, &[World::new(1).tick()]);
    let tape = Tape::open(folder.path()).expect("a tape");
    let meta = tape.segments()[0].meta();
    assert_eq!(meta.host, "h\u{e9}");
    assert_eq!(meta.command, ["make", "a b"]);
    assert!(tape.segments()[0].is_closed());
}
