// Tables: containers over the whole span, and the other levels over the last interval.

import { html, useEffect, useRef, useState } from "./ui.js";
import { wattsOf } from "./answers.js";
import { get } from "./api.js";
import { Section, isModelled, useReturnedFocus } from "./section.js";
import { clock, count, duration, fixed, shorten, watts } from "./format.js";
import { TABLES, keyOf } from "./state.js";
import { NOTHING, isCollected } from "./steps.js";
import { causeLook, keyWords, kindLook } from "./words.js";

/**
 * @typedef {Record<string, any>} Row
 * @typedef {object} Column
 * @property {string} title
 * @property {string} [sort] sort key of the column in the API
 * @property {boolean} [number]
 * @property {(row: Row) => unknown} cell
 * @typedef {{table: string, key: string, name: string}} Opened the row whose details are shown
 */

export const ROWS = 100;

/** Draws a small graph of the CPU use. @param {{values: (number | null)[]}} props */
function Spark({ values }) {
  const most = Math.max(0.01, ...values.map((v) => v ?? 0));
  const width = 100 / Math.max(values.length, 1);
  const bars = values.map((v, at) => {
    if (!v) return "";
    const tall = Math.max(0.5, (v / most) * 16);
    return `M${(at * width).toFixed(2)} 16v-${tall.toFixed(2)}h${width.toFixed(2)}v${tall.toFixed(2)}z`;
  });
  return html`<svg class="spark" viewBox="0 0 100 16" preserveAspectRatio="none" aria-hidden="true"><path d=${bars.join("")} /></svg>`;
}

/** @param {Row} row */
export const nameOf = (row) =>
  row.name ??
  (row["process.pid"] !== undefined
    ? `${row["process.executable.name"]} [${row["process.pid"]}]`
    : row["k8s.pod.name"]
      ? `${row["k8s.namespace.name"] ?? ""}/${row["k8s.pod.name"]}`
      : row["container.name"] ?? row["systemd.unit"] ?? row["process.linux.cgroup"] ?? row["container.id"] ?? row["k8s.pod.uid"] ?? `#${row["cgroup.id"]}`);

/** Returns a key that identifies the row in later responses. @param {Row} row */
export const rowKey = (row) =>
  String(row.id ?? (row["process.pid"] === undefined ? nameOf(row) : `${row["process.pid"]}-${row["process.creation.time_unix_nano"]}`));

/** The heading of a column of watts. @param {boolean} isModel */
const wattsTitle = (isModel) => (isModel ? "watts (model)" : "watts");

/** @param {number} seconds of the span @param {boolean} isModel @returns {Column[]} */
function overSpan(seconds, isModel) {
  const part = (/** @type {string} */ key) => (/** @type {Row} */ row) => (row[key] === undefined ? "–" : fixed(row[key] / seconds));
  return [
    { title: "CPUs", sort: "cpu", number: true, cell: part("cpu.seconds") },
    { title: "over time", cell: (row) => html`<${Spark} values=${row.cpus} />` },
    { title: "threads waiting", sort: "wait", number: true, cell: part("wait.seconds") },
    { title: "makes wait", sort: "hurts", number: true, cell: part("hurts.seconds") },
    { title: wattsTitle(isModel), sort: "energy", number: true, cell: (row) => (row["energy.watts"] === undefined ? "–" : watts(row["energy.watts"])) },
    { title: "most because of", cell: (row) => topCause(row.causes) },
    { title: "verdict", cell: (row) => (row.verdict ? verdictCell(row.verdict.kind) : "–") },
  ];
}

/** @param {Record<string, number>} [causes] */
function topCause(causes = {}) {
  const [first] = Object.entries(causes).sort((a, b) => b[1] - a[1]);
  return first && first[1] > 0.001 ? causeLook(first[0]).words : "–";
}

/** @param {string} kind */
function verdictCell(kind) {
  if (kind === "quiet") return html`<span class="dim">not hurt</span>`;
  const { words, color } = kindLook(kind);
  return html`<span class="chip" style=${{ "--chip": `var(--${color})` }}></span>${words}`;
}

/** @param {number} seconds of the window @param {Row[]} zones of the meters @returns {Column[]} */
function overInterval(seconds, zones) {
  const rate = (/** @type {string} */ key) => (/** @type {Row} */ row) => (row[key] === undefined ? "–" : count(row[key] / seconds));
  const share = (/** @type {string} */ key) => (/** @type {Row} */ row) => (row[key] === undefined ? "–" : fixed(row[key] / seconds));
  return [
    { title: "CPUs", sort: "cpu", number: true, cell: share("cpu.seconds") },
    { title: "threads waiting", sort: "wait", number: true, cell: share("wait.seconds") },
    { title: wattsTitle(zones.every((zone) => zone.source === "model")), number: true, cell: (row) => wattsOf(row, zones, seconds) },
    { title: "preempted/s", sort: "preempted", number: true, cell: rate("switches.preempted") },
    { title: "throttled/s", sort: "throttled", number: true, cell: rate("switches.throttled") },
    { title: "pages read/s", sort: "page_reads", number: true, cell: rate("page_cache.reads") },
    { title: "pages written/s", sort: "page_writes", number: true, cell: rate("page_cache.writes") },
  ];
}

/**
 * @param {import("./panels.js").Panel & {table: Row | null, recorded: boolean, open: Opened | null, setOpen: (row: Opened | null) => void}} props
 */
