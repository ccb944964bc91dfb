//! Scenes whose victim is held by a disk, by its memory limit or by a lock, and scenes in which
//! nothing is wrong.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::Child;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::draw::Dice;
use super::group::Group;
use super::output;
use super::play::{Loads, Played, Stage, lock_last_cpu};

const DISK: &[&str] = &[
    "reads_beside_writer",
    "fsyncs_beside_writer",
    "fsyncs_beside_fsyncs",
    "reads_alone",
];
const MEMORY: &[&str] = &[
    "memory_limit",
    "parent_memory_limit",
    "memory_limit_beside_writer",
];
const LOCK: &[&str] = &["flock", "record_lock", "lock_behind_disk"];
const NOTHING: &[&str] = &[
    "idle_server",
    "sleepers",
    "alone",
    "own_lock",
    "pipeline",
    "child",
];

/// The resources, each with its kinds of scenes.
pub(super) const RESOURCES: [(&str, &[&str]); 4] = [
    ("disk", DISK),
    ("memory", MEMORY),
    ("lock", LOCK),
    ("nothing", NOTHING),
];

/// Minimum factor by which the victim does more if its memory limit is raised.
const GAIN: f64 = 2.0;
/// Minimum share of the disk's bytes that the groups of a scene must have.
const OURS: f64 = 0.75;
/// Maximum time for which the threads of a victim may wait for a CPU, in seconds per second: if
/// something else holds the victim, and if nothing is wrong.
const WAITED: (f64, f64) = (0.35, 0.04);
const MIB: u64 = 1 << 20;

/// A scene: its loads and the expected output.
pub(super) struct HeldScene {
    pub(super) kind: &'static str,
    /// Load of the victim. `{folder}` stands for the folder with the files of the scene.
    victim: String,
    /// Loads of the other groups. The first is the culprit, if there is one.
    others: Vec<String>,
    /// Memory limit in MiB, or 0 if there is no limit.
    limit: u64,
    verdicts: &'static [&'static str],
    /// Whether the verdict must name the first of the other groups.
    is_caused: bool,
}

impl HeldScene {
    pub(super) fn plain(kind: &'static str) -> Self {
        Self::with(kind, u64::midpoint)
    }

