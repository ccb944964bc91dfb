// The panels of the page. Each panel draws one response of the agent.

import { html } from "./ui.js";
import { notMeasured } from "./api.js";
import { Chart, borders } from "./chart.js";
import { SLOTS, colorsOf } from "./colors.js";
import { Grid, HeatMap } from "./heat.js";
import { keptSpan, momentChoice } from "./lanes.js";
import { NoWaits, Section, isModelled } from "./section.js";
import { keyOf, nameIn } from "./state.js";
import { NOTHING, isCollected, mean } from "./steps.js";
import { bytes, clock, count, counted, cpus as inCpus, duration, fixed, percent, plain, countOf, shorten, threads, watts } from "./format.js";
import { causeLook } from "./words.js";

/**
 * @typedef {import("./api.js").History} History
 * @typedef {import("./state.js").State} State
 * @typedef {object} Panel
 * @property {History} history
 * @property {State} state
 * @property {(change: Partial<State>) => void} set
 * @property {(from: number, to: number) => void} onZoom
 * @property {import("./api.js").Doctor | null} [health]
 */

/** Returns the busy time that no thread used, split by cause if the kernel measures the causes. @param
   {History["node"]} node */
function unusedTime({ interrupt, steal, steal_included, remainder }) {
  if (steal_included) return [{ label: "interrupts", values: remainder, color: "remainder" }];
  if (!interrupt || !steal) return [{ label: "interrupts and steal", values: remainder, color: "remainder" }];
  return [
    { label: "interrupts", values: interrupt, color: "remainder" },
    { label: "steal", values: steal, color: "cause-host" },
  ];
}

/** Number of owners with a colour. */
const OWNERS = 8;

/** @param {Panel & {top: import("./api.js").Owner[]}} props all owners regardless of the tables'
   filter, largest first */
export function Cpu({ history, top, state, set, onZoom }) {
  const { node, cpus } = history;
  const owners = top.slice(0, OWNERS).sort((a, b) => a.name.localeCompare(b.name));
  const colors = colorsOf(owners.map((owner) => owner.name));
  const picked = owners.some((owner) => state.owner === keyOf(owner.id, owner.name));
  const others = node.used.map((used, at) =>
    used === null ? null : Math.max(0, used - owners.reduce((sum, owner) => sum + (owner.cpus[at] ?? 0), 0)),
  );
  const pad = Array.from({ length: OWNERS - owners.length }, () => ({ label: "", values: others.map((v) => (v === null ? null : 0)), color: "others" }));
  const series = [
    ...owners.map((owner) => ({
      label: shorten(owner.name, 40),
      values: owner.cpus,
      color: colors.get(owner.name) ?? "others",
      faint: picked && state.owner !== keyOf(owner.id, owner.name),
      picked: state.owner === keyOf(owner.id, owner.name),
      onPick: () => set({ owner: state.owner === keyOf(owner.id, owner.name) ? "" : keyOf(owner.id, owner.name) }),
    })),
    { label: "others", values: others, color: "others" },
    ...unusedTime(node),
    ...pad,
  ];
  const covered = history.covered_seconds;
  const idle = mean(node.idle, covered);
  const words = `CPU of the node by owner: ${owners.map((o) => `${o.name} ${inCpus(mean(o.cpus, covered) ?? 0)}`).join(", ")}`;
  return html`<${Section} title="CPU" id="cpu" note=${`${cpus} CPUs, idle ${idle === null ? "–" : percent(idle / Math.max(cpus, 1))}`}>
    <${Chart} label=${words} history=${history} series=${series} stack max=${Math.max(cpus, 1)} height=${190} unit=${inCpus} axis=${plain} onZoom=${onZoom} />
    <${Strips} history=${history} owners=${owners} colors=${colors} all=${top} onZoom=${onZoom} />
    ${history.crowded ? html`<p class="note">In ${history.crowded} of the points there were more owners than are kept: those are among the others.</p>` : null}
  <//>`;
}

/**
 * Draws a strip for each CPU. The intensity shows how busy the CPU was. The colour is the colour of
 * the owner that used the CPU most.
 * @param {{history: History, owners: import("./api.js").Owner[], colors: Map<string, string>, all: import("./api.js").Owner[], onZoom: (from: number, to: number) => void}} props
 */
