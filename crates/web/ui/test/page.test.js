// Tests of the page that need no browser: `node --test crates/web/ui/test/*.js`.

import assert from "node:assert/strict";
import test from "node:test";

import { notMeasured, parseVisibly, stalled, ticks } from "../api.js";
import { SLOTS, colorsOf } from "../colors.js";
import {
  bytes,
  clock,
  count,
  counted,
  cpuNumbers,
  cpus,
  day,
  duration,
  fixed,
  noVerdict,
  percent,
  plain,
  shorten,
  spanOf,
  threads,
  watts,
} from "../format.js";
import { isCollected, mean, roundTimes, summary } from "../steps.js";
import { classPlace, kindLook, keyWords } from "../words.js";
import { USUAL, format, keyOf, nameIn, read, wholeSpan } from "../state.js";

test("numbers look as in the tables of the terminal", () => {
  const cases = [
    [[0, 45e-9, 12.34e-6, 0.0123, 1.25, 187, 7500].map(duration), ["0", "45ns", "12.3µs", "12.3ms", "1.25s", "3m07s", "2h05m"]],
    [[999_960e-9, 59.96].map(duration), ["1.00ms", "1m00s"]],
    [[0, 9, 0.44, 999, 1000, 12_345, 999_999].map(count), ["0", "9", "0.4", "999", "1.00k", "12.3k", "1.00M"]],
    [[0, 0.526, 12.8].map(percent), ["0.0%", "52.6%", "1280%"]],
    [[82, 19_500_000].map(bytes), ["82B", "18.6MiB"]],
    [[0, 0.0352, 12.34, 1234].map(watts), ["0W", "35.2mW", "12.3W", "1.23kW"]],
    [[0, 0.001, 0.83, 5.504, 12.94, 140.2].map(plain), ["0", "<0.01", "0.83", "5.5", "12.9", "140"]],
    [[0, 0.83, 5.504, 12.94].map(fixed), ["0.00", "0.83", "5.50", "12.9"]],
    [[0.2, 1, 1.4].map(cpus), ["0.2 CPU", "1 CPU", "1.4 CPUs"]],
    [[0.5, 1, 5.5].map(threads), ["0.5 threads", "1 thread", "5.5 threads"]],
    [[[3], [0, 1, 2, 5]].map(cpuNumbers), ["CPU 3", "CPUs 0-2,5"]],
  ];
  for (const [written, expected] of cases) assert.deepEqual(written, expected);
  assert.equal(counted({ few: 3, none: 0, many: 1200 }), "1.20k many, 3 few");
  assert.equal(counted({}), "");
});

test("the address restores the state and nothing else", () => {
  const state = { ...USUAL, from: 1000, to: 1060, at: 1050.5, owner: keyOf(7, "a&b=c#d"), table: "pods", sort: "wait", filter: "x y", kind: "oom" };
  assert.deepEqual(read(format(state)), { state, ignored: [] });
  assert.equal(format(USUAL), "#");
  assert.deepEqual(read("#from=5&to=4&seconds=-3&table=none&other=1").state, USUAL);
  assert.equal(nameIn(keyOf(7, "12:34")), "12:34");
  assert.equal(nameIn(keyOf(undefined, "a")), "a");
});

