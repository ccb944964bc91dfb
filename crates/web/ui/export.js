// Exports the shown span: a link, a picture, the figures, and commands for other formats.

import { html, useState } from "./ui.js";
import { Command } from "./headline.js";
import { color } from "./chart.js";
import { momentOf } from "./format.js";
import { exportCommands } from "./spans.js";

const NANO = 1e9;

/** Saves data as a file. @param {Blob} blob @param {string} name */
function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

const LINE = 18;
const EDGE = 12;
const LEGEND = "11px system-ui, sans-serif";

/** Returns the places of the entries of a legend, and its number of lines.
   @param {{text: string, ink: string}[]} legend @param {number} width of the picture
   @param {(text: string) => number} widthOf */
function placesOf(legend, width, widthOf) {
  let [x, line] = [EDGE, 0];
  const places = legend.map(({ text, ink }) => {
    const wide = 28 + widthOf(text);
    if (x > EDGE && x + wide > width) [x, line] = [EDGE, line + 1];
    const place = { text, ink, x, line };
    x += wide;
    return place;
  });
  return { places, lines: legend.length ? line + 1 : 0 };
}

/**
 * Draws the headline and all charts of the page, with headings and legends, on a canvas.
 * @param {string} title
 * @returns {HTMLCanvasElement}
 */
function drawn(title) {
  const charts = [...document.querySelectorAll("main section")].flatMap((section) =>
    [...section.querySelectorAll(".chart")].map((chart) => {
      const own = chart.previousElementSibling;
      const headings = [section.querySelector("h2"), ...(own?.tagName === "H3" ? [own] : [])];
      return {
        title: headings.map((heading) => heading?.firstChild?.textContent?.trim() ?? "").join(": "),
        canvas: chart.querySelector("canvas"),
        legend: [...chart.querySelectorAll(".legend li")].map((entry) => ({
          text: entry.textContent?.trim() ?? "",
          ink: getComputedStyle(/** @type {HTMLElement} */ (entry.querySelector(".chip"))).getPropertyValue("--chip"),
        })),
      };
    }),
  );
  const lines = [title, ...[...document.querySelectorAll("#now .headline, #now .kills, #now .blame")].map((one) => one.textContent?.replaceAll(/\s+/g, " ").trim() ?? "")];
  const scale = devicePixelRatio || 1;
  const sized = charts.flatMap((chart) => (chart.canvas ? [{ ...chart, canvas: chart.canvas, high: chart.canvas.height / scale }] : []));
  const width = 2 * EDGE + Math.max(600, ...sized.map(({ canvas }) => canvas.width / scale));
  const out = document.createElement("canvas");
  const context = /** @type {CanvasRenderingContext2D} */ (out.getContext("2d"));
  context.font = LEGEND;
  const placed = sized.map((chart) => ({ ...chart, ...placesOf(chart.legend, width, (text) => context.measureText(text).width) }));
  const high = placed.reduce((sum, { high, lines }) => sum + high + (1.5 + lines) * LINE, (lines.length + 1) * LINE + EDGE);
  out.width = Math.round(width * scale);
  out.height = Math.round(high * scale);
  context.scale(scale, scale);
  context.fillStyle = color("panel");
  context.fillRect(0, 0, width, high);
  context.textBaseline = "top";
  let y = EDGE;
  const write = (/** @type {string} */ text, /** @type {string} */ font) => {
    context.font = font;
    context.fillStyle = color("ink");
    context.fillText(text, EDGE, y, width - 2 * EDGE);
    y += LINE;
  };
  lines.forEach((line, at) => write(line, `${at ? "" : "bold "}13px system-ui, sans-serif`));
  for (const { title, canvas, places, lines, high } of placed) {
    write(title, "bold 12px system-ui, sans-serif");
    context.drawImage(canvas, EDGE, y, canvas.width / scale, high);
    y += high;
    context.font = LEGEND;
    for (const { text, ink, x, line } of places) {
      context.fillStyle = ink;
      context.fillRect(x, y + line * LINE + 1, 10, 10);
      context.fillStyle = color("ink");
      context.fillText(text, x + 14, y + line * LINE);
    }
    y += (lines + 0.5) * LINE;
  }
  return out;
}

/**
 * @param {{history: import("./api.js").History, node: Record<string, any> | null, recorded: boolean, close: () => void}} props
 */
export function Export({ history, node, recorded, close }) {
  const [failed, setFailed] = useState("");
  const span = { from: history.from_unix_nano / NANO, to: history.to_unix_nano / NANO };
  const host = node?.["host.name"] ?? "noctule";
  const name = `${host}-${Math.floor(span.from)}`;
  const picture = () =>
    drawn(`${host}, ${momentOf(span.from, 0)} – ${momentOf(span.to, 0)}`).toBlob((blob) => (blob ? save(blob, `${name}.png`) : setFailed("the browser drew no picture")));
  // A link to the live view would show another span later.
  const link = location.href.includes("from=") || recorded ? location.href : `${location.href.split("#")[0]}#from=${Math.floor(span.from)}&to=${Math.ceil(span.to)}`;
  return html`<aside class="help export" aria-label="Export">
    <button class="close" onClick=${close} aria-label="close the export">×</button>
    <h2>Export</h2>
    <h3>Link <span class="note">${recorded ? "while this recording is served" : "for as long as the agent keeps this span"}</span></h3>
    <p><${Command} command=${link} /></p>
    <h3>Picture and figures</h3>
    <p>
      <button onClick=${picture}>charts as PNG</button>${" "}
      <a href=${`/api/v1/history?from=${span.from}&to=${span.to}&steps=1000&owners=500&pairs=500`} download=${`${name}.json`}>figures as JSON</a>
      ${failed ? html` <span class="note">${failed}</span>` : null}
    </p>
    ${recorded
      ? exportCommands(span).map(({ words, command }) => html`<h3>${words}</h3><p><${Command} command=${command} /></p>`)
      : html`<h3>Perfetto, Parquet</h3><p class="note">These formats are made from a recording. Start one, and then export it:</p>
          <p><${Command} command="noctule record -o DIR --for 10m" /></p>
          <p><${Command} command="noctule tape export DIR --to perfetto -o span.pftrace" /></p>`}
  </aside>`;
}
