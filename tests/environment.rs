//! Tests that run first and check the preconditions of all other tests.

use std::env;
use std::fs;
use std::io::Write as _;

use serde_json::Value;
use tempfile::NamedTempFile;

use super::support::agent::Agent;
use super::support::expect::expected;
use super::support::stream::Stream;
use super::support::{self, bpf, hierarchies, oracle};

/// Writes a configuration that enables everything.
fn everything() -> NamedTempFile {
    let mut config = NamedTempFile::new().expect("a file of our own");
    let text =
        b"[collect]\ndisks = true\n[events]\nexec_failures = true\nfiles = true\ndns = true\nudp = true\n";
    config.write_all(text).expect("it can be written");
    config
}

fn path(file: &NamedTempFile) -> &str {
    file.path().to_str().expect("in UTF-8")
}

/// Returns the features that `doctor` reports with everything enabled.
fn features() -> Vec<Value> {
    let config = everything();
    // The command fails if no feature can work, but it still prints the reasons.
    let output = support::noctule(&["doctor", "--json", "--config", path(&config)]);
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    answer["features"].as_array().expect("features").clone()
}

#[test]
fn the_environment_can_run_these_tests() {
    let _machine = support::shared();
    let root = rustix::process::geteuid().is_root();
    assert!(
        root,
        "the tests of the binary need root: make test runs them so"
    );
    needs!("cpu_time");
    let features = features();
    for name in ["privileges", "btf", "cpu_time", "softirqs", "cgroup_paths"] {
        let feature = features.iter().find(|f| f["name"] == name);
        let feature = feature.unwrap_or_else(|| panic!("doctor does not list {name}"));
        assert_eq!(feature["state"], support::expect::state(name), "{feature}");
    }
}

/// A feature's status and reason do not depend on whether the feature was requested.
#[test]
fn doctor_gives_only_advice_that_works() {
    let _machine = support::shared();
    needs!("process_events");
    let output = support::noctule(&["doctor", "--json"]);
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let features = answer["features"].as_array().expect("features");
    for (name, kinds) in [("udp_events", "dns,udp"), ("file_opens", "file")] {
        let feature = features.iter().find(|feature| feature["name"] == name);
        let feature = feature.unwrap_or_else(|| panic!("doctor does not list {name}"));
        let is_advised = feature["reason"] == "not enabled";
        let tried = support::noctule(&["events", "--kind", kinds, "--for", "1ms"]);
        assert_eq!(tried.status.success(), is_advised, "{feature} {tried:?}");
        assert_eq!(feature.get("mend").is_some(), is_advised, "{feature}");
    }
}

fn is_virtual() -> bool {
    env::var_os("NOCTULE_EXPECT").is_some()
}

/// Returns the log of loading the programs, with the verifier's reasons.
fn read_load_log() -> String {
    let config = everything();
    let output = support::noctule(&["doctor", "--log", "debug", "--config", path(&config)]);
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A virtual machine's table lists every feature. The table of a kernel that refuses programs lists
/// the features that do not depend on the machine.
#[test]
fn machine_matches_its_table() {
    let _machine = support::shared();
    let Some(expected) = expected() else {
        needs_a_virtual_machine!();
        panic!("a virtual machine has a table");
    };
    let mut wrong = Vec::new();
    let features = features();
    for feature in &features {
        let name = feature["name"].as_str().expect("a name");
        let state = expected.state(name);
        if state.map_or(is_virtual(), |state| feature["state"] != state) {
            wrong.push(feature.to_string());
        }
    }
    for name in expected.features() {
        if !features.iter().any(|f| f["name"] == name.as_str()) {
            wrong.push(format!("doctor does not list {name}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "not as the table says:\n{}\n{}",
        wrong.join("\n"),
        read_load_log()
    );
}

#[test]
fn virtual_machine_is_the_requested_one() {
    let _machine = support::shared();
    needs_a_virtual_machine!();
    let release = env::var("NOCTULE_RELEASE").expect("the machine is told its release");
    let system = rustix::system::uname();
    assert_eq!(system.release().to_str(), Ok(release.as_str()));
    assert_eq!(oracle::cpus_online(), 2);
    let hierarchies = hierarchies::all();
    assert_eq!(hierarchies.len(), 1, "cgroup v2 alone");
    let file = hierarchies[0].mount.join("cgroup.subtree_control");
    let controllers = fs::read_to_string(file).expect("cgroup v2");
    for controller in ["cpu", "memory"] {
        let has = controllers.split_whitespace().any(|c| c == controller);
        assert!(has, "{controller} is not in {controllers}");
    }
}

/// The verifier may reject a hard program after the next change, on a kernel that was not tried. If
/// a program grows for a good reason, the author changes the table, and the commit message gives
/// the reason.
#[test]
fn verifier_counts_have_not_grown() {
    let _machine = support::shared();
    needs!("cpu_time");
    needs_a_virtual_machine!();
    let expected = expected().expect("the table of the kernel");
    let config = everything();
    let agent = Agent::start(&["--config", path(&config)]);
    // An agent that only counts leaves out parts that only a stream needs.
    let stream = Stream::start(&[
        "--kind",
        "process,tcp,file,oom,signal,dns,udp",
        "--reads",
        "--failures",
        "--path",
        "/nowhere",
        "--pid",
        "1",
    ]);
    let mut found = bpf::verified(&bpf::held_by(agent.pid()));
    for (name, count) in bpf::verified(&bpf::held_by(stream.pid())) {
        let most = found.entry(name).or_default();
        *most = count.max(*most);
    }
    assert!(!found.is_empty(), "the agent holds no program");
    // Before 5.16 the kernel does not report the instruction count.
    if found.values().all(|count| *count == 0) {
        assert!(expected.verified.is_empty(), "told no more: {found:?}");
        return;
    }
    let table: Vec<_> = found.iter().map(|(n, c)| format!("{n} = {c}")).collect();
    // Writes to stderr directly, because the harness hides output of passing tests. The note gets
    // its own line.
    let note = format!("\nnote: the verifier's counts: {}\n", table.join(", "));
    let mut said = std::io::stderr();
    said.write_all(note.as_bytes()).expect("somebody reads");
    let release = env::var("NOCTULE_RELEASE").ok();
    let same = expected.verified_of.is_none() || expected.verified_of == release;
    // Limit on an instruction count, in tenths of the recorded count. On another kernel release,
    // the verifier counts differently, and the hooks may differ.
    let most = if same { 11 } else { 20 };
    let grown = |(name, count): &(&String, &u32)| {
        let noted = expected.verified.get(*name);
        noted.map_or(same, |noted| {
            u64::from(**count) * 10 > u64::from(*noted) * most
        })
    };
    let grown: Vec<_> = found.iter().filter(grown).collect();
    let listed = expected.verified.keys();
    let missing: Vec<_> = listed
        .filter(|name| same && !found.contains_key(*name))
        .collect();
    let table = table.join("\n");
    assert!(grown.is_empty(), "grown: {grown:?}\n[verified]\n{table}");
    assert!(missing.is_empty(), "not loaded: {missing:?}\n{table}");
}