function Strips({ history, owners, colors, all, onZoom }) {
  const strips = (history.strips ?? []).toReversed();
  if (!strips.length) return null;
  const inks = new Map(owners.map((owner) => [owner.id, colors.get(owner.name)]));
  const names = new Map(all.map((owner) => [owner.id, owner.name]));
  const who = (/** @type {number | null} */ id) => (id === null ? "nobody" : (names.get(id) ?? "another"));
  const cell = (/** @type {number} */ at, /** @type {number} */ row) => {
    const { cpu, busy, taken, holder, held } = strips[row];
    const part = busy[at];
    if (part === null || part === undefined) return null;
    const stolen = (taken[at] ?? 0) > (held[at] ?? 0);
    const most = stolen ? `interrupts or steal ${percent(taken[at] ?? 0)}` : `${who(holder[at])} ${percent(held[at] ?? 0)}`;
    const ink = stolen ? "remainder" : (inks.get(holder[at] ?? 0) ?? "others");
    return { part: part < 0.01 ? 0 : 0.2 + 0.8 * part, text: `CPU ${cpu} busy ${percent(part)}: ${most}`, ink };
  };
  const words = strips.toReversed().map((strip) => {
    const last = strip.busy.findLastIndex((part) => part !== null);
    return last < 0 ? `CPU ${strip.cpu} offline` : `CPU ${strip.cpu} ${percent(strip.busy[last] ?? 0)}, most by ${who(strip.holder[last])}`;
  });
  const more = history.cpus - strips.length;
  return html`<h3>Each CPU <span class="note">the stronger, the busier; the colour is that of who had it most</span></h3>
    <${Grid}
      label=${`Each CPU: ${words.join("; ")}`}
      history=${history}
      rows=${strips.length}
      rowName=${(/** @type {number} */ row) => `CPU ${strips[row].cpu}`}
      cell=${cell}
      ink="others"
      rowHeight=${strips.length > 32 ? 6 : 16}
      onZoom=${onZoom}
    />
    ${more > 0 ? html`<p class="note">and ${more} more CPUs</p>` : null}`;
}

/** @param {Panel} props */
export function Waits({ history, health, state, set, onZoom }) {
  const { waits } = history;
  if (!waits) return html`<${NoWaits} title="Waits" id="waits" health=${health} />`;
  const whose = waits.of === undefined ? "the node" : nameIn(state.owner);
  const causes = Object.entries(waits.causes).map(([cause, values]) => {
    const { words, color } = causeLook(cause);
    return { label: words, values, color };
  });
  const quantiles = [
    { label: "p50", values: waits.p50_seconds, summing: "step", color: "line-0" },
    { label: "p90", values: waits.p90_seconds, summing: "step", color: "line-1", dash: "dash" },
    { label: "p99", values: waits.p99_seconds, summing: "step", color: "line-2" },
    { label: "longest", values: waits.max_seconds, summing: "max", color: "line-3", dash: "dot" },
  ];
  const note = html`of <b>${whose}</b> ${state.owner ? html`<button onClick=${() => set({ owner: "" })}>show the node</button>` : null}`;
  const worst = causes.map((one) => `${one.label} ${threads(mean(one.values, history.covered_seconds) ?? 0)}`).join(", ");
  return html`<${Section} title="Waits" id="waits" note=${note}>
    ${state.owner && waits.of === undefined ? html`<p class="note">${nameIn(state.owner)} has no figures in this span.</p>` : null}
    <h3>How long threads were runnable but not running <span class="note">the stronger the colour, the more time was waited; the line is p99</span></h3>
    <${HeatMap} history=${history} waits=${waits} onZoom=${onZoom} />
    ${waits.missing ? html`<p class="note">The lengths of ${waits.missing} seconds were not kept.</p>` : null}
    <div class="two">
      <div>
        <h3>Why <span class="note">threads waiting on average</span></h3>
        <${Chart} label=${`Waits by cause: ${worst}`} history=${history} series=${causes} stack unit=${threads} axis=${plain} onZoom=${onZoom} />
      </div>
      <div>
        <h3>Percentiles</h3>
        <${Chart} label="Percentiles of run-queue latency" history=${history} series=${quantiles} log unit=${duration} onZoom=${onZoom} />
      </div>
    </div>
  <//>`;
}

