//! Tests with privileges: none, some, and just enough.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use rustix::fs::{XattrFlags, setxattr};
use serde_json::Value;
use tempfile::TempDir;

use super::{NOCTULE, assert_says, ended, failure_of, support};
use crate::support::agent::Agent;
use crate::support::bpf;
use crate::support::burner::Burner;
use crate::support::cgroup::Group;
use crate::support::refuse::{refuse, refuse_with};
use crate::support::{cpu_seconds, rows};

const ENOUGH: &str = "bpf,perfmon,dac_read_search";

/// A copy of the binary that every user may run.
struct Copy(TempDir);

impl Copy {
    fn new() -> Self {
        let folder = tempfile::Builder::new()
            .tempdir_in("/tmp")
            .expect("a folder");
        let open = fs::Permissions::from_mode(0o755);
        fs::set_permissions(folder.path(), open.clone()).expect("our folder");
        let program = folder.path().join("noctule");
        fs::copy(NOCTULE, &program).expect("a copy");
        fs::set_permissions(&program, open).expect("our file");
        Self(folder)
    }

    /// Returns a command that runs the copy as nobody with only these capabilities.
    fn with(&self, capabilities: &str) -> Command {
        self.with_memory(capabilities, "unlimited")
    }

    /// Like `with`, with a limit on locked memory (`RLIMIT_MEMLOCK`, KiB), which applies before
    /// Linux 5.11. If the test may not raise the limit, the limit stays as it is.
    fn with_memory(&self, capabilities: &str, limit: &str) -> Command {
        let wanted: String = capabilities
            .split(',')
            .filter(|c| !c.is_empty())
            .fold("-all".to_owned(), |list, capability| {
                format!("{list},+{capability}")
            });
        let script = format!("ulimit -l {limit} 2>/dev/null; exec setpriv \"$@\"");
        let mut command = Command::new("bash");
        command
            .args(["-c", &script, "bash"])
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(format!("--inh-caps={wanted}"))
            .arg(format!("--ambient-caps={wanted}"))
            .arg(self.0.path().join("noctule"));
        command
    }
}

fn verdicts(command: &mut Command) -> Value {
    let output = ended(command.args(["doctor", "--json"]));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn verdict<'a>(answer: &'a Value, name: &str) -> (&'a str, &'a str) {
    let features = answer["features"].as_array().expect("features");
    let found = features.iter().find(|f| f["name"] == name);
    let found = found.unwrap_or_else(|| panic!("no verdict on {name}"));
    let text = |key: &str| found[key].as_str().expect("text");
    (text("state"), text("reason"))
}

#[test]
fn missing_privileges_end_with_3_and_a_fix() {
    let _machine = support::shared();
    let copy = Copy::new();
    for args in [
        &["stat", "--for", "1s"][..],
        &["stat", "--json", "--", "true"],
        &["run", "--listen", "127.0.0.1:0"],
        &["top"],
    ] {
        let (code, said) = failure_of(copy.with("").args(args));
        assert_eq!(code, 3, "{args:?}: {said}");
        assert_says(
            &said,
            &["CAP_BPF", "CAP_PERFMON", "root", "AmbientCapabilities"],
        );
    }
    let (code, said) = failure_of(copy.with("bpf").args(["stat", "--for", "1s"]));
    assert_eq!(code, 3, "{said}");
    assert!(
        said.contains("missing CAP_PERFMON") && !said.contains("CAP_BPF and"),
        "{said}"
    );
    bpf::assert_no_orphans();
}

#[test]
fn doctor_prints_its_table_without_privileges() {
    let _machine = support::shared();
    let copy = Copy::new();
    let output = ended(copy.with("").arg("doctor"));
    assert_eq!(output.status.code(), Some(3));
    let table = String::from_utf8(output.stdout).expect("UTF-8");
    assert_says(
        &table,
        &[
            "privileges",
            "off",
            "lacks CAP_BPF, CAP_PERFMON",
            "btf",
            "AmbientCapabilities",
        ],
    );
    let answer = verdicts(&mut copy.with(""));
    assert_eq!(verdict(&answer, "privileges").0, "off");
    assert_eq!(verdict(&answer, "cpu_time").0, "off");
}

