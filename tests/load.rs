//! Tests of `noctule load` with third-party objects: what the programs count, and that nothing is
//! left in the kernel.

mod broken;
mod raw;
mod rejected;

use std::fs;
use std::hint::black_box;
use std::io::Read as _;
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use noctule_fixtures as fixtures;
use serde_json::Value;
use tempfile::TempDir;

use super::support::{self, NOCTULE, bpf, wait_until};

/// An object in a file, as a user has it.
struct Object {
    folder: TempDir,
}

impl Object {
    fn new(bytes: &[u8]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("some.bpf.o"), bytes).expect("a file");
        Self { folder }
    }

    fn path(&self) -> String {
        let path = self.folder.path().join("some.bpf.o");
        path.into_os_string().into_string().expect("UTF-8")
    }

    /// Loads the object and expects a failure. Returns exit status and standard error.
    fn refused(&self, more: &[&str]) -> (Option<i32>, String) {
        let path = self.path();
        let output = support::noctule(&[&["load", path.as_str()], more].concat());
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), errors)
    }
}

/// A running `noctule load` with its object attached.
struct Load {
    child: Child,
    _object: Object,
}

impl Load {
    fn start(bytes: &[u8], more: &[&str]) -> Self {
        let load = Self::spawn(bytes, more);
        wait_until("its program is loaded", || {
            !bpf::held_by(load.child.id()).is_empty()
        });
        // The command attaches immediately, or ends with an error.
        thread::sleep(Duration::from_millis(500));
        load
    }

    /// Starts without waiting for a program, because a classic filter does not appear as one.
    fn start_plain(bytes: &[u8], more: &[&str]) -> Self {
        let mut load = Self::spawn(bytes, more);
        support::wait_until_attached(&mut load.child);
        load
    }

    fn spawn(bytes: &[u8], more: &[&str]) -> Self {
        let object = Object::new(bytes);
        let child = Command::new(NOCTULE)
            .args(["load", &object.path(), "--json", "--dump"])
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary can be started");
        Self {
            child,
            _object: object,
        }
    }

    /// Interrupts the command and returns its lines. Nothing may be left in the kernel.
    fn end(mut self) -> Vec<Value> {
        let held = bpf::held_by(self.child.id());
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
        let mut text = String::new();
        let out = self.child.stdout.as_mut().expect("piped");
        out.read_to_string(&mut text).expect("text");
        assert!(self.child.wait().expect("our child").success(), "{text}");
        bpf::wait_until_unloaded(&held);
        assert_nothing_in_tracefs(self.child.id());
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}")))
            .collect()
    }
}

/// Detaches everything if an assertion fails.
impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Checks that no trace instance or kprobe event of this process is left in tracefs.
fn assert_nothing_in_tracefs(pid: u32) {
    let script = "mount -t tracefs none /sys/kernel/tracing 2>/dev/null; \
                  cd /sys/kernel/tracing && ls instances && cat kprobe_events 2>/dev/null; true";
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", script])
        .output();
    let output = output.expect("unshare is there");
    let left = String::from_utf8_lossy(&output.stdout).into_owned();
    for name in [format!("noctule_{pid}"), format!("noctule/load_{pid}_")] {
        assert!(!left.contains(&name), "{name} is left behind: {left}");
    }
}

/// Returns the map of this name.
fn map<'a>(lines: &'a [Value], name: &str) -> &'a Value {
    let of = |line: &&Value| line["kind"] == "map" && line["name"] == name;
    lines
        .iter()
        .find(of)
        .unwrap_or_else(|| panic!("no map {name}: {lines:?}"))
}

/// Returns the value of a numeric key.
fn value(map: &Value, key: u64) -> u64 {
    let entries = map["entries"].as_array().expect("entries");
    let found = entries.iter().find(|entry| entry["key"] == key);
    found.and_then(|entry| entry["value"].as_u64()).unwrap_or(0)
}

fn getppid(times: u64) {
    for _ in 0..times {
        let _ = rustix::process::getppid();
    }
}

