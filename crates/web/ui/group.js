// The pane of one group. The pane shows what `noctule why` prints, from the history that the agent
// keeps.

import { html, useEffect, useRef } from "./ui.js";
import { partsOf, whyCommand } from "./answers.js";
import { adviceFor, Command, Kind, Try } from "./headline.js";
import { GroupName, noWaits, useReturnedFocus } from "./section.js";
import { bytes, clock, cpuNumbers, cpus, fixed, noVerdict, percent, shorten, threads, watts } from "./format.js";
import { nameIn } from "./state.js";
import { causeLook, classLook } from "./words.js";

/** @typedef {Record<string, any>} Group the response to `group` */

const NANO = 1e9;
/** Maximum number of listed events. */
const EVENTS = 8;

/** A line of the pane. @param {{label: string, children?: unknown}} props */
const Row = ({ label, children }) => html`<div><dt>${label}</dt><dd>${children}</dd></div>`;

/** Height of the header, in pixels. */
const HEADER = 52;

/** Minimum share of a class in the bar to be listed. */
const SHOWN = 0.001;

/** @param {{parts: ReturnType<typeof partsOf>}} props */
function TimeBar({ parts }) {
  const words = parts.filter(({ part }) => part >= SHOWN).map(({ name, part }) => `${classLook(name).words} ${percent(part)}`);
  return html`<div class="time-bar" role="img" aria-label=${`Where the time went: ${words.join(", ")}`}>
      ${parts.map(({ name, part }) => html`<span style=${{ flexGrow: String(part), "--chip": `var(--${classLook(name).color})` }}></span>`)}
    </div>
    <ul class="legend parts">
      ${parts
        .filter(({ part }) => part >= SHOWN)
        .map(({ name, part }) => html`<li><span class="chip" style=${{ "--chip": `var(--${classLook(name).color})` }}></span>${classLook(name).words} <b>${percent(part)}</b></li>`)}
    </ul>`;
}

/** @param {{processes?: Record<string, any>[]}} props */
function Processes({ processes }) {
  const worth = processes?.filter((one, at) => at === 0 || one.cpus >= 0.005) ?? [];
  if (!worth.length) return null;
  return html`<ul class="processes">
    ${worth.map((one) => {
      const command = one["process.command_line"] ?? one["process.executable.name"];
      return html`<li><span class="number">${cpus(one.cpus)}</span> <code title=${command}>${command}</code> <span class="note">${one["process.pid"]}</span></li>`;
    })}
  </ul>`;
}

/**
 * @param {object} props
 * @param {import("./api.js").History} props.history
 * @param {Group | null} [props.group] absent until it is loaded; null without figures
 * @param {Record<string, any>[]} props.events
 * @param {Record<string, any> | null} props.node
 * @param {import("./api.js").Doctor | null} [props.health]
 * @param {import("./state.js").State} props.state
 * @param {(change: Partial<import("./state.js").State>) => void} props.set
 */
