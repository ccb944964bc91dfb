#!/usr/bin/env bash
# The crate sysinfo lists each thread as a separate process, with the memory of the whole process.
#
# Expected: System::processes() returns processes. The sum of memory() over the processes with one name is the memory of
#           that program.
# Happens:  on Linux, new_all() and refresh_all() put the threads into the same map. Each thread has the resident set of
#           the whole process. A program with 8 more threads counts as 9 processes and as 9 times its memory. parent()
#           of a thread returns its process, as if the thread were a child.
# Matters:  a list of the programs with the most memory lists the programs with the most threads instead, and its sum
#           can exceed the memory of the machine.
# Versions: sysinfo 0.40.4.
# Source:   documentation of ProcessRefreshKind, Default: "tasks are considered processes on their own in linux".
# Workaround: refresh with ProcessRefreshKind::everything().without_tasks(), or skip entries whose thread_kind() is Some.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
mkdir -p reader/src
cat >reader/Cargo.toml <<'EOF'
[package]
name = "reader"
version = "0.0.0"
edition = "2021"
[dependencies]
sysinfo = { version = "=0.40.4", default-features = false, features = ["system"] }
[workspace]
EOF
cat >reader/src/main.rs <<'EOF'
use std::sync::{Arc, Barrier};
use sysinfo::{Pid, System};

fn main() {
    let memory = std::hint::black_box(vec![1u8; 100 << 20]);
    let barrier = Arc::new(Barrier::new(9));
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let barrier = barrier.clone();
            std::thread::spawn(move || barrier.wait())
        })
        .collect();
    let system = System::new_all().unwrap();
    let own = Pid::from_u32(std::process::id());
    let process = system.process(own).unwrap();
    let all = system.processes().values().filter(|p| p.pid() == own || p.parent() == Some(own));
    let listed: Vec<_> = all.collect();
    let sum: u64 = listed.iter().map(|p| p.memory()).sum();
    println!("{:?} has {} MiB", process.name(), process.memory() >> 20);
    println!("{} entries of processes(), {} MiB together", listed.len(), sum >> 20);
    assert!(memory.len() == 100 << 20 && listed.len() == 9);
    assert!(sum > 8 * process.memory());
    barrier.wait();
    for thread in threads {
        thread.join().unwrap();
    }
}
EOF
cd reader
cargo run --quiet 2>&1
grep -A1 '^name = "sysinfo"' Cargo.lock
