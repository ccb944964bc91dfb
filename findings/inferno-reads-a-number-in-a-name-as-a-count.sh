#!/usr/bin/env bash
# inferno interprets a number at the end of a frame's name as the count of a second profile.
#
# Expected: a folded line is a stack, a space and a count. "main;Worker 2 50" is 50 samples in the frame "Worker 2".
# Happens:  if a line ends with two numbers, inferno interprets it as a differential line: 2 samples before and 50
#           after. The frames "Worker 1" and "Worker 2" become one frame "Worker", which is red as if it had grown.
#           There is no warning.
# Matters:  threads, queues and CPUs are often numbered, and a profile by thread or queue can have their names as
#           leaves. The graph does not show which worker is busy.
# Versions: inferno 0.12.8.
# Source:   parse_nsamples in inferno/src/flamegraph/merge.rs; documentation of inferno::flamegraph::from_lines.
# Workaround: write "Worker_2", or append a frame.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
mkdir -p graph/src
cat >graph/Cargo.toml <<'EOF'
[package]
name = "graph"
version = "0.0.0"
edition = "2021"
[dependencies]
inferno = { version = "=0.12.8", default-features = false }
[workspace]
EOF
cat >graph/src/main.rs <<'EOF'
fn titles(lines: &[&str]) -> Vec<String> {
    let mut svg = Vec::new();
    let mut options = inferno::flamegraph::Options::default();
    inferno::flamegraph::from_lines(&mut options, lines.iter().copied(), &mut svg).unwrap();
    let svg = String::from_utf8(svg).unwrap();
    let titles = svg.split("<title>").skip(1).map(|rest| rest.split("</title>").next().unwrap());
    titles.filter(|title| title.starts_with("Worker")).map(str::to_string).collect()
}

fn main() {
    let spaced = titles(&["main;Worker 1 100", "main;Worker 2 50"]);
    let joined = titles(&["main;Worker_1 100", "main;Worker_2 50"]);
    println!("Worker 1, Worker 2: {spaced:?}\nWorker_1, Worker_2: {joined:?}");
    assert_eq!(spaced.len(), 1);
    assert!(spaced[0].starts_with("Worker (150 samples, 100.00%; +"), "{spaced:?}");
    assert_eq!(joined.len(), 2);
}
EOF
cd graph
cargo run --quiet 2>&1
grep -A1 '^name = "inferno"' Cargo.lock
