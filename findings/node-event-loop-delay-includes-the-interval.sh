#!/usr/bin/env bash
# prom-client and OpenTelemetry report an event loop delay of 10 ms for an idle Node.js process.
#
# Expected: the delay, or lag, of an event loop is the time by which it runs late. For an idle process, it is about 0.
# Happens:  monitorEventLoopDelay of Node.js measures the time between two runs of a timer, with the timer's interval.
#           prom-client exports this as nodejs_eventloop_lag_{min,mean,p50,p90,p99}_seconds, and the OpenTelemetry
#           instrumentation as nodejs.eventloop.delay.*, without subtracting the interval. Both use 10 ms by default.
#           With a precision of 50 ms, the same idle process has a lag of 50 ms. nodejs_eventloop_lag_seconds, without
#           a suffix, does not contain the interval.
# Matters:  a service scales or rejects requests at a lag of some ms, and an idle service is above this. A coarser
#           precision, which is meant to save CPU time, raises the lag. @fastify/under-pressure subtracts the interval.
# Versions: prom-client 15.1.3, @opentelemetry/instrumentation-runtime-node 0.36.1, Node.js 20.20.2.
# Source:   prom-client/lib/metrics/eventLoopLag.js; EventLoopDelayCollector of the instrumentation;
#           https://github.com/nodejs/node/issues/34661
# Workaround: subtract the precision from each figure except stddev.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
npm install --silent --no-audit --no-fund --prefix . prom-client@15.1.3 @opentelemetry/api@1.9.0 \
    @opentelemetry/sdk-metrics@2.12.1 @opentelemetry/instrumentation-runtime-node@0.36.1
cat >idle.js <<'EOF'
const assert = require("assert");
const { RuntimeNodeInstrumentation } = require("@opentelemetry/instrumentation-runtime-node");
const { MeterProvider, MetricReader } = require("@opentelemetry/sdk-metrics");
const { collectDefaultMetrics, Registry } = require("prom-client");
class Reader extends MetricReader {
  async onShutdown() {}
  async onForceFlush() {}
}
for (const name of ["prom-client", "@opentelemetry/instrumentation-runtime-node"]) {
  console.log(name, JSON.parse(require("fs").readFileSync(`node_modules/${name}/package.json`)).version);
}
console.log("node", process.version);
const reader = new Reader();
const instrumentation = new RuntimeNodeInstrumentation();
instrumentation.setMeterProvider(new MeterProvider({ readers: [reader] }));
instrumentation.enable();
const fine = new Registry();
const coarse = new Registry();
collectDefaultMetrics({ register: fine });
collectDefaultMetrics({ register: coarse, eventLoopMonitoringPrecision: 50 });
setTimeout(async () => {
  const found = {};
  for (const [interval, registry] of Object.entries({ 10: fine, 50: coarse })) {
    for (const { name, values } of await registry.getMetricsAsJSON()) {
      if (!/^nodejs_eventloop_lag_(min|mean|p50)_/.test(name)) continue;
      found[`${name} (${interval})`] = [interval, values[0].value];
    }
  }
  const { resourceMetrics } = await reader.collect();
  const metrics = resourceMetrics.scopeMetrics.flatMap((scope) => scope.metrics);
  const value = (name) => metrics.find(({ descriptor }) => descriptor.name === name).dataPoints[0].value;
  for (const name of ["nodejs.eventloop.delay.min", "nodejs.eventloop.delay.mean"]) found[name] = [10, value(name)];
  const busy = value("nodejs.eventloop.utilization");
  console.log(`busy for ${(busy * 100).toFixed(1)}% of the time`);
  assert(busy < 0.2);
  assert.strictEqual(Object.keys(found).length, 8);
  for (const [name, [interval, seconds]] of Object.entries(found)) {
    console.log(`${name}: ${(seconds * 1000).toFixed(1)} ms`);
    assert(seconds * 1000 > interval * 0.8, name);
  }
  process.exit();
}, 5000);
EOF
node idle.js