#[test]
fn doctor_reports_a_proc_with_hidepid() {
    let _machine = support::shared();
    let copy = Copy::new();
    // The kernel may also hide a process from tracing programs, which the same feature reports.
    for (mount, hides) in [
        ("proc proc /proc", false),
        ("proc -o hidepid=1 proc /proc", true),
        ("proc -o hidepid=2 proc /proc", true),
    ] {
        let said = |capabilities: &str| {
            let answer = verdicts(&mut with_mount(mount, &copy.with(capabilities)));
            let (state, reason) = verdict(&answer, "all_processes");
            let says = reason.contains("hidepid");
            assert!(!says || state == "degraded", "{state}: {reason}");
            says
        };
        assert_eq!(said(ENOUGH), hides, "{mount}");
        assert!(!said(&format!("{ENOUGH},sys_ptrace")), "{mount}");
    }
}

#[test]
fn three_capabilities_are_enough_for_every_figure() {
    let _machine = support::shared();
    let copy = Copy::new();
    let group = Group::new("rights");
    let _burner = Burner::within(&group);
    let before = group.usage_seconds();
    let output = ended(
        copy.with(ENOUGH)
            .args(["stat", "--json", "--by", "cgroup", "--for", "2s"]),
    );
    let most = group.usage_seconds() - before;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let path = group.path();
    let mine = rows(&answer, |row| row["process.linux.cgroup"] == path.as_str());
    assert_eq!(mine.len(), 1, "{answer}");
    let used = cpu_seconds(&mine);
    assert!(used > 0.0 && used <= most * 1.01, "{used} of {most}");
    // The figures of a run as root are the reference.
    let all = support::json(&["stat", "--json", "--by", "cgroup", "--for", "500ms"]);
    let keys = |row: &Value| -> Vec<String> {
        let fields = row.as_object().expect("an object");
        fields.keys().cloned().collect()
    };
    let roots = rows(&all, |row| row["process.linux.cgroup"] == path.as_str());
    assert_eq!(keys(mine[0]), keys(roots[0]));
}

/// If CAP_DAC_READ_SEARCH were always in effect, error messages would reveal lines of a file and
/// which files exist.
#[test]
fn user_named_file_is_opened_with_user_privileges() {
    let _machine = support::shared();
    let copy = Copy::new();
    let folder = copy.0.path().join("closed");
    fs::create_dir(&folder).expect("our folder");
    fs::write(folder.join("there"), "root:secret-word\n").expect("our file");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).expect("our folder");
    for name in ["there", "none"] {
        let path = folder.join(name);
        let path = path.to_str().expect("UTF-8");
        let (code, said) = failure_of(copy.with(ENOUGH).args(["--config", path, "stat"]));
        assert_eq!(code, 2, "{said}");
        assert_says(&said, &["Permission denied"]);
        assert!(!said.contains("secret-word"), "{said}");
    }
}

/// Returns the effective and permitted capabilities of each thread, by name.
fn capabilities(pid: u32) -> Vec<(String, String)> {
    let threads = support::oracle::thread_ids(pid).into_iter();
    let read = |tid: u32, file: &str| {
        fs::read_to_string(format!("/proc/{pid}/task/{tid}/{file}")).expect("it runs")
    };
    let line = |status: &str, key: &str| {
        let found = status.lines().find_map(|line| line.strip_prefix(key));
        found.expect("Linux has it").trim().to_owned()
    };
    let of = |tid| {
        let status = read(tid, "status");
        let sets = ["CapPrm:", "CapEff:"].map(|key| line(&status, key));
        assert_eq!(sets[0], sets[1], "{}", read(tid, "comm"));
        (read(tid, "comm").trim().to_owned(), sets[0].clone())
    };
    threads.map(of).collect()
}

