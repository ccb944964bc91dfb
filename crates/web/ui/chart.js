// Charts over the time span that all panels share.

import { html, useEffect, useMemo, useRef, useState } from "./ui.js";
import { SUMMED, gapsOf, summary } from "./steps.js";
import { leave, listen, point } from "./crosshair.js";
import uPlot from "uplot";

/**
 * @typedef {import("./api.js").Steps} Steps
 * @typedef {object} Series
 * @property {string} label
 * @property {Steps} values
 * @property {string} color name of a colour in app.css
 * @property {string} [dash] `dash` or `dot`, for readers who cannot see colours
 * @property {import("./steps.js").Summing} [summing] how the legend sums up all steps; the mean by default
 * @property {() => void} [onPick]
 * @property {boolean} [picked]
 * @property {boolean} [faint] whether another series is picked
 */

/** Returns a colour of the current theme. @param {string} name */
export function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim() || "#888";
}

/** Returns a value that changes with the theme. */
export function useTheme() {
  const [theme, setTheme] = useState(0);
  useEffect(() => {
    const media = matchMedia("(prefers-color-scheme: dark)");
    const changed = () => setTheme((n) => n + 1);
    media.addEventListener("change", changed);
    return () => media.removeEventListener("change", changed);
  }, []);
  return theme;
}

/** Returns the current width of an element, in whole pixels. @param {{current: HTMLElement | null}} ref */
export function useWidth(ref) {
  const [width, setWidth] = useState(0);
  useEffect(() => {
    if (!ref.current) return undefined;
    const watch = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    watch.observe(ref.current);
    return () => watch.disconnect();
  }, []);
  return width;
}

/** Width of the labels left of a chart. The width is the same for all charts, so that equal times are aligned.
   @param {number} width */
export const gutter = (width) => (width < 500 ? 46 : 58);
export const RIGHT = 10;

/** Returns the start of each step and the end of the last, in seconds since 1970. @param
   {import("./api.js").History} history */
export function borders(history) {
  const from = history.from_unix_nano / 1e9;
  const times = history.covered_seconds.map((_, at) => from + at * history.step_seconds);
  return [...times, from + times.length * history.step_seconds];
}

/** @param {Steps} a @param {Steps} b */
const add = (a, b) => a.map((value, at) => (value === null || b[at] === null ? null : value + (b[at] ?? 0)));
/** Appends the last value again, for the end of the last step. @param {Steps} values */
const closed = (values) => [...values, values[values.length - 1] ?? null];

/** Returns the whole decades around two numbers. @param {number} low @param {number} high
   @returns {[number, number]} */
export function decades(low, high) {
  const from = Math.floor(Math.log10(Math.max(low, 1e-9)));
  const to = Math.ceil(Math.log10(Math.min(Math.max(high, 1e-9), 1e6)));
  return [10 ** from, 10 ** Math.max(to, from + 1)];
}

/** Returns the powers of ten from one number to another. @param {number} low @param {number} high */
export function powers(low, high) {
  const from = Math.round(Math.log10(Math.max(low, 1e-9)));
  const to = Math.round(Math.log10(Math.min(Math.max(high, 1e-9), 1e6)));
  return Array.from({ length: Math.max(to - from + 1, 0) }, (_, at) => 10 ** (from + at));
}

/**
 * @param {object} options
 * @param {boolean} options.stack
 * @param {number} options.width
 * @param {number} options.height
 * @param {number} options.count series
 * @param {boolean} options.log
 * @param {() => {colors: string[], dashes: (string | undefined)[], max: number | null, span: number[], marks: number[], gaps: [number, number][]}} options.look
 * @param {(v: number) => string} options.axis formats the labels of the axis
 * @param {(from: number, to: number) => void} options.onZoom
 * @param {(at: number | null, event?: MouseEvent) => void} options.onPoint the step under the crosshair; with an event
 * if the mouse is over this chart
 * @returns {import("uplot").Options}
 */
