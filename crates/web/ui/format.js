// Formats numbers like the tables of the terminal (crates/text): three digits, followed by the
// unit.

/** @param {number} v */
function three(v) {
  return v < 9.995 ? v.toFixed(2) : v < 99.95 ? v.toFixed(1) : v.toFixed(0);
}

/** Formats seconds as a duration: `45ns`, `12.3ms`, `1.25s`, `3m07s`. @param {number} seconds */
export function duration(seconds) {
  const ns = seconds * 1e9;
  if (ns <= 0) return "0";
  if (ns < 999.5) return `${ns.toFixed(0)}ns`;
  if (ns < 999.5e3) return `${three(ns / 1e3)}µs`;
  if (ns < 999.5e6) return `${three(ns / 1e6)}ms`;
  if (ns < 59.95e9) return `${three(ns / 1e9)}s`;
  const two = (/** @type {number} */ value, /** @type {string} */ a, /** @type {string} */ b) =>
    `${Math.floor(value / 60)}${a}${String(value % 60).padStart(2, "0")}${b}`;
  if (ns < 3599.5e9) return two(Math.round(seconds), "m", "s");
  return two(Math.round(seconds / 60), "h", "m");
}

/** Formats a fraction as a percentage: `52.6%`. @param {number} part */
export function percent(part) {
  const v = part * 100;
  return v < 999.95 ? `${v.toFixed(1)}%` : `${v.toFixed(0)}%`;
}

/** Formats a number with up to two decimals: `0.83`, `12.9`, `140`. @param {number} v */
export function plain(v) {
  if (v > 0 && v < 0.005) return "<0.01";
  return v < 9.995 ? String(+v.toFixed(2)) : v < 99.95 ? String(+v.toFixed(1)) : v.toFixed(0);
}

/** Formats a number for a column, with digits below each other: `0.83`, `12.9`. @param {number} v */
export const fixed = (v) => (v > 0 && v < 0.005 ? "<0.01" : three(v));

/** Formats a number of CPUs: `0.83 CPU`, `1.4 CPUs`. @param {number} v */
export const cpus = (v) => `${plain(v)} ${v > 1.004 ? "CPUs" : "CPU"}`;

/** Formats an average number of threads: `5.5 threads`. @param {number} v */
export const threads = (v) => `${plain(v)} ${+v.toFixed(2) === 1 ? "thread" : "threads"}`;

/** Formats CPU numbers: `CPU 1`, `CPUs 0-3,8`. @param {number[]} numbers in ascending order */
export function cpuNumbers(numbers) {
  /** @type {[number, number][]} */
  const parts = [];
  for (const number of numbers) {
    const last = parts[parts.length - 1];
    if (last && last[1] + 1 === number) last[1] = number;
    else parts.push([number, number]);
  }
  return `CPU${numbers.length > 1 ? "s" : ""} ${parts.map(([a, b]) => (a === b ? a : `${a}-${b}`)).join(",")}`;
}

/** Formats a count or rate: `999`, `1.23k`. @param {number} value */
export function count(value) {
  if (value < 10 && value % 1 !== 0 && value >= 0.05) return value.toFixed(1);
  let step = 0;
  while (value >= 999.5 && step < 6) {
    value /= 1e3;
    step += 1;
  }
  return step === 0 ? value.toFixed(0) : three(value) + " kMGTPE"[step];
}

/** Formats a number of things: `1 group`, `1.23k groups`. @param {number} value @param {string} one @param {string} [many] */
export const countOf = (value, one, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;

/** Formats counts by name, largest first, without zeros: `12 a, 3 b`. @param {Record<string,
   number>} counts */
export function counted(counts) {
  const some = Object.entries(counts).filter(([, value]) => value > 0);
  return some
    .sort(([, a], [, b]) => b - a)
    .map(([name, value]) => `${count(value)} ${name}`)
    .join(", ");
}

/** @param {number} value */
export function bytes(value) {
  const steps = ["B", "KiB", "MiB", "GiB", "TiB"];
  let step = 0;
  while (value >= 1023.5 && step < 4) {
    value /= 1024;
    step += 1;
  }
  return step === 0 ? `${value}B` : three(value) + steps[step];
}

/** @param {number} value */
export function watts(value) {
  if (value < 0.00005) return "0W";
  return value < 0.9995 ? `${three(value * 1e3)}mW` : `${value < 999.5 ? three(value) : count(value)}W`;
}

/** Formats a local time of day. @param {number} seconds since 1970 */
export function clock(seconds) {
  const date = new Date(seconds * 1000);
  return [date.getHours(), date.getMinutes(), date.getSeconds()].map((n) => String(n).padStart(2, "0")).join(":");
}

/** Formats a local date: `2026-03-01`. @param {number} seconds since 1970 */
export function day(seconds) {
  const date = new Date(seconds * 1000);
  return [date.getFullYear(), date.getMonth() + 1, date.getDate()].map((n) => String(n).padStart(2, "0")).join("-");
}

/** Formats the offset of local time from UTC: `UTC+02:00`. @param {number} seconds since 1970 */
export function zone(seconds) {
  const minutes = -new Date(seconds * 1000).getTimezoneOffset();
  const two = (/** @type {number} */ n) => String(Math.floor(n)).padStart(2, "0");
  if (minutes === 0) return "UTC";
  return `UTC${minutes < 0 ? "-" : "+"}${two(Math.abs(minutes) / 60)}:${two(Math.abs(minutes) % 60)}`;
}

/** Formats a moment, with date and zone unless it is today. @param {number} at seconds since 1970
   @param {number} now */
export const momentOf = (at, now) => (day(at) === day(now) ? clock(at) : `${day(at)} ${clock(at)} ${zone(at)}`);

/**
 * Formats a span of time, with date and zone unless it is today.
 * @param {number} from seconds since 1970 @param {number} to @param {number} now
 */
export function spanOf(from, to, now) {
  const [first, last] = [day(from), day(to)];
  const length = `(${duration(to - from)})`;
  if (first === last && last === day(now)) return `${clock(from)} – ${clock(to)} ${length}`;
  return `${first} ${clock(from)} – ${first === last ? "" : `${last} `}${clock(to)} ${zone(to)} ${length}`;
}

/**
 * Returns, as text, why there is no verdict at the end of a span.
 * @param {{to_unix_nano: number, newest_unix_nano?: number}} history @param {Record<string, any> | null | undefined} node
 */
export function noVerdict({ to_unix_nano: to, newest_unix_nano: newest = to }, node) {
  const takes = node ? duration(node.verdict_window_seconds) : "several seconds";
  if (to < newest) return `No window was judged by the end of this span: a verdict needs ${takes} of figures.`;
  if (node?.recorded) return `The served part of the recording ends before the first verdict: a verdict needs ${takes} of figures.`;
  return `The first verdict is not ready yet: a verdict needs ${takes} of figures.`;
}

/** Cuts the middle of a name that is too long. @param {string} name @param {number} most */
export function shorten(name, most) {
  if (name.length <= most) return name;
  const tail = Math.floor((most - 1) * 0.6);
  return `${name.slice(0, most - 1 - tail)}…${name.slice(name.length - tail)}`;
}