/**
 * Returns the owners on one side of the pairs with the largest waits, each once.
 * @param {Record<string, any>[]} pairs @param {"victim" | "culprit"} side @param {number} most
 */
export function first(pairs, side, most) {
  const sums = /** @type {Map<number, {name: string, wait: number}>} */ (new Map());
  for (const pair of pairs) {
    const wait = (sums.get(pair[side])?.wait ?? 0) + pair["wait.seconds"];
    sums.set(pair[side], { name: pair[`${side}.name`], wait });
  }
  const sorted = [...sums].sort(([, a], [, b]) => b.wait - a.wait).slice(0, most);
  return sorted.map(([id, { name }]) => ({ id, name, key: keyOf(id, name) }));
}

/** Maximum number of culprits with their own column. */
const CULPRITS = 8;

/** @param {Panel} props */
export function Matrix({ history, health, state, set, onZoom }) {
  if (!history.pairs) return html`<${NoWaits} title="Who hurts whom" id="matrix" health=${health} />`;
  const seconds = history.covered_seconds.reduce((a, b) => a + b, 0) || 1;
  const pairs = history.pairs.filter((pair) => pair["wait.seconds"] / seconds >= 0.0001);
  const culprits = first(pairs, "culprit", CULPRITS);
  const victims = first(pairs, "victim", 12);
  // Returns how long a victim waited for culprits without a column. The first `shown` culprits have one.
  const rest = (/** @type {number} */ victim, /** @type {number} */ shown) => {
    const named = culprits.slice(0, shown).map(({ id }) => id);
    const others = pairs.filter((pair) => pair.victim === victim && !named.includes(pair.culprit));
    const sum = others.reduce((all, pair) => all + pair["wait.seconds"], 0) / seconds;
    return sum >= 0.005 ? fixed(sum) : "";
  };
  const cell = (/** @type {number} */ victim, /** @type {number} */ culprit) =>
    pairs.find((pair) => pair.victim === victim && pair.culprit === culprit);
  const most = Math.max(...pairs.map((pair) => pair["wait.seconds"]), 1e-9);
  if (!pairs.length) {
    return html`<${Section} title="Who hurts whom" id="matrix"><p>Nobody waited for another in this span.</p><//>`;
  }
  const shown = history.pair && state.victim && state.culprit;
  return html`<${Section} title="Who hurts whom" id="matrix" note="threads waiting on average; victims down, culprits across">
    <div class="scroll" tabindex="0" role="region" aria-label="Matrix of victims and culprits">
      <table class="matrix">
        <thead>
          <tr>
            <th scope="col">victim</th>
            ${culprits.map(({ name }) => html`<th scope="col" title=${name}><span>${shorten(name, 30)}</span></th>`)}
            <th scope="col" class="rest"><span>others</span></th>
          </tr>
        </thead>
        <tbody>
          ${victims.map(
            (victim) => html`<tr>
              <th scope="row" title=${victim.name}>
                <button class="link" onClick=${() => set({ owner: victim.key })}>
                  <span class="wide">${shorten(victim.name, 34)}</span><span class="narrow">${shorten(victim.name, 15)}</span>
                </button>
              </th>
              ${culprits.map((culprit) => {
                const pair = cell(victim.id, culprit.id);
                if (!pair) return html`<td></td>`;
                const part = pair["wait.seconds"] / most;
                const picked = state.victim === victim.key && state.culprit === culprit.key;
                const text = fixed(pair["wait.seconds"] / seconds);
                return html`<td>
                  <button
                    class="cell"
                    style=${{ "--part": String(Math.round(6 + part * 54)) }}
                    aria-pressed=${String(picked)}
                    aria-label=${`${victim.name} waited behind ${culprit.name}: ${text} threads on average`}
                    onClick=${() => set(picked ? { victim: "", culprit: "" } : { victim: victim.key, culprit: culprit.key })}
                  >
                    ${text}
                  </button>
                </td>`;
              })}
              <td class="rest number"><span class="wide">${rest(victim.id, CULPRITS)}</span><span class="narrow">${rest(victim.id, 5)}</span></td>
            </tr>`,
          )}
        </tbody>
      </table>
    </div>
    ${history.crowded_pairs ? html`<p class="note">In ${history.crowded_pairs} of the points there were more pairs than are kept: those that waited least are missing.</p>` : null}
    ${shown
      ? html`<h3>${shorten(nameIn(state.victim), 40)} behind ${shorten(nameIn(state.culprit), 40)}</h3>
          <${Chart}
            label=${`What ${nameIn(state.victim)} waited behind ${nameIn(state.culprit)}`}
            history=${history}
            series=${[{ label: "waited", values: history.pair?.wait ?? [], color: "cause-neighbour" }]}
            unit=${threads}
            axis=${plain}
            height=${120}
            onZoom=${onZoom}
          />`
      : null}
  <//>`;
}

