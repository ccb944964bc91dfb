#!/usr/bin/env bash
# The crate prometheus-parse drops samples and labels whose values contain a brace, a comma or an equals sign.
#
# Expected: a label value is any text in quotes. A parser of the format returns the value, or an error.
# Happens:  the crate splits the labels at each comma and equals sign, even in quotes, and ends them at the first "}".
#           The sample of route="/users/{id}" is missing, args="x, y" becomes "x", and a label with "=" is missing. Two
#           histograms that differ in such a label are merged into one histogram that has each bound twice. There is no
#           error. prometheus_client of Python returns everything.
# Matters:  route templates, command lines, queries and mount options contain such characters. The requests of
#           /users/{id} are missing from the sum over all routes.
# Versions: prometheus-parse 0.2.5 (crates.io), prometheus_client 0.26.0 (PyPI).
# Source:   SAMPLE_RE and Labels::parse in prometheus-parse/src/lib.rs; Prometheus documentation, "Exposition formats",
#           "Comments, help text, and type information": label_value can be any sequence of UTF-8 characters.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
python3 -m venv venv
venv/bin/pip --quiet --disable-pip-version-check install prometheus_client==0.26.0
cat >metrics.txt <<'EOF'
# TYPE requests_total counter
requests_total{route="/users"} 1
requests_total{route="/users/{id}"} 70
# TYPE starts_total counter
starts_total{args="x, y"} 3
starts_total{args="--n=1"} 4
# TYPE wait_seconds histogram
wait_seconds_bucket{query="a=1",le="1"} 5
wait_seconds_bucket{query="a=1",le="+Inf"} 5
wait_seconds_bucket{query="a=2",le="1"} 600
wait_seconds_bucket{query="a=2",le="+Inf"} 600
EOF
mkdir -p reader/src
cat >reader/Cargo.toml <<'EOF'
[package]
name = "reader"
version = "0.0.0"
edition = "2021"
[dependencies]
prometheus-parse = "=0.2.5"
[workspace]
EOF
cat >reader/src/main.rs <<'EOF'
use prometheus_parse::{Scrape, Value};

fn main() {
    let text = std::fs::read_to_string("../metrics.txt").unwrap();
    let scrape = Scrape::parse(text.lines().map(|line| Ok(line.to_string()))).unwrap();
    for sample in scrape.samples {
        let value = match sample.value {
            Value::Counter(count) => count.to_string(),
            Value::Histogram(buckets) => {
                let buckets = buckets.iter().map(|b| format!("{}:{}", b.less_than, b.count));
                buckets.collect::<Vec<_>>().join(" ")
            }
            other => format!("{other:?}"),
        };
        println!("{}{{{}}} {value}", sample.metric, sample.labels);
    }
}
EOF
cd reader
cargo run --quiet >../seen.txt
grep -A1 '^name = "prometheus-parse"' Cargo.lock
cd ..
venv/bin/python - <<'EOF'
from importlib.metadata import version

from prometheus_client.parser import text_string_to_metric_families

print("prometheus_client", version("prometheus_client"))
with open("metrics.txt") as file:
    text = file.read()
samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
written = sum(not line.startswith("#") for line in text.splitlines())
assert len(samples) == written and samples[1].labels == {"route": "/users/{id}"}
print(f"prometheus_client: {len(samples)} of {written} samples")
with open("seen.txt") as file:
    seen = sorted(file.read().splitlines())
print("prometheus-parse:", *seen, sep="\n  ")
assert seen == [
    'requests_total{route="/users"} 1',
    'starts_total{args="x"} 3',
    "starts_total{} 4",
    "wait_seconds{} 1:5 inf:5 1:600 inf:600",
], seen
EOF