/// Checks that seccomp filters are installed (`Seccomp` is 2).
fn assert_confined(pid: u32) {
    for tid in support::oracle::thread_ids(pid) {
        let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/task/{tid}/{file}"));
        let (name, status) = (
            read("comm").expect("it runs"),
            read("status").expect("it runs"),
        );
        let number = |key: &str| {
            let found = status.lines().find_map(|line| line.strip_prefix(key));
            found.map(|text| text.trim().to_owned())
        };
        let filters = match name.trim() {
            "noctule-meter" => continue,
            "noctule-web" | "noctule-render" => "2",
            _ => "1",
        };
        assert_eq!(number("Seccomp:").as_deref(), Some("2"), "{name}");
        assert_eq!(number("NoNewPrivs:").as_deref(), Some("1"), "{name}");
        // The kernel has this field since Linux 5.9.
        assert_eq!(
            number("Seccomp_filters:").as_deref(),
            Some(filters),
            "{name}"
        );
    }
}

#[test]
fn running_agent_has_dropped_unneeded_privileges() {
    let _machine = support::shared();
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("noctule.toml");
    fs::write(
        &config,
        "[collect]\nprogram_cost = \"off\"\nhardware_counters = false\n",
    )
    .expect("our file");
    let (config, file) = (config.to_str(), folder.path().join("events"));
    let tape = folder.path().join("tape");
    let args = [
        "--config",
        config.expect("UTF-8"),
        "--events",
        file.to_str().expect("UTF-8"),
        "--tape",
        tape.to_str().expect("UTF-8"),
    ];
    let agent = Agent::start(&args);
    let expected = |name: &str| match name {
        // CAP_DAC_OVERRIDE is 1, CAP_DAC_READ_SEARCH is 2.
        "noctule-events" | "noctule-tape" => 1 << 1,
        "noctule-names" | "noctule-names-u" => 1 << 2,
        _ => 0,
    };
    // CAP_SYS_PTRACE is 19, CAP_SYS_ADMIN is 21. noctule keeps both if it walks sockets in each
    // network namespace.
    let walks = match support::expect::state("tcp_sockets") {
        "degraded" => 1 << 19 | 1 << 21,
        _ => 0,
    };
    assert_confined(agent.pid());
    for (name, set) in capabilities(agent.pid()) {
        let set = u64::from_str_radix(&set, 16).expect("hexadecimal");
        // Before Linux 5.19, reading a map can need CAP_BPF. A meter's thread is not restricted.
        let allowed = match (name.as_str(), support::kernel() < (5, 19)) {
            ("noctule-meter", _) => u64::MAX,
            ("noctule", true) => 1 << 39 | 1 << 38 | walks,
            ("noctule", false) => walks,
            _ => expected(&name),
        };
        assert_eq!(set & !allowed, 0, "{name}: {set:x}");
    }
    // The agent still counts and reports execs.
    let name = "noctule_node_cpu_seconds_total";
    let before = agent.value(name, &[]).expect("the node's time");
    let marker = format!("noctule-marker-{}", agent.pid());
    assert!(
        Command::new("true")
            .arg(&marker)
            .status()
            .expect("true")
            .success()
    );
    support::wait_until("the figures grow", || {
        agent.value(name, &[]).is_some_and(|now| now > before)
    });
    support::wait_until("the exec event is in the file", || {
        fs::read_to_string(&file).is_ok_and(|text| text.contains(&marker))
    });
}

