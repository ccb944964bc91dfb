//! Tests of the OOM killer in a memory cgroup with a limit.

use super::support;
use super::support::agent::Agent;
use super::support::cgroup::Group;
use super::support::expect::expected;
use super::support::load::Load;
use super::support::reading::Reading;
use super::support::stream::{Stream, is};

const LIMIT: u64 = 32 << 20;

#[test]
fn oom_victim_is_reported_and_counted() {
    let _machine = support::shared();
    needs!("oom_events");
    let group = Group::with_memory("oom", LIMIT);
    let agent = Agent::start(&["--interval", "200ms"]);
    let count = |reading: &Reading| {
        let labels = [("cgroup", group.path())];
        let labels = labels.each_ref().map(|(k, v)| (*k, v.as_str()));
        reading.value("noctule_cgroup_oom_kills_total", &labels)
    };
    let stream = Stream::start(&["--kind", "process,oom"]);
    for (load, leader_gone) in [("eater", false), ("eater-without-leader", true)] {
        let before = group.oom_kills();
        let mut load = Load::own(&group, load);
        let id = load.pid();
        // The series exists at 0, so that the first kill is an increase.
        let known = Reading::fresh_with(&agent, "the group is listed", count);
        load.say("eat");
        load.wait_for_end();
        load.reap();
        let end = stream.wait_for("it has ended", |e| is(e, "process.exit", id));
        assert_eq!(end["oom_killed"], true, "{end}");
        assert_eq!(end["process.exit.signal"], 9);
        let kill = stream.of(|e| is(e, "oom.kill", id));
        assert_eq!(kill.len(), 1, "leader gone: {leader_gone}");
        assert_eq!(kill[0]["process.linux.cgroup"], group.path());
        assert_eq!(kill[0]["memory.limit_bytes"], LIMIT);
        match kill[0]["memory.rss_bytes"].as_f64() {
            // The limit also covers page cache, page tables and per-CPU memory of the kernel.
            Some(rss) => support::assert_close("resident", rss, LIMIT as f64, 0.25, 0.0),
            None => {
                let table = expected().expect("a size");
                assert_eq!(table.state("oom_events"), Some("degraded"), "{kill:?}");
            }
        }
        let kernel = group.oom_kills() - before;
        assert_eq!(kernel, 1, "the kernel's own count");
        let counted = Reading::fresh_with(&agent, "it is counted", |reading| {
            count(reading).filter(|now| *now > known)
        });
        assert!(
            (counted - known - 1.0).abs() < 0.5,
            "{counted} after {known}"
        );
    }
}

/// The kernel chooses one process, and also kills the other because it shares memory with the
/// first. The kernel counts one kill.
#[test]
fn process_sharing_victim_memory_is_not_counted() {
    let _machine = support::shared();
    needs!("process_events", "oom_events");
    let group = Group::with_memory("oom-shared", LIMIT);
    let stream = Stream::start(&["--kind", "process,oom"]);
    let before = group.oom_kills();
    let mut load = Load::own(&group, "eater-in-shared-memory");
    let parent = load.pid();
    load.say("eat");
    load.wait_for_end();
    load.reap();
    let start = stream.wait_for("the child", |e| {
        e["event.name"] == "process.start" && e["process.parent_pid"] == parent
    });
    let child = start["process.pid"].as_u64().expect("a pid") as u32;
    let ends =
        [parent, child].map(|id| stream.wait_for("it has ended", |e| is(e, "process.exit", id)));
    for end in &ends {
        assert_eq!(end["process.exit.signal"], 9, "{end}");
    }
    let chosen = ends.iter().filter(|end| end["oom_killed"] == true).count();
    assert_eq!(chosen, 1, "{ends:?}");
    let kills = stream.of(|e| is(e, "oom.kill", parent) || is(e, "oom.kill", child));
    assert_eq!(kills.len(), 1, "{kills:?}");
    assert_eq!(group.oom_kills() - before, 1, "the kernel's own count");
}
