#!/usr/bin/env bash
# The npm package bytes reads "64Mi" as 64 bytes, and "16G" as 16 bytes.
#
# Expected: bytes("64Mi") is 67108864, or null. The documentation says that the function returns null upon error, and it
#           does so for "Mi".
# Happens:  the parser knows b, kb, mb, gb, tb and pb. If the unit is another one, the parser takes the leading integer
#           and counts it as bytes. It also cuts "1e3" to 1.
# Matters:  Kubernetes, systemd, Docker and the kernel's command line write Mi, G, M and k. A share of a limit is wrong
#           by a factor of a million, and no error shows it. The package parses the size limits of HTTP bodies, and is
#           part of many Node.js services.
# Versions: bytes 3.1.2 (npm).
# Source:   parse and parseRegExp in bytes/index.js; documentation of bytes.parse.
# Workaround: test the string against the list of known units first.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
npm install --silent --no-audit --no-fund --prefix . bytes@3.1.2
cat >read.js <<'EOF'
const assert = require("assert");
const bytes = require("bytes");
console.log("bytes", require("bytes/package.json").version);
const expected = {
  "64MB": 64 * 2 ** 20,
  "64Mi": 64,
  "64MiB": 64,
  "16G": 16,
  "512k": 512,
  "1e3": 1,
  Mi: null,
};
for (const [text, value] of Object.entries(expected)) {
  console.log(`${text}: ${bytes(text)}`);
  assert.strictEqual(bytes(text), value);
}
EOF
node read.js
