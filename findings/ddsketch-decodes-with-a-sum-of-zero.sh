#!/usr/bin/env bash
# A DDSketch that was encoded and decoded has a sum of 0, and an average of 0, although its count is right.
#
# Expected: a decoded sketch has the sum, the minimum and the maximum of the original, or raises an error for them, or
#           computes them from its bins.
# Happens:  the protobuf message of DDSketch has only bins. The ports for Python and JavaScript restore the count from
#           the bins, but leave sum at 0, the minimum at +Infinity and the maximum at -Infinity. Python's avg is 0. If
#           the receiver merges the sketch with one of its own, the sum is that of its own values, and the count that of
#           both.
# Matters:  nodes send sketches so that a server can merge them. The quantiles of the merged sketch are right, so nobody
#           suspects its mean, which is too low by the share of the received values.
# Versions: ddsketch 3.0.1, protobuf 5.29.6 (PyPI), @datadog/sketches-js 2.1.1, protobufjs 7.5.4 (npm).
# Source:   DDSketchProto.from_proto in ddsketch/pb/proto.py and BaseDDSketch.fromProto in sketches-js, whose comments
#           mention the loss; ddsketch.proto.
# Workaround: send the sum beside the sketch.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
python3 -m venv venv
venv/bin/pip --quiet --disable-pip-version-check install ddsketch==3.0.1 protobuf==5.29.6
npm install --silent --no-audit --no-fund --prefix . @datadog/sketches-js@2.1.1 protobufjs@7.5.4
cat >merge.js <<'EOF'
const fs = require("fs");
const { DDSketch } = require("@datadog/sketches-js");
const own = new DDSketch({ relativeAccuracy: 0.01 });
own.accept(100);
own.merge(DDSketch.fromProto(fs.readFileSync("node.pb")));
console.log(JSON.stringify([own.count, own.sum, own.getValueAtQuantile(0.5)]));
EOF
venv/bin/python - <<'EOF'
import json
import subprocess
from importlib.metadata import version

from ddsketch import DDSketch
from ddsketch.pb.ddsketch_pb2 import DDSketch as Message
from ddsketch.pb.proto import DDSketchProto

print("ddsketch", version("ddsketch"), "protobuf", version("protobuf"))
for package in ["@datadog/sketches-js", "protobufjs"]:
    with open(f"node_modules/{package}/package.json") as file:
        print(package, json.load(file)["version"])


def figures(sketch):
    return sketch.count, sketch.sum, sketch.avg, round(sketch.get_quantile_value(0.5), 1)


sketch = DDSketch(0.01)
for _ in range(9):
    sketch.add(100)
with open("node.pb", "wb") as file:
    file.write(DDSketchProto.to_proto(sketch).SerializeToString())
with open("node.pb", "rb") as file:
    decoded = DDSketchProto.from_proto(Message.FromString(file.read()))
merged = DDSketch(0.01)
merged.add(100)
merged.merge(decoded)
reply = subprocess.run(["node", "merge.js"], check=True, capture_output=True, text=True).stdout
count, total, median = json.loads(reply)
print("count, sum, average, median")
print("nine times 100:                 ", *figures(sketch))
print("decoded by Python:              ", *figures(decoded))
print("merged with a tenth by Python:  ", *figures(merged))
print("merged with a tenth by JavaScript:", count, total, total / count, round(median, 1))
assert figures(sketch)[:3] == (9, 900, 100)
assert figures(decoded)[:3] == (9, 0, 0)
assert figures(merged)[:3] == (10, 100, 10)
assert (count, total) == (10, 100)
assert all(abs(value - 100) <= 1 for value in [figures(decoded)[3], figures(merged)[3], median])
EOF