function plotOptions({ stack, width, height, count, log, look, axis: unit, onZoom, onPoint }) {
  const grid = { stroke: () => color("grid"), width: 1 };
  const axis = { stroke: () => color("dim"), grid, ticks: { show: false }, font: "11px system-ui, sans-serif" };
  const paths = /** @type {NonNullable<typeof uPlot.paths.stepped>} */ (uPlot.paths.stepped)({ align: 1 });
  const series = Array.from({ length: count }, (_, at) => ({
    stroke: () => look().colors[at],
    fill: stack ? () => look().colors[at] : undefined,
    width: stack ? 0 : 1.5,
    dash: { dash: [6, 4], dot: [2, 3] }[look().dashes[at] ?? ""],
    paths,
    points: { show: false },
    spanGaps: false,
  }));
  return {
    width,
    height,
    padding: [8, RIGHT, 0, 0],
    legend: { show: false },
    scales: {
      x: { time: true, range: () => /** @type {[number, number]} */ (look().span) },
      y: log
        ? { distr: 3, range: (_, low, high) => decades(low || 1e-6, high || 1e-3) }
        : { range: (_, __, high) => [0, look().max ?? Math.max((high || 0) * 1.05, 1e-3)] },
    },
    axes: [
      { ...axis, values: (_, splits) => splits.map((t) => new Date(t * 1000).toTimeString().slice(0, 8)), space: 80, size: 26 },
      {
        ...axis,
        size: gutter(width),
        values: (_, splits) => splits.map((v) => (v === null ? "" : unit(v))),
        // uPlot's own ticks of a logarithmic axis may never end because of rounding.
        ...(log ? { splits: (_, __, low, high) => powers(low, high), filter: (_, splits) => splits } : {}),
      },
    ],
    series: [{}, ...series],
    bands: stack ? series.slice(1).map((_, at) => ({ series: /** @type {[number, number]} */ ([at + 2, at + 1]) })) : [],
    cursor: {
      drag: { x: true, y: false, setScale: false },
      points: { show: false },
    },
    hooks: {
      setSelect: [
        (u) => {
          if (u.select.width < 4) return;
          const from = u.posToVal(u.select.left, "x");
          const to = u.posToVal(u.select.left + u.select.width, "x");
          u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          onZoom(from, to);
        },
      ],
      drawClear: [
        (u) => {
          const { left, top, width, height } = u.bbox;
          const place = (/** @type {number} */ time) => Math.min(left + width, Math.max(left, u.valToPos(time, "x", true)));
          u.ctx.save();
          u.ctx.fillStyle = color("gap");
          for (const [from, to] of look().gaps) u.ctx.fillRect(place(from), top, place(to) - place(from), height);
          u.ctx.restore();
        },
      ],
      setCursor: [(u) => onPoint(u.cursor.idx ?? null, u.cursor.event ?? undefined)],
      draw: [
        (u) => {
          u.ctx.save();
          u.ctx.fillStyle = color("bad");
          for (const time of look().marks) {
            const x = u.valToPos(time, "x", true);
            if (x >= u.bbox.left && x <= u.bbox.left + u.bbox.width) u.ctx.fillRect(x - 1, u.bbox.top, 2, u.bbox.height);
          }
          u.ctx.restore();
        },
      ],
    },
  };
}

/**
 * @param {object} props
 * @param {string} props.label description of the chart for screen readers
 * @param {import("./api.js").History} props.history
 * @param {Series[]} props.series
 * @param {boolean} [props.stack]
 * @param {boolean} [props.log]
 * @param {number | null} [props.max]
 * @param {number} [props.height]
 * @param {number[]} [props.marks]
 * @param {(v: number) => string} props.unit
 * @param {(v: number) => string} [props.axis] a shorter form for the axis
 * @param {(from: number, to: number) => void} props.onZoom
 */
