#!/usr/bin/env bash
# In Node.js, a CPU that was busy for 30% of the time appears 75% busy, because os.cpus() leaves out the wait for I/O.
#
# Expected: the times of os.cpus() add up to the elapsed time, so 1 - idle / sum is the share that is not idle. The
#           packages os-utils and systeminformation compute the CPU usage like that.
# Happens:  Node.js takes user, nice, system, idle and irq from /proc/stat. It counts iowait, softirq and steal neither
#           as idle nor as busy. Of a CPU with 20% user, 10% system, 60% iowait and 10% idle, the sum is 40%, and the
#           usage 75%. Of a CPU with 10% user, 40% softirq and 50% idle, the usage is 17% instead of 50%.
# Matters:  a node that waits for its disk appears busy, and a scaler adds CPUs. A node whose network stack uses half of
#           a CPU appears idle. The error depends on the load, so two nodes cannot be compared.
# Versions: Node.js 20.9.0 (package node of npm), os-utils 0.0.14, systeminformation 5.33.26 (npm).
# Source:   uv_cpu_info in src/unix/linux.c of libuv; proc_stat(5); https://github.com/nodejs/node/issues/22691
# Workaround: read /proc/stat.
#
# The script puts its own file over /proc/stat, in a mount namespace of its own (util-linux).
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
npm install --silent --no-audit --no-fund --prefix . node@20.9.0 os-utils@0.0.14 systeminformation@5.33.26
cat >usage.js <<'EOF'
const assert = require("assert");
const fs = require("fs");
const os = require("os");
const osUtils = require("os-utils");
const systeminformation = require("systeminformation");

const fields = ["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice"];
const ticks = Object.fromEntries(fields.map((field) => [field, 1000]));
function advance(shares) {
  for (const [field, share] of Object.entries(shares)) ticks[field] += share;
  const times = fields.map((field) => ticks[field]).join(" ");
  fs.writeFileSync("stat", `cpu  ${times}\ncpu0 ${times}\nintr 0\nctxt 0\nbtime 1700000000\n`);
}

async function main() {
  for (const name of ["os-utils", "systeminformation"]) console.log(name, require(`${name}/package.json`).version);
  console.log("Node.js", process.version);
  const found = [];
  for (const shares of [
    { user: 20, system: 10, iowait: 60, idle: 10 },
    { user: 10, softirq: 40, idle: 50 },
    { user: 30, steal: 40, idle: 30 },
    { user: 30, idle: 70 },
  ]) {
    const sum = () => Object.values(os.cpus()[0].times).reduce((a, b) => a + b) / 10;
    const before = sum();
    await systeminformation.currentLoad();
    const usage = new Promise((resolve) => osUtils.cpuUsage(resolve));
    advance(shares);
    const figures = [sum() - before, 100 * (await usage), (await systeminformation.currentLoad()).currentLoad];
    console.log(shares, "sum of os.cpus(), os-utils, systeminformation:", figures);
    found.push(figures.map(Math.round));
  }
  assert.deepStrictEqual(found, [[40, 75, 75], [60, 17, 17], [60, 50, 50], [100, 30, 30]]);
}
advance({});
if (process.argv[2] === "usage") main();
EOF
node=node_modules/.bin/node
"$node" usage.js
unshare --map-root-user --mount sh -c "mount --bind stat /proc/stat && $node usage.js usage"
