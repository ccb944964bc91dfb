#!/usr/bin/env bash
# The Prometheus Python client serves OpenMetrics to a scraper that refuses it.
#
# Expected: the exporter follows the weights of the Accept header (RFC 9110): the highest q wins, and q=0 means
#           "not acceptable".
# Happens:  prometheus_client selects OpenMetrics if the header contains its media type, regardless of the weight. It
#           sends OpenMetrics for q=0.1 even if text has q=1, and also for q=0.
# Matters:  a scraper may lower the weight of OpenMetrics, for instance because its parser is stricter. It still gets
#           OpenMetrics, with other names of counters and "# EOF" at the end.
# Versions: prometheus_client 0.26.0.
# Source:   choose_encoder in prometheus_client/exposition.py; RFC 9110, section 12.4.2.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
python3 -m venv venv
venv/bin/pip --quiet --disable-pip-version-check install prometheus_client==0.26.0
venv/bin/python - <<'EOF'
from importlib.metadata import version

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.exposition import choose_encoder

print("prometheus_client", version("prometheus_client"))
registry = CollectorRegistry()
Counter("jobs", "Jobs.", registry=registry).inc()
for accept in [
    "text/plain;version=0.0.4;q=1, application/openmetrics-text;version=1.0.0;q=0.1",
    "text/plain;version=0.0.4, application/openmetrics-text;version=1.0.0;q=0",
]:
    encoder, content_type = choose_encoder(accept)
    last = encoder(registry).decode().splitlines()[-1]
    print(f"Accept: {accept}\n  answer: {content_type}\n  last line: {last}")
    assert content_type.startswith("application/openmetrics-text") and last == "# EOF"
EOF
