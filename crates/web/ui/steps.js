// Summarizes the steps of a series. A mean weights each step by the time for which it was measured.

/** @typedef {import("./api.js").Steps} Steps */

/**
 * How steps are summed up: `mean` for rates, `max` for maxima, `sum` for counts. `step` is the mean
 * of values that are not rates, such as percentiles; the legend labels it as such.
 * @typedef {"mean" | "max" | "sum" | "step"} Summing
 */

/** Text next to the summary. @type {Record<Summing, string>} */
export const SUMMED = { mean: "", max: "", sum: "in all", step: "mean of steps" };

/** Returns the mean, weighted by measured time. @param {Steps} values @param {Steps} covered
   measured seconds of each step */
export function mean(values, covered) {
  let sum = 0;
  let seconds = 0;
  values.forEach((value, at) => {
    if (value === null) return;
    sum += value * (covered[at] ?? 0);
    seconds += covered[at] ?? 0;
  });
  return seconds > 0 ? sum / seconds : null;
}

/** Returns the summary of all steps; null if no step is known. @param {Summing} summing @param
   {Steps} values @param {Steps} covered */
export function summary(summing, values, covered) {
  const known = values.filter((value) => value !== null);
  if (!known.length) return null;
  if (summing === "sum") return known.reduce((a, b) => a + b, 0);
  if (summing === "max") return known.reduce((a, b) => Math.max(a, b));
  return mean(values, covered);
}

/** Returns whether anything was collected in the span. If not, figures are unknown, not 0. @param
   {{covered_seconds: Steps}} history */
export const isCollected = ({ covered_seconds: covered }) => covered.some((seconds) => (seconds ?? 0) > 0);

/**
 * Returns the start and end of each gap: adjacent steps in which nothing was collected.
 * @param {number[]} times start of each step, and the end of the last one @param {Steps} covered
 */
export function gapsOf(times, covered) {
  /** @type {[number, number][]} */
  const gaps = [];
  covered.forEach((seconds, at) => {
    const last = gaps[gaps.length - 1];
    if ((seconds ?? 0) > 0) return;
    if (last && last[1] === times[at]) last[1] = times[at + 1];
    else gaps.push([times[at], times[at + 1]]);
  });
  return gaps;
}

export const NOTHING = "nothing was collected in this span";

/** Lengths between labels of a time axis, in seconds. */
const EVERY = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 86400];

/** Returns round times between two times, with room for labels. @param {number} from @param {number} to @param {number} width in pixels */
export function roundTimes(from, to, width) {
  const wanted = ((to - from) * 80) / Math.max(width, 1);
  const every = EVERY.find((seconds) => seconds >= wanted) ?? 86400;
  const first = Math.ceil(from / every) * every;
  return Array.from({ length: Math.max(0, Math.floor((to - first) / every) + 1) }, (_, at) => first + at * every);
}
