//! Tests of kernel-side tables with thousands of rows.

use super::agent;
use super::support::cgroup::Group;
use super::support::load::Load;
use super::support::reading::Reading;
use super::support::{self, wait_until};

/// Close to the table's capacity, so that some rows share a bucket.
const GROUPS: usize = 3000;
const BATCH: usize = 500;

/// Creates groups, runs a short process in each, and removes them on request.
fn groups(maker: &Group, parent: &Group) -> Load {
    let script = format!(
        "cd '{}' && n=0; while [ $n -lt {GROUPS} ]; do i=0; names=; \
         while [ $i -lt {BATCH} ]; do i=$((i + 1)); names=\"$names $n-$i\"; done; \
         /bin/mkdir $names; \
         for name in $names; do ( echo 0 > $name/cgroup.procs ); done; \
         all=\"$all $names\"; n=$((n + {BATCH})); done; \
         echo 'load: made'; read word; \
         for name in $all; do names=\"$names $name\"; i=$((i + 1)); \
         if [ $((i % {BATCH})) = 0 ]; then /bin/rmdir $names 2>/dev/null; names=; fi; done; :",
        parent.folder().display()
    );
    Load::shell(maker, &script)
}

#[test]
fn table_of_thousands_of_rows_is_read_completely() {
    // The groups appear in every page and response of tests that run at the same time.
    let _machine = support::alone();
    needs!("cpu_time");
    let agent = agent(1.0);
    let (maker, parent) = (Group::new("maker"), Group::new("thousands"));
    let mut load = groups(&maker, &parent);
    assert_eq!(load.next_message(), "made");
    let rows = |reading: &Reading| {
        let entries = reading.value("noctule_self_map_entries", &[("map", "settled")]);
        entries.expect("it is told") as usize
    };
    // The last process may not have left its CPU yet.
    wait_until("each group has a row", || {
        rows(&Reading::fresh(&agent)) >= GROUPS
    });
    let reading = Reading::fresh(&agent);
    let losses = reading.losses();
    let no_room = losses.iter().find(|(kind, _)| *kind == "cgroup_row");
    assert_eq!(no_room, None, "the table has room for all");
    load.say("go");
    load.wait_for_end();
    load.reap();
}
