#!/usr/bin/env bash
# The OpenMetrics parser of the Prometheus Python client drops samples with later timestamps.
#
# Expected: the points of one metric may follow each other, in the order of their timestamps, and a reader returns all
#           samples of each point.
# Happens:  for a summary, prometheus_client returns every sample of the first timestamp, but only the first sample of
#           each later timestamp. There is no error. The parser keeps a list of the samples that it has seen for a
#           timestamp, and does not clear the list when the timestamp changes.
# Matters:  a reader of a backfill file with a sum and a count per minute gets all counts and one sum, and computes
#           wrong averages.
# Versions: prometheus_client 0.26.0.
# Source:   text_fd_to_metric_families in prometheus_client/openmetrics/parser.py; OpenMetrics 1.0, "MetricPoint".
# Workaround: parse the samples of each timestamp separately.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
python3 -m venv venv
venv/bin/pip --quiet --disable-pip-version-check install prometheus_client==0.26.0
venv/bin/python - <<'EOF'
from importlib.metadata import version

from prometheus_client.openmetrics.parser import text_string_to_metric_families

TEXT = """# TYPE wait_seconds summary
wait_seconds_count{host="a"} 1 60
wait_seconds_sum{host="a"} 0.5 60
wait_seconds_count{host="a"} 3 120
wait_seconds_sum{host="a"} 4.5 120
# EOF
"""
print("prometheus_client", version("prometheus_client"))
(family,) = text_string_to_metric_families(TEXT)
found = [(sample.name, float(sample.timestamp), sample.value) for sample in family.samples]
for sample in found:
    print(*sample)
written = sum(line.startswith("wait_seconds") for line in TEXT.splitlines())
print(f"{len(found)} of {written} samples")
assert found == [
    ("wait_seconds_count", 60.0, 1.0),
    ("wait_seconds_sum", 60.0, 0.5),
    ("wait_seconds_count", 120.0, 3.0),
]
EOF
