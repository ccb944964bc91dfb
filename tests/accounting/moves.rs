//! Tests of processes and threads that change their cgroup. The first group keeps the use from
//! before the change.

use super::support::agent::Agent;
use super::support::cgroup::Group;
use super::support::load::Load;
use super::support::reading::Reading;
use super::support::{self, oracle};
use super::{agent, assert_exact};

fn groups(agent: &Agent, groups: [&Group; 2]) -> [f64; 2] {
    Reading::fresh_with(agent, "both groups are listed", |reading| {
        let [first, second] = groups.map(|group| reading.group_seconds(group));
        Some([first?, second?])
    })
}

fn assert_as_accounted(what: &str, agent: &Agent, pair: [&Group; 2]) {
    let said = groups(agent, pair);
    for (i, group) in pair.iter().enumerate() {
        assert_exact(
            &format!("{what}: group {i}"),
            said[i],
            group.usage_seconds(),
        );
    }
}

#[test]
fn a_stopped_process_leaves_its_use_behind() {
    let _machine = support::shared();
    needs!("cpu_time");
    let agent = agent(1.0);
    for name in ["sampler", "threads"] {
        let (first, second) = (Group::new("from"), Group::new("to"));
        let mut load = Load::own(&first, name);
        let mut end = 0.0;
        // Moves the load to the second group, back, and to the second group again.
        for (i, to) in [&second, &first, &second].into_iter().enumerate() {
            end += 0.4;
            load.burn_to(end);
            load.stop();
            to.add(load.pid());
            assert_as_accounted(&format!("{name}, move {i}"), &agent, [&first, &second]);
            load.continue_running();
        }
        load.burn_to(end + 0.4);
        load.stop();
        assert_as_accounted(name, &agent, [&first, &second]);
        let said = Reading::fresh_with(&agent, "listed", |r| r.process_seconds(load.pid()));
        assert_exact(name, said, oracle::process_seconds(load.pid()));
        load.kill();
        load.reap();
        assert_as_accounted(&format!("{name}, ended"), &agent, [&first, &second]);
    }
}

#[test]
fn a_running_process_is_split_at_its_move() {
    let _machine = support::shared();
    needs!("cpu_time");
    divide("sampler");
}

#[test]
fn a_process_with_running_threads_is_split_at_its_move() {
    let _machine = support::shared();
    needs_all_of!("cgroup_moves");
    divide("threads");
}

/// Moves a running load to another group.
fn divide(name: &str) {
    let agent = agent(1.0);
    let (first, second) = (Group::new("from"), Group::new("to"));
    let load = Load::own(&first, name);
    // Determines how much the load used before it joined the group.
    load.stop();
    let outside = oracle::process_seconds(load.pid()) - first.usage_seconds();
    load.continue_running();
    load.burn_to(1.0);
    let before = oracle::process_seconds(load.pid());
    second.add(load.pid());
    let after = oracle::process_seconds(load.pid());
    load.burn_to(after + 0.5);
    load.stop();
    let total = oracle::process_seconds(load.pid());
    let [in_first, in_second] = groups(&agent, [&first, &second]);
    let least_and_most = (before - outside, after - outside);
    let nearest = in_first.clamp(least_and_most.0, least_and_most.1);
    assert_exact(&format!("{name}: before the move"), in_first, nearest);
    assert_exact(
        &format!("{name}: together"),
        in_first + in_second,
        total - outside,
    );
}

#[test]
fn a_thread_moved_alone_counts_in_its_new_group() {
    let _machine = support::shared();
    needs!("cpu_time");
    let agent = agent(1.0);
    let (first, second) = (Group::new("from"), Group::new("to"));
    first.allow_threads();
    second.allow_threads();
    let mut load = Load::own(&first, "threads");
    load.next_message();
    load.stop();
    let pid = load.pid();
    let moved = oracle::thread_ids(pid).into_iter().find(|id| *id != pid);
    second.add_thread(moved.expect("it has threads"));
    assert_as_accounted("moved", &agent, [&first, &second]);
    load.continue_running();
    load.burn_to(oracle::process_seconds(pid) + 1.0);
    load.stop();
    assert_as_accounted("stopped", &agent, [&first, &second]);
    let said = Reading::fresh_with(&agent, "listed", |r| r.process_seconds(pid));
    assert_exact("process", said, oracle::process_seconds(pid));
    load.kill();
    load.reap();
    assert_as_accounted("ended", &agent, [&first, &second]);
}

/// Starts a shell that moves itself again and again to a new group and uses some CPU time there.
/// The shell stops after 50 groups, or after half a minute on a busy machine.
fn wanderer(parent: &Group) -> Load {
    let script = format!(
        "cd '{}' && n=0; end=$(($(date +%s) + 30)); \
         while [ $n -lt 50 ] && [ $(date +%s) -lt $end ]; do i=0; names=; \
         while [ $i -lt 20 ]; do i=$((i + 1)); names=\"$names $n-$i\"; done; \
         /bin/mkdir $names; \
         for name in $names; do \
         echo 0 > $name/cgroup.procs; j=0; while [ $j -lt 300 ]; do j=$((j + 1)); done; done; \
         echo 0 > cgroup.procs; /bin/rmdir $names; n=$((n + 1)); done",
        parent.folder().display()
    );
    Load::shell(parent, &script)
}

#[test]
fn a_group_entered_during_a_batch_has_little_use() {
    let _machine = support::shared_but(&[support::Part::Groups]);
    needs!("cpu_time");
    let agent = agent(0.02);
    let parent = Group::new("wanderer");
    let mut load = wanderer(&parent);
    load.wait_for_end();
    let reading = Reading::fresh(&agent);
    let used = oracle::process_seconds(load.pid());
    let below = format!("{}/", parent.path());
    let entered: Vec<f64> = reading
        .samples
        .iter()
        .filter(|s| s.name == "noctule_cgroup_cpu_seconds_total")
        .filter(|s| s.labels["cgroup"].starts_with(&below))
        .map(|s| s.value)
        .collect();
    assert!(entered.len() > 100, "{}", entered.len());
    // Each figure is as old as the last batch that included the group.
    assert!(
        entered.iter().sum::<f64>() <= used + support::stolen(),
        "{entered:?}"
    );
    load.reap();
}
