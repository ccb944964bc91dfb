//! The first test: proves that the others can mean something.

use super::support;

#[test]
fn the_environment_can_run_these_tests() {
    let _machine = support::machine();
    let root = rustix::process::geteuid().is_root();
    assert!(
        root,
        "the tests of the binary need root: make test runs them so"
    );
    let answer = support::json(&["doctor", "--json"]);
    let features = answer["features"].as_array().expect("features");
    for name in [
        "privileges",
        "btf",
        "cpu_time",
        "cgroup_moves",
        "softirqs",
        "cgroup_paths",
    ] {
        let feature = features.iter().find(|f| f["name"] == name);
        let feature = feature.unwrap_or_else(|| panic!("doctor does not list {name}"));
        assert_eq!(feature["state"], "on", "{feature}");
    }
}
