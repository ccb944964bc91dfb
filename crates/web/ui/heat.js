// Heat maps: time against another quantity, as rectangles on a canvas.

import { html, useEffect, useRef, useState } from "./ui.js";
import { RIGHT, borders, color, gutter, useTheme, useWidth } from "./chart.js";
import { Line, leave, point } from "./crosshair.js";
import { clock, count, duration } from "./format.js";
import { roundTimes } from "./steps.js";

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
  // A row holds waits from half its bound to its bound.
  const typical = (/** @type {number} */ row) => (row < bounds.length ? bounds[row] * 0.75 : bounds[bounds.length - 1] * 1.5);
  const spent = (/** @type {number} */ at, /** @type {number} */ row) => (lengths[at]?.[row] ?? 0) * typical(row);
  const most = Math.max(1e-9, ...lengths.flatMap((column, at) => column.map((_, row) => spent(at, row))));
  const bound = (/** @type {number} */ row) => (row < bounds.length ? `<${duration(bounds[row])}` : `≥${duration(bounds[bounds.length - 1])}`);
  const range = (/** @type {number} */ row) =>
    row < bounds.length ? `${duration(row ? bounds[row - 1] : 0)} – ${duration(bounds[row])}` : bound(row);
  const total = used.reduce((sum, column) => sum + column.reduce((a, b) => a + b, 0), 0);
  // The position of a length on the axis, in rows from the bottom.
  const place = (/** @type {number} */ seconds) => Math.log2(seconds / bounds[0]) + 1 - low;
  const ticks = TICKS.map((seconds) => ({ at: place(seconds), label: duration(seconds).replace(/\.0+/, "") })).filter(
    ({ at }) => at >= 0.2 && at <= high - low + 0.8,
  );
  return html`<${Grid}
    label=${`Heat map of run-queue latency: ${count(total)} waits between ${bound(low)} and ${bound(high)}`}
    history=${history}
    rows=${high - low + 1}
    ticks=${ticks}
    line=${waits.p99_seconds.map((v) => (v ? place(v) : null))}
    times
    cell=${(/** @type {number} */ at, /** @type {number} */ row) => {
      const n = lengths[at]?.[low + row] ?? 0;
      if (history.covered_seconds[at] === 0) return null;
      const time = spent(at, low + row);
      const p99 = waits.p99_seconds[at];
      return {
        part: n ? 0.06 + 0.94 * Math.sqrt(time / most) : 0,
        text: `${range(low + row)}: ${count(n)} waits, about ${duration(time)} in all`,
        rows: [
          { label: `waits of ${range(low + row)}`, text: count(n) },
          { label: "time in these, about", text: duration(time) },
          { label: "p99 of all", text: p99 === null ? "–" : duration(p99), color: "p99" },
        ],
      };
    }}
    ink="heat"
    rowHeight=${13}
    onZoom=${onZoom}
  />`;
}

/** Ticks of the lengths, in seconds. */
const TICKS = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1, 10];

/**
 * @param {object} props
 * @param {string} props.label
 * @param {import("./api.js").History} props.history
 * @param {number} props.rows counted from the bottom
 * @param {(row: number) => string} [props.rowName]
 * @param {{at: number, label: string}[]} [props.ticks] replace the names of rows; in rows from the bottom
 * @param {(number | null)[]} [props.line] drawn over the cells, in rows from the bottom
 * @param {boolean} [props.times] whether there is a time axis
 * @param {(at: number, row: number) => {part: number, text: string, ink?: string, rows?: import("./crosshair.js").Pointed["rows"]} | null} props.cell null: a gap
 * @param {string} props.ink
 * @param {number} props.rowHeight
 * @param {(from: number, to: number) => void} props.onZoom
 */