/** @param {Panel} props */
export function Energy({ history, health, onZoom }) {
  if (!history.energy) {
    const why = notMeasured(health, "energy");
    return why ? html`<${Section} title="Energy" id="energy"><p class="quiet">${why}</p><//>` : null;
  }
  const label = (/** @type {{label: string, source: string}} */ zone) => (zone.source === "model" ? `${zone.label} (model)` : zone.label);
  const series = history.energy.map((zone, at) => ({ label: label(zone), values: zone.watts, color: `owner-${at % SLOTS}` }));
  return html`<${Section} title="Energy" id="energy">
    <${Chart} label="Power of each zone" history=${history} series=${series} unit=${watts} onZoom=${onZoom} />
    ${isModelled(history) ? html`<p class="quiet">no meter: watts of the model in the configuration</p>` : null}
  <//>`;
}

const EVENT_INKS = /** @type {Record<string, [string, string]>} */ ({
  "process.starts": ["line-0", "starts"],
  "process.exits": ["line-1", "exits"],
  "oom.kills": ["line-2", "OOM kills"],
  "tcp.connect_failures": ["line-3", "failed connections"],
});

/** @param {Panel & {events: Record<string, any> | null, ownerKey: (name: string) => string}} props */
export function Events({ history, events, ownerKey, state, set, onZoom }) {
  const series = Object.entries(EVENT_INKS)
    .filter(([name]) => history.events[name])
    .map(([name, [ink, label]], at) => ({ label, values: history.events[name], summing: "sum", color: ink, dash: [undefined, "dash", undefined, "dot"][at] }));
  /** @type {Record<string, any>[]} */
  const rows = events?.rows ?? [];
  // The list contains only the last events, whereas the counts cover all events.
  const kills = /** @type {import("./api.js").Steps} */ (history.events["oom.kills"] ?? []);
  const begins = borders(history);
  const marks = kills.flatMap((number, at) => (number ? [begins[at] + history.step_seconds / 2] : []));
  const from = history.from_unix_nano;
  const cut = events && events.forgotten > 0 && events.complete_since_unix_nano > from;
  const more = events?.more ?? 0;
  const collected = isCollected(history);
  const usual = ["", "process.start", "process.exec", "process.exit", "oom.kill", "tcp.connect_failed"];
  const kind = events?.ignored ? "" : state.kind;
  const kinds = usual.includes(kind) ? usual : [...usual, kind];
  const kept = keptSpan(history);
  const go = (/** @type {Record<string, any>} */ row) =>
    set(momentChoice(row.place ? ownerKey(row.place) : state.owner, row.time_unix_nano / 1e9, kept));
  return html`<${Section} title="Events" id="events" note="per step; a red line is an OOM kill">
    ${series.length ? html`<${Chart} label="Events over time" history=${history} series=${series} unit=${count} height=${110} marks=${marks} onZoom=${onZoom} />` : html`<p>${collected ? "No events are counted: see the health below." : NOTHING}</p>`}
    <p>
      <label>kind <select value=${kind} onChange=${(/** @type {any} */ e) => set({ kind: e.target.value })}>
        ${kinds.map((one) => html`<option value=${one}>${one || "all"}</option>`)}
      </select></label>
      ${" "}<label class="check"><input type="checkbox" checked=${state.severity === "trouble"} onChange=${(/** @type {any} */ e) => set({ severity: e.target.checked ? "trouble" : "" })} />only signs of trouble</label>
      ${" "}<label>text <input type="search" placeholder="command, group or text" value=${state.text} onInput=${(/** @type {any} */ e) => set({ text: e.target.value })} /></label>
      ${state.owner ? html` <span class="note">of <b>${shorten(nameIn(state.owner), 40)}</b></span> <button onClick=${() => set({ owner: "" })}>show all</button>` : null}
      ${events?.ignored ? html`<span class="note">${state.kind} is ignored: ${events.ignored}</span>` : null}
      ${cut ? html`<span class="note">before ${clock(events.complete_since_unix_nano / 1e9)} ordinary events were forgotten</span>` : null}
      ${more ? html` <span class="note">only ${rows.length} of ${count(rows.length + more)} events are listed: signs of trouble, and the last of the others</span>` : null}
    </p>
    <div class="scroll events" tabindex="0" role="region" aria-label="List of events">
      <table>
        <thead><tr><th scope="col">time</th><th scope="col">who</th><th scope="col">where</th><th scope="col">what</th></tr></thead>
        <tbody>
          ${rows
            .slice()
            .reverse()
            .map(
              (row) => html`<tr class=${`tone-${row.tone}`}>
                <td><button class="link" onClick=${() => go(row)} aria-label=${`show ${clock(row.time_unix_nano / 1e9)}${row.place ? ` and ${row.place}` : ""}`}>${clock(row.time_unix_nano / 1e9)}</button></td>
                <td>${row["process.executable.name"] ?? ""}${row["process.pid"] ? ` [${row["process.pid"]}]` : ""}</td>
                <td title=${row.place}>${shorten(row.place, 34)}</td>
                <td class="what">${row.text}</td>
              </tr>`,
            )}
          ${rows.length ? null : html`<tr><td colspan="4">${events?.refused ?? (collected ? "none in this span" : NOTHING)}</td></tr>`}
        </tbody>
      </table>
    </div>
  <//>`;
}

