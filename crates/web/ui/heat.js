// Heat maps: time against another quantity, as rectangles on a canvas.

import { html, useEffect, useRef, useState } from "./ui.js";
import { RIGHT, borders, color, gutter, useTheme, useWidth } from "./chart.js";
import { clock, count, duration } from "./format.js";

/**
 * @param {object} props
 * @param {import("./api.js").History} props.history
 * @param {import("./api.js").WaitSteps} props.waits
 * @param {(from: number, to: number) => void} props.onZoom
 */
export function HeatMap({ history, waits, onZoom }) {
  const { lengths, bounds_seconds: bounds } = waits;
  const used = lengths.filter((column) => column.length);
  const has = (/** @type {number} */ row) => used.some((column) => column[row] > 0);
  const rows = Array.from({ length: bounds.length + 1 }, (_, row) => row);
  const low = Math.max(0, (rows.find(has) ?? 8) - 1);
  const high = Math.min(bounds.length, ([...rows].reverse().find(has) ?? 12) + 1);
  const most = Math.max(1, ...used.map((column) => Math.max(...column)));
  const bound = (/** @type {number} */ row) => (row < bounds.length ? `<${duration(bounds[row])}` : `≥${duration(bounds[bounds.length - 1])}`);
  const total = used.reduce((sum, column) => sum + column.reduce((a, b) => a + b, 0), 0);
  return html`<${Grid}
    label=${`Heat map of run-queue latency: ${count(total)} waits between ${bound(low)} and ${bound(high)}`}
    history=${history}
    rows=${high - low + 1}
    rowName=${(/** @type {number} */ row) => bound(low + row)}
    cell=${(/** @type {number} */ at, /** @type {number} */ row) => {
      const n = lengths[at]?.[low + row] ?? 0;
      if (history.covered_seconds[at] === 0) return null;
      return { part: n ? 0.15 + (0.85 * Math.log1p(n)) / Math.log1p(most) : 0, text: `${bound(low + row)}: ${count(n)} waits` };
    }}
    ink="heat"
    rowHeight=${13}
    onZoom=${onZoom}
  />`;
}

/**
 * @param {object} props
 * @param {string} props.label
 * @param {import("./api.js").History} props.history
 * @param {number} props.rows counted from the bottom
 * @param {(row: number) => string} props.rowName
 * @param {(at: number, row: number) => {part: number, text: string, ink?: string} | null} props.cell null: a gap
 * @param {string} props.ink
 * @param {number} props.rowHeight
 * @param {(from: number, to: number) => void} props.onZoom
 */
export function Grid({ label, history, rows, rowName, cell, ink, rowHeight, onZoom }) {
  const place = useRef(/** @type {HTMLDivElement | null} */ (null));
  const canvas = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  const [hint, setHint] = useState("");
  const [drag, setDrag] = useState(/** @type {{from: number, to: number} | null} */ (null));
  const width = useWidth(place);
  const theme = useTheme();
  const left = gutter(width);
  const inner = Math.max(1, width - left - RIGHT);
  const steps = history.covered_seconds.length;
  const height = rows * rowHeight;
  useEffect(() => {
    const element = canvas.current;
    const context = element?.getContext("2d");
    if (!element || !context || width < 80) return;
    const scale = devicePixelRatio || 1;
    element.width = Math.round(width * scale);
    element.height = Math.round(height * scale);
    context.scale(scale, scale);
    context.clearRect(0, 0, width, height);
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "right";
    context.textBaseline = "middle";
    const inks = { [ink]: color(ink) };
    const gap = color("gap");
    const dim = color("dim");
    const every = Math.max(1, Math.ceil(16 / rowHeight));
    for (let row = 0; row < rows; row += 1) {
      const y = height - (row + 1) * rowHeight;
      context.globalAlpha = 1;
      context.fillStyle = dim;
      if (row % every === 0) context.fillText(rowName(row), left - 6, y + rowHeight / 2, left - 8);
      for (let at = 0; at < steps; at += 1) {
        const x = left + (at * inner) / steps;
        const wide = left + ((at + 1) * inner) / steps - x;
        const value = cell(at, row);
        if (value && !value.part) continue;
        const name = value?.ink ?? ink;
        inks[name] ??= color(name);
        context.globalAlpha = value ? Math.min(1, value.part) : 1;
        context.fillStyle = value ? inks[name] : gap;
        context.fillRect(x, y + 0.5, Math.max(wide - (wide > 4 ? 0.5 : 0), 0.5), rowHeight - 1);
      }
    }
    context.globalAlpha = 1;
  }, [history, width, theme, rows, height, cell]);
  const edges = borders(history);
  const where = (/** @type {PointerEvent} */ event) => {
    const at = Math.floor(((event.offsetX - left) / inner) * steps);
    const row = rows - 1 - Math.floor(event.offsetY / rowHeight);
    return { at, row, time: edges[0] + ((event.offsetX - left) / inner) * (edges[steps] - edges[0]) };
  };
  const move = (/** @type {PointerEvent} */ event) => {
    const { at, row, time } = where(event);
    if (drag) setDrag({ ...drag, to: time });
    if (at < 0 || at >= steps || row < 0 || row >= rows) return setHint("");
    const value = cell(at, row);
    return setHint(`${clock(edges[at])} ${value ? value.text : "nothing was collected"}`);
  };
  const up = () => {
    if (drag && Math.abs(drag.to - drag.from) > (edges[steps] - edges[0]) / 100) {
      onZoom(Math.min(drag.from, drag.to), Math.max(drag.from, drag.to));
    }
    setDrag(null);
  };
  const shade = drag && { from: Math.min(drag.from, drag.to), to: Math.max(drag.from, drag.to) };
  const px = (/** @type {number} */ time) => left + ((time - edges[0]) / (edges[steps] - edges[0])) * inner;
  return html`
    <figure class="chart grid" ref=${place}>
      <canvas
        ref=${canvas}
        role="img"
        aria-label=${label}
        style=${{ width: `${width}px`, height: `${height}px` }}
        onPointerDown=${(/** @type {PointerEvent} */ e) => setDrag({ from: where(e).time, to: where(e).time })}
        onPointerMove=${move}
        onPointerUp=${up}
        onPointerLeave=${() => (setHint(""), setDrag(null))}
      ></canvas>
      ${shade && html`<div class="shade" style=${{ left: `${px(shade.from)}px`, width: `${px(shade.to) - px(shade.from)}px`, height: `${height}px` }}></div>`}
      <p class="hint" aria-hidden="true">${hint || "\u00a0"}</p>
    </figure>
  `;
}
