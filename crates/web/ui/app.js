// The page: one state, which is stored in the address, and one set of responses for all panels.

import { html, render, useCallback, useEffect, useRef, useState } from "./ui.js";
import { NO_CONNECTION, Refusal, WrongQuery, get, stalled, ticks } from "./api.js";
import { spanOf } from "./format.js";
import { isCollected } from "./steps.js";
import { Box } from "./crosshair.js";
import { Episodes } from "./episodes.js";
import { Compare } from "./compare.js";
import { Export } from "./export.js";
import { Pane } from "./group.js";
import { Now } from "./headline.js";
import { worstOf } from "./lanes.js";
import { Cpu, Energy, Events, Health, Matrix, Waits } from "./panels.js";
import { ROWS, Tables } from "./tables.js";
import { SPANS, format, keyOf, markOf, nameIn, read, sortsOf, spanIn, wholeSpan } from "./state.js";

/** @typedef {import("./state.js").State} State */

const STEPS = 150;
/** Steps of each side of a comparison. A side starts at a multiple of a step. */
const COMPARED = 60;
/** Maximum number of CPUs shown as strips. */
const STRIPS = 128;
/** Features and memory change rarely. The page loads them once in this number of ticks. */
const SLOW_TICKS = 10;
/** After this time without a tick, the page requests `node` to find out why. */
const QUIET_MS = 5000;

/** @param {State} state */
const isLive = (state) => state.from === null;

/**
 * Returns the number of an owner in the current history: the number in the key if it still belongs
 * to this name, otherwise the number of any owner with the name.
 * @param {import("./api.js").History | null} history @param {string} key
 */
function idOf(history, key) {
  if (!key || !history) return undefined;
  const known = [
    ...history.owners.map((one) => ({ id: one.id, name: one.name })),
    ...(history.pairs ?? []).flatMap((one) => [
      { id: one.victim, name: one["victim.name"] },
      { id: one.culprit, name: one["culprit.name"] },
    ]),
    ...(history.now?.rows ?? []).map((row) => ({ id: row.id, name: row.name })),
  ].filter((one) => one.id !== undefined && one.name === nameIn(key));
  return (known.find((one) => keyOf(one.id, one.name) === key) ?? known[0])?.id;
}

/** @param {State} state @param {import("./api.js").History | null} known */
function historyQuery(state, known) {
  const victim = idOf(known, state.victim);
  const culprit = idOf(known, state.culprit);
  const spanned = state.table === "containers";
  return {
    ...(isLive(state) ? { seconds: state.seconds } : { from: state.from, to: state.to }),
    steps: STEPS,
    strips: STRIPS,
    owners: ROWS + 1,
    sort: spanned && sortsOf("containers").includes(state.sort) ? state.sort : "cpu",
    filter: spanned ? state.filter : "",
    at: state.at,
    waits_of: idOf(known, state.owner),
    pair: victim !== undefined && culprit !== undefined ? `${victim}-${culprit}` : undefined,
  };
}

/** @param {State} state */
async function loadAll(state, /** @type {any} */ shown, /** @type {boolean} */ slow) {
  let history = await get("history", historyQuery(state, shown.everything ?? shown.history));
  // A link contains names. The first response contains the numbers for these names. If a filter hides
  // owners, a second request gets all of them.
  const unfiltered = state.table === "containers" && (state.filter || state.sort !== "cpu");
  const everything = unfiltered
    ? await get("history", { ...historyQuery({ ...state, filter: "", sort: "cpu" }, shown.everything ?? history) })
    : history;
  const unnamed = history.waits && ((state.owner && history.waits.of === undefined) || (state.victim && state.culprit && !history.pair));
  if (unnamed && idOf(everything, state.owner || state.victim) !== undefined) {
    history = await get("history", historyQuery(state, everything));
  }
  const span = { from: history.from_unix_nano / 1e9, to: history.to_unix_nano / 1e9 };
  const table = state.table === "containers" ? null : await get(state.table, { sort: state.sort, limit: ROWS + 1, filter: state.filter });
  const owner = history.waits?.of ?? idOf(everything, state.owner);
  // A group that is not in the history has no id, only a name.
  const of = { owner, filter: state.text || (owner === undefined ? nameIn(state.owner).slice(0, 200) : "") };
  const events = await loadEvents({ ...span, ...of, kind: state.kind, severity: state.severity, limit: 200 });
  const group = state.owner && owner !== undefined ? await get("group", { id: owner, ...(isLive(state) ? { seconds: state.seconds } : { from: state.from, to: state.to }), at: state.at }).catch(none) : null;
  const own = group ? await loadEvents({ ...span, limit: 8, owner }).catch(none) : null;
  const episodes = await get("episodes", {}).catch(none);
  const mark = spanIn(state.mark);
  const marked = mark ? await get("history", { ...mark, steps: COMPARED, owners: ROWS, pairs: 1 }) : null;
  const compared = mark ? await get("history", { ...span, steps: COMPARED, owners: ROWS, pairs: 1 }) : null;
  const more = slow ? { health: await get("features"), node: await get("node") } : {};
  return { history, everything, table, events, group, groupOf: state.owner, groupEvents: own?.rows ?? [], episodes, marked, compared, ...more };
}