export function Chart({ label, history, series, stack = false, log = false, max = null, height = 170, marks = [], unit, axis = unit, onZoom }) {
  const place = useRef(/** @type {HTMLDivElement | null} */ (null));
  const plot = useRef(/** @type {uPlot | null} */ (null));
  const [at, setAt] = useState(/** @type {number | null} */ (null));
  const width = useWidth(place);
  const theme = useTheme();
  const times = useMemo(() => borders(history), [history]);
  const gaps = useMemo(() => gapsOf(times, history.covered_seconds), [history]);
  const look = useRef({ colors: [""], dashes: [/** @type {string | undefined} */ (undefined)], max, span: [0, 1], marks, gaps });
  look.current = {
    colors: series.map((one) => (one.faint ? `color-mix(in srgb, ${color(one.color)} 30%, ${color("panel")})` : color(one.color))),
    dashes: series.map((one) => one.dash),
    max,
    span: [times[0], times[times.length - 1]],
    marks,
    gaps,
  };
  const zoom = useRef(onZoom);
  zoom.current = onZoom;
  const pointed = useRef((/** @type {number | null} */ _step, /** @type {MouseEvent | undefined} */ _event) => {});
  pointed.current = (step, event) => {
    // A chart is not redrawn during a drag.
    if (event?.buttons) return;
    setAt(step);
    if (!event) return;
    if (step === null || step >= times.length - 1 || event.type === "mouseleave") return leave(plot);
    const known = series.filter((one) => one.label && one.values[step] !== null && one.values[step] !== undefined);
    const shown = known.map((one) => ({ label: one.label, value: one.values[step] ?? 0, text: unit(one.values[step] ?? 0), color: one.color }));
    const rows = shown.filter((row) => row.value > 0);
    return point({ time: times[step], source: plot, x: event.clientX, y: event.clientY, rows: rows.length ? rows : shown.slice(0, 1) });
  };
  useEffect(() => {
    if (!place.current || width < 80) return undefined;
    const options = plotOptions({
      stack,
      width,
      height,
      count: series.length,
      log,
      look: () => look.current,
      axis,
      onZoom: (from, to) => zoom.current(from, to),
      onPoint: (step, event) => pointed.current(step, event),
    });
    const drawn = new uPlot(options, undefined, place.current);
    plot.current = drawn;
    const silence = listen((pointed) => {
      if (pointed?.source === plot || !drawn.data[0]?.length) return;
      const left = pointed ? drawn.valToPos(pointed.time, "x") : -10;
      drawn.setCursor({ left: left >= 0 && left <= drawn.over.clientWidth ? left : -10, top: -10 });
    });
    return () => {
      silence();
      leave(plot);
      drawn.destroy();
      plot.current = null;
    };
  }, [width, series.length, stack, log, theme]);
  useEffect(() => {
    /** @type {Steps[]} */
    const values = [];
    for (const one of series) values.push(stack && values.length ? add(values[values.length - 1], one.values) : one.values);
    plot.current?.setData(/** @type {uPlot.AlignedData} */ ([times, ...values.map(closed)]));
  });
  const shown = at !== null && at < times.length - 1 ? at : null;
  return html`
    <figure class="chart">
      <div ref=${place} role="img" aria-label=${label} style=${{ minHeight: `${height}px` }}></div>
      <ul class="legend" aria-label="legend">
        ${series.filter((one) => one.label).map((one) => html`<${Entry} one=${one} covered=${history.covered_seconds} at=${shown} unit=${unit} />`)}
      </ul>
    </figure>
  `;
}

/** @param {{one: Series, covered: Steps, at: number | null, unit: (v: number) => string}} props */
function Entry({ one, covered, at, unit }) {
  const summing = one.summing ?? "mean";
  const value = at === null ? summary(summing, one.values, covered) : one.values[at];
  const said = at === null && value !== null ? SUMMED[summing] : "";
  const text = html`<span class="chip ${one.dash ?? ""}" style=${{ "--chip": `var(--${one.color})` }}></span
    ><span class="label">${one.label}</span> <span class="value">${value === null || value === undefined ? "–" : unit(value)}</span>${said ? html` <span class="note">${said}</span>` : null}`;
  return html`<li>
    ${one.onPick
      ? html`<button class="link" aria-pressed=${String(!!one.picked)} onClick=${one.onPick} title=${one.label}>${text}</button>`
      : text}
  </li>`;
}
