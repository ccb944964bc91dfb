use std::fs::{self, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use noctule_model::{FilePath, Origin, What};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::queue::Waiting;
use super::tally::Tally;
use super::*;

const LARGE: u64 = 1 << 30;

/// Returns an event whose line has this many bytes, including the newline.
fn event(bytes: usize) -> Event {
    let of = |path: usize| Event {
        time_unix_ns: 1_700_000_000_000_000_000,
        process: None,
        origin: Origin::Seen,
        what: What::FileOpen {
            path: FilePath {
                bytes: vec![b'x'; path],
                ..FilePath::default()
            },
            flags: 0,
            error: None,
        },
    };
    let least = noctule_sinks::events::event_json(&of(0)).len() + 1;
    of(bytes.checked_sub(least).expect("room for the other keys"))
}

fn place(path: &Path, bytes: u64, keep: u32) -> Place {
    Place {
        path: path.to_owned(),
        bytes,
        keep,
    }
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("events");
    (folder, path)
}

/// Creates a file before the writer starts.
fn lay(path: &Path, text: &str) {
    fs::write(path, text).expect("written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("our file");
}

fn writer(place: Place) -> (Writer, Arc<Queue>) {
    let queue = Arc::new(Queue::default());
    let rotation = Rotation::open(place).expect("it can be opened");
    (Writer::new(rotation, queue.clone()), queue)
}

fn of(events: Vec<Event>) -> Waiting {
    Waiting {
        events,
        missing: Tally::default(),
    }
}

fn numbered(path: &Path, number: u32) -> PathBuf {
    PathBuf::from(format!("{}.{number}", path.display()))
}

/// Parses each line of a file as JSON.
fn lines(path: &Path) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(path).expect("a file of events");
    assert!(text.is_empty() || text.ends_with('\n'), "half a line");
    let parsed = text.lines().map(serde_json::from_str);
    parsed.collect::<Result<_, _>>().expect("JSON")
}

#[test]
fn all_events_are_in_the_file_after_close() {
    let (_folder, path) = folder();
    let file = EventFile::open(place(&path, LARGE, 5)).expect("it can be opened");
    for _ in 0..100 {
        file.write(vec![event(200); 10]);
    }
    assert_eq!(file.loss().count, 0);
    file.close();
    assert_eq!(lines(&path).len(), 1000);
}

#[test]
fn a_file_has_one_writer() {
    let (_folder, path) = folder();
    let (mut first, _queue) = writer(place(&path, 300, 2));
    let refused = || {
        let error = Rotation::open(place(&path, 300, 2)).err();
        let said = error.expect("it is taken").to_string();
        assert!(
            said.starts_with("another noctule is writing to it"),
            "{said}"
        );
    };
    refused();
    // The next file is also locked.
    for _ in 0..3 {
        first.write(&of(vec![event(200)]));
    }
    assert!(numbered(&path, 1).exists());
    refused();
    drop(first);
    Rotation::open(place(&path, 300, 2)).expect("it is free again");
}

#[test]
fn file_is_rotated_exactly_at_its_size() {
    // Each line is 200 bytes long. Each case is a file size, and the number of lines that fit.
    for (size, fit) in [(1000, 5), (999, 4), (1001, 5), (200, 1), (150, 1)] {
        let (_folder, path) = folder();
        let (mut writer, queue) = writer(place(&path, size, 2));
        for _ in 0..2 * fit + 1 {
            writer.write(&of(vec![event(200)]));
        }
        assert_eq!(lines(&path).len(), 1, "{size}");
        for number in 1..=2 {
            let older = lines(&numbered(&path, number));
            assert_eq!(older.len(), fit, "{size}: file {number}");
        }
        assert_eq!(queue.lost(), 0);
    }
}

#[test]
fn batches_of_events_rotate_like_single_events() {
    for keep in [0, 1, 3] {
        let (_folder, path) = folder();
        let (mut writer, queue) = writer(place(&path, 1000, keep));
        writer.write(&of(vec![event(200); 52]));
        assert_eq!(lines(&path).len(), 2);
        for number in 1..=keep {
            assert_eq!(lines(&numbered(&path, number)).len(), 5);
        }
        assert!(!numbered(&path, keep + 1).exists(), "{keep}");
        assert_eq!(queue.lost(), 0);
    }
}

#[test]
fn missing_file_number_is_reused_before_dropping_the_oldest() {
    let (_folder, path) = folder();
    let (mut writer, _queue) = writer(place(&path, 1000, 3));
    writer.write(&of(vec![event(200); 20]));
    writer.write(&of(vec![event(500)]));
    let oldest = fs::read(numbered(&path, 3)).expect("there");
    fs::remove_file(numbered(&path, 1)).expect("removed");
    writer.write(&of(vec![event(600)]));
    assert_eq!(fs::read(numbered(&path, 3)).expect("kept"), oldest);
    assert_eq!(lines(&numbered(&path, 1)).len(), 1);
}

#[test]
fn partial_line_is_removed_and_whole_lines_stay() {
    let line = noctule_sinks::events::event_json(&event(200)) + "\n";
    let long = noctule_sinks::events::event_json(&event(200_000));
    let cases: [(String, usize); 6] = [
        (String::new(), 0),
        (line.clone(), 1),
        (line[..50].into(), 0),
        (format!("{line}{line}{{\"ti"), 2),
        (format!("{line}{}", &long[..150_000]), 1),
        (format!("{line}\0\0\0\0"), 1),
    ];
    for (text, whole) in cases {
        let (_folder, path) = folder();
        lay(&path, &text);
        let (mut writer, _queue) = writer(place(&path, LARGE, 1));
        assert_eq!(lines(&path).len(), whole, "{text:.80}");
        writer.write(&of(vec![event(200)]));
        let all = lines(&path);
        // A gap record covers the time since the last complete line.
        let gap = usize::from(whole > 0);
        assert_eq!(all.len(), whole + gap + 1, "{text:.80}");
        let since = all
            .iter()
            .filter_map(|line| line["gap.since_unix_nano"].as_u64());
        let expected = vec![event(200).time_unix_ns; gap];
        assert_eq!(since.collect::<Vec<_>>(), expected, "{text:.80}");
    }
}

#[test]
fn foreign_file_is_left_untouched() {
    let (_folder, path) = folder();
    lay(&path, "important\nno newline");
    let error = EventFile::open(place(&path, LARGE, 1)).err();
    let words = format!("{:#}", error.expect("refused"));
    assert!(words.contains("choose another name"), "{words}");
    let text = fs::read_to_string(&path).expect("still there");
    assert_eq!(text, "important\nno newline");
}

#[test]
fn unwritable_path_is_an_error_with_a_fix() {
    let (folder, path) = folder();
    let cases = [
        (path.join("none/events"), "No such file"),
        (folder.path().to_owned(), "Is a directory"),
    ];
    for (path, why) in cases {
        let error = EventFile::open(place(&path, LARGE, 1)).err();
        let words = format!("{:#}", error.expect("refused"));
        for word in [&path.display().to_string(), why, "--events", "folder"] {
            assert!(words.contains(word), "{word}: {words}");
        }
    }
}

#[test]
fn full_disk_only_counts_lost_events() {
    let file = EventFile::open(place(Path::new("/dev/full"), 1000, 1)).expect("a device");
    for _ in 0..10 {
        file.write(vec![event(200); 7]);
    }
    let queue = file.queue.clone();
    file.close();
    assert_eq!(queue.lost(), 70);
    assert!(!Path::new("/dev/full.1").exists());
}

/// A directory with the name of the next file makes the rotation fail, even for root.
#[test]
fn unwritten_events_are_reported_when_writing_resumes() {
    let (_folder, path) = folder();
    let blocked = numbered(&path, 1);
    fs::create_dir(&blocked).expect("a folder");
    let (mut writer, queue) = writer(place(&path, 1000, 1));
    writer.write(&of(vec![event(200); 5]));
    assert_eq!((lines(&path).len(), queue.lost()), (5, 0));
    for _ in 0..3 {
        writer.write(&of(vec![event(200); 2]));
    }
    assert_eq!((lines(&path).len(), queue.lost()), (5, 6));

    fs::remove_dir(&blocked).expect("removed");
    // No event arrives, but the gap is still written.
    writer.write(&of(vec![]));
    writer.write(&of(vec![event(200)]));
    assert_eq!(lines(&blocked).len(), 5);
    let reported = lines(&path);
    assert_eq!(reported[0]["event.name"], "gap");
    assert_eq!(reported[0]["lost"], serde_json::json!({"file.open": 6}));
    assert_eq!(reported[1]["event.name"], "file.open");
    assert_eq!((reported.len(), queue.lost()), (2, 6));
}

#[test]
fn lost_gap_is_passed_on_and_counted_once() {
    let (_folder, path) = folder();
    let (mut writer, queue) = writer(place(&path, LARGE, 1));
    let gap = Event {
        what: What::Gap {
            lost: vec![("process.exec", 3), ("file.open", 1)],
            since_unix_ns: None,
        },
        ..event(200)
    };
    let mut missing = Tally::default();
    [gap, event(200)]
        .iter()
        .for_each(|event| missing.add(event));
    assert_eq!(missing.here(), 1);
    writer.write(&Waiting {
        events: vec![event(200)],
        missing,
    });
    let reported = lines(&path);
    assert_eq!(reported[0]["event.name"], "file.open");
    let lost = serde_json::json!({"process.exec": 3, "file.open": 2});
    assert_eq!(reported[1]["lost"], lost);
    assert_eq!(queue.lost(), 0, "the queue counts what it refuses");
}

#[test]
fn full_queue_still_admits_process_events() {
    let queue = Queue::default();
    let start = Event {
        what: What::ProcessStart {
            parent_pid: 1,
            parent: None,
        },
        ..event(200)
    };
    // Two of three large events fit. The small one after them is not admitted, but a process event
    // is.
    queue.put(vec![event(5 << 20), event(5 << 20)]);
    queue.put(vec![event(5 << 20), event(200), start]);
    assert_eq!(queue.lost(), 2);
    let taken = queue.take(Duration::ZERO).expect("open");
    assert_eq!((taken.events.len(), taken.missing.here()), (3, 2));

    queue.put(vec![event(200)]);
    let taken = queue.take(Duration::ZERO).expect("open");
    assert_eq!((taken.events.len(), taken.missing.here()), (1, 0));
    queue.close();
    assert!(queue.take(Duration::from_secs(60)).is_none());
}

#[test]
fn slow_pipe_gets_whole_lines_and_a_gap() {
    const COUNT: usize = 200;
    let (_folder, path) = folder();
    let fifo = FileType::Fifo;
    mknodat(CWD, &path, fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
    let reader = OpenOptions::new().read(true).write(true).open(&path);
    let mut reader = reader.expect("it can be opened");
    let (mut writer, _queue) = writer(place(&path, LARGE, 1));
    let events: Vec<Event> = (0..COUNT).map(|_| event(1000)).collect();
    writer.write(&of(events));
    // The events exceed the capacity of a pipe, so some are lost. Afterwards there is room again.
    let mut text = vec![0; 1 << 20];
    let mut read = reader.read(&mut text).expect("lines");
    writer.write(&of(vec![event(1000)]));
    read += reader.read(&mut text[read..]).expect("a gap and a line");
    let text = std::str::from_utf8(&text[..read]).expect("text");
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("a whole line"))
        .collect();
    let is_gap = |line: &&serde_json::Value| line["event.name"] == "gap";
    let lost: u64 = lines
        .iter()
        .filter(is_gap)
        .map(|gap| gap["lost"]["file.open"].as_u64().expect("a count"))
        .sum();
    assert!(lost > 0, "a pipe has room for {COUNT} kB");
    let reported = lines.iter().filter(|line| !is_gap(line)).count();
    assert_eq!(reported as u64 + lost, COUNT as u64 + 1);
}

#[test]
fn partially_written_line_is_terminated() {
    let (_folder, path) = folder();
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
    let reader = OpenOptions::new().read(true).write(true).open(&path);
    let mut reader = reader.expect("it can be opened");
    let (mut writer, _queue) = writer(place(&path, LARGE, 1));
    // 64 KiB is not a multiple of this length.
    writer.write(&of((0..20).map(|_| event(5000)).collect()));
    let mut text = vec![0; 1 << 20];
    let mut read = reader.read(&mut text).expect("lines");
    writer.write(&of(vec![event(1000)]));
    read += reader.read(&mut text[read..]).expect("a gap and a line");
    let text = std::str::from_utf8(&text[..read]).expect("text");
    let broken = |line: &&str| serde_json::from_str::<serde_json::Value>(line).is_err();
    assert_eq!(text.lines().filter(broken).count(), 1);
    let last = text.lines().last().expect("lines");
    assert_eq!(last.len() + 1, 1000);
}
