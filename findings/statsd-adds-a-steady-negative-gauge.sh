#!/usr/bin/env bash
# A gauge that is steadily -3 sinks to -9 in StatsD if a Node.js client reports it three times.
#
# Expected: gauge("headroom", -3) of a client sets the gauge to -3. The Node.js client hot-shots has a separate method
#           gaugeDelta for changes.
# Happens:  StatsD reads a value with a sign as a change, unless the gauge is 0. hot-shots sends "-3|g" for both
#           methods, so each report lowers the gauge by 3. The client for Python sends "0|g" first, and the gauge
#           becomes -3.
# Matters:  headroom, clock offsets, temperatures and differences can be negative. Their gauge drifts at the rate of the
#           reports, and becomes right again only with the next value that is not negative.
# Versions: statsd 0.9.0 (npm), hot-shots 17.1.1 (npm), statsd 4.0.1 (PyPI).
# Source:   stats.js of StatsD, the case for "g"; StatsD documentation, "Metric Types", "Gauges"; gauge in
#           hot-shots/lib/statsFunctions.js; StatsClientBase.gauge in statsd/client/base.py.
# Workaround: send 0 before a negative value.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
python3 -m venv venv
venv/bin/pip --quiet --disable-pip-version-check install statsd==4.0.1
npm install --silent --no-audit --no-fund --prefix . statsd@0.9.0 hot-shots@17.1.1
cat >backend.js <<'EOF'
exports.init = (_startup, _config, events) => {
  events.on("flush", (_time, metrics) => console.log(JSON.stringify(metrics.gauges)));
  return true;
};
EOF
cat >report.js <<'EOF'
const HotShots = require("hot-shots");
const client = new HotShots({ host: "127.0.0.1", port: Number(process.argv[2]) });
const values = process.argv.slice(3).map(Number);
function next() {
  if (values.length === 0) client.close();
  else client.gauge("javascript", values.shift(), () => setTimeout(next, 20));
}
next();
EOF
venv/bin/python - <<'EOF'
import json
import os
import socket
import subprocess
from importlib.metadata import version

import statsd

for package in ["statsd", "hot-shots"]:
    with open(f"node_modules/{package}/package.json") as file:
        print(package, json.load(file)["version"], "(npm)")
print("statsd", version("statsd"), "(PyPI)")
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp, socket.socket() as tcp:
    udp.bind(("127.0.0.1", 0))
    tcp.bind(("127.0.0.1", 0))
    port, management = udp.getsockname()[1], tcp.getsockname()[1]
config = {
    "address": "127.0.0.1",
    "port": port,
    "mgmt_address": "127.0.0.1",
    "mgmt_port": management,
    "flushInterval": 200,
    "backends": [os.path.abspath("backend.js")],
}
with open("config.js", "w") as file:
    json.dump(config, file)
server = subprocess.Popen(["node", "node_modules/statsd/stats.js", "config.js"], stdout=subprocess.PIPE, text=True)


def flushed(key):
    """Returns a gauge as it is two flushes later."""
    lines = (line for line in server.stdout if line.startswith("{"))
    next(lines)
    return json.loads(next(lines)).get(key)


try:
    flushed("none")
    found = {}
    for values in [[10], [-3], [-3], [-3], [0], [-3], [-3], [-3]]:
        subprocess.run(["node", "report.js", str(port), *map(str, values)], check=True)
        statsd.StatsClient("127.0.0.1", port).gauge("python", values[0])
        found.setdefault("reported", []).append(values[0])
        for language in ["javascript", "python"]:
            found.setdefault(language, []).append(flushed(language))
finally:
    server.kill()
for name, values in found.items():
    print(f"{name}: {values}")
assert found["javascript"] == [10, 7, 4, 1, 0, -3, -6, -9], found
assert found["python"] == found["reported"], found
EOF
