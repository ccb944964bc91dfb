// The diagnosis as text: which groups are hurt, by which culprit, since when, and what to try.

import { html, useState } from "./ui.js";
import { limitAdvice, weightAdvice } from "./advice.js";
import { busyWords, grouped } from "./answers.js";
import { keptSpan, momentChoice } from "./lanes.js";
import { GroupName, NoWaits, Section } from "./section.js";
import { clock, duration, momentOf, noVerdict, percent, countOf, shorten, threads } from "./format.js";
import { mean } from "./steps.js";
import { keyOf } from "./state.js";
import { kindLook } from "./words.js";

/**
 * @typedef {import("./api.js").Hurt} Hurt
 * @typedef {import("./advice.js").Advice} Advice
 * @typedef {import("./answers.js").Culprit} Culprit
 * @typedef {import("./answers.js").Victim} Victim
 */

const NANO = 1e9;
/** Maximum number of entries shown at first: of culprits, and of groups that no other group hurts. */
const CULPRITS = 3;
/** Maximum number of victims of one culprit shown at first. */
const VICTIMS = 5;

/** The root group has no weight: its processes compete one by one. */
const ROOT = "(root)";
const OF_ROOT = "move its busiest processes, which its pane lists, into a group with a low CPU weight";

/** Returns the mean number of idle CPUs in the judged window. @param {import("./api.js").History} history */
function idleIn(history) {
  const { now } = history;
  if (!now) return null;
  const [from, to] = [now.time_unix_nano / NANO - now.window_seconds, now.time_unix_nano / NANO];
  const begin = history.from_unix_nano / NANO;
  const inside = history.covered_seconds.map((seconds, at) => {
    const start = begin + at * history.step_seconds;
    return start + history.step_seconds > from && start < to ? seconds : 0;
  });
  return mean(history.node.idle, inside);
}

/** A command that can be copied. @param {{command: string, note?: string}} props */
export function Command({ command, note }) {
  const [copied, setCopied] = useState("");
  const copy = async () => {
    // Browsers offer the clipboard only to pages that came over HTTPS or from this machine.
    const done = await navigator.clipboard?.writeText(command).then(
      () => true,
      () => false,
    );
    setCopied(done ? "copied" : "select it and copy");
    setTimeout(() => setCopied(""), 2000);
  };
  return html`<span class="command"
    ><code>${command}</code><button onClick=${copy} aria-label=${copied || `copy: ${command}`}>${copied || "copy"}</button>${note ? html`<span class="note">${note}</span>` : null}</span
  >`;
}

/** @param {{advice: Advice[]}} props */
export function Try({ advice }) {
  return advice.map(
    (one) => html`<p class="try"><b>Try:</b> ${one.words}.${one.command ? html` <${Command} command=${one.command} note=${one.note} />` : null}</p>`,
  );
}

/**
 * Returns the advice for a verdict, with a number and a command if possible.
 * @param {Hurt} hurt @param {import("./api.js").History} history @param {Record<string, any> | null} node
 * @returns {Advice[]}
 */
export function adviceFor(hurt, history, node) {
  const limit = limitAdvice(hurt, history.cpus, node?.cgroups);
  if (limit) return [limit];
  return hurt.verdict.next_step ? [{ words: hurt.verdict.next_step }] : [];
}

/**
 * @typedef {import("./panels.js").Panel & {node: Record<string, any> | null, kills: import("./lanes.js").Mark[], recorded: boolean}} NowProps
 * @param {NowProps} props
 */
export function Now({ history, health, node, state, set, kills, recorded }) {
  const now = history.now;
  const marks = kills.filter((kill) => kill.time_unix_nano >= history.from_unix_nano && kill.time_unix_nano <= history.to_unix_nano);
  const killed = html`<${Kills} kills=${marks} whole=${keptSpan(history)} set=${set} />`;
  const moment = now && momentOf(now.time_unix_nano / NANO, Date.now() / 1000);
  const title = recorded || state.from !== null ? (moment ? `At ${moment}` : "Verdict") : "Now";
  if (!history.waits) return html`<${NoWaits} title=${title} id="now" health=${health}>${killed}<//>`;
  if (!now) {
    return html`<${Section} title=${title} id="now"><p class="now quiet">${noVerdict(history, node)}</p>${killed}<//>`;
  }
  const at = `${title === "Now" ? `${moment}, ` : ""}over ${duration(now.window_seconds)}`;
  const { culprits, alone } = grouped(now);
  const idle = idleIn(history);
  const number = now.rows.length + now.more;
  const busy = idle === null ? "" : busyWords(idle, Math.max(history.cpus, 1));
  const headline = number ? `${countOf(number, "group is", "groups are")} hurt.` : "No group is hurt.";
  return html`<${Section} title=${title} id="now" note=${html`${at}${state.at === null ? null : html` <button onClick=${() => set({ at: null })}>end of the span</button>`}`}>
    <p class=${`now headline${number ? "" : " good"}`}>${headline} <span class="busy">${busy}</span></p>
    ${killed}
    <${List} rows=${culprits} first=${CULPRITS} what=${["culprit"]}>
      ${(/** @type {Culprit} */ culprit) => html`<${Blamed} key=${keyOf(culprit.id, culprit.name)} culprit=${culprit} history=${history} node=${node} set=${set} now=${now} />`}
    <//>
    <${List} rows=${alone} first=${CULPRITS} what=${["group"]}>
      ${(/** @type {Hurt} */ hurt) => html`<${Alone} key=${keyOf(hurt.id, hurt.name)} hurt=${hurt} history=${history} node=${node} set=${set} />`}
    <//>
    ${now.more ? html`<p class="note">and ${countOf(now.more, "more group")}, not listed</p>` : null}
  <//>`;
}