#[test]
fn maps_use_btf_names_and_output_is_shown() {
    let _machine = support::shared();
    needs!("cpu_time");
    const CALLS: u64 = 1000;
    let load = Load::start(fixtures::COUNTS, &[]);
    getppid(CALLS);
    let lines = load.end();
    let own = std::process::id();
    let table = map(&lines, "by_process")["entries"]
        .as_array()
        .expect("entries");
    // Other test threads, which have other names, may also call getppid.
    let ours = table.iter().filter(|entry| entry["key"]["pid"] == own);
    let ours: Vec<_> = ours.map(|entry| &entry["value"]).collect();
    let count = |value: &&Value| value["count"].as_u64().expect("a number");
    assert!(ours.iter().map(count).sum::<u64>() >= CALLS, "{table:?}");
    let value = ours[0];
    assert_eq!(value["state"]["name"], "BUSY", "{value}");
    assert_eq!(value["below"], -7, "{value}");
    assert_eq!(
        (&value["low"], &value["high"]),
        (&5.into(), &17.into()),
        "{value}"
    );
    assert_eq!(value["list"], serde_json::json!([1, 2, 3]), "{value}");
    let each = &map(&lines, "on_cpu")["entries"][0]["values"];
    let sum: u64 = each
        .as_array()
        .expect("CPUs")
        .iter()
        .filter_map(Value::as_u64)
        .sum();
    let total = map(&lines, "some.bss")["entries"][0]["value"]["total"].as_u64();
    assert_eq!(
        total,
        Some(sum),
        "the map of each CPU and the variable count the same calls"
    );
    let words = format!("first call of {own}, wanted 0");
    let printed = |line: &&Value| {
        let text = line["text"].as_str();
        text.is_some_and(|text| text.ends_with(&words))
    };
    let printed = lines.iter().filter(printed).count();
    assert_eq!(printed, ours.len(), "{lines:?}");
    assert!(map(&lines, "ring")["unlisted"].is_string());
}

/// For each kind of section that this kernel can attach, the program counts the actions of the
/// test.
#[test]
fn each_kind_of_section_is_attached() {
    let _machine = support::shared();
    needs!("cpu_time");
    let libc = "libc.so.6";
    // The dynamic linker chooses the code of strlen.
    let entry = format!("on_uprobe=uprobe/{libc}:strlen");
    let end = format!("on_uretprobe=uretprobe/{libc}:getppid");
    let own = std::process::id().to_string();
    let cases: [(&str, u64, &[&str]); 7] = [
        ("on_tracepoint", 0, &[]),
        ("on_raw_tracepoint", 1, &[]),
        ("on_btf_tracepoint", 2, &[]),
        ("on_sample", 3, &["--frequency", "997"]),
        ("on_socket", 4, &["--interface", "lo"]),
        ("on_uprobe", 9, &["--attach", &entry, "--pid", &own]),
        ("on_uretprobe", 10, &["--attach", &end, "--pid", &own]),
    ];
    let of_library = ["on_uprobe", "on_uretprobe"];
    for (program, place, more) in cases {
        if of_library.contains(&program) && !support::expect::has_shared_libc() {
            continue;
        }
        let load = Load::start(
            fixtures::SECTIONS,
            &[&["--program", program], more].concat(),
        );
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        for _ in 0..100 {
            #[allow(
                unsafe_code,
                reason = "rustix makes the system call without the library"
            )]
            // SAFETY: the functions only read, and the string ends with its NUL.
            unsafe {
                libc::getppid();
                black_box(libc::strlen(black_box(c"text".as_ptr())));
            }
            socket
                .send_to(b"x", socket.local_addr().expect("bound"))
                .expect("sent");
        }
        if program == "on_sample" {
            // An idle CPU is also sampled, but less often.
            let used = || support::oracle::process_seconds(std::process::id());
            let before = used();
            while used() < before + 0.5 {
                std::hint::spin_loop();
            }
        }
        let lines = load.end();
        let hits = map(&lines, "hits")["entries"]
            .as_array()
            .expect("entries")
            .clone();
        let count = hits[usize::try_from(place).expect("small")]["value"].as_u64();
        assert!(
            count >= Some(if place == 3 { 1 } else { 100 }),
            "{program}: {count:?}"
        );
        assert!(lines[0]["attached"].is_string(), "{lines:?}");
    }
}

