// The timeline of episodes: when each group was hurt, over the whole history that the agent keeps.

import { html, useEffect, useRef, useState } from "./ui.js";
import { Line, leave, point } from "./crosshair.js";
import { useWidth } from "./chart.js";
import { choice, firstLanes, itemWords, lanesOf, marksOf, nearest, neighbour, severity, worst } from "./lanes.js";
import { clock, duration, countOf, shorten, threads } from "./format.js";
import { roundTimes } from "./steps.js";
import { wholeSpan } from "./state.js";
import { kindLook } from "./words.js";

/**
 * @typedef {import("./lanes.js").Answer} Answer
 * @typedef {import("./lanes.js").Item} Item
 * @typedef {import("./lanes.js").Lane} Lane
 */

const NANO = 1e9;

/**
 * @param {{answer: Answer | null, span: {from: number, to: number} | null, state: import("./state.js").State, set: (change: Partial<import("./state.js").State>) => void}} props
 */
export function Episodes({ answer, span, state, set }) {
  const [all, setAll] = useState(false);
  if (!answer) return null;
  const lanes = lanesOf(answer);
  const whole = { from: answer.from_unix_nano / NANO, to: answer.to_unix_nano / NANO };
  const { kills, restarts } = marksOf(answer);
  const hurt = answer.rows.length + answer.more;
  const words = [
    `${hurt ? countOf(hurt, "group was", "groups were") : "no group was"} hurt in ${duration(whole.to - whole.from)}`,
    ...(kills.length ? [countOf(kills.length, "OOM kill")] : []),
    ...(restarts.length ? [countOf(restarts.length, "restart")] : []),
  ];
  const shown = all ? lanes : firstLanes(lanes, state.owner);
  const kinds = [...new Set(answer.rows.flatMap((row) => row.episodes.map((one) => one.kind)))];
  return html`<section id="episodes" aria-labelledby="episodes-title">
    <h2 id="episodes-title">Episodes <span class="note">${words.join(", ")}${lanes.length ? "; a click zooms there" : ""}</span></h2>
    <div class=${state.from === null ? "lanes growing" : "lanes"}>
      ${shown.map((lane) => html`<${LaneRow} key=${lane.key} lane=${lane} whole=${whole} span=${span} at=${state.at} picked=${state.owner === lane.key} set=${set} />`)}
      <${Axis} whole=${whole} />
    </div>
    <div class="under">
      <ul class="legend" aria-label="legend">
        ${kinds.map((kind) => html`<li><span class="chip" style=${{ "--chip": `var(--${kindLook(kind).color})` }}></span>${kindLook(kind).words}</li>`)}
        ${kills.length ? html`<li><span class="mark kill">✕</span> OOM kill</li>` : null}
        ${restarts.length ? html`<li><span class="mark restart">↻</span> restart</li>` : null}
      </ul>
      ${lanes.length > shown.length || all
        ? html`<button aria-expanded=${String(all)} onClick=${() => setAll(!all)}>${all ? "fewer" : countOf(lanes.length - shown.length, "more group")}</button>`
        : null}
      ${answer.more && shown.length === lanes.length ? html`<span class="note">and ${countOf(answer.more, "more group")}, not listed</span>` : null}
    </div>
  </section>`;
}

