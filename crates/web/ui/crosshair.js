// One crosshair for all panels: the time under the mouse, and a box with the values there.

import { html, useEffect, useState } from "./ui.js";
import { clock } from "./format.js";

/**
 * @typedef {object} Pointed
 * @property {number} time seconds since 1970
 * @property {object} [source] the panel under the mouse
 * @property {number} [x] position of the mouse in the window
 * @property {number} [y]
 * @property {string} [title] replaces the time
 * @property {{label: string, text: string, color?: string, value?: number}[]} [rows]
 */

/** @type {Set<(pointed: Pointed | null) => void>} */
const listeners = new Set();
/** @type {Pointed | null} */
let current = null;

/** @param {Pointed | null} pointed */
export function point(pointed) {
  if (!pointed && !current) return;
  current = pointed;
  for (const listener of listeners) listener(pointed);
}

/** Hides the crosshair if this panel shows it. @param {object} source */
export function leave(source) {
  if (current?.source === source) point(null);
}

/** @param {(pointed: Pointed | null) => void} listener @returns {() => void} */
export function listen(listener) {
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
  };
}

/** Maximum number of values in the box. */
const ROWS = 12;
const WIDTH = 300;

/** The box next to the mouse: the time, and the values of the panel under the mouse, largest first. */
export function Box() {
  const [pointed, setPointed] = useState(/** @type {Pointed | null} */ (null));
  useEffect(() => listen(setPointed), []);
  if (!pointed?.rows || pointed.x === undefined || pointed.y === undefined) return null;
  const rows = pointed.rows.toSorted((a, b) => (b.value ?? 0) - (a.value ?? 0));
  const left = pointed.x + 16 + WIDTH > innerWidth ? Math.max(4, pointed.x - 16 - WIDTH) : pointed.x + 16;
  const below = pointed.y + 24 * (Math.min(rows.length, ROWS) + 2) < innerHeight;
  const place = below ? { top: `${pointed.y + 14}px` } : { bottom: `${innerHeight - pointed.y + 14}px` };
  return html`<div class="box" aria-hidden="true" style=${{ left: `${left}px`, ...place }}>
    <b>${pointed.title ?? clock(pointed.time)}</b>
    <table>
      ${rows.slice(0, ROWS).map(
        (row) => html`<tr>
          <td><span class="chip" style=${{ "--chip": row.color ? `var(--${row.color})` : "transparent" }}></span>${row.label}</td>
          <td class="number">${row.text}</td>
        </tr>`,
      )}
    </table>
    ${rows.length > ROWS ? html`<span class="note">and ${rows.length - ROWS} more</span>` : null}
  </div>`;
}

/** The vertical line of a panel that uPlot does not draw. @param {{x: (time: number) => number | null, height: number}} props */
export function Line({ x, height }) {
  const [time, setTime] = useState(/** @type {number | null} */ (null));
  useEffect(() => listen((pointed) => setTime(pointed?.time ?? null)), []);
  const at = time === null ? null : x(time);
  return at === null ? null : html`<div class="line" aria-hidden="true" style=${{ left: `${at}px`, height: `${height}px` }}></div>`;
}