/// The command runs in a mount namespace with its own BPF file system.
#[test]
fn map_with_pinning_is_not_pinned() {
    let _machine = support::shared();
    needs!("cpu_time");
    let object = Object::new(fixtures::PINNED);
    let script = "mount -t bpf none /sys/fs/bpf && \"$0\" load \"$1\" --for 1ms && \
                  test ! -e /sys/fs/bpf/noctule_pinned";
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", script, NOCTULE, &object.path()])
        .output()
        .expect("unshare is there");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(
        errors.contains("map noctule_pinned is not pinned"),
        "{errors}"
    );
}

#[test]
fn tail_called_program_is_loaded_but_not_attached() {
    let _machine = support::shared();
    needs!("cpu_time");
    for more in [&[][..], &["--program", "entry"]] {
        let load = Load::start(fixtures::TAILS, more);
        getppid(20);
        let lines = load.end();
        let counts = map(&lines, "counts")["entries"].clone();
        let count = |place: usize| counts[place]["value"].as_u64();
        assert!(count(0) >= Some(20), "{lines:?}");
        assert_eq!((count(1), count(2)), (count(0), Some(0)), "{lines:?}");
    }
}

/// Attaches and detaches programs of an interface, a cgroup and a namespace. On loopback the
/// programs change nothing, because each of them passes every packet.
#[test]
fn programs_of_interfaces_and_cgroups_are_attached() {
    let _machine = support::shared();
    needs!("cpu_time");
    for (program, place) in [("on_xdp", 5), ("on_tc", 6), ("on_tcx", 7)] {
        let load = Load::start(
            fixtures::SECTIONS,
            &["--program", program, "--interface", "lo"],
        );
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        for _ in 0..100 {
            socket
                .send_to(b"x", socket.local_addr().expect("bound"))
                .expect("sent");
        }
        let lines = load.end();
        let hits = &map(&lines, "hits")["entries"][place]["value"];
        assert!(hits.as_u64() >= Some(100), "{program}: {hits}");
    }
    let load = Load::start(
        fixtures::SECTIONS,
        &["--program", "on_lookup", "--netns", "/proc/self/ns/net"],
    );
    let lines = load.end();
    assert!(lines[0]["attached"].is_string(), "{lines:?}");
}

#[test]
fn an_iterator_is_read_once_and_ends_the_command() {
    let _machine = support::shared();
    needs!("cpu_time");
    let object = Object::new(fixtures::SECTIONS);
    let output = support::noctule(&["load", &object.path(), "--program", "list_tasks"]);
    let text = String::from_utf8_lossy(&output.stdout);
    let own = std::process::id();
    assert!(output.status.success(), "{output:?}");
    assert!(
        text.lines()
            .any(|line| line == format!("task {own} of {own}")),
        "{text}"
    );
}

/// A program without an attach point gets an error before anything is loaded. The error names the
/// option.
#[test]
fn missing_options_are_named() {
    let _machine = support::shared();
    let object = Object::new(fixtures::SECTIONS);
    let cases: [(&[&str], &str); 8] = [
        (
            &["--program", "on_socket"],
            "on_socket needs a network interface: --interface NAME",
        ),
        (
            &["--program", "on_xdp"],
            "needs a network interface: --interface NAME",
        ),
        (
            &["--program", "on_cgroup"],
            "needs a cgroup v2 directory: --cgroup PATH",
        ),
        (
            &["--program", "on_lookup"],
            "needs a network namespace: --netns FILE",
        ),
        (
            &["--program", "on_uprobe"],
            "--attach on_uprobe=uprobe/FILE:FUNCTION[+OFFSET]",
        ),
        (
            &["--program", "run_me"],
            "run_me is run with BPF_PROG_RUN and is not attached",
        ),
        (
            &["--program", "nobody"],
            "--program nobody: the object has no such program; it has on_tracepoint",
        ),
        (
            &["--program", "on_xdp", "--attach", "on_xdp=xpd"],
            "did you mean xdp?",
        ),
    ];
    for (args, words) in cases {
        let (code, errors) = object.refused(args);
        assert_eq!(code, Some(2), "{errors}");
        assert!(errors.contains(words), "{errors}");
    }
    let (code, errors) = object.refused(&["--program", "on_xdp", "--interface", "none-such"]);
    assert_eq!(code, Some(1), "{errors}");
    assert!(
        errors.contains("there is no network interface none-such"),
        "{errors}"
    );
    let args = [
        "--program",
        "on_tracepoint",
        "--attach",
        "on_tracepoint=tp/sched/none_such",
    ];
    let (code, errors) = object.refused(&args);
    assert_eq!(code, Some(3), "{errors}");
    assert!(
        errors.contains("this kernel has no tracepoint sched:none_such"),
        "{errors}"
    );
}

