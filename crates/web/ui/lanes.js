// The episodes and marks of each group, as lanes of the timeline.

import { clock } from "./format.js";
import { keyOf } from "./state.js";
import { kindLook } from "./words.js";

/**
 * @typedef {{from_unix_nano: number, to_unix_nano: number, kind: string, culprit?: string, "hurt.seconds": number, judged_seconds: number, worst_unix_nano: number, reason: string}} Episode
 * @typedef {{time_unix_nano: number, id?: number, name: string}} Mark
 * @typedef {{id?: number, name: string, "hurt.seconds": number, episodes: Episode[]}} HurtGroup
 * @typedef {{from_unix_nano: number, to_unix_nano: number, rows: HurtGroup[], more: number, oom_kills?: Mark[], restarts: Mark[]}} Answer
 * @typedef {{kind: "episode" | "kill" | "restart", from: number, to: number, episode?: Episode}} Item
 * @typedef {{key: string, name: string, items: Item[]}} Lane
 */

const NANO = 1e9;
/** Length of the span around a moment, and minimum length around an episode, in seconds. */
const AROUND = 30;

/** Returns the average number of threads that were held in an episode. @param {Episode} episode */
export const severity = (episode) => episode["hurt.seconds"] / Math.max(episode.judged_seconds, 1e-3);

/** Returns the marks within the span of the lanes. The verdicts, and thus the lanes, can start later than the marks.
   @param {Answer} answer */
export function marksOf({ from_unix_nano: from, oom_kills: kills = [], restarts }) {
  const isShown = (/** @type {Mark} */ mark) => mark.time_unix_nano >= from;
  return { kills: kills.filter(isShown), restarts: restarts.filter(isShown) };
}

/** Returns the lanes: groups with episodes, the worst first, then groups that have only marks.
   @param {Answer} answer @returns {Lane[]} */
export function lanesOf(answer) {
  const lanes = /** @type {Map<string, Lane>} */ (new Map());
  const lane = (/** @type {number | undefined} */ id, /** @type {string} */ name) => {
    const key = keyOf(id, name);
    const found = lanes.get(key) ?? { key, name, items: [] };
    lanes.set(key, found);
    return found;
  };
  for (const row of answer.rows) {
    const items = row.episodes.map((episode) => ({
      kind: /** @type {const} */ ("episode"),
      from: episode.from_unix_nano / NANO,
      to: episode.to_unix_nano / NANO,
      episode,
    }));
    lane(row.id, row.name).items.push(...items);
  }
  const mark = (/** @type {Mark} */ { time_unix_nano: at, id, name }, /** @type {"kill" | "restart"} */ kind) =>
    lane(id, name).items.push({ kind, from: at / NANO, to: at / NANO });
  const marks = marksOf(answer);
  for (const restart of marks.restarts) mark(restart, "restart");
  // Kills are drawn over restarts.
  for (const kill of marks.kills) mark(kill, "kill");
  const sum = (/** @type {Lane} */ lane) => lane.items.reduce((all, item) => all + weight(item), 0);
  return [...lanes.values()].sort((a, b) => sum(b) - sum(a));
}

/** Returns the worst item of a lane: the episode that hurt most, or a kill. @param {Item[]} items @returns {Item | undefined} */
export function worst(items) {
  return items.toSorted((a, b) => weight(b) - weight(a))[0];
}

/** Weight of the time that a group lost to its own threads, relative to time lost to other groups. */
const OWN_PART = 0.01;

/** @param {Item} item */
function weight({ kind, episode }) {
  if (!episode) return kind === "kill" ? 1e-6 : 0;
  return episode["hurt.seconds"] * (episode.kind === "too_many_threads" ? OWN_PART : 1);
}

/** Returns the item nearest to a time; a mark is preferred to an episode that covers it. @param {Item[]} items @param {number} time @param {number} near seconds */
export function nearest(items, time, near) {
  const far = (/** @type {Item} */ { from, to }) => Math.max(0, from - time, time - to);
  const marks = items.filter((item) => item.kind !== "episode" && far(item) <= near);
  return (marks.length ? marks : items).toSorted((a, b) => far(a) - far(b))[0];
}

/** Returns the item after (1) or before (-1) the item that starts at a time. @param {Item[]} items @param {number} from @param {1 | -1} by */
export function neighbour(items, from, by) {
  const sorted = items.toSorted((a, b) => a.from - b.from);
  const at = sorted.findIndex((item) => item.from === from);
  return sorted[Math.min(Math.max(at + by, 0), sorted.length - 1)];
}

/** Number of lanes shown at first. */
const FIRST = 6;

/**
 * Returns the lanes shown at first. These lanes include the picked lane. Up to half of them are reserved for groups with OOM
 * kills.
 * @param {Lane[]} lanes @param {string} picked key of the picked lane
 */
export function firstLanes(lanes, picked) {
  const isKilled = (/** @type {Lane} */ lane) => lane.items.some((item) => item.kind === "kill");
  const killed = lanes.filter(isKilled).slice(0, FIRST / 2);
  const first = [...lanes.filter((lane) => lane.key === picked), ...killed, ...lanes];
  const chosen = new Set([...new Set(first)].slice(0, FIRST));
  return lanes.filter((lane) => chosen.has(lane));
}

/** Returns the span that the agent keeps, in seconds since 1970. @param {import("./api.js").History} history */
export const keptSpan = (history) => ({
  from: (history.oldest_unix_nano ?? history.from_unix_nano) / NANO,
  to: (history.newest_unix_nano ?? history.to_unix_nano) / NANO,
});

/**
 * Returns the state of the page that shows a moment of a group.
 * @param {string} key @param {number} time @param {{from: number, to: number}} whole
 */
export const momentChoice = (key, time, whole) => choice({ key }, { kind: "kill", from: time, to: time }, whole);

/**
 * Returns the state of the page that shows an item: the span around the item, the moment of its verdict, and its
 * group.
 * @param {{key: string}} lane @param {Item} item @param {{from: number, to: number}} whole
 */
export function choice(lane, item, whole) {
  const pad = item.kind === "episode" ? Math.max(5, (item.to - item.from) / 4) : AROUND;
  const from = Math.floor(Math.max(whole.from, item.from - pad));
  const to = Math.ceil(Math.max(from + 5, Math.min(whole.to, item.to + pad)));
  return { from, to, at: item.episode ? item.episode.worst_unix_nano / NANO : null, owner: lane.key, victim: "", culprit: "" };
}

/** Describes an item. @param {Item} item */
export function itemWords({ kind, from, to, episode }) {
  if (kind === "kill") return `OOM kill at ${clock(from)}`;
  if (kind === "restart") return `restarted at ${clock(from)}`;
  const look = kindLook(/** @type {Episode} */ (episode).kind).words;
  return `${clock(from)} – ${clock(to)} ${look}${episode?.culprit ? ` (${episode.culprit})` : ""}`;
}

/** Selects the worst episode of a recording once it is loaded. @param {Answer} answer */
export function worstOf(answer) {
  const lanes = lanesOf(answer);
  const found = lanes.flatMap((lane) => lane.items.map((item) => ({ lane, item })));
  const best = worst(found.map(({ item }) => item));
  return found.find(({ item }) => item === best);
}