#[test]
fn failure_to_drop_privileges_is_reported_only() {
    let _machine = support::shared();
    let refused = [libc::SYS_capset, libc::SYS_seccomp];
    let folder = tempfile::tempdir().expect("a folder");
    let said = folder.path().join("said");
    let mut command = Command::new(NOCTULE);
    command.args(["run", "--listen", "127.0.0.1:0"]);
    refuse(&mut command, &refused);
    let errors = fs::File::create(&said).expect("our file");
    let (agent, _said) = Agent::start_unready(command, errors.into());
    support::wait_until("the agent is ready", || {
        agent.get("/readyz", "*/*").0 == 200
    });
    support::wait_until("a feature says it", || {
        let labels = [("name", "sandbox"), ("state", "degraded")];
        agent.value("noctule_self_feature", &labels) == Some(1.0)
    });
    let name = "noctule_node_cpu_seconds_total";
    assert!(agent.value(name, &[]).is_some_and(|seconds| seconds > 0.0));
    let said = fs::read_to_string(&said).expect("our file");
    for line in [
        "main: capset: Operation not permitted (os error 1): the thread keeps capabilities that it does not need",
        "main: seccomp: Operation not permitted (os error 1): the thread can start programs",
        "noctule-web: seccomp: Operation not permitted (os error 1): the thread can open files and start programs",
    ] {
        assert_eq!(said.matches(line).count(), 1, "{line}: {said}");
    }

    let mut doctor = Command::new(NOCTULE);
    refuse(&mut doctor, &refused);
    let answer = verdicts(&mut doctor);
    let (state, reason) = verdict(&answer, "sandbox");
    assert_eq!(state, "degraded");
    assert_says(reason, &["noctule-names: capset: Operation not permitted"]);
}

/// If the kernel refuses the query, it may still support Landlock, and a thread keeps a privilege.
#[test]
fn refused_landlock_query_is_reported() {
    let _machine = support::shared();
    let refused = [libc::SYS_landlock_create_ruleset];
    let mut command = Command::new(NOCTULE);
    command.args(["run", "--listen", "127.0.0.1:0"]);
    refuse(&mut command, &refused);
    let (agent, _said) = Agent::start_unready(command, Stdio::inherit());
    support::wait_until("the agent is ready", || {
        agent.get("/readyz", "*/*").0 == 200
    });
    let reason = "threads could not drop privileges: noctule-web: Landlock: Operation not permitted (os error 1): \
                  the thread can open files and start programs";
    support::wait_until("a feature says it", || {
        let labels = [
            ("name", "sandbox"),
            ("state", "degraded"),
            ("reason", reason),
        ];
        agent.value("noctule_self_feature", &labels) == Some(1.0)
    });

    let mut doctor = Command::new(NOCTULE);
    refuse(&mut doctor, &refused);
    let answer = verdicts(&mut doctor);
    let (state, reason) = verdict(&answer, "sandbox");
    assert_eq!(state, "degraded");
    assert_says(
        reason,
        &[
            "cannot tell whether the kernel has Landlock",
            "Operation not permitted",
        ],
    );
}

/// If it continued, noctule could read every file while it opens files that the user names.
#[test]
fn capability_that_cannot_be_dropped_ends_it() {
    let _machine = support::shared();
    let copy = Copy::new();
    let program = copy.0.path().join("noctule");
    // The value that setcap writes for cap_dac_read_search+ep: version 2, effective, permitted bit
    // 2.
    let words = [0x0200_0001_u32, 1 << 2, 0, 0, 0].map(u32::to_le_bytes);
    setxattr(
        &program,
        "security.capability",
        words.as_flattened(),
        XattrFlags::empty(),
    )
    .expect("a capability of the file");
    let nobody = || {
        // The command runs as root until the filter is installed, because setpriv and runuser need
        // capset themselves.
        let mut command = Command::new("chroot");
        command.args(["--userspec=65534:65534", "--groups=", "/"]);
        command.arg(&program).args(["--config", "/none", "stat"]);
        command
    };
    let (code, said) = failure_of(&mut nobody());
    assert_eq!(code, 2, "{said}");
    let mut command = nobody();
    refuse(&mut command, &[libc::SYS_capset]);
    let (code, said) = failure_of(&mut command);
    assert_eq!(code, 1, "{said}");
    assert_says(&said, &["CAP_DAC_READ_SEARCH", "Operation not permitted"]);
}

/// An earlier version of the message blamed missing capabilities or a missing BTF.
#[test]
fn lack_of_memory_is_not_blamed_on_privileges() {
    let _machine = support::shared();
    let of = |calls: &[libc::c_long]| {
        let mut command = Command::new(NOCTULE);
        refuse_with(
            libc::ENOMEM,
            command.args(["stat", "--for", "100ms"]),
            calls,
        );
        let output = ended(&mut command);
        let said = String::from_utf8(output.stderr).expect("UTF-8");
        for blamed in ["missing CAP", "CONFIG_DEBUG_INFO_BTF"] {
            assert!(!said.contains(blamed), "{said}");
        }
        said
    };
    let no_memory = &["Cannot allocate memory"];
    assert_says(&of(&[libc::SYS_faccessat, libc::SYS_faccessat2]), no_memory);
    assert_says(&of(&[libc::SYS_capget]), no_memory);
    of(&[libc::SYS_readlinkat]);
}

