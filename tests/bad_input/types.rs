//! Tests of a kernel without BTF, or with different BTF.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::NamedTempFile;

use super::{assert_says, failure_of, verdicts};
use crate::support::{self, NOCTULE, bpf};

const TYPES: &str = "/sys/kernel/btf/vmlinux";

/// Returns a command that runs `noctule` with an empty BTF file, in a mount namespace.
fn noctule(args: &[&str]) -> Command {
    with_types("/dev/null", args)
}

/// Returns a command that runs `noctule` with another BTF file.
fn with_types(file: &str, args: &[&str]) -> Command {
    let script = format!("mount --bind '{file}' {TYPES} && exec \"$@\"");
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script, "sh", NOCTULE]);
    command.args(args);
    command
}

#[test]
fn missing_btf_is_reported_and_nothing_is_left() {
    let _machine = support::shared();
    for args in [
        &["stat", "--for", "1s"][..],
        &["events"],
        &["run", "--listen", "127.0.0.1:0"],
    ] {
        let (status, words) = failure_of(&mut noctule(args));
        assert_eq!(status, 3, "{args:?}: {words}");
        assert_says(&words, &[TYPES, "CONFIG_DEBUG_INFO_BTF"]);
    }
    bpf::assert_no_orphans();
}

#[test]
fn doctor_names_the_missing_kernel_option() {
    let _machine = support::shared();
    let (without, with) = (
        verdicts(&mut noctule(&[])),
        verdicts(&mut Command::new(NOCTULE)),
    );
    let mend = without["btf"]["mend"].as_str().expect("how to mend it");
    assert!(mend.contains("CONFIG_DEBUG_INFO_BTF"), "{mend}");
    assert_eq!(
        without.keys().collect::<Vec<_>>(),
        with.keys().collect::<Vec<_>>(),
        "each feature is named, whether it can be or not"
    );
    // Facts that do not depend on a program.
    let facts = [
        "privileges",
        "tracefs",
        "lockdown",
        "perf_event_paranoid",
        "nominal_frequency",
        "sandbox",
        "cgroup_paths",
        "energy",
    ];
    for (name, verdict) in &without {
        match name.as_str() {
            // If programs are loaded, the reason may also say which processes are hidden.
            "all_processes" => {
                let fact = verdict["reason"].as_str().expect("a reason");
                let told = with[name]["reason"].as_str().expect("a reason");
                assert!(told.starts_with(fact), "{told}");
            }
            name if facts.contains(&name) => assert_eq!(verdict, &with[name]),
            _ => assert_eq!(verdict["state"], "off", "{verdict}"),
        }
    }
}

/// Writes the kernel's BTF with these names changed, as if the kernel had been built without the
/// option. The programs still run on the real kernel.
fn types_without(names: &[&str]) -> NamedTempFile {
    let mut types = fs::read(TYPES).expect("the types of the kernel");
    let word = |at: usize| {
        let bytes = types[at..at + 4].try_into().expect("four bytes");
        u32::from_ne_bytes(bytes) as usize
    };
    // The fields of struct btf_header.
    let (header, strings, length) = (word(4), word(16), word(20));
    let strings = header + strings..header + strings + length;
    for name in names {
        let text = [b"\0", name.as_bytes(), b"\0"].concat();
        let mut places = types[strings.clone()].windows(text.len());
        let found = places.position(|place| place == text);
        // Some kernels lack some of these names.
        if let Some(at) = found {
            types[strings.start + at + 1] = b'?';
        }
    }
    let mut file = NamedTempFile::new().expect("a file of our own");
    file.write_all(&types).expect("it can be written");
    file
}

/// A kernel option, and what is missing without it.
struct Lack {
    option: &'static str,
    /// Names that a kernel without the option lacks.
    names: &'static [&'static str],
    /// The features that differ without the option, with their states.
    costs: &'static [(&'static str, &'static str)],
}