/** @param {{lane: Lane, whole: {from: number, to: number}, span: {from: number, to: number} | null, at: number | null, picked: boolean, set: (change: Partial<import("./state.js").State>) => void}} props */
function LaneRow({ lane, whole, span, at, picked, set }) {
  const track = useRef(/** @type {HTMLButtonElement | null} */ (null));
  const width = useWidth(track);
  const length = Math.max(whole.to - whole.from, 1);
  const part = (/** @type {number} */ time) => Math.min(1, Math.max(0, (time - whole.from) / length));
  const bad = /** @type {Item} */ (worst(lane.items));
  const timeAt = (/** @type {MouseEvent} */ event) => whole.from + (event.offsetX / Math.max(width, 1)) * length;
  const near = (8 / Math.max(width, 1)) * length;
  const chosen = useRef(/** @type {number | null} */ (null));
  const go = (/** @type {Item} */ item) => {
    chosen.current = item.from;
    set(choice(lane, item, whole));
  };
  const keyed = (/** @type {KeyboardEvent} */ event) => {
    const by = event.key === "ArrowLeft" ? -1 : event.key === "ArrowRight" ? 1 : 0;
    if (!by) return;
    // Stops the page from also moving the span.
    event.preventDefault();
    event.stopPropagation();
    go(chosen.current === null ? bad : neighbour(lane.items, chosen.current, by));
  };
  // A lane can disappear under the mouse.
  useEffect(() => () => leave(track), []);
  const pressed = useRef(/** @type {number | null} */ (null));
  const click = (/** @type {MouseEvent} */ event) => {
    const began = pressed.current;
    pressed.current = null;
    if (event.detail === 0) return go(bad);
    const [a, b] = [began ?? timeAt(event), timeAt(event)].sort((one, other) => one - other);
    // A drag selects a span, as in the charts.
    if (b - a > near) return set({ ...wholeSpan(a, b, whole.to), at: null });
    return go(nearest(lane.items, timeAt(event), near));
  };
  const move = (/** @type {MouseEvent} */ event) => {
    const time = timeAt(event);
    const item = nearest(lane.items, time, near);
    const over = item.from - near <= time && time <= item.to + near;
    const rows = over
      ? [
          { label: itemWords(item), text: item.episode ? `${threads(severity(item.episode))} waiting` : "", color: item.episode ? kindLook(item.episode.kind).color : "bad" },
          ...(item.episode ? [{ label: item.episode.reason, text: "" }] : []),
        ]
      : [{ label: "not hurt", text: "" }];
    point({ time, source: track, x: event.clientX, y: event.clientY, title: `${lane.name} at ${clock(time)}`, rows });
  };
  const most = Math.max(...lane.items.map((item) => (item.episode ? severity(item.episode) : 0)), 1e-9);
  const episodes = lane.items.filter((item) => item.kind === "episode").length;
  const label = `${lane.name}: ${countOf(episodes, "episode")}, the worst ${itemWords(bad)}: show it; left and right arrow: the others`;
  return html`<div class=${`lane${picked ? " picked" : ""}`}>
    <button class="link name" title=${lane.name} onClick=${() => set({ owner: picked ? "" : lane.key })} aria-pressed=${String(picked)}>${shorten(lane.name, 34)}</button>
    <button class="track" ref=${track} aria-label=${label} onMouseDown=${(/** @type {MouseEvent} */ event) => (pressed.current = timeAt(event))} onClick=${click} onKeyDown=${keyed} onMouseMove=${move} onMouseLeave=${() => leave(track)}>
      ${span ? html`<span class="window" style=${{ left: `${part(span.from) * 100}%`, right: `${(1 - part(span.to)) * 100}%` }}></span>` : null}
      ${lane.items.map((item) =>
        item.episode
          ? html`<span
              class="bar-of"
              style=${{
                left: `${part(item.from) * 100}%`,
                width: `max(3px, ${(part(item.to) - part(item.from)) * 100}%)`,
                height: `${35 + 65 * Math.sqrt(severity(item.episode) / most)}%`,
                "--chip": `var(--${kindLook(item.episode.kind).color})`,
              }}
            ></span>`
          : html`<span class=${`mark ${item.kind}`} style=${{ left: `${part(item.from) * 100}%` }}>${item.kind === "kill" ? "✕" : "↻"}</span>`,
      )}
      ${at === null ? null : html`<span class="moment" style=${{ left: `${part(at) * 100}%` }}></span>`}
      <${Line} height=${24} x=${(/** @type {number} */ time) => (time >= whole.from && time <= whole.to ? part(time) * width : null)} />
    </button>
  </div>`;
}

/** The times below the lanes. @param {{whole: {from: number, to: number}}} props */
function Axis({ whole }) {
  const place = useRef(/** @type {HTMLDivElement | null} */ (null));
  const width = useWidth(place);
  const length = Math.max(whole.to - whole.from, 1);
  const times = width ? roundTimes(whole.from, whole.to, width) : [];
  return html`<div class="lane axis" aria-hidden="true">
    <span class="name"></span>
    <div class="times" ref=${place}>
      ${times.map((time) => {
        const at = (time - whole.from) / length;
        return at * width > 28 && (1 - at) * width > 28 ? html`<span style=${{ left: `${at * 100}%` }}>${clock(time)}</span>` : null;
      })}
    </div>
  </div>`;
}
