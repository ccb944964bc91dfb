#!/usr/bin/env bash
# For sampled timers, StatsD scales the count of requests to all requests, but not the sum of their times.
#
# Expected: with the sample rate 0.1, each timing stands for ten requests. Counters are multiplied by ten, and so are
#           both the count and the sum of a timer.
# Happens:  count and count_ps are multiplied, while sum, sum_squares and count_90 are not. sum divided by count is a
#           tenth of the mean. If services with different rates report to one timer, mean, median and percentiles weight
#           each datagram alike.
# Matters:  the mean concurrency of a service is the sum of its request times per second. This figure is too low by the
#           factor of the sample rate. A change of the rate looks like a change of the load.
# Versions: statsd 0.9.0 (npm), hot-shots 17.1.1 (npm).
# Source:   process_metrics in statsd/lib/process_metrics.js; stats.js, the case for "ms"; StatsD documentation, "Metric
#           Types", "Sampling" and "Timing".
# Workaround: mean multiplied by count.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
npm install --silent --no-audit --no-fund --prefix . statsd@0.9.0 hot-shots@17.1.1
cat >backend.js <<'EOF'
exports.init = (_startup, _config, events) => {
  events.on("flush", (_time, metrics) => process.send([metrics.counters.requests, metrics.timer_data.latency]));
  return true;
};
EOF
cat >sampled.js <<'EOF'
const assert = require("assert");
const { fork } = require("child_process");
const dgram = require("dgram");
const fs = require("fs");
const net = require("net");
const path = require("path");
const HotShots = require("hot-shots");

async function freePorts() {
  const udp = dgram.createSocket("udp4");
  const tcp = net.createServer();
  await new Promise((resolve) => udp.bind(0, "127.0.0.1", resolve));
  await new Promise((resolve) => tcp.listen(0, "127.0.0.1", resolve));
  const ports = [udp.address().port, tcp.address().port];
  await new Promise((resolve) => udp.close(resolve));
  await new Promise((resolve) => tcp.close(resolve));
  return ports;
}

// Each of 2000 requests takes 50 ms, and the client sends about a tenth of them.
async function main() {
  for (const name of ["statsd", "hot-shots"]) console.log(name, require(`${name}/package.json`).version);
  const [port, managementPort] = await freePorts();
  const address = "127.0.0.1";
  const backends = [path.resolve("backend.js")];
  const config = { address, port, mgmt_address: address, mgmt_port: managementPort, flushInterval: 2000, backends };
  fs.writeFileSync("config.js", JSON.stringify(config));
  const server = fork("node_modules/statsd/stats.js", ["config.js"], { stdio: ["ignore", "ignore", "inherit", "ipc"] });
  const flush = () => new Promise((resolve) => server.once("message", resolve));
  await flush();
  const client = new HotShots({ host: address, port, sampleRate: 0.1 });
  for (let i = 0; i < 2000; i++) {
    client.timing("latency", 50);
    client.increment("requests");
    if (i % 100 === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  }
  const [requests, { count, count_90, sum, mean }] = await flush();
  client.close();
  server.kill();
  console.log({ requests, count, count_90, sum, mean, "sum / count": sum / count });
  assert(requests > 1000 && count > 1000 && count < 3000);
  assert.strictEqual(mean, 50);
  assert(Math.abs(sum - (count / 10) * mean) < 1e-6 && Math.abs(sum / count - 5) < 1e-9);
  assert.strictEqual(count_90, Math.round(0.9 * (count / 10)));
}
main();
EOF
node sampled.js
