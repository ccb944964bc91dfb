//! Tests of cycles and instructions of a process against the kernel's count for the same process. A
//! machine without a PMU has neither counter, and noctule reports that.

use std::io::ErrorKind;

use perf_event::events::Hardware;
use perf_event::{Builder, Counter};

use super::support::agent::Agent;
use super::support::cgroup::Group;
use super::support::load::Load;
use super::support::reading::Reading;
use super::support::{self, assert_close, oracle};

/// Maximum relative error.
const SHARE: f64 = 0.02;

/// Names of the counters: feature, metric, and kernel event.
const COUNTED: [(&str, &str, Hardware); 2] = [
    ("cycles", "cpu_cycles_total", Hardware::CPU_CYCLES),
    (
        "instructions",
        "cpu_instructions_total",
        Hardware::INSTRUCTIONS,
    ),
];

/// Starts the kernel's counter for a process. Returns `None` without a PMU.
fn count(pid: u32, event: Hardware) -> Option<Counter> {
    let counter = Builder::new(event)
        .observe_pid(pid.cast_signed())
        .any_cpu()
        .include_kernel()
        .include_hv()
        .enabled(true)
        .build();
    match counter {
        Ok(counter) => Some(counter),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => panic!("{event:?}: {error}"),
    }
}

/// Returns the state of the feature in `doctor`.
fn state(feature: &str) -> String {
    let output = support::noctule(&["doctor", "--json"]);
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let mut features = answer["features"].as_array().expect("features").iter();
    let found = features.find(|row| row["name"] == feature);
    let state = found.expect("doctor lists it")["state"].as_str();
    state.expect("a state").to_owned()
}

/// Returns noctule's counts for a stopped process, and its CPU time.
fn counted(agent: &Agent, pid: u32) -> [f64; 3] {
    let names = [COUNTED[0].1, COUNTED[1].1, "cpu_seconds_total"];
    Reading::fresh_with(agent, "the process is listed", |reading| {
        let values = names.map(|name| reading.of_process(name, pid, &[]));
        Some([values[0]?, values[1]?, values[2]?])
    })
}

#[test]
fn cycles_and_instructions_match_the_kernel() {
    let _machine = support::shared();
    needs!("cpu_time");
    let group = Group::new("counted").heavy();
    let load = Load::own(&group, "sampler");
    let pid = load.pid();
    load.stop();
    let counters = COUNTED.map(|(_, _, event)| count(pid, event));
    let [Some(mut cycles), Some(mut instructions)] = counters else {
        for (feature, _, _) in COUNTED {
            assert_eq!(state(feature), "off", "{feature}");
        }
        return;
    };
    let agent = Agent::start(&["--interval", "200ms", "--process-metrics"]);
    let before = counted(&agent, pid);
    load.continue_running();
    load.burn_to(oracle::process_seconds(pid) + 1.0);
    let hertz = Reading::fresh_with(&agent, "it has a frequency", |reading| {
        reading.of_process("cpu_frequency_hertz", pid, &[])
    });
    load.burn_to(oracle::process_seconds(pid) + 1.0);
    load.stop();
    let after = counted(&agent, pid);
    let grown = [0, 1, 2].map(|i| after[i] - before[i]);
    let kernel = [&mut cycles, &mut instructions].map(|c| c.read().expect("a count") as f64);
    for (i, (name, _, _)) in COUNTED.iter().enumerate() {
        assert!(kernel[i] > 1e6, "{name}: {kernel:?}");
        assert_close(name, grown[i], kernel[i], SHARE, 0.0);
    }
    // The frequency covers one tick. With reference cycles, it excludes time taken by interrupts.
    assert_close("frequency", hertz, grown[0] / grown[2], 0.1, 0.0);
}