#[test]
fn doctor_lists_features_missing_with_three_capabilities() {
    let _machine = support::shared();
    let copy = Copy::new();
    let answer = verdicts(&mut copy.with(ENOUGH));
    assert_eq!(verdict(&answer, "privileges").0, "on");
    let cpu_time = support::expect::state("cpu_time");
    assert_eq!(verdict(&answer, "cpu_time").0, cpu_time);
    let (state, reason) = verdict(&answer, "self_cost");
    assert_eq!(state, "off");
    assert_says(reason, &["CAP_SYS_ADMIN"]);
    assert!(ended(copy.with(ENOUGH).arg("doctor")).status.success());
    // Without the privilege to read files of other users, noctule lacks only names.
    let answer = verdicts(&mut copy.with("bpf,perfmon"));
    let (state, reason) = verdict(&answer, "privileges");
    assert_eq!(state, "degraded");
    assert_says(reason, &["CAP_DAC_READ_SEARCH"]);
    assert_eq!(verdict(&answer, "cpu_time").0, cpu_time);
}

/// Before Linux 5.11 BPF memory counts as locked memory, and the kernel's error does not say so.
#[test]
fn memory_that_may_not_be_locked_is_named() {
    let _machine = support::shared();
    let copy = Copy::new();
    let mut command = copy.with_memory(ENOUGH, "64");
    command.args(["stat", "--for", "100ms"]);
    if support::kernel() >= (5, 11) {
        assert!(ended(&mut command).status.success());
        return;
    }
    let (code, said) = failure_of(&mut command);
    assert_eq!(code, 3, "{said}");
    assert_says(&said, &["RLIMIT_MEMLOCK", "ulimit -l", "CAP_SYS_RESOURCE"]);
}

/// Tracepoints need the list of events, which only root may read. noctule raises the privilege for
/// that read only.
#[test]
fn three_capabilities_are_enough_for_every_event() {
    let _machine = support::shared();
    needs!("cpu_time");
    let copy = Copy::new();
    let commands: [&[&str]; 7] = [
        &[
            "hist",
            "sched:sched_switch",
            "keys=prev_comm,cgroup,stacktrace",
        ],
        &["hist", "kmem:kmalloc", "keys=call_site.sym:vals=bytes_req"],
        &["hist", "sched:sched_process_*", "keys=event"],
        &["hist", "software:page-faults", "keys=comm,ip.sym-offset"],
        &["trace", "sched:sched_switch"],
        &["trigger", "sched:sched_process_exit", "stacktrace:2"],
        &["probes", "-v", "sched:*exec*"],
    ];
    for args in commands {
        let mut command = copy.with(ENOUGH);
        command.args(args);
        if args[0] != "probes" {
            command.arg("--for=200ms");
        }
        // Mounting tracefs requires CAP_SYS_ADMIN.
        let output = ended(&mut with_tracefs(&command));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{args:?}: {said}");
        assert!(!output.stdout.is_empty(), "{args:?}: {said}");
    }
    bpf::assert_no_orphans();
}

/// Wraps the command so that only it sees a mounted tracefs.
fn with_tracefs(command: &Command) -> Command {
    with_mount("tracefs nodev /sys/kernel/tracing", command)
}

fn with_mount(what: &str, command: &Command) -> Command {
    let script = format!("mount -t {what} 2>/dev/null; exec \"$@\"");
    let mut wrapped = Command::new("unshare");
    wrapped.args([
        "--mount",
        "--propagation=private",
        "sh",
        "-c",
        &script,
        "sh",
    ]);
    wrapped.arg(command.get_program()).args(command.get_args());
    wrapped
}