const LACKS: [Lack; 6] = [
    Lack {
        option: "CONFIG_SMP",
        names: &["on_cpu", "cpu"],
        costs: &[],
    },
    Lack {
        option: "CONFIG_FAIR_GROUP_SCHED",
        names: &["cfs_rq"],
        costs: &[
            ("cpu_time", "degraded"),
            ("cpu_waits", "degraded"),
            ("wait_throttle", "off"),
        ],
    },
    Lack {
        option: "CONFIG_SCHED_INFO",
        names: &["last_queued", "last_arrival", "run_delay"],
        costs: &[("cpu_waits", "degraded")],
    },
    Lack {
        option: "CONFIG_CFS_BANDWIDTH",
        names: &[
            "throttled_clock_self_time",
            "throttled_clock_pelt_time",
            "throttled_clock_task_time",
        ],
        costs: &[("wait_throttle", "off")],
    },
    Lack {
        option: "CONFIG_IPV6",
        names: &["skc_v6_daddr", "skc_v6_rcv_saddr", "tcp_v6_connect"],
        costs: &[("tcp_calls", "degraded")],
    },
    Lack {
        option: "CONFIG_CGROUPS",
        names: &[
            "cgroups",
            "btf_trace_cgroup_attach_task",
            "btf_trace_cgroup_mkdir",
        ],
        costs: &[("cgroup_moves", "off"), ("cgroup_events", "degraded")],
    },
];

/// A kernel with neither the tracepoint nor fexit still has perf probes.
#[test]
fn page_reads_fall_back_to_a_probe() {
    let _machine = support::shared();
    needs!("cpu_time");
    let types = types_without(&[
        "btf_trace_mm_filemap_get_pages",
        "folio_mark_accessed",
        "mark_page_accessed",
    ]);
    let types = types.path().to_str().expect("in UTF-8");
    let verdict = verdicts(&mut with_types(types, &[])).remove("page_cache_reads");
    let verdict = verdict.expect("it is listed");
    if !Path::new("/sys/bus/event_source/devices/kprobe").exists() {
        assert_eq!(verdict["state"], "off", "{verdict}");
        return;
    }
    assert_eq!(verdict["state"], "degraded", "{verdict}");
    let reason = verdict["reason"].as_str().expect("a reason");
    assert_says(reason, &["kprobe"]);

    const PAGES: usize = 1000;
    let mut file = NamedTempFile::new_in(".").expect("a file of our own");
    let bytes = vec![1; PAGES * rustix::param::page_size()];
    file.write_all(&bytes).expect("there is room");
    let script = format!("cat '{}' > /dev/null", file.path().display());
    let stat = ["stat", "--log=error", "--by", "process", "--json"];
    let command = [&stat[..], &["--", "sh", "-c", &script]].concat();
    let answer = with_types(types, &command).output();
    let answer = answer.expect("it can be started").stderr;
    let answer: Value = serde_json::from_slice(&answer).expect("JSON");
    let reads = |row: &Value| row["page_cache.reads"].as_u64();
    let rows = support::rows(&answer, |row| reads(row).is_some());
    let reads: u64 = rows.into_iter().filter_map(reads).sum();
    assert!(reads > 0 && reads < 2 * PAGES as u64, "{reads}: {answer}");
}

fn states(verdicts: &BTreeMap<String, Value>) -> BTreeMap<&str, &str> {
    let pairs = verdicts
        .iter()
        .map(|(name, verdict)| (name.as_str(), verdict["state"].as_str().expect("a state")));
    pairs.collect()
}

#[test]
fn missing_kernel_option_costs_only_its_features() {
    let _machine = support::shared();
    needs!("cpu_time");
    let with = verdicts(&mut Command::new(NOCTULE));
    for lack in &LACKS {
        let types = types_without(lack.names);
        let file = types.path().to_str().expect("in UTF-8");
        let without = verdicts(&mut with_types(file, &[]));
        let mut expected = states(&with);
        for (name, state) in lack.costs {
            // A feature that is off even with all types does not change.
            if expected[name] != "off" {
                expected.insert(name, state);
            }
        }
        assert_eq!(states(&without), expected, "{}: {without:?}", lack.option);
    }
    bpf::assert_no_orphans();
}
