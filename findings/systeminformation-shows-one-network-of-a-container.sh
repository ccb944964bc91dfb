#!/usr/bin/env bash
# systeminformation reports the traffic of only one network of a container, and its page cache as used memory.
#
# Expected: dockerContainerStats of the npm package systeminformation returns the figures of "docker stats": the traffic
#           of all networks of a container, and the memory without the inactive page cache.
# Happens:  netIO is the traffic of the last network in the answer of Docker. The traffic of all others is dropped.
#           memUsage and memPercent include the page cache of files. A container with 300 MiB of its own appears to use
#           3900 MiB of 4 GiB, or 95%.
# Matters:  a container with a public and an internal network shows only one of the two. A container that reads files
#           fills its limit with page cache, which the kernel can drop, and looks as if it would soon be killed.
# Versions: systeminformation 5.33.26 (npm).
# Source:   docker_calcNetworkIO and dockerContainerStatsSingle in systeminformation/lib/docker.js; Docker
#           documentation, "docker stats": the CLI subtracts inactive_file (cgroup v2), and adds up all interfaces.
# Workaround: compute both figures from "networks" and "memoryStats" of the same result.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
npm install --silent --no-audit --no-fund --prefix . systeminformation@5.33.26
cat >stats.js <<'EOF'
const assert = require("assert");
const net = require("net");
process.env.DOCKER_SOCKET = `${__dirname}/docker.sock`;
const { dockerContainerStats } = require("systeminformation");
const MIB = 2 ** 20;
// What Docker answers for a container with two networks, on cgroup v2.
const stats = {
  cpu_stats: { cpu_usage: { total_usage: 2e9 }, system_cpu_usage: 40e9, online_cpus: 4 },
  precpu_stats: { cpu_usage: { total_usage: 1e9 }, system_cpu_usage: 36e9, online_cpus: 4 },
  memory_stats: {
    usage: 3900 * MIB,
    limit: 4096 * MIB,
    stats: { anon: 290 * MIB, file: 3610 * MIB, active_file: 10 * MIB, inactive_file: 3600 * MIB },
  },
  networks: {
    eth0: { rx_bytes: 5000 * MIB, tx_bytes: 900 * MIB },
    eth1: { rx_bytes: 2 * MIB, tx_bytes: MIB },
  },
};
const server = net.createServer((socket) => {
  socket.once("data", (request) => {
    const answer = request.includes("/stats") ? stats : { RestartCount: 0 };
    socket.end(`HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n${JSON.stringify(answer)}`);
  });
});
server.listen(process.env.DOCKER_SOCKET, async () => {
  console.log("systeminformation", require("systeminformation/package.json").version);
  const [found] = await dockerContainerStats("0123456789ab");
  server.close();
  const { usage, limit, stats: cgroup } = stats.memory_stats;
  const own = usage - cgroup.inactive_file;
  const received = Object.values(stats.networks).reduce((sum, network) => sum + network.rx_bytes, 0);
  console.log(`docker stats: ${own / MIB} MiB (${((own / limit) * 100).toFixed(1)}%), ${received / MIB} MiB received`);
  const memory = `${found.memUsage / MIB} MiB (${found.memPercent.toFixed(1)}%)`;
  console.log(`systeminformation: ${memory}, ${found.netIO.rx / MIB} MiB received`);
  assert.strictEqual(found.cpuPercent, 100);
  assert.strictEqual(found.memUsage, usage);
  assert.deepStrictEqual(found.netIO, { rx: 2 * MIB, wx: MIB });
});
EOF
node stats.js
