#!/usr/bin/env bash
# On a hybrid CPU, a flame graph of inferno lacks everything that ran on one of the two kinds of cores.
#
# Expected: "perf record -e cycles" samples all CPUs, and the flame graph of this recording has all samples.
# Happens:  on a CPU with P-cores and E-cores, perf opens two events, cpu_core/cycles/ and cpu_atom/cycles/. The
#           collapser of inferno keeps only the event of the first sample, and drops the samples of the other event. Its
#           note about this has the level "info", which is off by default. If the first sample is from an E-core, the
#           graph lacks the P-cores, where most of the work is.
# Matters:  most laptops and desktops with Intel CPUs since 2021 are hybrid. The graph is plausible, but shares are of
#           one kind of core, and two recordings of one program may show different kinds. cargo-flamegraph uses this
#           collapser.
# Versions: inferno 0.12.8 (crates.io).
# Source:   on_event_line in inferno/src/collapse/perf.rs: event_filter; perf documentation, "Intel hybrid support".
# Workaround: collapse each event separately with event_filter, and add up the two outputs.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
# What "perf script" prints: one sample on an E-core, then three on P-cores.
{
    printf 'app 100/100 [012]    10.000000:     250000 cpu_atom/cycles/P: \n'
    printf '\t    55d0 cleanup+0x10 (/usr/bin/app)\n\t    55a0 main+0x10 (/usr/bin/app)\n\n'
} >samples.txt
for time in 10.000250 10.000500 10.000750; do
    printf 'app 100/101 [000]    %s:     990000 cpu_core/cycles/P: \n' "$time"
    printf '\t    55f0 render+0x10 (/usr/bin/app)\n\t    55a0 main+0x10 (/usr/bin/app)\n\n'
done >>samples.txt
mkdir -p fold/src
cat >fold/Cargo.toml <<'EOF'
[package]
name = "fold"
version = "0.0.0"
edition = "2021"
[dependencies]
inferno = { version = "=0.12.8", default-features = false }
[workspace]
EOF
cat >fold/src/main.rs <<'EOF'
use inferno::collapse::perf::{Folder, Options};
use inferno::collapse::Collapse;

fn fold(event: Option<&str>) -> String {
    let mut options = Options::default();
    options.event_filter = event.map(str::to_string);
    let samples = std::fs::read("../samples.txt").unwrap();
    let mut folded = Vec::new();
    Folder::from(options).collapse(&samples[..], &mut folded).unwrap();
    String::from_utf8(folded).unwrap().trim().to_string()
}

fn main() {
    let (all, atom, core) = (fold(None), fold(Some("cpu_atom/cycles/P")), fold(Some("cpu_core/cycles/P")));
    println!("default: {all}\ncpu_atom: {atom}\ncpu_core: {core}");
    assert_eq!(all, "app;main;cleanup 250000");
    assert_eq!(all, atom);
    assert_eq!(core, "app;main;render 2970000");
}
EOF
cd fold
cargo run --quiet 2>&1
grep -A1 '^name = "inferno"' Cargo.lock