    /// Draws a scene of one of these kinds.
    pub(super) fn drawn(kinds: &[&'static str], dice: &mut Dice) -> Self {
        let kind = kinds[dice.roll(0, kinds.len() as u64 - 1) as usize];
        Self::with(kind, |from, to| dice.roll(from, to))
    }

    fn with(kind: &'static str, mut choose: impl FnMut(u64, u64) -> u64) -> Self {
        let mut scene = Self {
            kind,
            victim: String::new(),
            others: Vec::new(),
            limit: 0,
            verdicts: &["quiet"],
            is_caused: false,
        };
        if DISK.contains(&kind) {
            scene.verdicts = &["held_by_disk"];
            scene.is_caused = kind != "reads_alone";
        } else if MEMORY.contains(&kind) {
            scene.verdicts = &["held_by_memory_limit"];
            scene.limit = choose(12, 40);
            scene.victim = format!("rereads {{folder}}/read {}", scene.limit * choose(2, 4));
        } else if LOCK.contains(&kind) {
            scene.verdicts = &["held_by_lock"];
            scene.is_caused = true;
        }
        let writes = |kib: u64, threads: u64| format!("writes {{folder}}/written {kib} {threads}");
        match kind {
            "reads_beside_writer" => {
                scene.victim = "reads {folder}/read 4 1".into();
                scene.others = vec![writes(choose(1, 4) * 1024, choose(2, 4))];
            }
            "fsyncs_beside_writer" => {
                scene.verdicts = &["held_by_disk", "held_by_filesystem"];
                scene.victim = "fsyncs {folder}/synced 4 1".into();
                scene.others = vec![writes(choose(1, 4) * 1024, choose(2, 4))];
            }
            "fsyncs_beside_fsyncs" => {
                scene.verdicts = &["held_by_disk", "held_by_filesystem"];
                scene.victim = "fsyncs {folder}/synced 4 1".into();
                let other = format!("fsyncs {{folder}}/other {} 4", choose(4, 8) * 1024);
                scene.others = vec![other];
            }
            "reads_alone" => scene.victim = format!("reads {{folder}}/read 1024 {}", choose(1, 4)),
            "memory_limit_beside_writer" => scene.others = vec![writes(1024, 1)],
            "flock" | "record_lock" => {
                scene.victim = format!("takes {{folder}}/lock {kind}");
                scene.others = vec![format!("holds {{folder}}/lock {kind} {}", choose(10, 90))];
            }
            "lock_behind_disk" => {
                scene.victim = "takes {folder}/lock flock".into();
                let holder = "holds_and_syncs {folder}/lock {folder}/synced".into();
                scene.others = vec![holder, writes(choose(1, 4) * 1024, choose(2, 4))];
            }
            "idle_server" => {
                scene.victim = "serves {folder}/socket".into();
                scene.others = vec![format!("asks {{folder}}/socket {}", choose(5, 50))];
            }
            "sleepers" => scene.victim = format!("sleepers {}", choose(4, 64)),
            "alone" => scene.victim = "spin 1".into(),
            "own_lock" => scene.victim = format!("own_lock {}", choose(2, 8)),
            "pipeline" => {
                scene.victim = "reads_pipe {folder}/pipe".into();
                scene.others = vec![format!("writes_pipe {{folder}}/pipe {}", choose(5, 50))];
            }
            "child" => scene.victim = "waits_for_child".into(),
            _ => {}
        }
        scene
    }

    /// Whether the disk must not be used by processes outside the scene.
    fn uses_disk(&self) -> bool {
        DISK.contains(&self.kind) || self.kind == "lock_behind_disk"
    }

    /// Whether another group slows down the disk.
    fn uses_disk_of_others(&self) -> bool {
        self.uses_disk() && self.is_caused
    }

    /// Returns the mistakes in a verdict.
    fn mistakes(&self, what: &str, verdict: &Value, cast: &Cast) -> Vec<String> {
        let mut wrong = Vec::new();
        let kind = verdict["kind"].as_str().unwrap_or_default();
        if !self.verdicts.contains(&kind) {
            wrong.push(format!("{what}: the verdict is {kind}"));
        }
        let expected = cast.others.first().filter(|_| self.is_caused);
        let expected = expected.map(|group| group.path.as_str());
        let culprit = verdict["culprit"].as_str();
        if culprit != expected {
            wrong.push(format!("{what}: the culprit is {culprit:?}"));
        }
        wrong
    }

    /// Returns the phrases that must be in the output.
    fn words(&self, cast: &Cast) -> Vec<String> {
        let other = |index: usize| cast.others[index].path.clone();
        match self.kind {
            "parent_memory_limit" => vec![
                format!("of {}", cast.parent.path),
                format!("Try: raise the memory limit of {}", cast.parent.path),
            ],
            kind if kind.starts_with("memory_limit") => {
                vec![
                    "its own memory limit".into(),
                    "Try: raise its memory limit".into(),
                ]
            }
            "lock_behind_disk" => vec![
                format!("held by locks of {}", other(0)),
                format!("{}: held by the disk", other(0)),
                format!(
                    "Try: for {}: limit the disk bandwidth of {}",
                    other(0),
                    other(1)
                ),
            ],
            kind if DISK.contains(&kind) && self.is_caused => {
                vec![format!("Try: limit the disk bandwidth of {}", other(0))]
            }
            kind if LOCK.contains(&kind) => vec![format!("held by locks of {}", other(0))],
            _ => Vec::new(),
        }
    }
}

impl fmt::Display for HeldScene {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.victim)?;
        if self.limit > 0 {
            write!(f, " limit={}M", self.limit)?;
        }
        match self.others.as_slice() {
            [] => Ok(()),
            all => write!(f, " beside {}", all.join(", ")),
        }
    }
}

/// The groups and processes of a scene, in the order in which they are dropped.
struct Cast {
    loads: Loads,
    victim: Group,
    others: Vec<Group>,
    parent: Group,
    files: Files,
}

