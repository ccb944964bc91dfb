// Tests of the page that need no browser: `node --test crates/web/ui/test/*.js`.

import assert from "node:assert/strict";
import test from "node:test";

import { notMeasured, parseVisibly, stalled, ticks } from "../api.js";
import { limitAdvice, limitCommand, quote, roundUp, siblings, weightAdvice } from "../advice.js";
import { busyWords, grouped, partsOf, wattsOf, whyCommand } from "../answers.js";
import { SLOTS, colorsOf } from "../colors.js";
import {
  bytes,
  clock,
  count,
  countOf,
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
import { choice, firstLanes, itemWords, lanesOf, momentChoice, nearest, neighbour, worst, worstOf } from "../lanes.js";
import { gapsOf, isCollected, mean, roundTimes, summary } from "../steps.js";
import { classPlace, kindLook, keyWords } from "../words.js";
import { changes, exportCommands } from "../spans.js";
import { USUAL, format, keyOf, markOf, nameIn, read, spanIn, wholeSpan } from "../state.js";

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
  assert.deepEqual([countOf(1, "kill"), countOf(1200, "kill"), countOf(2, "group is", "groups are")], ["1 kill", "1.20k kills", "2 groups are"]);
});

test("the address restores the state and nothing else", () => {
  const state = { ...USUAL, from: 1000, to: 1060, at: 1050.5, owner: keyOf(7, "a&b=c#d"), table: "pods", sort: "wait", filter: "x y", kind: "oom", text: "a=b", severity: "trouble", mark: "5-9" };
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
    ["severity=bad", [/^severity=bad \(there is trouble/]],
    ["mark=9-5", [/^mark=9-5 \(must be two/]],
    [`filter=${"x".repeat(800)}`, [/^filter=x{39}… \(too long\)/]],
    [`text=${"x".repeat(800)}`, [/^text=x{39}… \(too long\)/]],
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
  // A span twice as long as the last five minutes keeps its length and is moved to end now.
  assert.deepEqual(wholeSpan(850, 1450, 1300.5), { from: 701, to: 1301 });
  // A span in the future becomes the latest possible span.
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
  // A step that was measured for a shorter time has a smaller weight.
  assert.equal(summary("mean", [1, null, 0, 0], covered), 0.5);
  assert.equal(mean([1, null, 0, 0], covered), 0.5);
  for (const summing of /** @type {const} */ (["mean", "max", "sum", "step"])) {
    assert.equal(summary(summing, [null, null], [0, 0]), null);
  }
  assert.ok(isCollected({ covered_seconds: [0, 0.5] }));
  assert.ok(!isCollected({ covered_seconds: [0, null] }));
});

test("adjacent steps without figures are one gap", () => {
  assert.deepEqual(gapsOf([10, 11, 12, 13, 14, 15], [0, null, 1, 0.2, 0]), [[10, 12], [14, 15]]);
  assert.deepEqual(gapsOf([10, 11], [1]), []);
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

/** Creates a fake page with inert streams. Returns the open streams, and a function that hides the page. */
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

test("a limit is raised by the command of the group's own runtime", () => {
  const id = "0123456789abcdef0123";
  const docker = { "container.id": id, "container.name": "web", "container.runtime.name": "docker", "process.linux.cgroup": `/docker/${id}` };
  const unit = { "systemd.unit": "a.service", "process.linux.cgroup": "/system.slice/a.service" };
  const pod = { "container.id": id, "container.name": "api", "container.runtime.name": "containerd", "k8s.pod.name": "api-1", "k8s.namespace.name": "shop", "process.linux.cgroup": "/kubepods/x" };
  const cases = [
    [limitCommand(docker, 0.9, V2), "docker update --cpus 0.9 web"],
    [limitCommand({ ...docker, "container.runtime.name": "podman", "container.name": undefined }, 1.5, V2), "podman update --cpus 1.5 0123456789ab"],
    [limitCommand(unit, 0.9, V2), "systemctl set-property --runtime a.service CPUQuota=90%"],
    [limitCommand({ "process.linux.cgroup": "/jobs/a b" }, 0.9, V2), "echo 90000 100000 > '/sys/fs/cgroup/jobs/a b/cpu.max'"],
    [limitCommand(docker, 0.9, V2, "/docker"), "echo 90000 100000 > /sys/fs/cgroup/docker/cpu.max"],
    // There is no command if the cgroup mounts are unknown (a recording), or if the user cannot type the name.
    [limitCommand({ "process.linux.cgroup": "/jobs" }, 0.9), undefined],
    [limitCommand({ "process.linux.cgroup": "/jobs\\u202e" }, 0.9, V2), undefined],
    [limitCommand({ "process.linux.cgroup": "/" }, 0.9, V2), undefined],
    [limitCommand({ ...pod, "k8s.pod.name": "a'b" }, 0.9, V2), undefined],
  ];
  for (const [{ command }, expected] of cases) assert.equal(command, expected);
  const patch = limitCommand(pod, 0.9, V2).command ?? "";
  assert.match(patch, /^kubectl -n shop patch pod api-1 --subresource resize --patch '.*"cpu":"900m".*'$/);
  const older = limitCommand({ "process.linux.cgroup": "/jobs" }, 0.9, V1).command ?? "";
  assert.match(older, /^echo \$\(\(900 \* \$\(cat \/sys\/fs\/cgroup\/cpu\/jobs\/cpu.cfs_period_us\) \/ 1000\)\) > .*cpu.cfs_quota_us$/);
});

test("advice about a limit has the number of CPUs that the group wanted", () => {
  const hurt = (verdict) => ({ name: "a", "process.linux.cgroup": "/a", verdict: { kind: "held_by_quota", next_step: "raise its limit (now 0.2 CPU)", quota: { cpus: 0.2 }, threads: 0.83, ...verdict } });
  assert.match(limitAdvice(hurt({}), 2, V2)?.words ?? "", /^it wanted 0.83 CPU: raise its limit from 0.2 to 0.9$/);
  // The new limit is at most the number of CPUs, even if there are more threads.
  assert.match(limitAdvice(hurt({ threads: 8 }), 2, V2)?.words ?? "", / to 2$/);
  const above = limitAdvice(hurt({ next_step: "raise the limit of /b.slice (now 0.2 CPU), or run fewer threads", quota: { cpus: 0.2, "process.linux.cgroup": "/b.slice" } }), 2, V2);
  assert.match(above?.words ?? "", /: raise the limit of \/b.slice from 0.2 to 0.9, or run fewer threads$/);
  assert.match(above?.command ?? "", /set-property --runtime b.slice CPUQuota=90%/);
  for (const without of [{ next_step: undefined }, { next_step: "let it run on CPU 0 too" }, { quota: undefined }, { threads: 0.1 }, { kind: "hurt_by_host" }]) {
    assert.equal(limitAdvice(hurt(without), 2, V2), undefined);
  }
  assert.deepEqual([0.012, 0.83, 0.9, 1.31, 2].map(roundUp), [0.02, 0.9, 0.9, 1.4, 2]);
});

test("a culprit gets the lowest weight where it competes with its victim", () => {
  assert.deepEqual(siblings("/batch/job/a", "/shop/api"), { own: "/batch", other: "/shop" });
  assert.deepEqual(siblings("/s/a", "/s/b/c"), { own: "/s/a", other: "/s/b" });
  for (const [a, b] of [["/", "/a"], ["/a", "/a/b"], ["/a/b", "/a"], [undefined, "/a"], ["#7", "/a"]]) assert.equal(siblings(a, b), undefined);
  const advice = (path, victim, cgroups) => weightAdvice({ name: "job", "process.linux.cgroup": path }, { "process.linux.cgroup": victim }, cgroups);
  assert.equal(advice("/batch/job", "/shop/api", V2)?.command, "echo 1 > /sys/fs/cgroup/batch/cpu.weight");
  assert.equal(advice("/batch/job", "/batch/api", V1)?.command, "echo 2 > /sys/fs/cgroup/cpu/batch/job/cpu.shares");
  assert.equal(advice("/system.slice/b.service", "/system.slice/a.service", V2)?.command, "systemctl set-property --runtime b.service CPUWeight=1");
  assert.match(advice("/batch/job", "/shop/api", V2)?.words ?? "", /^give \/batch the lowest/);
  assert.match(advice("/batch/job", "/batch/api", V2)?.words ?? "", /^give job the lowest/);
  assert.equal(advice("/", "/shop", V2), undefined);
  assert.equal(advice("/system.slice/b.service", "/shop", V2), undefined, "other services are in system.slice too");
});

test("a word is quoted for the shell", () => {
  const cases = ["a-b.c/d", "a b", "it's", "$(x)", ""].map(quote);
  assert.deepEqual(cases, ["a-b.c/d", "'a b'", "'it'\\''s'", "'$(x)'", "''"]);
});

const S = 1e9;
const hurtBy = (name, kind, culprit, wait, behind) => ({
  id: name.charCodeAt(0),
  name,
  verdict: { kind, culprit, culprit_id: culprit?.charCodeAt(0), reason: "", threads: 2 },
  "wait.seconds": wait,
  behind,
  since_unix_nano: 100 * S,
});
const party = (name, wait) => ({ id: name.charCodeAt(0), name, "wait.seconds": wait });

test("victims stand under the culprit that they waited for most", () => {
  const rows = [
    hurtBy("v", "hurt_by_neighbour", "c", 8, [party("c", 6), party("d", 2)]),
    hurtBy("w", "hurt_by_neighbours", undefined, 10, [party("c", 5), party("d", 4)]),
    hurtBy("x", "hurt_by_neighbour", "d", 3, [party("d", 3)]),
    hurtBy("q", "held_by_quota", undefined, 9, []),
    hurtBy("n", "held_by_something_new", undefined, 1, []),
    // A culprit that stands for several jobs is not in the list `behind`.
    { ...hurtBy("y", "hurt_by_neighbour", undefined, 4, [party("e", 1)]), verdict: { kind: "hurt_by_neighbour", culprit: "ci/*: 3 jobs", reason: "", threads: 1 } },
  ];
  const { culprits, alone } = grouped({ rows, window_seconds: 10 });
  const said = culprits.map(({ name, wait, since, victims }) => [name, +wait.toFixed(2), since, victims.map((it) => it.hurt.name).join("")]);
  assert.deepEqual(said, [
    ["c", 1.1, 100, "vw"],
    ["ci/*: 3 jobs", 0.4, 100, "y"],
    ["d", 0.3, 100, "x"],
  ]);
  assert.equal(culprits[0].victims[0].part, 0.4);
  assert.deepEqual(alone.map((it) => it.name), ["q", "n"]);
});

test("the headline says how busy the CPUs are", () => {
  const cases = [
    [0, 1, "The CPU is busy."],
    [0.01, 2, "Both CPUs are busy."],
    [0.1, 8, "All 8 CPUs are busy."],
    [0.45, 8, "The 8 CPUs are 94.4% busy."],
    [1.1, 2, "1 of 2 CPUs is idle."],
    [3.2, 4, "3 of 4 CPUs are idle."],
  ];
  for (const [idle, number, words] of cases) assert.equal(busyWords(idle, number), words);
});

const EPISODES = {
  from_unix_nano: 1000 * S,
  to_unix_nano: 2000 * S,
  rows: [
    {
      id: 1,
      name: "busy",
      "hurt.seconds": 60,
      episodes: [{ from_unix_nano: 1000 * S, to_unix_nano: 2000 * S, kind: "too_many_threads", "hurt.seconds": 60, judged_seconds: 1000, worst_unix_nano: 1500 * S, reason: "r" }],
    },
    {
      id: 2,
      name: "api",
      "hurt.seconds": 50,
      episodes: [
        { from_unix_nano: 1100 * S, to_unix_nano: 1110 * S, kind: "hurt_by_neighbour", culprit: "job", "hurt.seconds": 10, judged_seconds: 10, worst_unix_nano: 1110 * S, reason: "r" },
        { from_unix_nano: 1500 * S, to_unix_nano: 1540 * S, kind: "hurt_by_neighbour", culprit: "job", "hurt.seconds": 40, judged_seconds: 40, worst_unix_nano: 1520.5 * S, reason: "r" },
      ],
    },
  ],
  more: 0,
  oom_kills: [{ time_unix_nano: 1105 * S, id: 2, name: "api" }, { time_unix_nano: 1995 * S, id: 3, name: "eater" }],
  restarts: [{ time_unix_nano: 1106 * S, id: 2, name: "api" }],
};

test("the worst lane is first, and a lane has its kills and restarts", () => {
  const lanes = lanesOf(EPISODES);
  assert.deepEqual(lanes.map((lane) => [lane.name, lane.items.length]), [["api", 4], ["busy", 1], ["eater", 1]]);
  assert.equal(worst(lanes[0].items)?.from, 1500);
  const later = lanesOf({ ...EPISODES, from_unix_nano: 1107 * S });
  assert.deepEqual(later.map((lane) => [lane.name, lane.items.length]), [["api", 2], ["busy", 1], ["eater", 1]], "without marks before");
  assert.equal(worstOf(EPISODES)?.lane.name, "api");
  assert.equal(worstOf({ ...EPISODES, rows: [], oom_kills: [], restarts: [] }), undefined);
});

test("a click in a lane shows the nearest episode or mark", () => {
  const [lane, , eater] = lanesOf(EPISODES);
  const at = (time) => itemWords(nearest(lane.items, time, 2)).replace(/\d\d:\d\d:\d\d( – \d\d:\d\d:\d\d)?/, "T");
  assert.deepEqual([1104, 1109, 1300, 1400].map(at), ["OOM kill at T", "T waits for a neighbour (job)", "T waits for a neighbour (job)", "T waits for a neighbour (job)"]);
  assert.equal(nearest(lane.items, 1400, 2).from, 1500);
  const whole = { from: 1000, to: 2000 };
  const shown = choice(lane, nearest(lane.items, 1400, 2), whole);
  assert.deepEqual(shown, { from: 1490, to: 1550, at: 1520.5, owner: "2:api", victim: "", culprit: "" });
  const kill = choice(eater, eater.items[0], whole);
  assert.deepEqual([kill.from, kill.to, kill.at], [1965, 2000, null]);
});

test("the arrow keys reach every item of a lane", () => {
  const [{ items }] = lanesOf(EPISODES);
  const from = (time, by) => neighbour(items, time, by).from;
  assert.deepEqual([from(1500, -1), from(1106, -1), from(1105, -1), from(1100, -1)], [1106, 1105, 1100, 1100]);
  assert.deepEqual([from(1100, 1), from(1500, 1)], [1105, 1500]);
  // The history no longer contains the chosen episode.
  assert.equal(from(900, 1), 1100);
});

test("the picked lane and lanes with OOM kills are shown at first", () => {
  const lane = (name, kind) => ({ key: name, name, items: [{ kind, from: 1, to: 2 }] });
  const lanes = [..."abcdefgh"].map((name) => lane(name, "episode")).concat([..."stuvwxyz"].map((name) => lane(name, "kill")));
  const names = (picked) => firstLanes(lanes, picked).map((one) => one.name).join("");
  assert.equal(names(""), "abcstu");
  assert.equal(names("h"), "abhstu");
  assert.equal(names("z"), "abstuz");
  assert.equal(firstLanes(lanes.slice(0, 2), "").length, 2);
});

test("an event is shown with the half minutes around it, as far as they are kept", () => {
  const shown = momentChoice("2:api", 1990.5, { from: 1000, to: 2000 });
  assert.deepEqual(shown, { from: 1960, to: 2000, at: null, owner: "2:api", victim: "", culprit: "" });
});

test("the parts of the threads' time are 100%, what hurts before what does not", () => {
  const parts = partsOf({ "cpu.seconds": 1, "wait.seconds": 2, blocked: { poll: 5, disk: 2, memory: 0 } });
  assert.deepEqual(parts.map(({ name, part }) => [name, part]), [["running", 0.1], ["runnable", 0.2], ["disk", 0.2], ["poll", 0.5]]);
  assert.deepEqual(partsOf({ "cpu.seconds": 0, "wait.seconds": 0 }), []);
});

test("the pane has the command that gives the same answer", () => {
  const span = { from: 1_700_000_000.7, to: 1_700_000_060 };
  const id = "0123456789abcdef";
  const cases = [
    [{ name: "a.service", "systemd.unit": "a.service", "process.linux.cgroup": "/system.slice/a.service" }, "noctule why a.service"],
    [{ name: "/a b", "process.linux.cgroup": "/a b" }, "noctule why '/a b'"],
    [{ name: "(root)", "process.linux.cgroup": "/" }, "noctule why /"],
    [{ name: "web", "container.name": "web", "container.id": id }, "noctule why web"],
    [{ name: "shop/api/main", "container.name": "main", "container.id": id, "k8s.pod.name": "api" }, "noctule why 0123456789ab"],
  ];
  for (const [group, words] of cases) assert.equal(whyCommand(group, false, span), words);
  assert.equal(whyCommand({ name: "(kernel)" }, false, span), "");
  assert.equal(whyCommand(cases[0][0], true, span), "noctule why a.service --from DIR --at 2023-11-14T22:13:20Z --for 59s");
});

test("a time axis has round times with room for labels", () => {
  assert.deepEqual(roundTimes(1003, 1063, 320), [1005, 1020, 1035, 1050]);
  assert.deepEqual(roundTimes(1003, 1063, 10), []);
  assert.deepEqual(roundTimes(1000, 1600, 400), [1080, 1200, 1320, 1440, 1560]);
});

test("two spans are compared by their means", () => {
  const side = (/** @type {any[]} */ owners, waits = {}) =>
    /** @type {any} */ ({ covered_seconds: [2, null, 2], owners: owners.map(([id, cpu, wait]) => ({ id, name: `g${id}`, "cpu.seconds": cpu, "wait.seconds": wait })), waits });
  const before = side([[1, 4, 0], [2, 2, 2], [4, 1, 1]]);
  const after = side([[1, 2, 0], [3, 8, 4], [4, 1, 1]]);
  const expected = [["g3", 0, 2, 1], ["g2", 0.5, 0, 0], ["g1", 1, 0.5, 0]];
  assert.deepEqual(changes(before, after).map(({ name, a, b }) => [name, a.cpus, b.cpus, b.waiting]), expected);
  assert.deepEqual(spanIn(markOf({ from: 10.4, to: 20.2 })), { from: 10, to: 21 });
  for (const mark of ["", "5", "9-5", "1-2-3", "a-b", "1-1e11"]) assert.equal(spanIn(mark), null, mark);
  assert.ok(exportCommands({ from: 0.5, to: 60 }).every(({ command }) => command.endsWith("--at 1970-01-01T00:00:00Z --for 60s")));
});

test("the watts of a row are the sum of the outermost zones", () => {
  const zone = (/** @type {string} */ kind, /** @type {boolean} */ counted, still = false) => ({ zone: kind, in_total: counted, still });
  const row = { "energy.joules": { package: 6, core: 4, dram: 2 } };
  const zones = [zone("package", true), zone("package", true), zone("core", false), zone("dram", true)];
  assert.equal(wattsOf(row, zones, 2), "4.00W");
  assert.equal(wattsOf(row, [...zones, zone("psys", false, true)], 2), "–", "a meter stands still");
  assert.equal(wattsOf({}, zones, 2), "–");
  assert.equal(wattsOf(row, [], 2), "–");
});
