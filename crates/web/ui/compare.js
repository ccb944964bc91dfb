// Compares the shown span with a marked one.

import { html } from "./ui.js";
import { Command } from "./headline.js";
import { GroupName, Section } from "./section.js";
import { fixed, spanOf } from "./format.js";
import { LEAST, changes } from "./spans.js";
import { keyOf } from "./state.js";

/**
 * @typedef {{from: number, to: number}} Span in seconds since 1970
 * @typedef {import("./api.js").History} History
 */

const NANO = 1e9;
/** Maximum number of listed groups. */
const MOST = 12;

/** Formats a moment and a length for a command. @param {Span} span */
const place = ({ from, to }) => `DIR@${Math.floor(from)}+${Math.max(1, Math.round(to - from))}s`;

/**
 * @param {{before: History, after: History, recorded: boolean, set: (change: Partial<import("./state.js").State>) => void}} props
 */
export function Compare({ before, after, recorded, set }) {
  const sides = [before, after].map((side) => ({ from: side.from_unix_nano / NANO, to: side.to_unix_nano / NANO }));
  const now = recorded ? 0 : Date.now() / 1000;
  const [a, b] = sides.map(({ from, to }) => spanOf(from, to, now));
  const note = html`A: ${a}; B: ${b} <button onClick=${() => set({ mark: "" })}>end the comparison</button>`;
  const listed = changes(before, after);
  const waits = before.waits && after.waits;
  return html`<${Section} title="A and B" id="compare" note=${note}>
    ${listed.length
      ? html`<div class="scroll" tabindex="0" role="region" aria-label="Comparison of A and B">
          <table>
            <thead>
              <tr>
                <th scope="col">name</th>
                <th scope="col" class="number">CPUs: A → B, change</th>
                ${waits ? html`<th scope="col" class="number">threads waiting</th>` : null}
              </tr>
            </thead>
            <tbody>
              ${listed.slice(0, MOST).map(
                (one) => html`<tr key=${keyOf(one.id, one.name)}>
                  <th scope="row"><${GroupName} id=${one.id} name=${one.name} most=${34} set=${set} /></th>
                  <${Cell} a=${one.a.cpus} b=${one.b.cpus} />
                  ${waits ? html`<${Cell} a=${one.a.waiting ?? 0} b=${one.b.waiting ?? 0} />` : null}
                </tr>`,
              )}
            </tbody>
          </table>
        </div>`
      : html`<p>No group changed by ${fixed(LEAST)} CPUs or threads.</p>`}
    ${listed.length > MOST ? html`<p class="note">and ${listed.length - MOST} more with smaller changes</p>` : null}
    <p class="note">
      Means over A and B.
      ${recorded ? html` Whether a change is more than noise: <${Command} command=${`noctule diff ${sides.map(place).join(" ")}`} />` : " noctule diff tests two periods of a recording for changes that are more than noise."}
    </p>
  <//>`;
}

/** @param {{a: number, b: number}} props */
function Cell({ a, b }) {
  const change = b - a;
  const text = Math.abs(change) < LEAST ? "–" : `${change > 0 ? "+" : "−"}${fixed(Math.abs(change))}`;
  return html`<td class="number">${fixed(a)} → ${fixed(b)} <b class="change">${text}</b></td>`;
}
