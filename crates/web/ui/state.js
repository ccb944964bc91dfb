// What the user chose. All of it stands in the address, so that a link shows a colleague the same.

/**
 * @typedef {object} State
 * @property {number} seconds length of the span while it is live
 * @property {number | null} from begin, seconds since 1970; null: live
 * @property {number | null} to end
 * @property {string} owner whose waits are shown, by keyOf; "": the machine's
 * @property {string} victim of the pair that is shown over time
 * @property {string} culprit likewise
 * @property {string} table
 * @property {string} sort
 * @property {string} filter
 * @property {string} kind of events
 */

export const TABLES = ["containers", "pods", "units", "processes", "cgroups"];
export const SPANS = [60, 300, 900];

/** @type {State} */
export const USUAL = {
  seconds: 300,
  from: null,
  to: null,
  owner: "",
  victim: "",
  culprit: "",
  table: "containers",
  sort: "cpu",
  filter: "",
  kind: "",
};

/**
 * What stands in the address for an owner: two can have one name, and after a new start of the agent the
 * numbers are others.
 * @param {number | undefined} id @param {string} name
 */
export const keyOf = (id, name) => `${id ?? ""}:${name}`;

/** @param {string} key */
export const nameIn = (key) => key.replace(/^[0-9]*:/, "");

/** @param {string} hash @returns {State} */
export function parse(hash) {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const state = { ...USUAL };
  const number = (/** @type {string} */ name) => {
    const value = Number(given.get(name));
    return Number.isFinite(value) && value > 0 ? value : null;
  };
  state.seconds = Math.min(number("seconds") ?? USUAL.seconds, 86400);
  const from = number("from");
  const to = number("to");
  if (from !== null && to !== null && from < to) Object.assign(state, { from, to });
  for (const name of /** @type {const} */ (["owner", "victim", "culprit", "sort", "filter", "kind"])) {
    state[name] = given.get(name) ?? USUAL[name];
  }
  const table = given.get("table") ?? "";
  state.table = TABLES.includes(table) ? table : USUAL.table;
  return state;
}

/** Only what is not as usual. @param {State} state */
export function format(state) {
  const out = new URLSearchParams();
  for (const [name, value] of Object.entries(state)) {
    const usual = /** @type {Record<string, unknown>} */ (/** @type {unknown} */ (USUAL))[name];
    if (value !== null && value !== usual) out.set(name, String(value));
  }
  const text = out.toString();
  return text ? `#${text}` : "#";
}
