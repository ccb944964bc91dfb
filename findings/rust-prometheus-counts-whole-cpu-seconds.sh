#!/usr/bin/env bash
# The process collector of the Rust crate prometheus counts CPU time in whole seconds.
#
# Expected: process_cpu_seconds_total has the resolution of /proc/PID/stat, 10 ms, as with the client for Python. Its
#           type in the format is a float.
# Happens:  the collector divides the ticks by 100 as integers, and keeps the result in an IntCounter. A process that
#           used 0.95 s reports 0, and one that used 1.9 s reports 1.
# Matters:  a process that uses 2% of a CPU has a rate of 0 in most windows of 15 s, and of 6.7% in the others. A rate
#           below one second per window is never right. An alert on CPU use fires and resolves by chance, and short jobs
#           cost nothing.
# Versions: prometheus 0.14.0 (crates.io).
# Source:   ProcessCollector::collect in prometheus/src/process_collector.rs.
# Workaround: rate over at least 5 minutes, or a collector of one's own.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
mkdir -p burn/src
cat >burn/Cargo.toml <<'EOF'
[package]
name = "burn"
version = "0.0.0"
edition = "2021"
[dependencies]
prometheus = { version = "=0.14.0", default-features = false, features = ["process"] }
[workspace]
EOF
cat >burn/src/main.rs <<'EOF'
use prometheus::core::Collector;
use prometheus::process_collector::ProcessCollector;

/// Returns the CPU time of this process in ticks of 10 ms.
fn ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

fn main() {
    let collector = ProcessCollector::for_self();
    for (goal, expected) in [(60, 0.0), (90, 0.0), (120, 1.0), (160, 1.0), (190, 1.0)] {
        while ticks() < goal {}
        let families = collector.collect();
        let family = families.iter().find(|f| f.name() == "process_cpu_seconds_total").unwrap();
        let reported = family.get_metric()[0].get_counter().get_value();
        let used = ticks() as f64 / 100.0;
        println!("used {used:.2} s, reported {reported} s");
        assert_eq!(reported, expected);
    }
}
EOF
cd burn
cargo run --quiet 2>&1
grep -A1 '^name = "prometheus"' Cargo.lock