/** @param {{history: History, health: import("./api.js").Doctor | null, node: Record<string, any> | null, connected: boolean}} props */
export function Health({ history, health, node, connected }) {
  const features = health?.features ?? [];
  const on = features.filter((feature) => feature.state === "on").length;
  const lost = history.losses.reduce((/** @type {number} */ a, b) => a + (b ?? 0), 0);
  const agent = mean(history.agent, history.covered_seconds);
  const none = isCollected(history) ? "nothing was lost in this span" : "what was lost in this span is not known";
  const kinds = counted(node?.losses ?? {});
  return html`<${Section} title="Health of the agent" id="health" note=${`${on} features work, ${features.length - on} do not or in part`}>
    <p>
      ${connected ? null : html`<b class="bad">no connection to the agent; </b>`} CPU ${agent === null ? "–" : percent(agent)} of one CPU,
      memory ${node ? bytes(node.agent["memory.rss_bytes"]) : "–"}, ${lost ? html`<b class="bad">${countOf(lost, "record")} lost in this span</b>` : none}${kinds ? ` (since the agent started: ${kinds})` : null}
      ${node ? html`, noctule ${node["noctule.version"]} on ${node["host.name"]}` : null}
    </p>
    <details open=${false}>
      <summary>features</summary>
      <div class="scroll" tabindex="0" role="region" aria-label="Features">
        <table>
          <thead><tr><th scope="col">feature</th><th scope="col">state</th><th scope="col">why</th><th scope="col">to change it</th></tr></thead>
          <tbody>
            ${features.map(
              (feature) => html`<tr>
                <th scope="row">${feature.name}</th>
                <td class=${`state-${feature.state}`}>${feature.state}</td>
                <td class="what">${feature.reason}</td>
                <td class="what">${feature.mend ?? ""}</td>
              </tr>`,
            )}
          </tbody>
        </table>
      </div>
    </details>
  <//>`;
}
