// Interprets responses of the API for the panels. Draws nothing.

import { quote } from "./advice.js";
import { percent, watts } from "./format.js";
import { keyOf } from "./state.js";
import { classPlace } from "./words.js";

/**
 * @typedef {import("./api.js").Hurt} Hurt
 * @typedef {{hurt: Hurt, wait: number, part: number}} Victim `wait` is its wait behind the culprit, in threads on average
 * @typedef {{name: string, id?: number, owner: Record<string, any>, wait: number, since: number, victims: Victim[]}} Culprit
 */

const NANO = 1e9;

/** Verdicts whose cause is another group. */
const BY_OTHERS = ["hurt_by_neighbour", "hurt_by_neighbours"];

/**
 * Sorts the hurt groups by main culprit, the worst culprit first. Groups that no other group hurts are in `alone`.
 * @param {{rows: Hurt[], window_seconds: number}} now
 * @returns {{culprits: Culprit[], alone: Hurt[]}}
 */
export function grouped({ rows, window_seconds: window }) {
  const culprits = /** @type {Map<string, Culprit>} */ (new Map());
  const alone = [];
  const length = Math.max(window, 1e-3);
  for (const hurt of rows) {
    const behind = hurt.behind ?? [];
    const named = hurt.verdict.culprit;
    const main = behind.find((it) => it.name === named && (hurt.verdict.culprit_id ?? it.id) === it.id) ?? (named ? { name: named, id: hurt.verdict.culprit_id, "wait.seconds": 0 } : behind[0]);
    if (!BY_OTHERS.includes(hurt.verdict.kind) || !main) {
      alone.push(hurt);
      continue;
    }
    const key = keyOf(main.id, main.name);
    const known = culprits.get(key) ?? /** @type {Culprit} */ ({ name: main.name, id: main.id, owner: main, wait: 0, since: Infinity, victims: [] });
    // A culprit that stands for several jobs is not in the list, so the whole wait of the group is used.
    const wait = (main["wait.seconds"] || hurt["wait.seconds"]) / length;
    known.wait += wait;
    known.since = Math.min(known.since, hurt.since_unix_nano / NANO);
    known.victims.push({ hurt, wait, part: partOf(hurt, length) });
    culprits.set(key, known);
  }
  const sorted = [...culprits.values()].sort((a, b) => b.wait - a.wait);
  for (const culprit of sorted) culprit.victims.sort((a, b) => b.wait - a.wait);
  return { culprits: sorted, alone };
}

/** Returns the wait of a group as a share of its CPU demand.
   @param {Hurt} hurt @param {number} length of the window */
const partOf = (hurt, length) => Math.min(1, hurt["wait.seconds"] / length / Math.max(hurt.verdict.threads ?? 0, 1e-9));

/** Describes how busy the CPUs are. @param {number} idle idle CPUs on average @param {number} cpus */
export function busyWords(idle, cpus) {
  const free = Math.round(idle);
  if (idle < 0.05 * cpus || free === 0) {
    if (cpus === 1) return idle < 0.05 ? "The CPU is busy." : `The CPU is ${percent(1 - idle)} busy.`;
    if (idle < 0.05 * cpus) return cpus === 2 ? "Both CPUs are busy." : `All ${cpus} CPUs are busy.`;
    return `The ${cpus} CPUs are ${percent(1 - idle / cpus)} busy.`;
  }
  return `${free} of ${cpus} CPUs ${free === 1 ? "is" : "are"} idle.`;
}

/**
 * Returns each class of the threads' time with its share, in the order of the bar.
 * @param {{"cpu.seconds": number, "wait.seconds": number, blocked?: Record<string, number>}} account
 */
export function partsOf(account) {
  const { "cpu.seconds": running, "wait.seconds": runnable, blocked = {} } = account;
  const parts = Object.entries({ running, runnable, ...blocked });
  const all = parts.reduce((sum, [, seconds]) => sum + seconds, 0);
  if (!(all > 0)) return [];
  return parts
    .filter(([, seconds]) => seconds > 0)
    .map(([name, seconds]) => ({ name, seconds, part: seconds / all }))
    .sort((a, b) => classPlace(a.name) - classPlace(b.name));
}

/**
 * Returns the `noctule why` command for a group; "" if there is no group, as for kernel threads.
 * @param {Record<string, any>} group @param {boolean} recorded @param {{from: number, to: number}} span seconds since 1970
 */
export function whyCommand(group, recorded, { from, to }) {
  const { "container.id": container, "systemd.unit": unit, "process.linux.cgroup": path } = group;
  if (!container && !unit && !path) return "";
  const isNamed = container ? group["container.name"] && !group["k8s.pod.name"] : unit;
  const plainly = quote(isNamed ? group.name : (container?.slice(0, 12) ?? path));
  if (!recorded) return `noctule why ${plainly}`;
  const at = new Date(Math.floor(from) * 1000).toISOString().replace(".000", "");
  return `noctule why ${plainly} --from DIR --at ${at} --for ${Math.max(1, Math.round(to - from))}s`;
}

/** Returns the watts of a row of a table over the last interval; "–" if they are not known.
   @param {Record<string, any>} row @param {Record<string, any>[]} zones of the meters @param {number} seconds of the interval */
export function wattsOf(row, zones, seconds) {
  const joules = row["energy.joules"];
  const counted = [...new Set(zones.filter((zone) => zone.in_total).map((zone) => zone.zone))];
  if (!joules || !counted.length || zones.some((zone) => zone.still)) return "–";
  return watts(counted.reduce((sum, zone) => sum + (joules[zone] ?? 0), 0) / seconds);
}
