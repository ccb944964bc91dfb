#!/usr/bin/env bash
# The Kubernetes client for JavaScript gives pods of the same name in different namespaces the same usage.
#
# Expected: topPods returns for each pod its own usage, and the sum of its containers' requests and limits, as
#           "kubectl top pods --all-namespaces" and "kubectl describe" do.
# Happens:  topPods looks up the usage by the name of the pod, without its namespace. If two namespaces have a pod
#           redis-0, both get the usage of the one that is last in the list. For the memory request of a pod, topPods
#           adds the request of the last container to the limits of the containers before it.
# Matters:  the pods of a StatefulSet have the same names in every namespace. An idle test instance appears as busy as
#           the one in production, or production as idle. The memory request decides how much of a node is free.
# Versions: @kubernetes/client-node 2.0.1 (npm).
# Source:   topPods in @kubernetes/client-node/dist/top.js: podMetricsMap, and podRequestsMem = add(podLimitsMem, ...).
# Workaround: call topPods for one namespace at a time, and add the requests of pod.spec.containers.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
npm install --silent --no-audit --no-fund --prefix . @kubernetes/client-node@2.0.1
cat >top.mjs <<'EOF'
import assert from "node:assert";
import { readFileSync } from "node:fs";
// The file itself, because the index of the package needs Node.js 22.
import { topPods } from "./node_modules/@kubernetes/client-node/dist/top.js";

const { version } = JSON.parse(readFileSync("node_modules/@kubernetes/client-node/package.json"));
console.log("@kubernetes/client-node", version);
const container = (name, request, limit) => ({
  name,
  resources: { requests: { cpu: "100m", memory: request }, limits: { memory: limit } },
});
const pod = (namespace) => ({
  metadata: { namespace, name: "redis-0" },
  spec: { containers: [container("redis", "100Mi", "4Gi"), container("exporter", "50Mi", "50Mi")] },
});
const usage = (namespace, cpu, memory) => ({
  metadata: { namespace, name: "redis-0" },
  containers: [{ name: "redis", usage: { cpu, memory } }],
});
// What the API server returns for the two lists, as far as topPods reads it.
const core = { listPodForAllNamespaces: async () => ({ items: [pod("production"), pod("test")] }) };
const metrics = {
  getPodMetrics: async () => ({ items: [usage("production", "3500m", "3Gi"), usage("test", "2m", "20Mi")] }),
};
const found = (await topPods(core, metrics)).map(({ Pod, CPU, Memory }) => [
  Pod.metadata.namespace,
  CPU.CurrentUsage,
  Number(Memory.CurrentUsage) / 2 ** 20,
  Number(Memory.RequestTotal) / 2 ** 20,
]);
for (const [namespace, cpu, memory, request] of found) {
  console.log(`${namespace}: ${cpu} CPUs, ${memory} MiB of ${request} MiB requested`);
}
assert.deepStrictEqual(found, [
  ["production", 0.002, 20, 4096 + 50],
  ["test", 0.002, 20, 4096 + 50],
]);
EOF
node top.mjs
