#!/usr/bin/env bash
# The npm package kubernetes-resource-parser reads a CPU usage of 0.16 cores as 156 million cores.
#
# Expected: cpuParser and memoryParser read the quantities of manifests and of the API, or raise an error.
# Happens:  the metrics API returns CPU usage in nanocores. cpuParser knows only "m", and drops other suffixes, so
#           "156340003n" is 156340003. memoryParser reads "1.5Gi" of a manifest as 1 byte, because it accepts a suffix
#           only after an integer. "966367641600m", into which the API server converts "0.9Gi", is NaN.
# Matters:  usage divided by the request is wrong by a factor of a billion. A limit of one byte makes each pod exceed
#           its limit, and NaN makes each comparison false, so an alert does not fire.
# Versions: kubernetes-resource-parser 0.1.0 (npm).
# Source:   cpuParser and memoryParser in kubernetes-resource-parser/index.js; Kubernetes API reference, "Quantity".
# Workaround: quantityToScalar of @kubernetes/client-node for CPU, or parse_quantity of the Python client for both.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
npm install --silent --no-audit --no-fund --prefix . kubernetes-resource-parser@0.1.0
cat >read.js <<'EOF'
const assert = require("assert");
const { cpuParser, memoryParser } = require("kubernetes-resource-parser");
console.log("kubernetes-resource-parser", require("kubernetes-resource-parser/package.json").version);
const cases = [
  [cpuParser, "250m", 0.25],
  [cpuParser, "156340003n", 156340003],
  [cpuParser, "2500u", 2500],
  [memoryParser, "512Mi", 512 * 2 ** 20],
  [memoryParser, "1.5Gi", 1],
  [memoryParser, "966367641600m", NaN],
];
for (const [parser, text, value] of cases) {
  console.log(`${parser.name}("${text}") = ${parser(text)}`);
  assert.strictEqual(parser(text), value);
}
EOF
node read.js
