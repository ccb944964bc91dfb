// The user's choices. The address contains all of them, so that a copied link shows the same view.

/**
 * @typedef {object} State
 * @property {number} seconds length of the span in the live view
 * @property {number | null} from start, in seconds since 1970; null: live
 * @property {number | null} to end, in seconds since 1970
 * @property {number | null} at moment of the verdicts, seconds since 1970; null: the end of the span
 * @property {string} owner key (`keyOf`) of the group in the pane, whose waits are shown; "" for the machine
 * @property {string} victim victim of the pair shown over time
 * @property {string} culprit culprit of that pair
 * @property {string} table
 * @property {string} sort
 * @property {string} filter
 * @property {string} kind of events
 * @property {string} text that events contain
 * @property {string} severity of events: "" for all, or "trouble"
 * @property {string} mark span A of a comparison (`markOf`); "" without a comparison
 */

export const TABLES = ["containers", "pods", "units", "processes", "cgroups"];
export const SPANS = [60, 300, 900];

/** @type {State} */
export const USUAL = {
  seconds: 300,
  from: null,
  to: null,
  at: null,
  owner: "",
  victim: "",
  culprit: "",
  table: "containers",
  sort: "cpu",
  filter: "",
  kind: "",
  text: "",
  severity: "",
  mark: "",
};

/**
 * Returns the key of an owner in the address. The key contains the number and the name, because two
 * owners can share a name, and numbers change when the agent restarts.
 * @param {number | undefined} id @param {string} name
 */
export const keyOf = (id, name) => `${id ?? ""}:${name}`;

/** @param {string} key */
export const nameIn = (key) => key.replace(/^[0-9]*:/, "");

/** Returns the keys by which the API can sort a table. Containers are sorted by their sums over the span.
   @param {string} table */
export const sortsOf = (table) =>
  table === "containers" ? ["cpu", "wait", "hurts", "energy", "name"] : ["cpu", "wait", "name", "preempted", "throttled", "page_reads", "page_writes"];

/** Writes a span for the address. @param {{from: number, to: number}} span */
export const markOf = ({ from, to }) => `${Math.floor(from)}-${Math.ceil(to)}`;

/** Reads a span from the address; null if it is none. @param {string} mark @returns {{from: number, to: number} | null} */
export function spanIn(mark) {
  const [from, to, ...rest] = mark.split("-").map(Number);
  return !rest.length && from > 0 && from < to && to < 1e10 ? { from, to } : null;
}

/** Maximum length of a filter. The API accepts queries of 1024 bytes. */
const MOST_FILTER_BYTES = 700;
/** Latest moment that the API accepts, in the year 2286. */
const LAST_SECOND = 1e10;
const MOST_SECONDS = 86400;
/** Minimum length of a span, in seconds. */
const LEAST_SECONDS = 5;

/**
 * Reads the state from an address. Invalid parameters are ignored, and listed with a reason.
 * @param {string} hash @param {string} [query] the query string, which precedes the hash
 * @returns {{state: State, ignored: string[]}}
 */
export function read(hash, query = "") {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const state = { ...USUAL };
  /** @type {string[]} */
  const ignored = [];
  const ignore = (/** @type {string} */ name, /** @type {string} */ why) => {
    const value = given.get(name) ?? "";
    ignored.push(`${name}=${value.length > 40 ? `${value.slice(0, 39)}…` : value} (${why})`);
  };
  if (query) ignored.push(`${query.slice(0, 40)} (the page reads what stands behind #)`);
  for (const name of new Set(given.keys())) {
    if (!Object.hasOwn(USUAL, name)) ignore(name, `there are ${Object.keys(USUAL).join(", ")}`);
    else if (given.getAll(name).length > 1) ignore(name, "the first of several counts");
  }
  const number = (/** @type {string} */ name, /** @type {number} */ most) => {
    if (!given.has(name)) return null;
    const value = Number(given.get(name));
    if (value > 0 && value < most) return value;
    ignore(name, `must be a number above 0 and below ${most}`);
    return null;
  };
  state.seconds = Math.max(1, Math.round(number("seconds", MOST_SECONDS + 1) ?? USUAL.seconds));
  readSpan(state, number, ignore, given);
  state.at = number("at", LAST_SECOND);
  for (const name of /** @type {const} */ (["owner", "victim", "culprit", "sort", "filter", "kind", "text", "severity", "mark"])) {
    state[name] = given.get(name) ?? USUAL[name];
  }
  state.table = given.get("table") ?? USUAL.table;
  if (!TABLES.includes(state.table)) {
    ignore("table", `there are ${TABLES.join(", ")}`);
    state.table = USUAL.table;
  }
  if (!["", "trouble"].includes(state.severity)) {
    ignore("severity", "there is trouble");
    state.severity = USUAL.severity;
  }
  if (state.mark && !spanIn(state.mark)) {
    ignore("mark", "must be two moments, the earlier one first");
    state.mark = USUAL.mark;
  }
  if (!sortsOf(state.table).includes(state.sort)) {
    ignore("sort", `${state.table} have ${sortsOf(state.table).join(", ")}`);
    state.sort = USUAL.sort;
  }
  for (const name of /** @type {const} */ (["filter", "text"])) {
    if (new URLSearchParams({ [name]: state[name] }).toString().length <= MOST_FILTER_BYTES) continue;
    ignore(name, "too long");
    state[name] = USUAL[name];
  }
  return { state, ignored };
}

/**
 * @param {State} state
 * @param {(name: string, most: number) => number | null} number
 * @param {(name: string, why: string) => void} ignore
 * @param {URLSearchParams} given
 */
function readSpan(state, number, ignore, given) {
  const from = number("from", LAST_SECOND);
  const to = number("to", LAST_SECOND);
  if (from !== null && to !== null) {
    // The API rejects spans shorter than the resolution of its clock.
    if (to - from >= 0.001) Object.assign(state, { from, to });
    else ignore("from", "must be before to");
  } else if (from !== null) ignore("from", given.has("to") ? "its other end is not known" : "there is no to");
  else if (to !== null) ignore("to", given.has("from") ? "its other end is not known" : "there is no from");
}

/**
 * Returns a span in whole seconds. A span that extends beyond the last figures is moved back, with
 * the same length.
 * @param {number} from seconds since 1970 @param {number} to
 * @param {number} newest the moment of the last figures
 */
export function wholeSpan(from, to, newest) {
  const begin = Math.floor(from);
  const end = Math.max(Math.ceil(to), begin + LEAST_SECONDS);
  const beyond = Math.max(0, end - Math.ceil(newest));
  return { from: Math.max(1, begin - beyond), to: end - beyond };
}

/** Formats the choices that differ from the default. @param {State} state */
export function format(state) {
  const out = new URLSearchParams();
  for (const [name, value] of Object.entries(state)) {
    const usual = /** @type {Record<string, unknown>} */ (/** @type {unknown} */ (USUAL))[name];
    if (value !== null && value !== usual) out.set(name, String(value));
  }
  const text = out.toString();
  return text ? `#${text}` : "#";
}