/** Returns null for a refused request, so that the page leaves out its panel: a feature can be off.
   @param {unknown} problem */
function none(problem) {
  if (problem instanceof Refusal || problem instanceof WrongQuery) return null;
  throw problem;
}

/** Loads events. If the agent rejects the kind, loads all kinds and returns the reason. A group that the agent has
   just dropped has no events.
   @param {Record<string, any>} query @returns {Promise<any>} */
async function loadEvents(query) {
  try {
    return await get("events", query);
  } catch (problem) {
    if (problem instanceof Refusal) return { refused: problem.message };
    if (!(problem instanceof WrongQuery)) throw problem;
    if (problem.message.startsWith("owner:")) return { rows: [], more: 0, forgotten: 0 };
    if (!query.kind) throw problem;
    return { ...(await loadEvents({ ...query, kind: "" })), ignored: problem.message };
  }
}

const KEYS = [
  ["1 2 3", "the last 1, 5 or 15 minutes"],
  ["l", "live"],
  ["p", "pause, or go on"],
  ["← →", "earlier, later"],
  ["+ −", "zoom in, zoom out"],
  ["a", "mark the span as A, to compare it with other spans"],
  ["e", "export"],
  ["/", "filter"],
  ["Esc", "close details, export and pane, then the end of the span, then live, or all of a recording"],
  ["?", "this help"],
];