/// The folder with the files of a scene, which is removed at the end.
struct Files(String);

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Stage {
    /// Plays a scene and checks the verdicts of `waits --blocked` and `why`.
    pub(super) fn play_held(&self, scene: &HeldScene) -> Result<Played> {
        let _lock = lock_last_cpu()?;
        let mut cast = self.cast_held(scene)?;
        let disk = Disk::of(&cast.files.0);
        let begin = Use::of(&cast, disk.as_ref());
        let why = self.why(&cast.victim.path)?;
        let end = Use::of(&cast, disk.as_ref());
        let disturbed = end.disturbed(&begin, scene);
        let mut wrong = scene.mistakes("why", &why["verdict"], &cast);
        let table = self.waits_held()?;
        let rows = table["rows"].as_array();
        let row = rows.and_then(|rows| rows.iter().find(|row| row["name"] == *cast.victim.path));
        match row {
            Some(row) => wrong.extend(scene.mistakes("waits", &row["verdict"], &cast)),
            None => wrong.push("waits: no row".into()),
        }
        let text = self.why_text(&cast.victim.path)?;
        for words in scene.words(&cast) {
            if !text.contains(&words) {
                wrong.push(format!("why: {words:?} is not in {text}"));
            }
        }
        if disturbed.is_none() {
            wrong.extend(follow_advice(scene, &mut cast, disk.as_ref())?);
        }
        let kind = why["verdict"]["kind"].as_str().unwrap_or_default();
        Ok(Played {
            cause: scene.kind.to_owned(),
            kind: kind.to_owned(),
            answer: why["answer"].as_str().unwrap_or_default().to_owned(),
            wrong,
            disturbed,
        })
    }

    fn cast_held(&self, scene: &HeldScene) -> Result<Cast> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("held-{}-{number}", std::process::id());
        let parent = self.group(&format!("/{name}"))?;
        let victim = self.group(&format!("/{name}/victim"))?;
        parent.weigh(10_000)?;
        victim.weigh(10_000)?;
        let folder = std::env::current_dir()
            .context("the folder")?
            .join("target");
        let files = Files(folder.join(&name).display().to_string());
        fs::create_dir_all(&files.0).with_context(|| files.0.clone())?;
        if scene.limit > 0 {
            let limited = match scene.kind {
                "parent_memory_limit" => &parent,
                _ => &victim,
            };
            limited.limit_memory(scene.limit * MIB)?;
        }
        let mut cast = Cast {
            loads: Loads(Vec::new()),
            victim,
            others: Vec::new(),
            parent,
            files,
        };
        let load = |load: &str| load.replace("{folder}", &cast.files.0);
        for (place, other) in scene.others.iter().enumerate() {
            let group = self.group(&format!("/{name}-other-{place}"))?;
            group.weigh(10_000)?;
            cast.loads
                .0
                .push(group.start(&["env".into()], &load(other))?);
            cast.others.push(group);
        }
        let victim = match scene.kind {
            "alone" => self.pinned(),
            _ => vec!["env".into()],
        };
        cast.loads
            .0
            .push(cast.victim.start(&victim, &load(&scene.victim))?);
        // The loads write their files first.
        thread::sleep(Duration::from_secs(3));
        Ok(cast)
    }

    fn waits_held(&self) -> Result<Value> {
        let args = [
            "waits",
            "--blocked",
            "--by",
            "cgroup",
            "--json",
            "--for",
            self.window(),
        ];
        let text = output(&mut self.noctule_command(&args))?;
        serde_json::from_str(&text).context("parsing the answer of waits")
    }

    fn why_text(&self, path: &str) -> Result<String> {
        let args = ["why", path, "--wide", "--for", self.window()];
        output(&mut self.noctule_command(&args))
    }
}