export function Tables({ history, table, recorded, open, setOpen, state, set }) {
  const spanned = state.table === "containers";
  const seconds = spanned ? history.covered_seconds.reduce((a, b) => a + b, 0) || 1 : table?.window_seconds ?? 1;
  /** @type {Row[]} */
  const all = spanned ? history.owners : table?.rows ?? [];
  const rows = all.slice(0, ROWS);
  const known = (/** @type {Column} */ column) => rows.some((row) => column.cell(row) !== "–");
  const columns = (spanned ? overSpan(seconds, isModelled(history)) : overInterval(seconds, table?.energy?.zones ?? [])).filter(known);
  const end = recorded ? "of the recording" : "whatever the span";
  const note = spanned ? "over the span" : `over the last ${duration(seconds)}, ${end}`;
  const used = state.filter ? "no row matches the filter" : "nothing used the CPU";
  const none = spanned && !isCollected(history) ? NOTHING : used;
  const order = state.sort === "name" ? ["ascending", " ▴"] : ["descending", " ▾"];
  const header = (/** @type {Column} */ column) => {
    const [sorted, mark] = column.sort === state.sort ? order : [undefined, ""];
    return html`<th scope="col" class=${column.number ? "number" : ""} aria-sort=${sorted}>
      ${column.sort ? html`<button class="link" onClick=${() => set({ sort: column.sort })}>${column.title}${mark}</button>` : column.title}
    </th>`;
  };
  return html`<${Section} title="Tables" id="tables" note=${note}>
    <div class="bar">
      <div role="tablist" aria-label="Level">
        ${TABLES.map(
          (name) => html`<button role="tab" aria-selected=${String(state.table === name)} onClick=${() => (setOpen(null), set({ table: name, sort: "cpu" }))}>${name}</button>`,
        )}
      </div>
      <label>filter <input
          id="filter"
          type="search"
          placeholder="name, path, container id or pid"
          value=${state.filter}
          onInput=${(/** @type {any} */ e) => set({ filter: e.target.value })}
        />
      </label>
    </div>
    <div class="scroll" tabindex="0" role="region" aria-label=${`Table of ${state.table}`}>
      <table class="cards">
        <thead>
          <tr>${header({ title: "name", sort: "name", cell: nameOf })}${columns.map(header)}</tr>
        </thead>
        <tbody>
          ${rows.map(
            (row) => html`<tr key=${rowKey(row)} class=${row.exited ? "dim" : ""}>
              <th scope="row" title=${nameOf(row)}>
                <button class="link" onClick=${() => (spanned ? set({ owner: keyOf(row.id, row.name) }) : setOpen({ table: state.table, key: rowKey(row), name: nameOf(row) }))}>${shorten(nameOf(row), 48)}</button>${row.exited ? " (exited)" : ""}
              </th>
              ${columns.map((column) => html`<td class=${column.number ? "number" : ""} data-title=${column.title}>${column.cell(row)}</td>`)}
            </tr>`,
          )}
          ${rows.length ? null : html`<tr><td colspan=${columns.length + 1}>${none}</td></tr>`}
        </tbody>
      </table>
    </div>
    ${all.length > ROWS ? html`<p class="note">the first ${ROWS}; the filter finds the others</p>` : null}
    ${open && open.table === state.table
      ? html`<${Detail} key=${open.key} name=${open.name} row=${all.find((row) => rowKey(row) === open.key)} live=${!recorded} close=${() => setOpen(null)} />`
      : null}
  <//>`;
}

/**
 * Loads user and command line of a process. The agent reads them after the first request.
 * @param {Row} row @param {boolean} live
 */
function useProcess(row, live) {
  const [known, setKnown] = useState(/** @type {Row} */ ({}));
  const pid = row["process.pid"];
  useEffect(() => {
    if (!live || pid === undefined) return undefined;
    let timer = 0;
    let closed = false;
    const ask = async () => {
      const answer = await get("process", { pid }).catch(() => ({}));
      if (closed) return;
      // The pid may have been reused by now.
      const same = answer["process.creation.time_unix_nano"] === row["process.creation.time_unix_nano"];
      if (same && answer["process.owner"] !== undefined) setKnown(answer);
      else timer = setTimeout(ask, 1000);
    };
    ask();
    return () => {
      closed = true;
      clearTimeout(timer);
    };
  }, []);
  return known;
}

/** @param {{name: string, row?: Row, live: boolean, close: () => void}} props `row` is the
   current row; absent if the subject no longer exists */
function Detail({ name, row = {}, live, close }) {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  useReturnedFocus(place);
  const known = useProcess(row, live);
  const gone = Object.keys(row).length === 0;
  const single = Object.entries(row).filter(([key, value]) => !["cpus", "id", "name"].includes(key) && typeof value !== "object");
  const nested = Object.entries(row).filter(([, value]) => value && typeof value === "object" && !Array.isArray(value));
  const figure = (/** @type {unknown} */ n) => (typeof n === "number" ? +n.toFixed(6) : n);
  const shown = (/** @type {string} */ key, /** @type {unknown} */ value) =>
    key.endsWith("time_unix_nano") ? clock(Number(value) / 1e9) : value === true ? "yes" : value === false ? "no" : String(figure(value));
  return html`<aside class="detail" ref=${place} aria-label="Details">
    <button class="close" onClick=${close} aria-label="close">×</button>
    <h3>${name}</h3>
    ${gone ? html`<p class="note">It is no longer among the rows of the table.</p>` : null}
    <dl>
      ${["process.command_line", "process.owner"].map((key) => (known[key] ? html`<div><dt>${keyWords(key)}</dt><dd class="what">${known[key]}</dd></div>` : null))}
      ${single.map(([key, value]) => html`<div><dt>${keyWords(key)}</dt><dd>${shown(key, value)}</dd></div>`)}
      ${nested.map(([key, value]) => html`<div><dt>${keyWords(key)}</dt><dd>${Object.entries(value).filter(([, n]) => n !== 0).map(([name, n]) => `${keyWords(name)} ${figure(n)}`).join(", ") || "0"}</dd></div>`)}
    </dl>
  </aside>`;
}