function App() {
  const [{ state, ignored }, setRead] = useState(() => read(location.hash, location.search));
  const [shown, setShown] = useState(/** @type {any} */ ({}));
  const [error, setError] = useState("");
  const [connected, setConnected] = useState(true);
  const [help, setHelp] = useState(false);
  const [exporting, setExporting] = useState(false);
  const [detail, setDetail] = useState(/** @type {import("./tables.js").Opened | null} */ (null));
  const latest = useRef({ state, shown, error, busy: false, again: false, count: 0, ticked: 0, newest: 0 });
  latest.current.state = state;
  latest.current.error = error;
  latest.current.shown = shown;

  const set = useCallback((/** @type {Partial<State>} */ change) => {
    setRead((/** @type {{state: State}} */ old) => {
      const next = { ...old.state, ...change };
      const typed = Object.keys(change).every((key) => key === "filter" || key === "text");
      const address = location.pathname + format(next);
      if (typed) window.history.replaceState(null, "", address);
      else window.history.pushState(null, "", address);
      // The new address has no invalid parameter.
      return { state: next, ignored: [] };
    });
  }, []);

  const isOpened = useRef(location.hash.length > 1);
  // Opens a recording: shows its whole span and selects its worst episode.
  const openRecording = useCallback((/** @type {any} */ { node, episodes }) => {
    if (isOpened.current || !node) return;
    isOpened.current = true;
    if (!node.recorded || !isLive(latest.current.state)) return;
    const [from, to] = [Math.floor(node.recorded.from_unix_nano / 1e9), Math.ceil(node.recorded.to_unix_nano / 1e9)];
    const found = episodes && worstOf(episodes);
    const worst = found?.item.episode ? { owner: found.lane.key, at: found.item.episode.worst_unix_nano / 1e9 } : {};
    setRead((/** @type {{state: State}} */ old) => {
      const next = { ...old.state, from, to: Math.max(to, from + 1), ...worst };
      window.history.replaceState(null, "", location.pathname + format(next));
      return { state: next, ignored: [] };
    });
  }, []);

  const load = useCallback(async () => {
    const now = latest.current;
    if (now.busy) {
      now.again = true;
      return;
    }
    now.busy = true;
    try {
      const asked = now.state;
      const slow = now.count % SLOW_TICKS === 0 || stalled(now.shown.node, 0) !== "";
      const answer = await loadAll(asked, now.shown, slow);
      now.count += 1;
      setShown((/** @type {any} */ old) => ({ ...old, ...answer }));
      openRecording(answer);
      setError("");
    } catch (problem) {
      setError(problem instanceof Error ? problem.message : String(problem));
    } finally {
      now.busy = false;
      if (now.again) {
        now.again = false;
        setTimeout(load, 0);
      }
    }
  }, []);

  useEffect(() => {
    load();
  }, [state]);
  useEffect(() => {
    // A hidden page sends no requests.
    ticks((at) => {
      latest.current.ticked = performance.now();
      latest.current.newest = at;
      // Repeats a failed request even if the shown span is fixed.
      const wanted = isLive(latest.current.state) || latest.current.error;
      if (wanted && !document.hidden) load();
    }, setConnected);
    const asking = setInterval(async () => {
      if (document.hidden || performance.now() - latest.current.ticked < QUIET_MS) return;
      // Repeats a failed request, because a recording has no ticks that would do so.
      if (latest.current.error) load();
      try {
        const node = await get("node");
        setShown((/** @type {any} */ old) => ({ ...old, node }));
      } catch (problem) {
        if (problem instanceof Error && problem.message === NO_CONNECTION) setConnected(false);
      }
    }, QUIET_MS);
    const back = () => setRead(read(location.hash, location.search));
    const seen = () => {
      if (!document.hidden) load();
    };
    addEventListener("popstate", back);
    document.addEventListener("visibilitychange", seen);
    return () => {
      clearInterval(asking);
      removeEventListener("popstate", back);
      document.removeEventListener("visibilitychange", seen);
    };
  }, []);

  const history = shown.history;
  const span = history ? { from: history.from_unix_nano / 1e9, to: history.to_unix_nano / 1e9 } : null;
  const zoom = useCallback((/** @type {number} */ from, /** @type {number} */ to) => {
    // A recording has no ticks, and a paused page has no newer history.
    const { shown: now, newest, state } = latest.current;
    const next = wholeSpan(from, to, Math.max(newest, (now.history?.newest_unix_nano ?? 0) / 1e9) || Infinity);
    const stays = state.at !== null && next.from <= state.at && state.at <= next.to;
    set({ ...next, at: stays ? state.at : null });
  }, []);
  // Keys change the requested span, even if the page does not show it yet.
  const asked = state.from !== null && state.to !== null ? { from: state.from, to: state.to } : span;
  const shift = (/** @type {number} */ part) => {
    if (!asked) return;
    const by = (asked.to - asked.from) * part;
    zoom(asked.from + by, asked.to + by);
  };
  const scale = (/** @type {number} */ factor) => {
    if (!asked) return;
    const half = ((asked.to - asked.from) * factor) / 2;
    const middle = (asked.from + asked.to) / 2;
    zoom(middle - half, middle + half);
  };
  const live = (seconds = state.seconds) => set({ from: null, to: null, at: null, seconds });
  const recorded = shown.node?.recorded;
  const all = () => zoom(recorded.from_unix_nano / 1e9, recorded.to_unix_nano / 1e9);
  const pause = () => (isLive(state) ? span && zoom(span.from, span.to) : live());
  // Both are at the same place.
  const toggleHelp = () => (setExporting(false), setHelp(!help));
  const toggleExport = () => (setHelp(false), setExporting(!exporting));
  useKeys({
    1: () => live(60),
    2: () => live(300),
    3: () => live(900),
    l: () => live(),
    p: () => recorded || pause(),
    ArrowLeft: () => shift(-0.5),
    ArrowRight: () => shift(0.5),
    "+": () => scale(0.5),
    "-": () => scale(2),
    a: () => span && set({ mark: markOf(span) }),
    e: () => toggleExport(),
    "/": () => document.getElementById("filter")?.focus(),
    "?": () => toggleHelp(),
    Escape: () => {
      if (help) setHelp(false);
      else if (exporting) setExporting(false);
      else if (detail) setDetail(null);
      else if (state.victim) set({ victim: "", culprit: "" });
      else if (state.owner) set({ owner: "" });
      else if (state.at !== null) set({ at: null });
      else if (recorded) all();
      else if (!isLive(state)) live();
    },
  });

  const stands = stalled(shown.node, Date.now() / 1000);
  const trouble = error || (connected ? stands : NO_CONNECTION);
  const panel = { history, health: shown.health, state, set, onZoom: zoom };
  const whole = shown.history;
  const mark = spanIn(state.mark);
  const kills = shown.episodes?.oom_kills ?? [];
  useEffect(() => {
    const hurt = whole?.now ? whole.now.rows.length + whole.now.more : 0;
    const host = shown.node?.["host.name"];
    document.title = [...(hurt ? [`${hurt} hurt`] : []), ...(host ? [host] : []), "noctule"].slice(0, 2).join(" - ");
  }, [whole, shown.node]);
  return html`
    <header>
      <h1>noctule${shown.node ? html` <span class="host">${shown.node["host.name"]}${recorded ? " (recording)" : ""}</span>` : null}</h1>
      <nav aria-label="Time">
        ${SPANS.map(
          (seconds) => html`<button aria-pressed=${String(isLive(state) && state.seconds === seconds)} onClick=${() => live(seconds)}>${seconds / 60} min</button>`,
        )}
        ${recorded
          ? html`<button onClick=${all}>all</button>
              <button aria-pressed=${String(isLive(state))} onClick=${() => live()}>end</button>`
          : html`<button aria-pressed=${String(isLive(state))} onClick=${pause}>
              ${isLive(state) ? (stands ? "stalled" : "live") : "paused"}
            </button>`}
        <span class="span">${span ? spanOf(span.from, span.to, recorded ? 0 : Date.now() / 1000) : ""}</span>
        ${span
          ? html`<button onClick=${() => set({ mark: markOf(span) })} title="compare other spans with this one">mark as A</button>
              <button onClick=${toggleExport} aria-expanded=${String(exporting)}>export</button>`
          : null}
        <button onClick=${toggleHelp} aria-expanded=${String(help)} aria-label="keys">?</button>
      </nav>
    </header>
    ${trouble ? html`<p class="error" role="alert">${trouble}</p>` : null}
    ${ignored.length ? html`<p class="ignored" role="status">Ignored in the address: ${ignored.join("; ")}.</p>` : null}
    ${help
      ? html`<aside class="help" aria-label="Keys">
          <dl>${KEYS.map(([key, words]) => html`<div><dt><kbd>${key}</kbd></dt><dd>${words}</dd></div>`)}</dl>
          <p>Drag in a picture to zoom. The address holds what you see: a link shows it to others, as long as the agent remembers it.</p>
        </aside>`
      : null}
    ${exporting && history ? html`<${Export} history=${history} node=${shown.node} recorded=${!!recorded} close=${() => setExporting(false)} />` : null}
    <div class=${state.owner ? "layout with-pane" : "layout"}>
      <main>
        ${history
          ? html`
              <${Episodes} answer=${shown.episodes} span=${span} state=${state} set=${set} />
              ${isCollected(history)
                ? html`
                    <${Now} ...${panel} node=${shown.node} kills=${kills} recorded=${!!recorded} />
                    ${mark && shown.marked ? html`<${Compare} before=${shown.marked} after=${shown.compared} recorded=${!!recorded} set=${set} />` : null}
                    <${Cpu} ...${panel} top=${shown.everything.owners.slice().sort((/** @type {any} */ a, /** @type {any} */ b) => b["cpu.seconds"] - a["cpu.seconds"])} />
                    <${Waits} ...${panel} />
                    <${Matrix} ...${panel} />
                  `
                : html`<p class="none">Nothing was collected in this span: the agent did not run, or no longer remembers it.</p>`}
              <${Tables} ...${panel} table=${shown.table} recorded=${!!recorded} open=${detail} setOpen=${setDetail} />
              <${Events} ...${panel} events=${shown.events} ownerKey=${(/** @type {string} */ name) => keyOf(idOf(shown.everything, `:${name}`), name)} />
              <${Energy} ...${panel} />
              <${Health} history=${history} health=${shown.health} node=${shown.node} connected=${connected} />
            `
          : html`<p class="boot">${error ? "" : "loading"}</p>`}
      </main>
      ${state.owner && history ? html`<${Pane} history=${history} group=${shown.groupOf === state.owner ? shown.group : undefined} events=${shown.groupEvents ?? []} node=${shown.node} health=${shown.health} state=${state} set=${set} />` : null}
    </div>
    <${Box} />
    <footer><a href="/metrics">/metrics</a> <a href="/api/v1/openapi.json">API</a> <a href="/readyz">/readyz</a></footer>
  `;
}

/** @param {Record<string, () => void>} actions */
function useKeys(actions) {
  const current = useRef(actions);
  current.current = actions;
  useEffect(() => {
    const pressed = (/** @type {KeyboardEvent} */ event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const target = /** @type {HTMLElement} */ (event.target);
      if (["INPUT", "SELECT", "TEXTAREA"].includes(target.tagName)) {
        if (event.key === "Escape") target.blur();
        return;
      }
      // A region that scrolls sideways keeps its arrow keys.
      if (event.key.startsWith("Arrow") && target.tagName !== "BODY" && target.scrollWidth > target.clientWidth) return;
      const action = current.current[event.key];
      if (!action) return;
      event.preventDefault();
      action();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}

const place = document.getElementById("app");
if (place) {
  place.textContent = "";
  render(html`<${App} />`, place);
}
