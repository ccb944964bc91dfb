//! Tests of a kernel under lockdown. Lockdown cannot be undone, so these tests run in a virtual
//! machine after all other tests.

use std::fs;
use std::process::Command;

use super::{NOCTULE, assert_says, failure, verdicts};
use crate::support::{self, bpf};

#[test]
fn lockdown_is_reported_and_nothing_is_left() {
    let _machine = support::alone();
    needs_a_virtual_machine!();
    let before = verdicts(&mut Command::new(NOCTULE));
    fs::write("/sys/kernel/security/lockdown", "confidentiality")
        .expect("CONFIG_SECURITY_LOCKDOWN");
    for args in [
        &["stat", "--for", "1s"][..],
        &["events", "--for", "1s"],
        &["run", "--listen", "127.0.0.1:0"],
    ] {
        let (status, words) = failure(args);
        assert_eq!(status, 3, "{args:?}: {words}");
        assert_says(&words, &["lockdown=confidentiality"]);
    }
    let locked = verdicts(&mut Command::new(NOCTULE));
    assert_eq!(
        locked.keys().collect::<Vec<_>>(),
        before.keys().collect::<Vec<_>>(),
        "each feature is named, whether it can be or not"
    );
    assert_eq!(locked["lockdown"]["state"], "off", "{}", locked["lockdown"]);
    for name in ["cpu_time", "cpu_waits", "process_events", "oom_events"] {
        assert_eq!(locked[name]["state"], "off", "{}", locked[name]);
    }
    let reason = locked["cpu_time"]["reason"].as_str().expect("a reason");
    assert_says(reason, &["lockdown=confidentiality"]);
    bpf::assert_no_orphans();
}