export function Grid({ label, history, rows, rowName, ticks, line, times = false, cell, ink, rowHeight, onZoom }) {
  const place = useRef(/** @type {HTMLDivElement | null} */ (null));
  const canvas = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  const [drag, setDrag] = useState(/** @type {{from: number, to: number} | null} */ (null));
  const width = useWidth(place);
  const theme = useTheme();
  const left = gutter(width);
  const inner = Math.max(1, width - left - RIGHT);
  const steps = history.covered_seconds.length;
  const height = rows * rowHeight;
  const below = times ? AXIS : 0;
  const edges = borders(history);
  useEffect(() => {
    const element = canvas.current;
    const context = element?.getContext("2d");
    if (!element || !context || width < 80) return;
    const scale = devicePixelRatio || 1;
    element.width = Math.round(width * scale);
    element.height = Math.round((height + below) * scale);
    context.scale(scale, scale);
    context.clearRect(0, 0, width, height + below);
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
      if (rowName && row % every === 0) context.fillText(rowName(row), left - 6, y + rowHeight / 2, left - 8);
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
    for (const { at, label } of ticks ?? []) {
      const y = height - at * rowHeight;
      context.fillStyle = dim;
      context.fillText(label, left - 6, y, left - 8);
      context.fillStyle = color("grid");
      context.fillRect(left, y, inner, 1);
    }
    if (line) drawLine(context, line, (at) => left + (at * inner) / steps, (row) => height - row * rowHeight);
    if (times) drawTimes(context, edges, left, inner, height + AXIS / 2);
  }, [history, width, theme, rows, height, cell]);
  useEffect(() => () => leave(canvas), []);
  const where = (/** @type {PointerEvent} */ event) => {
    const at = Math.floor(((event.offsetX - left) / inner) * steps);
    const row = rows - 1 - Math.floor(event.offsetY / rowHeight);
    return { at, row, time: edges[0] + ((event.offsetX - left) / inner) * (edges[steps] - edges[0]) };
  };
  const move = (/** @type {PointerEvent} */ event) => {
    const { at, row, time } = where(event);
    if (drag) setDrag({ ...drag, to: time });
    if (at < 0 || at >= steps || row < 0 || row >= rows) return leave(canvas);
    const value = cell(at, row);
    const shown = value?.rows ?? [{ label: value ? value.text : "nothing was collected", text: "" }];
    return point({ time: edges[at], source: canvas, x: event.clientX, y: event.clientY, rows: shown });
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
        style=${{ width: `${width}px`, height: `${height + below}px` }}
        onPointerDown=${(/** @type {PointerEvent} */ e) => setDrag({ from: where(e).time, to: where(e).time })}
        onPointerMove=${move}
        onPointerUp=${up}
        onPointerLeave=${() => (leave(canvas), setDrag(null))}
      ></canvas>
      ${shade && html`<div class="shade" style=${{ left: `${px(shade.from)}px`, width: `${px(shade.to) - px(shade.from)}px`, height: `${height}px` }}></div>`}
      <${Line} height=${height} x=${(/** @type {number} */ time) => (time >= edges[0] && time <= edges[steps] ? px(time) : null)} />
    </figure>
  `;
}

/** Height of the time axis. */
const AXIS = 18;

/** @param {CanvasRenderingContext2D} context @param {(number | null)[]} line @param {(at: number) => number} x @param {(row: number) => number} y */
function drawLine(context, line, x, y) {
  context.strokeStyle = color("p99");
  context.lineWidth = 1.5;
  context.beginPath();
  let open = false;
  line.forEach((value, at) => {
    if (value !== null) {
      if (open) context.lineTo(x(at), y(value));
      else context.moveTo(x(at), y(value));
      context.lineTo(x(at + 1), y(value));
    }
    open = value !== null;
  });
  context.stroke();
}

/** @param {CanvasRenderingContext2D} context @param {number[]} edges @param {number} left @param {number} inner @param {number} y */
function drawTimes(context, edges, left, inner, y) {
  const [from, to] = [edges[0], edges[edges.length - 1]];
  context.fillStyle = color("dim");
  context.textAlign = "center";
  for (const time of roundTimes(from, to, inner)) {
    const x = left + ((time - from) / (to - from)) * inner;
    if (x > left + 24 && x < left + inner - 24) context.fillText(clock(time), x, y);
  }
}