/// Follows the advice. Returns a mistake if the victim gains less than half of what it lost.
fn follow_advice(
    scene: &HeldScene,
    cast: &mut Cast,
    disk: Option<&Disk>,
) -> Result<Option<String>> {
    let held = cast.progress();
    // The number of the load that uses the disk.
    let culprit = usize::from(scene.kind == "lock_behind_disk");
    let limits_disk = scene.uses_disk_of_others();
    if limits_disk {
        let device = &disk.context("the files are not on a disk")?.number;
        cast.others[culprit].limit_disk(device, MIB)?;
    } else if scene.limit > 0 {
        let limited = match scene.kind {
            "parent_memory_limit" => &cast.parent,
            _ => &cast.victim,
        };
        limited.limit_memory(scene.limit * 5 * MIB)?;
    } else {
        return Ok(None);
    }
    thread::sleep(Duration::from_secs(1));
    let helped = cast.progress();
    let wanted = if limits_disk {
        cast.loads.0[culprit].kill().context("ending a load")?;
        thread::sleep(Duration::from_secs(1));
        f64::midpoint(held, cast.progress())
    } else {
        GAIN * held
    };
    let mistake =
        format!("progress {held:.0}, with the advice {helped:.0} of at least {wanted:.0}");
    Ok((helped < wanted).then_some(mistake))
}

impl Cast {
    /// Returns how much the victim does per second: the bytes that it reads in calls, and how often
    /// it blocks.
    fn progress(&self) -> f64 {
        let done = || {
            let pid = self.loads.0.last().map_or(0, Child::id);
            let read = figure(&format!("/proc/{pid}/io"), "rchar:");
            read + figure(&format!("/proc/{pid}/status"), "voluntary_ctxt_switches:")
        };
        let (begin, before) = (Instant::now(), done());
        thread::sleep(Duration::from_secs(2));
        (done() - before) as f64 / begin.elapsed().as_secs_f64()
    }
}

/// Returns the number after this name in a file of procfs.
fn figure(file: &str, name: &str) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    value.map_or(0, |value| value.trim().parse().unwrap_or(0))
}

/// The disk with the files of a scene.
struct Disk {
    /// Major and minor number.
    number: String,
    /// Path of its statistics.
    stat: PathBuf,
}

impl Disk {
    fn of(folder: &str) -> Option<Self> {
        let device = fs::metadata(folder).ok()?.dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let own = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
        let own = match own.join("partition").exists() {
            true => own.parent()?.to_owned(),
            false => own,
        };
        let number = fs::read_to_string(own.join("dev")).ok()?.trim().to_owned();
        let stat = own.join("stat");
        Some(Self { number, stat })
    }

    /// Returns the bytes that the disk has read and written.
    fn bytes(&self) -> u64 {
        let text = fs::read_to_string(&self.stat).unwrap_or_default();
        let fields = text.split_whitespace();
        let fields: Vec<u64> = fields.filter_map(|it| it.parse().ok()).collect();
        let sectors = |place: usize| fields.get(place).copied().unwrap_or(0);
        (sectors(2) + sectors(6)) * 512
    }
}

/// Figures of the kernel so far.
struct Use {
    at: Instant,
    /// Bytes that the loads, and all processes, have read from and written to the disk.
    ours: u64,
    all: u64,
    /// Time for which the threads of the victim waited for a CPU.
    waited: Duration,
}

impl Use {
    fn of(cast: &Cast, disk: Option<&Disk>) -> Self {
        let bytes = |load: &Child| {
            let file = format!("/proc/{}/io", load.id());
            figure(&file, "read_bytes:") + figure(&file, "write_bytes:")
        };
        let pid = cast.loads.0.last().map_or(0, Child::id);
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter();
        let waited = threads.flatten().flatten().filter_map(|thread| {
            let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
            text.split_whitespace().nth(1)?.parse::<u64>().ok()
        });
        Self {
            at: Instant::now(),
            ours: cast.loads.0.iter().map(bytes).sum(),
            all: disk.map_or(0, Disk::bytes),
            waited: Duration::from_nanos(waited.sum()),
        }
    }

    /// Returns the figures if other processes used the disk or the CPU.
    fn disturbed(&self, before: &Self, scene: &HeldScene) -> Option<String> {
        let all = self.all.saturating_sub(before.all);
        let ours = (self.ours - before.ours) as f64 / all.max(1) as f64;
        let length = self.at.duration_since(before.at).as_secs_f64();
        let waited = (self.waited - before.waited).as_secs_f64() / length;
        let most = match scene.verdicts {
            ["quiet"] => WAITED.1,
            _ => WAITED.0,
        };
        let right = waited < most && (ours >= OURS || !scene.uses_disk());
        (!right).then(|| format!("{ours:.2} of the disk's bytes, waited {waited:.2} for a CPU"))
    }
}
