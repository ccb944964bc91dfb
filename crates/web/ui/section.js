// Renders the frame of a panel.

import { html } from "./ui.js";
import { notMeasured } from "./api.js";

/** @param {{title: string, id: string, note?: unknown, children?: unknown}} props */
export function Section({ title, id, note, children }) {
  return html`<section aria-labelledby=${`${id}-title`} id=${id}>
    <h2 id=${`${id}-title`}>${title} ${note ? html`<span class="note">${note}</span>` : null}</h2>
    ${children}
  </section>`;
}

/**
 * A panel of waits without data.
 * @param {{title: string, id: string, health?: import("./api.js").Doctor | null, children?: unknown}} props
 */
export function NoWaits({ title, id, health, children }) {
  return html`<${Section} title=${title} id=${id}>
    <p class="quiet">${notMeasured(health, "cpu_waits") || "Waits were not measured in this span."}</p>
    ${children}
  <//>`;
}