/** Shows the first rows, and a button that shows the remaining rows. @param {{rows: any[], first: number, what: string[], list?: string, children?: any}} props `what` contains the singular and plural of a row, `list` is the CSS class of the list */
function List({ rows, first, what, list, children }) {
  const [all, setAll] = useState(false);
  const draw = Array.isArray(children) ? children[0] : children;
  const shown = rows.slice(0, all ? undefined : first).map(draw);
  const more = /** @type {[string, string?]} */ (what.map((words) => `more ${words}`));
  return html`${list ? html`<ul class=${list}>${shown}</ul>` : shown}
  ${rows.length > first
    ? html`<button class="more" aria-expanded=${String(all)} onClick=${() => setAll(!all)}>${all ? "only the worst" : countOf(rows.length - first, ...more)}</button>`
    : null}`;
}

/** @param {{culprit: Culprit, history: import("./api.js").History, node: Record<string, any> | null, set: (change: Partial<import("./state.js").State>) => void, now: {window_seconds: number}}} props */
function Blamed({ culprit, history, node, set, now }) {
  const { victims, name } = culprit;
  const [worst] = victims;
  const own = weightAdvice({ ...culprit.owner, name }, worst.hurt, node?.cgroups);
  const proven = worst.hurt.verdict.next_step;
  // If the agent has no advice for the victim, limiting the culprit does not help either.
  const advice = proven ? [own ?? { words: name === ROOT ? OF_ROOT : `for ${worst.hurt.name}: ${proven}` }] : [];
  const rest = (/** @type {Victim} */ { hurt }) => (hurt.behind ?? []).filter((one) => one.name !== name).length;
  return html`<div class="blamed">
    <p class="blame">
      <${GroupName} id=${culprit.id} name=${name} most=${64} look="culprit" set=${set} />
      ${commandsOf(culprit)}${` makes ${countOf(victims.length, "group")} wait: `}<b>${threads(culprit.wait)}</b> on average, since ${clock(culprit.since)}.
    </p>
    <${Try} advice=${advice} />
    <${List} rows=${victims} first=${VICTIMS} what=${["group waits for it", "groups wait for it"]} list="victims">
        ${(/** @type {Victim} */ victim) => html`<li class="hurt" key=${keyOf(victim.hurt.id, victim.hurt.name)}>
          <${GroupName} id=${victim.hurt.id} name=${victim.hurt.name} most=${48} set=${set} />
          <${Kind} kind=${victim.hurt.verdict.kind} />
          <span class="much" title=${victim.hurt.verdict.reason}>
            ${threads(victim.hurt["wait.seconds"] / now.window_seconds)} waiting, ${percent(victim.part)} of its CPU demand${rest(victim) ? `; ${threads(victim.wait)} behind this one` : ""}
          </span>
          <span class="since">since ${clock(victim.hurt.since_unix_nano / NANO)}</span>
        </li>`}
    <//>
  </div>`;
}

/** Names the busiest commands of the root group, which is no workload itself. @param {Culprit} culprit */
function commandsOf({ name, victims }) {
  const commands = victims[0].hurt.verdict.root_commands;
  return name === ROOT && commands?.length ? ` (${commands.join(", ")})` : "";
}

/** A chip with the colour and the words of a verdict. @param {{kind: string}} props */
export function Kind({ kind }) {
  const { words, color } = kindLook(kind);
  return html`<span class="kind"><span class="chip" style=${{ "--chip": `var(--${color})` }}></span>${words}</span>`;
}

/** A group that is hurt, but by no other group. @param {{hurt: Hurt, history: import("./api.js").History, node: Record<string, any> | null, set: (change: Partial<import("./state.js").State>) => void}} props */
function Alone({ hurt, history, node, set }) {
  const { verdict, since_unix_nano: since, name, id } = hurt;
  return html`<div class="blamed hurt">
    <p class="blame">
      <${GroupName} id=${id} name=${name} most=${64} set=${set} />${" "}<${Kind} kind=${verdict.kind} />:${" "}
      <span class="reason">${verdict.reason}, since ${clock(since / NANO)}.</span>
    </p>
    <${Try} advice=${adviceFor(hurt, history, node)} />
  </div>`;
}

/** Maximum number of groups with OOM kills to name. */
const KILLED = 3;

/** The OOM kills of the span: the last one of each group. @param {{kills: import("./lanes.js").Mark[], whole: {from: number, to: number}, set: (change: Partial<import("./state.js").State>) => void}} props */
function Kills({ kills, whole, set }) {
  if (!kills.length) return null;
  const groups = [...new Map(kills.map((kill) => [keyOf(kill.id, kill.name), kill]))].sort(([, a], [, b]) => b.time_unix_nano - a.time_unix_nano);
  const named = groups.slice(0, KILLED).map(([key, { name, time_unix_nano: time }], at) => {
    const go = () => set({ ...momentChoice(key, time / NANO, whole), kind: "oom.kill" });
    return html`${at ? ", " : ""}<button class="link name" onClick=${go} title=${name}>${shorten(name, 48)}</button> at ${clock(time / NANO)}`;
  });
  const more = groups.length - named.length;
  return html`<p class="kills"><span class="mark kill">✕</span> <b>${countOf(kills.length, "OOM kill")}</b>: ${named}${more ? ` and in ${countOf(more, "more group")}` : ""}</p>`;
}
