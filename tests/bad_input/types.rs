//! A kernel that does not describe its types.

use std::process::Command;

use super::{assert_says, failure_of, verdicts};
use crate::support::{self, NOCTULE, bpf};

const TYPES: &str = "/sys/kernel/btf/vmlinux";

/// `noctule` where the file with the types is empty, for nobody else.
fn noctule(args: &[&str]) -> Command {
    let script = format!("mount --bind /dev/null {TYPES} && exec \"$@\"");
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script, "sh", NOCTULE]);
    command.args(args);
    command
}

#[test]
fn without_types_whatever_needs_them_says_so_and_leaves_nothing() {
    let _machine = support::machine();
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
fn doctor_names_the_kernel_option_that_is_missing_and_all_that_needs_it() {
    let _machine = support::machine();
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
    // Facts, which need no program.
    let facts = [
        "privileges",
        "tracefs",
        "lockdown",
        "perf_event_paranoid",
        "nominal_frequency",
        "cgroup_paths",
        "all_processes",
    ];
    for (name, verdict) in &without {
        match facts.contains(&name.as_str()) {
            true => assert_eq!(verdict, &with[name]),
            false => assert_eq!(verdict["state"], "off", "{verdict}"),
        }
    }
}
