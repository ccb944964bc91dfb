// Commands that change a limit or a weight, for the runtime that manages the group.

/**
 * @typedef {Record<string, any>} Owner keys of the API: name, cgroup, container, pod, unit
 * @typedef {{mount: string, unified: boolean}} Cgroups
 * @typedef {{words: string, command?: string, note?: string}} Advice
 */

/** Quotes a word for a shell. @param {string} word */
export const quote = (word) => (/^[A-Za-z0-9_./:@%+=,-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

/** Returns whether a user can type the name as the page shows it. The page escapes hidden characters.
   @param {string} name */
const isPlain = (name) => !/\\u[0-9a-f]{4}/.test(name) && !/[\p{C}]/u.test(name) && !name.startsWith("-");

/** Rounds a number of CPUs up, so that a limit leaves some room: 0.83 to 0.9. @param {number} cpus */
export function roundUp(cpus) {
  const parts = cpus < 0.1 ? 100 : 10;
  return Math.ceil(Math.max(cpus, 0.01) * parts - 1e-6) / parts;
}

/** @param {number} cpus */
const short = (cpus) => String(+cpus.toFixed(2));

/** Returns the unit that manages exactly this cgroup, if any. @param {string} path */
export function unitOf(path) {
  const last = path.split("/").pop() ?? "";
  return /\.(slice|scope|service)$/.test(last) ? last : undefined;
}

/** Returns the command of the container's runtime, and the container's name for it; undefined if another tool
   manages the container. @param {Owner} owner */
function container(owner) {
  const runtime = owner["container.runtime.name"];
  if (!["docker", "podman"].includes(runtime) || owner["k8s.pod.name"]) return undefined;
  const name = owner["container.name"];
  return { runtime, name: name && isPlain(name) ? name : owner["container.id"].slice(0, 12) };
}

/** Returns the path of a file of a cgroup. @param {Cgroups} cgroups @param {string} path @param {string} file */
const file = (cgroups, path, file) => quote(`${cgroups.mount}${path === "/" ? "" : path}/${file}`);

/**
 * Returns the command that sets the CPU limit of a group.
 * @param {Owner} owner @param {number} cpus @param {Cgroups} [cgroups] @param {string} [path] the group with the
 * limit, if that is not the owner's group
 * @returns {{command?: string, note?: string}}
 */
export function limitCommand(owner, cpus, cgroups, path) {
  const own = owner["process.linux.cgroup"];
  const target = path ?? own;
  if (!path || path === own) {
    const found = container(owner);
    if (found) return { command: `${found.runtime} update --cpus ${short(cpus)} ${quote(found.name)}` };
    const [pod, namespace, name] = ["k8s.pod.name", "k8s.namespace.name", "container.name"].map((key) => owner[key]);
    if (pod && namespace && name) {
      if (![pod, namespace, name].every((word) => /^[a-z0-9.-]+$/.test(word))) return {};
      const limits = { cpu: `${Math.round(cpus * 1000)}m` };
      const patch = JSON.stringify({ spec: { containers: [{ name, resources: { limits } }] } });
      return {
        command: `kubectl -n ${namespace} patch pod ${pod} --subresource resize --patch '${patch}'`,
        note: "Kubernetes 1.33 and newer, until the pod is replaced; set it in the workload's manifest too",
      };
    }
  }
  if (!target?.startsWith("/") || target === "/" || !isPlain(target)) return {};
  const unit = owner["container.id"] ? undefined : unitOf(target);
  if (unit) return { command: `systemctl set-property --runtime ${quote(unit)} CPUQuota=${Math.round(cpus * 100)}%`, note: "until the next boot" };
  if (!cgroups) return {};
  const quota = Math.round(cpus * 100_000);
  const command = cgroups.unified
    ? `echo ${quota} 100000 > ${file(cgroups, target, "cpu.max")}`
    : `echo $((${Math.round(cpus * 1000)} * $(cat ${file(cgroups, target, "cpu.cfs_period_us")}) / 1000)) > ${file(cgroups, target, "cpu.cfs_quota_us")}`;
  return { command };
}

/**
 * Returns the siblings at which two paths diverge, or undefined if one path contains the other.
 * @param {string} [a] @param {string} [b]
 */
export function siblings(a, b) {
  if (!a?.startsWith("/") || !b?.startsWith("/")) return undefined;
  const [one, two] = [a, b].map((path) => path.split("/").slice(1));
  let same = 0;
  while (same < one.length && one[same] === two[same]) same += 1;
  if (!one[same] || !two[same]) return undefined;
  const until = (/** @type {string[]} */ parts) => `/${parts.slice(0, same + 1).join("/")}`;
  return { own: until(one), other: until(two) };
}

/** Matches the parents of unrelated groups. A low weight would slow down all of these. */
const SHARED = /^\/(system\.slice|user\.slice|machine\.slice|kubepods|docker|lxc|init\.scope)/;

/**
 * Returns the command that gives a culprit the lowest weight where it competes with its victim.
 * @param {Owner} culprit @param {Owner} victim @param {Cgroups} [cgroups]
 * @returns {Advice | undefined}
 */
export function weightAdvice(culprit, victim, cgroups) {
  const parts = siblings(culprit["process.linux.cgroup"], victim["process.linux.cgroup"]);
  if (!parts) return undefined;
  const path = parts.own;
  const is = path === culprit["process.linux.cgroup"] ? culprit.name : path;
  if (is === path && SHARED.test(path)) return undefined;
  const words = `give ${is} the lowest CPU weight: it then yields to the others, and still uses a CPU that they leave`;
  const pod = culprit["k8s.pod.name"];
  if (pod) return { words: `lower the CPU request of ${culprit["k8s.namespace.name"] ?? ""}/${pod}: its weight follows it; or move it to another node` };
  const found = container(culprit);
  if (found && path === culprit["process.linux.cgroup"]) {
    return { words, command: `${found.runtime} update --cpu-shares 2 ${quote(found.name)}` };
  }
  if (!isPlain(path)) return { words };
  const unit = unitOf(path);
  if (unit) return { words, command: `systemctl set-property --runtime ${quote(unit)} CPUWeight=1`, note: "until the next boot" };
  if (!cgroups) return { words };
  const [value, name] = cgroups.unified ? [1, "cpu.weight"] : [2, "cpu.shares"];
  return { words, command: `echo ${value} > ${file(cgroups, path, name)}` };
}

/** Matches the clause of the agent's advice that names a limit. */
const PART = /raise (its limit|the limit of .*?) \(now [^)]*\)/;

/**
 * Returns the new value for a limit that holds a group back, and the command that sets it.
 * @param {Record<string, any>} hurt a row of `now` @param {number} cpus of the machine @param {Cgroups} [cgroups]
 * @returns {Advice | undefined}
 */
export function limitAdvice(hurt, cpus, cgroups) {
  const { kind, quota, threads, next_step: next } = hurt.verdict;
  if (!quota || !next || !["held_by_quota", "quota_and_neighbours"].includes(kind)) return undefined;
  const wanted = Math.min(threads ?? 0, cpus);
  const limit = roundUp(wanted);
  if (!(limit > quota.cpus)) return undefined;
  const path = quota["process.linux.cgroup"];
  const whose = path ? `the limit of ${path}` : "its limit";
  const raise = `it wanted ${short(wanted)} CPU: raise ${whose} from ${short(quota.cpus)} to ${short(limit)}`;
  // Replaces only the clause about the limit. Without such a clause, a higher limit does not help.
  if (!PART.test(next)) return undefined;
  const words = next.replace(PART, () => raise);
  return { words, ...limitCommand(hurt, limit, cgroups, path) };
}
