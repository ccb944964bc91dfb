// Words and colours for verdicts, causes, classes of blocked time, and keys of the API.

/**
 * @typedef {object} Look
 * @property {string} words
 * @property {string} color name of a colour in app.css
 */

/** @param {string} words @param {string} color @returns {Look} */
const look = (words, color) => ({ words, color });

/** Verdicts. An unknown kind is shown by its name, in the colour of unattributed time. */
const KINDS = /** @type {Record<string, Look>} */ ({
  quiet: look("not hurt", "good"),
  hurt_by_neighbour: look("waits for a neighbour", "cause-neighbour"),
  hurt_by_neighbours: look("waits for several", "cause-neighbours"),
  held_by_quota: look("held by a CPU limit", "cause-throttle"),
  quota_and_neighbours: look("held by a CPU limit, then by others", "cause-throttle"),
  too_many_threads: look("too many threads of its own", "cause-self"),
  hurt_by_kernel: look("waits for kernel threads", "cause-system"),
  hurt_by_host: look("the hypervisor took the CPU", "cause-host"),
  hurt_by_interrupts: look("interrupts took the CPU", "cause-interrupt"),
  held_by_disk: look("waits for the disk", "blocked-disk"),
  held_by_filesystem: look("waits for the file system", "blocked-filesystem"),
  held_by_memory_limit: look("held by a memory limit", "blocked-memory"),
  held_by_reclaim: look("waits for memory", "blocked-memory"),
  held_by_writeback: look("waits for write-back", "blocked-writeback"),
  held_by_lock: look("waits for a lock", "blocked-lock"),
  stopped: look("stopped", "blocked-stopped"),
});

/** @param {string} kind */
export const kindLook = (kind) => KINDS[kind] ?? look(kind.replaceAll("_", " "), "cause-unattributed");

/** Causes of runnable time, in the order of the stack. */
const CAUSES = /** @type {Record<string, Look>} */ ({
  throttle: look("its own limit", "cause-throttle"),
  neighbour: look("neighbours", "cause-neighbour"),
  self: look("its own threads", "cause-self"),
  kernel: look("kernel threads", "cause-system"),
  system: look("the system", "cause-system"),
  interrupt: look("interrupts", "cause-interrupt"),
  host: look("the hypervisor", "cause-host"),
  idle: look("waking an idle CPU", "cause-idle"),
  unattributed: look("not attributed", "cause-unattributed"),
});

/** @param {string} cause */
export const causeLook = (cause) => CAUSES[cause] ?? look(cause.replaceAll("_", " "), "cause-unattributed");

/** Classes of the threads' time. Running and runnable time come first, then stalls, then other blocked time. */
const CLASSES = /** @type {Record<string, Look>} */ ({
  running: look("running", "running"),
  runnable: look("runnable but not running", "cause-neighbour"),
  disk: look("block I/O", "blocked-disk"),
  filesystem: look("file system", "blocked-filesystem"),
  memory: look("memory (reclaim, swap, a limit)", "blocked-memory"),
  writeback: look("write-back of dirty pages", "blocked-writeback"),
  lock: look("locks", "blocked-lock"),
  stopped: look("stopped or frozen", "blocked-stopped"),
  pipe: look("the other end of a pipe", "blocked-peer"),
  unix: look("a peer at a Unix socket", "blocked-peer"),
  loopback: look("a peer on this host", "blocked-peer"),
  network: look("a peer on another host", "blocked-network"),
  child: look("a child process", "blocked-child"),
  other: look("something else", "cause-unattributed"),
  poll: look("a request or signal (poll, accept)", "blocked-idle"),
  timer: look("a time that it chose (sleep)", "blocked-idle"),
});

/** @param {string} name */
export const classLook = (name) => CLASSES[name] ?? look(name.replaceAll("_", " "), "cause-unattributed");

/** Returns the position of a class in the bar, which is the order of CLASSES. @param {string} name */
export function classPlace(name) {
  const at = Object.keys(CLASSES).indexOf(name);
  return at < 0 ? Object.keys(CLASSES).length : at;
}

const KEYS = /** @type {Record<string, string>} */ ({
  "cgroup.id": "cgroup number",
  "container.id": "container id",
  "container.name": "container",
  "container.runtime.name": "container runtime",
  "cpu.seconds": "CPU time, seconds",
  "energy.joules": "energy, joules",
  exited: "has exited",
  "k8s.namespace.name": "namespace",
  "k8s.pod.name": "pod",
  "k8s.pod.uid": "pod uid",
  "memory.rss_bytes": "memory, bytes",
  "page_cache.reads": "pages read",
  "page_cache.writes": "pages written",
  "process.command_line": "command line",
  "process.creation.time_unix_nano": "started",
  "process.executable.name": "command",
  "process.linux.cgroup": "cgroup",
  "process.owner": "user",
  "process.parent_pid": "parent",
  "process.pid": "process id",
  "switches.preempted": "preemptions",
  "switches.throttled": "throttled switches",
  "switches.voluntary": "voluntary switches",
  "systemd.unit": "unit",
  "wait.seconds": "waited, seconds",
});

/** Returns the label of a key of the API. @param {string} key */
export const keyWords = (key) => KEYS[key] ?? key.replace(/^(process|k8s|container)\./, "").replaceAll(/[._]/g, " ");
