//! Tests that series are shared fairly between groups: after a flood in one group, latecomers in
//! another group still get series.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crate::support::agent::Agent;
use crate::support::cgroup::Group;
use crate::support::load::Load;
use crate::support::reading::Reading;
use crate::support::{self, StopAtEnd, wait_until};

/// Number of batches in a minute at the default interval. A latecomer must get a series within that
/// time.
const BATCHES: usize = 60;

/// Number of destinations, more than the default numbers of kernel-side rows and of series.
const DESTINATIONS: usize = 5000;

/// Number of rounds after which the table is full.
const ROUNDS: u64 = 3;

/// Maximum number of processes with series, and number of processes that need one, each with its
/// own name.
const PLACES: usize = 500;
const NAMES: usize = 2000;

/// Fails if a latecomer gets no series. `at_each` runs before each batch.
#[track_caller]
fn within_a_minute(agent: &Agent, mut at_each: impl FnMut(), has_place: impl Fn(&Reading) -> bool) {
    let found = (0..BATCHES).any(|_| {
        at_each();
        has_place(&Reading::fresh(agent))
    });
    assert!(found, "no place within {BATCHES} batches");
}

fn listening(load: &mut Load) -> String {
    let address = load.ask("listen 0.0.0.0:0");
    load.ask("serve");
    let port = address.rsplit_once(':').expect("a port").1;
    port.to_owned()
}

#[test]
fn a_flood_of_destinations_leaves_a_place_for_a_late_group() {
    // The flood takes series in every agent of the machine.
    let _machine = support::alone();
    needs!("tcp_events");
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let errors = fs::File::create(&log).expect("our file");
    let agent = Agent::start_with(&[], errors.into());
    let groups = ["server", "flood", "victim"].map(Group::new);
    let [mut server, mut flood, mut victim] =
        [0, 1, 2].map(|at: usize| Load::own(&groups[at], "sockets"));
    let port = listening(&mut server);
    let path = groups[2].path();
    let (stop, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let _stop = StopAtEnd(&stop);
        let flood = &mut flood;
        let spread = format!("spread {port} {DESTINATIONS}");
        let (stop, done) = (&stop, &rounds);
        // The flood continues, so no series becomes free by disuse.
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                assert_eq!(flood.ask(&spread), "done");
                done.fetch_add(1, Ordering::Relaxed);
            }
        });
        wait_until("the flood has all rows and all places", || {
            let reading = Reading::fresh(&agent);
            let full = [("kind", "destination_row")];
            // The kernel may briefly have no memory for a new row. The flood then creates the row
            // in its next round.
            rounds.load(Ordering::Relaxed) >= ROUNDS
                && reading.value("noctule_self_losses_total", &full) > Some(0.0)
                && reading.value("noctule_self_overflow_destinations", &[]) > Some(0.0)
        });
        let connect = || assert_eq!(victim.ask(&format!("spread {port} 1")), "done");
        within_a_minute(&agent, connect, |reading| {
            reading.samples.iter().any(|s| {
                s.name == "noctule_cgroup_tcp_destination_connects_total"
                    && s.labels["cgroup"] == path
                    && s.labels["destination"] != "_other"
                    && s.value > 0.0
            })
        });
    });
    // The flood never stopped. noctule limited the group and reported that once.
    let bounded = [("limit", "events.destinations")];
    let bounded = Reading::fresh(&agent).value("noctule_self_bounded_groups", &bounded);
    assert_eq!(bounded, Some(1.0));
    let said = fs::read_to_string(&log).expect("our file");
    let words = format!(
        "{}: connects to more destinations than its share",
        groups[1].path()
    );
    assert_eq!(said.matches(&words).count(), 1, "{said}");
}

/// Sleeping processes, each with its own name, that end with their group.
struct Named(Child);

impl Named {
    fn start(group: &Group, folder: &Path) -> Self {
        for number in 0..NAMES {
            let name = folder.join(format!("flood-{number}"));
            symlink("/bin/sleep", name).expect("our folder");
        }
        let mut command = group.command("/bin/sh");
        let script = "for name in *; do ./$name 1000 & done; wait";
        let command = command.args(["-c", script]).current_dir(folder);
        let child = command.stdout(Stdio::null()).spawn();
        Self(child.expect("a shell"))
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_flood_of_process_names_leaves_a_place_for_a_late_process() {
    // The flood takes series in every agent of the machine.
    let _machine = support::alone();
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("noctule.toml");
    fs::write(&config, format!("[metrics]\nprocess_rows = {PLACES}\n")).expect("our file");
    let config = config.to_str().expect("in UTF-8");
    let agent = Agent::start(&["--process-metrics", "--config", config]);
    let (crowd, late) = (Group::new("names"), Group::new("late"));
    let names = folder.path().join("names");
    fs::create_dir(&names).expect("our folder");
    let _named = Named::start(&crowd, &names);
    let processes = [("level", "process")];
    wait_until("more of them than places have names", || {
        let waiting = Reading::fresh(&agent).value("noctule_self_overflow_subjects", &processes);
        waiting > Some((NAMES - PLACES) as f64)
    });
    let victim = Load::shell(&late, "exec sleep 1000");
    within_a_minute(
        &agent,
        || (),
        |reading| {
            let series = reading.process_seconds(victim.pid());
            series.is_some()
        },
    );
}
