//! Tests of marker processes during event floods. Each event is in the file, or the file reports
//! how many are missing.

use std::fs::{self, File};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use serde_json::Value;

use super::support::agent::Agent;
use super::support::cgroup::Group;
use super::support::load::Load;
use super::support::{self, StopAtEnd, wait_until};

/// Number of marker processes in each flood. Each executes a program and ends.
const MARKERS: usize = 20;

/// Number of times that a flood repeats its action before the first marker.
const BEGUN: u64 = 200;

/// A flood repeats one action in the given directory.
type Flood = (&'static str, fn(&Path));

const FLOODS: [Flood; 4] = [
    ("opens", |folder| {
        let _ = File::create(folder.join("opened"));
    }),
    ("connects", |_| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        for _ in 0..50 {
            drop(TcpStream::connect(address));
            drop(listener.accept());
        }
    }),
    ("questions", |_| {
        // A DNS header, and the name `a.` with type A.
        const QUESTION: &[u8] = b"\0\x01\x01\0\0\x01\0\0\0\0\0\0\x01a\0\0\x01\0\x01";
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        for _ in 0..50 {
            let _ = socket.send_to(QUESTION, "127.0.0.1:53");
        }
    }),
    ("execs", |_| {
        let _ = Command::new("/bin/true").status();
    }),
];

/// Floods with a separate ring, so that they take no room from other events.
const BULK: [&str; 2] = ["opens", "questions"];

/// Returns the complete lines so far.
fn events(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).expect("text");
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let lines = whole.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

fn lost(events: &[Value], kind: &str) -> u64 {
    let gaps = events.iter().filter(|e| e["event.name"] == "gap");
    gaps.filter_map(|gap| gap["lost"][kind].as_u64()).sum()
}

fn of(events: &[Value], name: &str, group: &str) -> u64 {
    let ours = |e: &&Value| e["event.name"] == name && e["process.linux.cgroup"] == group;
    events.iter().filter(ours).count() as u64
}

/// Runs the markers one after another, and then a process that gets no memory.
fn mark(group: &Group, limited: &Group) {
    for _ in 0..MARKERS {
        let ran = group
            .command("/bin/true")
            .status()
            .expect("it can be started");
        assert!(ran.success());
    }
    let mut eater = Load::own(limited, "eater");
    eater.say("eat");
    eater.wait_for_end();
    eater.reap();
}

#[test]
fn marker_events_are_in_the_file_or_in_a_gap() {
    let _machine = support::shared();
    needs!("process_events");
    needs!("oom_events");
    needs!("file_events");
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("noctule.toml");
    for (name, flood) in FLOODS {
        // The flood fills its ring. Processes that run during the test use some of the other ring.
        let bulk = BULK.contains(&name);
        let rings = match bulk {
            true => "ring_bytes = 2097152\nbulk_ring_bytes = 65536\n",
            false => "ring_bytes = 65536\nbulk_ring_bytes = 65536\n",
        };
        let text = format!("[events]\nfiles = true\ndns = true\nudp = true\n{rings}");
        fs::write(&config, text).expect("our file");
        let file = folder.path().join(format!("{name}.jsonl"));
        let paths = [&config, &file].map(|path| path.to_str().expect("in UTF-8"));
        let arguments = ["--config", paths[0], "--events", paths[1]];
        let mut agent = Agent::start(&arguments);
        let group = Group::new(&format!("marker-{name}"));
        let limited = Group::with_memory(&format!("limited-{name}"), 32 << 20);
        let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
        thread::scope(|scope| {
            let _stop = StopAtEnd(&stop);
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    flood(folder.path());
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
            wait_until("the flood has begun", || {
                done.load(Ordering::Relaxed) >= BEGUN
            });
            mark(&group, &limited);
        });
        assert_eq!(limited.oom_kills(), 1);
        agent.signal(rustix::process::Signal::TERM);
        assert_eq!(agent.end().code(), Some(0));
        let told = events(&file);
        let (path, limited) = (group.path(), limited.path());
        // The marker enters its group as a shell and then executes the program.
        let wanted = [
            ("process.exec", path.as_str(), MARKERS as u64),
            ("process.exit", path.as_str(), MARKERS as u64),
            ("process.exit", limited.as_str(), 1),
            ("oom.kill", limited.as_str(), 1),
        ];
        for (kind, path, count) in wanted {
            let (seen, lost) = (of(&told, kind, path), lost(&told, kind));
            assert!(seen <= count + 1, "{name}: {seen} {kind} of {count}");
            assert!(
                seen + lost >= count,
                "{name}: {seen} {kind} of {count}, {lost} lost"
            );
        }
        if bulk {
            for (kind, path, count) in wanted {
                let seen = of(&told, kind, path);
                assert!(seen >= count, "{name}: {seen} {kind} of {count}");
            }
        }
    }
}
