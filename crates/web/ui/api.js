// What the agent says.

import { momentOf } from "./format.js";

/**
 * @typedef {(number | null)[]} Steps
 * @typedef {object} OwnerRow
 * @property {number} id
 * @property {string} name
 * @property {Steps} cpus
 * @property {Record<string, number>} [causes]
 * @property {{kind: string}} [verdict]
 * @typedef {OwnerRow & Record<string, any>} Owner
 * @typedef {object} Hurt
 * @property {number} [id]
 * @property {string} name
 * @property {{kind: string, culprit?: string, culprit_id?: number, reason: string, next_step?: string}} verdict
 * @property {number} since_unix_nano
 * @typedef {{of?: number, causes: Record<string, Steps>, p50_seconds: Steps, p90_seconds: Steps, p99_seconds: Steps, max_seconds: Steps, bounds_seconds: number[], lengths: number[][], missing: number}} WaitSteps
 * @typedef {object} History
 * @property {number} sequence
 * @property {number} [oldest_unix_nano]
 * @property {number} [newest_unix_nano]
 * @property {number} from_unix_nano
 * @property {number} to_unix_nano
 * @property {number} step_seconds
 * @property {number} cpus
 * @property {number[]} covered_seconds
 * @property {{used: Steps, idle: Steps, remainder: Steps, interrupt?: Steps, steal?: Steps, steal_included?: Steps}} node
 * @property {WaitSteps} [waits] absent where waits are not measured, as is what follows from them
 * @property {{cpu: number, busy: Steps, taken: Steps, holder: Steps, held: Steps}[]} [strips]
 * @property {number} owners_total
 * @property {number} crowded
 * @property {number} [crowded_pairs]
 * @property {Owner[]} owners
 * @property {Record<string, any>[]} [pairs]
 * @property {{victim: number, culprit: number, wait: Steps}} [pair]
 * @property {{zone: string, name: string, part_of?: number, watts: Steps}[]} [energy]
 * @property {Record<string, Steps>} events
 * @property {Steps} losses
 * @property {Steps} agent
 * @property {{time_unix_nano: number, window_seconds: number, rows: Hurt[], more: number}} [now]
 * @typedef {{features: Record<string, string>[]}} Doctor the answer to `features`
 */

/**
 * Characters that a name can hide behind (controls, overrides of the direction) come as escapes of JSON,
 * and nothing else does: they stay escapes, so that everybody sees them.
 * @param {string} text
 */
export function parseVisibly(text) {
  return JSON.parse(text.replace(/\\(\\|u[0-9a-f]{4})/g, (found) => (found === "\\\\" ? found : `\\${found}`)));
}

/** There are no figures of this kind: the words say why. */
export class Refusal extends Error {}

/** A part of the query is wrong: the words say which. */
export class WrongQuery extends Error {}

/** An answer that takes longer does not come: the agent is stopped, or its machine is. */
const PATIENCE_MS = 20_000;

export const NO_CONNECTION = "no connection to the agent: trying again";

/** @param {string} resource @param {Record<string, string | number | null | undefined>} [query] */
export async function get(resource, query = {}) {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") given.set(name, String(value));
  }
  const lost = () => {
    throw new Error(NO_CONNECTION);
  };
  const answer = await fetch(`/api/v1/${resource}?${given}`, { signal: AbortSignal.timeout(PATIENCE_MS) }).catch(lost);
  const text = await answer.text().catch(lost);
  if (!answer.ok) {
    let words = `${answer.status}`;
    try {
      words = JSON.parse(text).error;
    } catch {
      // Not ours: the status says enough.
    }
    const Problem = { 400: WrongQuery, 503: Refusal }[answer.status] ?? Error;
    throw new Problem(words);
  }
  return parseVisibly(text);
}

/**
 * Why something is not measured, in words; "" where it is.
 * @param {Doctor | null | undefined} health @param {string} name of the feature
 */
export function notMeasured(health, name) {
  const feature = health?.features.find((one) => one.name === name);
  if (!feature || feature.state === "on") return "";
  return `Not measured: ${feature.reason}${feature.mend ? `; ${feature.mend}` : ""}`;
}

/**
 * Since when the agent has no new figures, in words; "" while they come.
 * @param {Record<string, any> | null | undefined} node the answer to `node`
 * @param {number} now seconds since 1970
 */
export function stalled(node, now) {
  const since = node?.stalled_since_unix_nano;
  if (since === undefined) return "";
  return `no new figures since ${momentOf(since / 1e9, now)}: the agent's collection has stalled, and this page shows that moment`;
}

/** After a refusal the page asks for the figures once, and this much later for the stream again. */
const REFUSED_MS = 2000;

/**
 * Calls after each batch, and when the stream breaks and comes back. A page that nobody sees has no stream: a browser
 * has six connections to a server, and so many hidden pages would leave none to the one that is looked at.
 * @param {(at: number) => void} onTick the moment of the batch, seconds since 1970
 * @param {(connected: boolean) => void} onState
 */
export function ticks(onTick, onState) {
  /** @type {EventSource | undefined} */
  let source;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let lost;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let refused;
  const found = () => {
    clearTimeout(lost);
    lost = undefined;
    onState(true);
  };
  const close = () => {
    source?.close();
    source = undefined;
    clearTimeout(lost);
    lost = undefined;
    clearTimeout(refused);
  };
  /** @param {EventSource} instead the stream that was refused */
  const poll = async (instead) => {
    const node = await get("node").catch(() => undefined);
    if (!node || source !== instead) return;
    found();
    onTick(node.time_unix_nano / 1e9);
  };
  const open = () => {
    const opened = new EventSource("/api/v1/stream");
    source = opened;
    opened.addEventListener("open", found);
    opened.addEventListener("tick", ({ data }) => {
      found();
      onTick(JSON.parse(data).time_unix_nano / 1e9);
    });
    opened.addEventListener("error", () => {
      // Streams end and begin anew all the time: that is no news. Each attempt that fails is an error again,
      // and comes sooner than the patience ends: it began with the first.
      lost ??= setTimeout(() => onState(false), 4000);
      // A refusal ends it for good.
      if (opened.readyState !== EventSource.CLOSED) return;
      refused = setTimeout(open, REFUSED_MS);
      poll(opened);
    });
  };
  const follow = () => {
    close();
    if (!document.hidden) open();
  };
  document.addEventListener("visibilitychange", follow);
  follow();
}