test("an invalid part of the address is named, and the rest applies", () => {
  const cases = [
    ["from=20&to=10", [/^from=20 \(must be before to\)/]],
    ["from=20", [/^from=20 \(there is no to\)/]],
    ["from=1&to=99999999999", [/^to=99999999999 \(must be a number/, /^from=1 \(its other end/]],
    ["seconds=x", [/^seconds=x \(must be/]],
    ["seconds=90000", [/^seconds=90000 \(/]],
    ["sort=nothing", [/^sort=nothing \(pods have cpu, /]],
    ["sort=hurts", [/^sort=hurts \(pods have/]],
    ["sort=cpu&sort=wait", [/^sort=cpu \(the first/]],
    ["colour=red", [/^colour=red \(there are seconds, /]],
    [`filter=${"x".repeat(800)}`, [/^filter=x{39}… \(too long\)/]],
  ];
  for (const [part, words] of /** @type {[string, RegExp[]][]} */ (cases)) {
    const { state, ignored } = read(`#table=pods&owner=7%3Aa&${part}`);
    assert.deepEqual({ ...state }, { ...USUAL, table: "pods", owner: "7:a" }, part);
    assert.equal(ignored.length, words.length, `${part}: ${ignored}`);
    words.forEach((word, at) => assert.match(ignored[at], word));
  }
  assert.match(read("#table=none").ignored[0], /^table=none \(there are containers, /);
  assert.match(read("", "?seconds=60").ignored[0], /^\?seconds=60 \(the page reads/);
  // Queries of the API use whole seconds.
  assert.equal(read("#seconds=59.6").state.seconds, 60);
  for (const good of ["#", "", "#seconds=86400", "#sort=hurts", "#from=5.5&to=6", "#kind=anything"]) {
    assert.deepEqual(read(good).ignored, [], good);
  }
});

test("no span reaches into the future", () => {
  assert.deepEqual(wholeSpan(1000.4, 1060.2, 2000), { from: 1000, to: 1061 });
  // Twice the last five minutes keeps its length and ends now.
  assert.deepEqual(wholeSpan(850, 1450, 1300.5), { from: 701, to: 1301 });
  // A later span becomes the last one available.
  assert.deepEqual(wholeSpan(2000, 2060, 1300), { from: 1240, to: 1300 });
  assert.deepEqual(wholeSpan(1299, 1299.5, 1300), { from: 1295, to: 1300 });
  assert.deepEqual(wholeSpan(5, 1300, 1000), { from: 1, to: 1000 });
  assert.deepEqual(wholeSpan(5, 10, Infinity), { from: 5, to: 10 });
});

test("characters that hide something stay visible", () => {
  const json = String.raw`{"name":"a\u202eb","back":"c\\u202ed","both":"\\\u001b","line":"e\nf","quote":"\"\u0007"}`;
  assert.deepEqual(parseVisibly(json), {
    name: String.raw`a\u202eb`,
    back: String.raw`c\u202ed`,
    both: String.raw`\\u001b`,
    line: "e\nf",
    quote: String.raw`"\u0007`,
  });
});

test("an unmeasured figure has a reason", () => {
  const features = [
    { name: "energy", state: "off", reason: "no meter" },
    { name: "cpu_waits", state: "off", reason: "refused", mend: "a newer kernel" },
    { name: "cycles", state: "on", reason: "perf" },
  ];
  const words = ["energy", "cpu_waits", "cycles", "other"].map((name) => notMeasured({ features }, name));
  assert.deepEqual(words, ["Not measured: no meter", "Not measured: refused; a newer kernel", "", ""]);
  assert.equal(notMeasured(null, "energy"), "");
});

test("a stalled agent is reported with its time", () => {
  const at = new Date(2026, 2, 1, 12, 0, 0).getTime() / 1000;
  const node = { stalled_since_unix_nano: at * 1e9 };
  assert.equal(stalled(null, at), "");
  assert.equal(stalled({ time_unix_nano: at * 1e9 }, at), "");
  assert.match(stalled(node, at + 60), /^no new figures since 12:00:00: /);
  assert.match(stalled(node, at + 2 * 86400), /since 2026-03-01 12:00:00 UTC/);
});

test("summaries of steps match their names", () => {
  const covered = [2, 0, 1, 1];
  // One OOM kill, and one long wait.
  assert.equal(summary("sum", [0, null, 1, 0], covered), 1);
  assert.equal(summary("max", [0.01, null, 0.5, 0.01], covered), 0.5);
  // A step measured in part weighs less.
  assert.equal(summary("mean", [1, null, 0, 0], covered), 0.5);
  assert.equal(mean([1, null, 0, 0], covered), 0.5);
  for (const summing of /** @type {const} */ (["mean", "max", "sum", "step"])) {
    assert.equal(summary(summing, [null, null], [0, 0]), null);
  }
  assert.ok(isCollected({ covered_seconds: [0, 0.5] }));
  assert.ok(!isCollected({ covered_seconds: [0, null] }));
});

test("a span shows date and zone unless it is today", () => {
  const at = new Date(2026, 2, 1, 12, 0, 0).getTime() / 1000;
  assert.equal(spanOf(at, at + 300, at + 600), "12:00:00 – 12:05:00 (5m00s)");
  const other = spanOf(at, at + 300, at + 3 * 86400);
  assert.match(other, /^2026-03-01 12:00:00 – 12:05:00 UTC([+-]\d\d:\d\d)? \(5m00s\)$/);
  const later = at + 2 * 86400;
  const days = spanOf(at, later, later);
  assert.ok(days.startsWith(`2026-03-01 12:00:00 – ${day(later)} ${clock(later)} UTC`), days);
});

test("a missing verdict has a reason and a duration", () => {
  const live = { verdict_window_seconds: 10 };
  const recorded = { ...live, recorded: { from_unix_nano: 0, to_unix_nano: 5e9 } };
  const cases = [
    [{ to_unix_nano: 5e9, newest_unix_nano: 5e9 }, live, "The first verdict is not ready yet: a verdict needs 10.0s of figures."],
    [{ to_unix_nano: 5e9 }, null, "The first verdict is not ready yet: a verdict needs several seconds of figures."],
    [{ to_unix_nano: 5e9, newest_unix_nano: 5e9 }, recorded, "The served part of the recording ends before the first verdict: a verdict needs 10.0s of figures."],
    [{ to_unix_nano: 5e9, newest_unix_nano: 60e9 }, recorded, "No window was judged by the end of this span: a verdict needs 10.0s of figures."],
  ];
  for (const [history, node, words] of cases) assert.equal(noVerdict(/** @type {any} */ (history), node), words);
});

test("the middle of a long name is cut", () => {
  assert.equal(shorten("short", 10), "short");
  const cut = shorten("/kubepods.slice/burstable/pod1/deep/below", 20);
  assert.equal(cut.length, 20);
  assert.ok(cut.startsWith("/kubepo") && cut.endsWith("/below") && cut.includes("…"));
});

/** Returns a fake page with inert streams: the open streams, and a function that hides the page. */
function pageWithStreams() {
  const open = new Set();
  class Source extends EventTarget {
    static CLOSED = 2;
    readyState = 1;
    constructor() {
      super();
      open.add(this);
    }
    close() {
      open.delete(this);
    }
  }
  const page = Object.assign(new EventTarget(), { hidden: true });
  Object.assign(globalThis, { document: page, EventSource: Source });
  const turn = (hidden) => {
    page.hidden = hidden;
    page.dispatchEvent(new Event("visibilitychange"));
  };
  return { open, turn };
}

test("a page without a stream polls", async () => {
  const { open, turn } = pageWithStreams();
  const asked = [];
  globalThis.fetch = async (url) => {
    asked.push(url);
    return new Response('{"time_unix_nano": 9000000000}');
  };
  const seen = [];
  ticks((at) => seen.push(at), (connected) => seen.push(connected));
  turn(false);
  const [source] = open;
  source.readyState = 2;
  source.dispatchEvent(new Event("error"));
  while (seen.length < 2) await new Promise((done) => setTimeout(done, 1));
  assert.deepEqual(asked, ["/api/v1/node?"]);
  assert.deepEqual(seen, [true, 9]);
  turn(true);
});

test("a page has one stream while visible and none while hidden", () => {
  const { open, turn } = pageWithStreams();
  const seen = [];
  ticks((at) => seen.push(at), (connected) => seen.push(connected));
  assert.equal(open.size, 0);
  for (const hidden of [false, true, false, false]) {
    turn(hidden);
    assert.equal(open.size, hidden ? 0 : 1);
  }
  const [source] = open;
  source.dispatchEvent(Object.assign(new Event("tick"), { data: '{"time_unix_nano": 7000000000}' }));
  assert.deepEqual(seen, [true, 7]);
  turn(true);
});

test("an owner keeps its colour while others come and go", () => {
  const first = colorsOf(["api", "cart", "search"]);
  assert.equal(new Set(first.values()).size, 3);
  const many = Array.from({ length: SLOTS }, (_, at) => (at < 3 ? ["api", "cart", "search"][at] : `other-${at}`));
  const second = colorsOf(many);
  assert.equal(new Set(second.values()).size, SLOTS, "no two have one colour");
  for (const name of first.keys()) assert.equal(second.get(name), first.get(name));
  for (const color of second.values()) assert.match(color, /^owner-\d$/);
});

test("an unknown verdict has words and a colour", () => {
  assert.deepEqual(kindLook("held_by_something_new"), { words: "held by something new", color: "cause-unattributed" });
  assert.equal(kindLook("held_by_quota").color, "cause-throttle");
  assert.ok(classPlace("running") < classPlace("disk") && classPlace("disk") < classPlace("poll") && classPlace("poll") < classPlace("new"));
  assert.equal(keyWords("process.linux.cgroup"), "cgroup");
  assert.equal(keyWords("process.some_new.key"), "some new key");
});

const V2 = { mount: "/sys/fs/cgroup", unified: true };
const V1 = { mount: "/sys/fs/cgroup/cpu", unified: false };

test("a time axis has round times with room for labels", () => {
  assert.deepEqual(roundTimes(1003, 1063, 320), [1005, 1020, 1035, 1050]);
  assert.deepEqual(roundTimes(1003, 1063, 10), []);
  assert.deepEqual(roundTimes(1000, 1600, 400), [1080, 1200, 1320, 1440, 1560]);
});
