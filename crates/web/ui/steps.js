// One figure for all steps of a column. Steps may be measured in part: those weigh less in a mean.

/** @typedef {import("./api.js").Steps} Steps */

/**
 * How the steps are summed up: the mean of a rate, the greatest of a maximum, the sum of a count; `step`: the mean
 * of what is no rate, as a percentile, which is said.
 * @typedef {"mean" | "max" | "sum" | "step"} Summing
 */

/** What is said beside the figure. @type {Record<Summing, string>} */
export const SUMMED = { mean: "", max: "", sum: "in all", step: "mean of steps" };

/** Per second, or in each step with its part. @param {Steps} values @param {Steps} covered seconds of each step that are measured */
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

/** The figure of all steps; null: of none it is known. @param {Summing} summing @param {Steps} values @param {Steps} covered */
export function summary(summing, values, covered) {
  const known = values.filter((value) => value !== null);
  if (!known.length) return null;
  if (summing === "sum") return known.reduce((a, b) => a + b, 0);
  if (summing === "max") return known.reduce((a, b) => Math.max(a, b));
  return mean(values, covered);
}

/** Whether anything was collected in the span; without it no figure is 0. @param {{covered_seconds: Steps}} history */
export const isCollected = ({ covered_seconds: covered }) => covered.some((seconds) => (seconds ?? 0) > 0);

export const NOTHING = "nothing was collected in this span";
