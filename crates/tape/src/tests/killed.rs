//! Tests a writer that is killed at a random moment.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use super::options;
use super::world::{Dice, World};
use crate::folder::{self, Limits};
use crate::index;
use crate::tape::Tape;
use crate::writer::Writer;

/// Environment variable of the child process that names its directory.
const FOLDER: &str = "NOCTULE_TAPE_TEST_FOLDER";

const ROUNDS: u64 = 200;
const SEED: u64 = 5;

/// Maximum number of batches that the writer produces.
const TICKS: usize = 400;

/// Writes until it is killed.
fn writer(folder: &Path) {
    let mut world = World::new(SEED);
    let mut writer = Writer::open(options(folder, 25, Limits::default())).expect("a folder");
    for _ in 0..TICKS {
        let (events, batch) = world.tick();
        writer.events(&events);
        writer.batch(&batch).expect("room");
    }
    thread::sleep(Duration::from_secs(60));
}

/// Counts the lines of all indexes.
fn lines(folder: &Path) -> usize {
    let segments = folder::segments(folder).unwrap_or_default();
    let lines = |segment: &std::path::PathBuf| {
        let text = fs::read_to_string(segment.join(index::FILE)).unwrap_or_default();
        text.matches('\n').count()
    };
    segments.iter().map(lines).sum()
}

/// The test starts itself as a child process, and kills the child.
#[test]
fn rows_written_before_a_kill_are_complete() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return writer(Path::new(&folder));
    }
    let mut world = World::new(SEED);
    let all: Vec<String> = (0..TICKS)
        .map(|_| format!("{:?}", world.tick().1))
        .collect();
    let mut dice = Dice::new(23);
    for round in 0..ROUNDS {
        let folder = tempfile::tempdir().expect("a folder");
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args([
                "--exact",
                "tests::killed::rows_written_before_a_kill_are_complete",
            ])
            .env(FOLDER, folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("this test can be started");
        // Waits until the index has some lines, and then for a random time that does not depend on
        // lines.
        let wanted = dice.roll(4) as usize;
        while lines(folder.path()) < wanted {
            assert!(
                child.try_wait().expect("our child").is_none(),
                "round {round}"
            );
            thread::sleep(Duration::from_micros(200));
        }
        thread::sleep(Duration::from_micros(dice.roll(4000)));
        child.kill().expect("our child");
        child.wait().expect("our child");
        let written = lines(folder.path());
        let Ok(tape) = Tape::open(folder.path()) else {
            // The child was killed before it created a segment.
            assert_eq!(written, 0, "round {round}");
            continue;
        };
        assert_eq!(tape.damages().next(), None, "round {round}");
        assert_eq!(tape.check(), [], "round {round}");
        let spans = tape.spans();
        assert!(spans.len() <= 1, "one run: {spans:?}");
        let mut found = 0;
        for span in &spans {
            for batch in tape.batches(span, 0) {
                // The first and the last batch are compared completely, and the others only by
                // count.
                let whole = found == 0 || batch.time_unix_ns == span.to_unix_ns;
                assert!(
                    !whole || format!("{batch:?}") == all[found],
                    "round {round}: {found}"
                );
                found += 1;
            }
        }
        assert!(written == 0 || found > 0, "round {round}");
    }
}

/// The batch number is the second at which the batch is taken.
#[test]
fn kill_loses_at_most_half_of_a_young_recording() {
    let mut world = World::new(SEED);
    let folder = tempfile::tempdir().expect("a folder");
    let limits = options(folder.path(), 300, Limits::default());
    let mut writer = Writer::open(limits).expect("a folder");
    let mut written = Vec::new();
    for second in 1..=40 {
        let (events, mut batch) = world.tick();
        batch.sequence = second;
        batch.taken_ns = second * 1_000_000_000;
        writer.events(&events);
        writer.batch(&batch).expect("room");
        let now = Tape::open(folder.path()).expect("a tape").spans()[0].ticks;
        let last = now.expect("batches").1;
        if written.last() != Some(&last) {
            written.push(last);
        }
    }
    assert_eq!(written, [1, 2, 3, 5, 9, 17, 28, 39]);
}