/// An object in the style of 2015. The object's socket program counts each datagram with a
/// distinctive length, twice on loopback (leaving and arriving), and its tracepoint program prints
/// text.
#[test]
fn an_object_of_2015_is_loaded() {
    let _machine = support::shared();
    needs!("cpu_time");
    const PAYLOAD: usize = 6007;
    const SENT: u64 = 50;
    let programs = [
        "--program",
        "on_packet",
        "--program",
        "on_call",
        "--interface",
        "lo",
    ];
    let load = Load::start(fixtures::LEGACY, &programs);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for _ in 0..SENT {
        socket
            .send_to(&[0; PAYLOAD], socket.local_addr().expect("bound"))
            .expect("sent");
    }
    getppid(3);
    let lines = load.end();
    let length = (PAYLOAD + 8 + 20 + 14) as u64;
    assert_eq!(
        value(map(&lines, "by_length"), length),
        2 * SENT,
        "{lines:?}"
    );
    assert!(value(map(&lines, "counts"), 1) >= 3, "{lines:?}");
    let printed = |line: &&Value| {
        line["text"]
            .as_str()
            .is_some_and(|t| t.ends_with(": called"))
    };
    assert!(lines.iter().filter(printed).count() >= 3, "{lines:?}");
}

/// Attaches kprobes in the style of 2015 through `kprobe_events`, or gets an error if the kernel
/// has none.
#[test]
fn kprobes_of_2015_are_created_and_removed() {
    let _machine = support::shared();
    needs!("cpu_time");
    let programs = ["--program", "on_function", "--program", "on_return"];
    if fs::read_to_string("/proc/kallsyms").is_ok_and(|all| !all.contains(" register_kprobe\n")) {
        let (code, errors) = Object::new(fixtures::LEGACY).refused(&programs);
        assert_eq!(code, Some(3), "{errors}");
        assert!(errors.contains("this kernel has no kprobes"), "{errors}");
        return;
    }
    let load = Load::start(fixtures::LEGACY, &programs);
    getppid(20);
    let lines = load.end();
    assert!(
        lines[0]["attached"]
            .as_str()
            .expect("text")
            .contains("kprobe_events"),
        "{lines:?}"
    );
    for place in [2, 3] {
        assert!(value(map(&lines, "counts"), place) >= 20, "{lines:?}");
    }
}

/// Attaches kprobes and fentry programs through libbpf, or gets an error if the kernel has none.
#[test]
fn kprobes_of_libbpf_are_attached() {
    let _machine = support::shared();
    needs!("cpu_time");
    if fs::read_to_string("/proc/kallsyms").is_ok_and(|all| !all.contains(" register_kprobe\n")) {
        for program in ["on_kprobe", "on_kretprobe", "on_ksyscall"] {
            let (code, errors) = Object::new(fixtures::SECTIONS).refused(&["--program", program]);
            assert_eq!(code, Some(3), "{errors}");
            assert!(errors.contains("this kernel has no kprobes"), "{errors}");
        }
        return;
    }
    for (program, place) in [("on_kprobe", 11), ("on_kretprobe", 12), ("on_ksyscall", 13)] {
        let load = Load::start(fixtures::SECTIONS, &["--program", program]);
        getppid(20);
        (0..20).for_each(|_| thread::sleep(Duration::from_millis(1)));
        let lines = load.end();
        let hits = &map(&lines, "hits")["entries"][place]["value"];
        assert!(hits.as_u64() >= Some(20), "{program}: {hits}");
    }
}