export function Pane({ history, group, events, node, health, state, set }) {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  useReturnedFocus(place);
  const name = nameIn(state.owner);
  useEffect(() => {
    // On a narrow screen the pane is above the panels, and the user may have selected the group far below.
    if (place.current && place.current.getBoundingClientRect().top < HEADER) place.current.scrollIntoView({ block: "start" });
  }, [state.owner]);
  const close = () => set({ owner: "" });
  const head = html`<button class="close" onClick=${close} aria-label="close the pane">×</button>
    <h2 title=${name}>${shorten(name, 60)}</h2>`;
  const frame = (/** @type {unknown} */ content) =>
    html`<aside class="pane detail" ref=${place} tabindex="0" aria-label=${`Group ${name}`}>${head}${content}</aside>`;
  if (group === undefined) return frame(html`<p class="note">loading</p>`);
  if (!group) return frame(html`<p class="note">It has no figures in this span.</p>`);
  const seconds = group.covered_seconds || 1;
  const span = { from: group.from_unix_nano / NANO, to: group.to_unix_nano / NANO };
  const at = clock((state.at ?? span.to));
  const command = whyCommand(group, !!node?.recorded, span);
  const parts = group.account ? partsOf(group.account) : [];
  return frame(html`
    <${Killed} kills=${events.filter((event) => event["event.name"] === "oom.kill")} />
    ${group.hurt
      ? html`<p><${Kind} kind=${group.hurt.verdict.kind} />:${" "}${group.hurt.verdict.reason}, since ${clock(group.hurt.since_unix_nano / NANO)}.</p>
          <${Try} advice=${adviceFor(group.hurt, history, node)} />`
      : html`<${Unlisted} verdict=${group.verdict} at=${at} none=${history.waits ? noVerdict(history, node) : noWaits(health)} />`}
    ${parts.length
      ? html`<h3>Where the time of its threads went <span class="note">${clock(group.account.from_unix_nano / NANO)} – ${clock(group.account.to_unix_nano / NANO)}</span></h3>
          <${TimeBar} parts=${parts} />
          ${group.account.blocked ? null : html`<p class="note">Blocked time was not measured.</p>`}`
      : html`<p class="note">No window of this span has its account.</p>`}
    <dl>
      <${Row} label="used">${group["cpu.seconds"] === undefined ? "nothing" : `${cpus(group["cpu.seconds"] / seconds)} on average`}<//>
      ${group["wait.seconds"] === undefined ? null : html`<${Row} label="waited">${threads(group["wait.seconds"] / seconds)} on average${because(group.causes)}<//>`}
      ${group["hurts.seconds"] > 0 ? html`<${Row} label="makes wait">${threads(group["hurts.seconds"] / seconds)} of others on average<//>` : null}
      ${group["energy.watts"] === undefined ? null : html`<${Row} label="power">${watts(group["energy.watts"])} on average${group["energy.is_model"] ? ", from the model in the configuration" : ""}<//>`}
      <${Settings} settings=${group.settings} quota=${group.hurt?.verdict.quota} recorded=${!!node?.recorded} />
    </dl>
    <${Parties} title="It waited for" rows=${group.culprits} seconds=${seconds} set=${set} />
    <${Parties} title="It made wait" rows=${group.victims} seconds=${seconds} set=${set} />
    ${group.processes?.length ? html`<h3>Its processes <span class="note">over the last interval</span></h3><${Processes} processes=${group.processes} />` : null}
    ${events.length
      ? html`<h3>Its events</h3>
          <ul class="events-of">
            ${events.slice(-EVENTS).reverse().map((row) => html`<li class=${`tone-${row.tone}`}>${clock(row.time_unix_nano / NANO)} <span class="what">${row["process.executable.name"] ?? ""} ${row.text}</span></li>`)}
          </ul>`
      : null}
    ${command ? html`<h3>${state.from === null || node?.recorded ? "The same in a terminal" : "What it does now, in a terminal"}</h3><p><${Command} command=${command} /></p>` : null}
  `);
}

/** The last OOM kill of the group. @param {{kills: Record<string, any>[]}} props in order of time */
function Killed({ kills }) {
  const last = kills[kills.length - 1];
  if (!last) return null;
  const more = kills.length > 1 ? `, one of ${kills.length}` : "";
  const { "memory.rss_bytes": used, "memory.limit_bytes": limit } = last;
  const words = [
    last["process.executable.name"] ?? "a process",
    ...(used === undefined ? [] : [`${bytes(used)} resident`]),
    limit === undefined ? "the machine had no memory left" : `memory limit ${bytes(limit)}`,
  ];
  const advice = limit === undefined ? "find out which groups need the memory, and give them limits" : "raise the memory limit, or find out why the group needs more";
  return html`<p class="kills"><span class="mark kill">✕</span> <b>OOM kill</b> at ${clock(last.time_unix_nano / NANO)}${more}: ${words.join(", ")}.</p>
    <${Try} advice=${[{ words: advice }]} />`;
}

/** A verdict without details. @param {{verdict?: {kind: string}, at: string, none: string}} props `none` is why there is no verdict */
function Unlisted({ verdict, at, none }) {
  if (!verdict) return html`<p class="note">${none}</p>`;
  if (verdict.kind === "quiet") return html`<p class="good">Not hurt by the CPU at ${at}.</p>`;
  return html`<p><${Kind} kind=${verdict.kind} />. More groups are hurt than are kept with their figures.</p>`;
}

/** Describes the causes of a wait with their shares. @param {Record<string, number>} [causes] */
function because(causes = {}) {
  const all = Object.values(causes).reduce((a, b) => a + b, 0);
  const parts = Object.entries(causes).filter(([, seconds]) => seconds > 0.01 * all);
  const words = parts.sort((a, b) => b[1] - a[1]).map(([cause, seconds]) => `${causeLook(cause).words} ${percent(seconds / all)}`);
  return words.length ? `: ${words.join(", ")}` : "";
}

/** @param {{settings?: Record<string, any>, quota?: Record<string, any>, recorded: boolean}} props */
function Settings({ settings, quota, recorded }) {
  const limit = settings?.["cpu.limit"];
  const rows = [];
  if (quota) {
    const whose = quota["process.linux.cgroup"];
    rows.push(html`<${Row} label="CPU limit">${cpus(quota.cpus)}${whose ? ` by ${whose}` : ""}<//>`);
  } else if (settings) rows.push(html`<${Row} label="CPU limit">${limit === undefined ? "none of its own" : cpus(limit)}<//>`);
  if (settings) {
    const { "cpu.weight": weight, "cpu.shares": shares, "cpu.idle": idle, "cpu.allowed": allowed, "cpu.pressure": pressure } = settings;
    if (idle) rows.push(html`<${Row} label="CPU weight">only what nobody else wants (cpu.idle)<//>`);
    else if (weight !== undefined || shares !== undefined) rows.push(html`<${Row} label=${weight === undefined ? "CPU shares" : "CPU weight"}>${weight ?? shares} (${weight === undefined ? 1024 : 100} is usual)<//>`);
    if (allowed) rows.push(html`<${Row} label="may run on">${cpuNumbers(allowed)}<//>`);
    if (pressure !== undefined) rows.push(html`<${Row} label="pressure">${percent(pressure)} of the last 10 s somebody waited (PSI)<//>`);
  } else if (recorded) rows.push(html`<${Row} label="settings"><span class="note">not in a recording</span><//>`);
  return rows;
}

/** @param {{title: string, rows: Record<string, any>[], seconds: number, set: (change: Partial<import("./state.js").State>) => void}} props */
function Parties({ title, rows, seconds, set }) {
  const worth = rows.filter((row) => row["wait.seconds"] / seconds >= 0.005);
  if (!worth.length) return null;
  const note = worth.some((row) => row.processes?.length) ? "threads on average; processes: CPU over the last interval" : "threads on average";
  return html`<h3>${title} <span class="note">${note}</span></h3>
    <ul class="parties">
      ${worth.map(
        (row) => html`<li>
          <span class="number">${fixed(row["wait.seconds"] / seconds)}</span>
          <${GroupName} id=${row.id} name=${row.name} most=${44} set=${set} />
          <${Processes} processes=${row.processes} />
        </li>`,
      )}
    </ul>`;
}

