//! Tests the agent within the limits of its systemd unit, on a node with many processes.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::agent::Agent;
use crate::support::cgroup::Group;
use crate::support::{self, NOCTULE, http};

/// The unit's limits are designed for this number of processes, each with its series.
const PROCESSES: usize = 8000;

/// Number of scrapes, one per second.
const SCRAPES: usize = 30;

/// Sleeping processes, ended when dropped.
struct Herd(Child);

impl Herd {
    fn new(group: &Group) -> Self {
        let script = format!(
            "i=0; while [ $i -lt {PROCESSES} ]; do sleep 1000 & i=$((i+1)); done; echo ready; wait"
        );
        let mut command = group.command("/bin/sh");
        let command = command.args(["-c", &script]).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a shell");
        let mut line = String::new();
        let output = child.stdout.as_mut().expect("piped");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line)
            .expect("it says that it is ready");
        assert_eq!(line, "ready\n");
        Self(child)
    }
}

impl Drop for Herd {
    fn drop(&mut self) {
        // The processes that the herd started end with their group.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the value of a setting of the unit.
fn setting(name: &str) -> String {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/noctule.service");
    let unit = fs::read_to_string(unit).expect("the unit");
    let found = unit
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    found.unwrap_or_else(|| panic!("no {name}")).to_owned()
}

#[test]
fn eight_thousand_processes_fit_into_the_limits_of_the_unit() {
    let _machine = support::alone();
    let memory = setting("MemoryMax");
    let memory: u64 = memory.trim_end_matches('M').parse().expect("in MiB");
    let quota = setting("CPUQuota");
    let quota: f64 = quota.trim_end_matches('%').parse().expect("in percent");
    let herd = Group::new("herd");
    let _herd = Herd::new(&herd);
    let group = Group::with_memory("unit", memory << 20);
    group.limit(quota / 100.0);
    let mut command = group.command(NOCTULE);
    command.args(["run", "--listen", "127.0.0.1:0", "--process-metrics"]);
    let (agent, _said) = Agent::start_unready(command, Stdio::inherit());
    support::wait_until("the agent is ready", || {
        agent.get("/readyz", "*/*").0 == 200
    });
    let begun = Instant::now();
    let mut largest = 0;
    for number in 1..=SCRAPES {
        let (status, size) = http::scrape_packed(agent.address());
        assert_eq!(status, 200, "scrape {number}");
        largest = largest.max(size);
        let next = Duration::from_secs(number as u64);
        thread::sleep(next.saturating_sub(begun.elapsed()));
    }
    assert_eq!(group.oom_kills(), 0);
    // Compressed, the series of a process take about 80 bytes.
    assert!(largest > 50 * PROCESSES, "a page of {largest} bytes");
}
