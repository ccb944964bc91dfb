// The client of the agent's JSON API.

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
 * @typedef {HurtRow & Record<string, any>} Hurt
 * @typedef {object} HurtRow
 * @property {number} [id]
 * @property {string} name
 * @property {{kind: string, culprit?: string, culprit_id?: number, reason: string, next_step?: string, root_commands?: string[], threads?: number, quota?: Record<string, any>}} verdict
 * @property {{id?: number, name: string, "wait.seconds": number}[]} [behind]
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
 * @property {WaitSteps} [waits] if waits are not measured, this field and the fields derived from it are absent
 * @property {{cpu: number, busy: Steps, taken: Steps, holder: Steps, held: Steps}[]} [strips]
 * @property {number} owners_total
 * @property {number} crowded
 * @property {number} [crowded_pairs]
 * @property {Owner[]} owners
 * @property {Record<string, any>[]} [pairs]
 * @property {{victim: number, culprit: number, wait: Steps}} [pair]
 * @property {{zone: string, name: string, label: string, source: string, part_of?: number, watts: Steps}[]} [energy]
 * @property {Record<string, Steps>} events
 * @property {Steps} losses
 * @property {Steps} agent
 * @property {{time_unix_nano: number, window_seconds: number, rows: Hurt[], more: number}} [now]
 * @typedef {{features: Record<string, string>[]}} Doctor the response to `features`
 */

/**
 * Parses JSON in which the API has escaped only characters that can hide text (controls, direction
 * overrides). These characters stay escaped, so that they are visible on the page.
 * @param {string} text
 */
export function parseVisibly(text) {
  return JSON.parse(text.replace(/\\(\\|u[0-9a-f]{4})/g, (found) => (found === "\\\\" ? found : `\\${found}`)));
}

/** Figures of this kind are not available. The message gives the reason. */
export class Refusal extends Error {}

/** A parameter of the query is invalid. The message names the parameter. */
export class WrongQuery extends Error {}

/** Timeout of a request. After this time, the agent or its machine has probably stopped. */
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
      // The response is not from noctule, so only its status is reported.
    }
    const Problem = { 400: WrongQuery, 503: Refusal }[answer.status] ?? Error;
    throw new Problem(words);
  }
  return parseVisibly(text);
}

/**
 * Returns, as text, why a feature is not measured; "" if it is measured.
 * @param {Doctor | null | undefined} health @param {string} name of the feature
 */
export function notMeasured(health, name) {
  const feature = health?.features.find((one) => one.name === name);
  if (!feature || feature.state === "on") return "";
  return `Not measured: ${feature.reason}${feature.mend ? `; ${feature.mend}` : ""}`;
}

/**
 * Returns, as text, since when the agent has had no new figures; "" while figures arrive.
 * @param {Record<string, any> | null | undefined} node the response to `node`
 * @param {number} now seconds since 1970
 */
export function stalled(node, now) {
  const since = node?.stalled_since_unix_nano;
  if (since === undefined) return "";
  return `no new figures since ${momentOf(since / 1e9, now)}: the agent's collection has stalled, and this page shows that moment`;
}

/** After the server refuses the stream, the page polls the figures once, and retries the stream
   after this time. */
const REFUSED_MS = 2000;

/**
 * Calls back after each batch, and when the stream breaks or reconnects. A hidden page has no
 * stream, because a browser allows only six connections to a server, which hidden pages could use
 * up.
 * @param {(at: number) => void} onTick gets the moment of the batch, in seconds since 1970
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
      // Streams often end and restart, so one end is not reported at once. The timeout starts with
      // the first error. Every failed attempt raises another error before the timeout.
      lost ??= setTimeout(() => onState(false), 4000);
      // After a refusal the browser does not reconnect by itself.
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
