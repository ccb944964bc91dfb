//! A kernel that does not describe its types.

use std::process::Command;

use serde_json::Value;

use super::{assert_says, failure_of};
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
fn doctor_names_the_kernel_option_that_is_missing() {
    let _machine = support::machine();
    let output = noctule(&["doctor", "--json"]).output();
    let output = output.expect("unshare is installed");
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let features = answer["features"].as_array().expect("features");
    let find = |name: &str| features.iter().find(|f| f["name"] == name);
    let btf = find("btf").expect("a verdict on the types");
    assert_eq!(btf["state"], "off", "{btf}");
    let mend = btf["mend"].as_str().expect("how to mend it");
    assert!(mend.contains("CONFIG_DEBUG_INFO_BTF"), "{btf}");
    assert_eq!(find("cpu_time").expect("a verdict")["state"], "off");
    let on = features.iter().filter(|f| f["state"] == "on");
    let on: Vec<_> = on.map(|f| f["name"].as_str().expect("a name")).collect();
    assert!(
        !on.contains(&"tcp_events") && !on.contains(&"process_events"),
        "{on:?}"
    );
}
