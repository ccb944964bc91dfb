// Renders the frame of a panel.

import { html, useLayoutEffect } from "./ui.js";
import { notMeasured } from "./api.js";
import { shorten } from "./format.js";
import { keyOf } from "./state.js";

/** @param {{title: string, id: string, note?: unknown, children?: unknown}} props */
export function Section({ title, id, note, children }) {
  return html`<section aria-labelledby=${`${id}-title`} id=${id}>
    <h2 id=${`${id}-title`}>${title} ${note ? html`<span class="note">${note}</span>` : null}</h2>
    ${children}
  </section>`;
}

/**
 * The name of a group, which opens its pane.
 * @param {{id?: number, name: string, most: number, look?: string, set: (change: Partial<import("./state.js").State>) => void}} props
 */
export function GroupName({ id, name, most, look = "", set }) {
  return html`<button class=${`link name ${look}`} title=${name} onClick=${() => set({ owner: keyOf(id, name) })}>${shorten(name, most)}</button>`;
}

/** When a pane closes while the focus is inside it, returns the focus to the element that opened the pane.
   @param {{current: HTMLElement | null}} part the pane */
export function useReturnedFocus(part) {
  // A layout effect runs before the user can move the focus.
  useLayoutEffect(() => {
    const opener = /** @type {HTMLElement | null} */ (document.activeElement);
    const opened = part.current;
    return () => {
      if (opened?.contains(document.activeElement)) opener?.focus({ preventScroll: true });
    };
  }, []);
}

/** Returns whether a model in the configuration replaces the meters. @param {import("./api.js").History} history */
export const isModelled = (history) => !!history.energy?.every((zone) => zone.source === "model");

/** Returns, as text, why waits have no figures. @param {import("./api.js").Doctor | null | undefined} health */
export const noWaits = (health) => notMeasured(health, "cpu_waits") || "Waits were not measured in this span.";

/**
 * A panel of waits without data.
 * @param {{title: string, id: string, health?: import("./api.js").Doctor | null, children?: unknown}} props
 */
export function NoWaits({ title, id, health, children }) {
  return html`<${Section} title=${title} id=${id}>
    <p class="quiet">${noWaits(health)}</p>
    ${children}
  <//>`;
}
