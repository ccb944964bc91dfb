// Compares and exports spans. Draws nothing.

/**
 * @typedef {import("./api.js").History} History
 * @typedef {{id: number, name: string, a: Figures, b: Figures}} Change
 * @typedef {{cpus: number, waiting?: number}} Figures means over a span
 */

/** Minimum change in CPUs or waiting threads to be listed. */
export const LEAST = 0.005;

/** Returns the mean figures of each owner. @param {History} history */
function figures(history) {
  const seconds = history.covered_seconds.reduce((a, b) => a + b, 0) || 1;
  const of = (/** @type {import("./api.js").Owner} */ owner) => ({
    cpus: owner["cpu.seconds"] / seconds,
    waiting: owner["wait.seconds"] === undefined ? undefined : owner["wait.seconds"] / seconds,
  });
  return new Map(history.owners.map((owner) => [owner.id, { name: owner.name, figures: of(owner) }]));
}

/** Returns the groups whose means changed, the largest change first. @param {History} before @param {History} after @returns {Change[]} */
export function changes(before, after) {
  const [a, b] = [figures(before), figures(after)];
  const none = () => ({ cpus: 0, waiting: before.waits && after.waits ? 0 : undefined });
  const all = [...new Set([...a.keys(), ...b.keys()])].map((id) => ({
    id,
    name: (b.get(id) ?? a.get(id))?.name ?? "",
    a: a.get(id)?.figures ?? none(),
    b: b.get(id)?.figures ?? none(),
  }));
  const by = (/** @type {Change} */ one) => Math.abs(one.b.cpus - one.a.cpus) + Math.abs((one.b.waiting ?? 0) - (one.a.waiting ?? 0));
  return all.filter((one) => by(one) >= LEAST).sort((one, other) => by(other) - by(one));
}

/**
 * Returns the commands that export the span of a recording.
 * @param {{from: number, to: number}} span in seconds since 1970
 */
export function exportCommands({ from, to }) {
  const at = new Date(Math.floor(from) * 1000).toISOString().replace(".000", "");
  const range = `--at ${at} --for ${Math.max(1, Math.round(to - from))}s`;
  return [
    { words: "Trace for ui.perfetto.dev", command: `noctule tape export DIR --to perfetto -o span.pftrace ${range}` },
    { words: "Tables for DuckDB, Polars or pandas", command: `noctule tape export DIR --to parquet -o span ${range}` },
  ];
}
