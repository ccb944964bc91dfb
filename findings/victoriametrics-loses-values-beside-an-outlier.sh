#!/usr/bin/env bash
# In VictoriaMetrics, one large value turns the other values of a series into multiples of ten, or into 0.
#
# Expected: a time series database with float64 values returns each value as it was written.
# Happens:  VictoriaMetrics stores a block of a series as 64-bit integers with one common decimal exponent. The largest
#           value determines the exponent, and the digits of the others below it are cut. With 2^64 - 1 in the block,
#           4096 is read as 4090, and 7 and 0.5 as 0. With the largest double as a sentinel, all others are 0. The same
#           values without the outlier are exact.
# Matters:  2^64 - 1 is the kernel's "no limit", the start value of a minimum, and what a gauge becomes if it falls
#           below 0 in unsigned arithmetic. A single such sample damages the samples before and after it, and an alert
#           on "is 0" fires. A filter that ignores the outlier does not restore the others.
# Versions: victoria-metrics 1.79.5+ds1-2+b5 (Debian 12).
# Source:   AppendFloatToDecimal and CalibrateScale in lib/decimal/decimal.go of VictoriaMetrics.
# Workaround: drop or replace such values before they are stored.
#
# The script needs apt, with Debian 12 among its sources. It does not install the package.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
apt-get download --quiet=2 victoria-metrics=1.79.5+ds1-2+b5 2>/dev/null
dpkg-deb --extract victoria-metrics_*.deb .
dpkg-deb --field victoria-metrics_*.deb Package Version
python3 - <<'EOF'
import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

with socket.socket() as tcp:
    tcp.bind(("127.0.0.1", 0))
    address = f"127.0.0.1:{tcp.getsockname()[1]}"
command = ["usr/bin/victoria-metrics", "-storageDataPath=data", f"-httpListenAddr={address}"]
server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
start = int(time.time()) // 60 * 60 - 600


def request(path, body=""):
    with urllib.request.urlopen(f"http://{address}{path}", body.encode() or None) as reply:
        return reply.read().decode()


def write(name, values):
    lines = [f"{name} {value!r} {(start + 15 * i) * 1000}" for i, value in enumerate(values)]
    request("/api/v1/import/prometheus", "\n".join(lines) + "\n")


def read(name):
    reply = request("/api/v1/export", urllib.parse.urlencode({"match[]": name}))
    return json.loads(reply)["values"] if reply else []


LARGEST = sys.float_info.max
small = [4096, 7, 0.5, 12]
cases = {
    "alone": (small, small),
    "beside_2_to_64": ([4096, 7, 2.0**64, 0.5, 12], [4090, 0, 2.0**64, 0, 10]),
    "beside_largest": ([4096, 7, LARGEST, 0.5, 12], [0, 0, LARGEST, 0, 0]),
}
try:
    for _ in range(100):
        try:
            request("/health")
            break
        except urllib.error.URLError:
            time.sleep(0.2)
    for name, (written, _) in cases.items():
        write(name, written)
    time.sleep(3)
    request("/internal/force_flush")
    found = {name: read(name) for name in cases}
finally:
    server.terminate()
    server.wait()
for name, (written, _) in cases.items():
    print(f"{name}:", *(f"{value:g}" for value in written), "->", *(f"{value:g}" for value in found[name]))
for name, (_, expected) in cases.items():
    assert all(abs(a - b) <= abs(b) * 1e-15 for a, b in zip(found[name], expected, strict=True)), name
EOF
