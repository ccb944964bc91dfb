//! Plays a scene and reads noctule's output.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rustix::fs::{FlockOperation, flock};
use serde_json::Value;

use super::draw::{REMOVAL, Scene};
use super::group::{Group, Hierarchies};
use super::output;

/// The environment of scenes: cgroups, CPUs and the observer.
pub(super) struct Stage {
    roots: Hierarchies,
    noctule: PathBuf,
    window: String,
    top: bool,
    /// The CPU of the scenes, and the CPUs for everything else.
    last: usize,
    others: String,
}

/// The output for a scene.
pub(super) struct Played {
    /// The known cause.
    pub(super) cause: String,
    /// Verdict of `waits`.
    pub(super) kind: String,
    /// First line of `why`.
    pub(super) answer: String,
    /// Mistakes in the output.
    pub(super) wrong: Vec<String>,
    /// The CPU time that was used, as text, if the groups got less than the scene requires.
    pub(super) disturbed: Option<String>,
}

/// The groups and processes of a scene. Fields are dropped in order: loads end before their groups
/// are removed.
struct Cast {
    loads: Loads,
    victim: Group,
    neighbours: Vec<Group>,
    parent: Group,
}

pub(super) struct Loads(pub(super) Vec<Child>);

impl Drop for Loads {
    fn drop(&mut self) {
        // All loads are killed first, because a starving load can only exit after the others.
        for child in &mut self.0 {
            // Dropping the group kills the load's children.
            let _ = child.kill();
        }
        for child in &mut self.0 {
            let _ = child.wait();
        }
    }
}

/// If the victim gains less than this share of its CPU time when it runs alone, the verdict must
/// name only the quota.
const MAX_QUOTA_GAIN: f64 = 0.1;

/// CPU time so far, in seconds.
struct Used {
    at: Instant,
    victim: f64,
    neighbours: f64,
    ksoftirqd: f64,
}

impl Used {
    /// Returns how many CPUs the victim used since `before`.
    fn victim_part(&self, before: &Self) -> f64 {
        let length = self.at.duration_since(before.at).as_secs_f64();
        (self.victim - before.victim) / length
    }
}

impl Cast {
    /// Waits until the victim has waited for longer than noctule needs to report an ongoing wait.
    /// The victim was started first.
    fn wait_until_starving(&self) -> Result<()> {
        let pid = self.loads.0[0].id();
        let run_count = || -> Result<Option<String>> {
            let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).context("schedstat")?;
            Ok(text.split_whitespace().nth(2).map(str::to_owned))
        };
        let (mut before, mut since) = (run_count()?, Instant::now());
        let end = since + Duration::from_secs(30);
        while since.elapsed() < Duration::from_millis(1500) && Instant::now() < end {
            thread::sleep(Duration::from_millis(50));
            let now = run_count()?;
            if now != before {
                (before, since) = (now, Instant::now());
            }
        }
        Ok(())
    }
}

impl Stage {
    pub(super) fn new(noctule: PathBuf, window: String, top: bool) -> Result<Self> {
        let last = thread::available_parallelism().context("CPUs")?.get() - 1;
        Ok(Self {
            roots: Hierarchies::find()?,
            noctule,
            window,
            top,
            last,
            others: format!("0-{}", last.saturating_sub(1)),
        })
    }

    pub(super) fn group(&self, path: &str) -> Result<Group> {
        Group::new(&self.roots, path)
    }

    pub(super) fn window(&self) -> &str {
        &self.window
    }

    pub(super) fn play(&self, scene: &Scene) -> Result<Played> {
        let _lock = lock_last_cpu()?;
        let mut cast = self.cast(scene)?;
        thread::sleep(Duration::from_millis(300));
        if scene.idle {
            cast.wait_until_starving()?;
        }
        let before = self.measure(&cast);
        let (kind, line) = self.waits(&cast)?;
        let why = self.why(&cast.victim.path)?;
        let after = self.measure(&cast);
        let mut disturbed = scene.disturbed(&before, &after);
        let mut cause = scene.kind.to_owned();
        let mut expected = scene.expected_verdict();
        let mut gain = None;
        if scene.kind == REMOVAL && disturbed.is_none() {
            let with = after.victim_part(&before);
            let without = self.without_neighbours(&mut cast)?;
            // Without neighbours, the victim must get its full quota.
            if without < 0.97 * scene.quota as f64 / 100.0 {
                disturbed = Some(format!("alone, the victim used {without:.2}"));
            }
            let more = without / with - 1.0;
            gain = Some(more);
            expected = match more < MAX_QUOTA_GAIN {
                true => "held_by_quota",
                false => "quota_and_neighbours",
            };
            cause.push_str(if more < MAX_QUOTA_GAIN {
                ": gains < 10 %"
            } else {
                ": gains more"
            });
        }
        let mut answer = why["answer"].as_str().unwrap_or_default().to_owned();
        if let Some(gain) = gain {
            answer = format!("gains {:.1} %: {answer}", gain * 100.0);
        }
        let mut wrong = Vec::new();
        let mut check = |what: &str, kind: &str, line: Option<&str>| {
            // The verdict must name a neighbour that slows down the victim, alone or together with
            // the quota.
            let accused = scene.kind == REMOVAL && kind == "hurt_by_neighbour";
            let kind = if accused {
                "quota_and_neighbours"
            } else {
                kind
            };
            if kind != expected {
                wrong.push(format!("{what}: the verdict is {kind}"));
            }
            let expected = match what {
                "top" => scene.expected_words_in_top(),
                _ => scene.expected_words(),
            };
            for words in missing_words(scene, &cast, expected, line) {
                wrong.push(format!("{what}: {words:?} is not in {line:?}"));
            }
        };
        check("waits", &kind, line.as_deref());
        let judged = why["verdict"]["kind"].as_str().unwrap_or_default();
        check("why", judged, Some(&answer));
        if self.top && disturbed.is_none() {
            let (judged, words) = self.top(&cast)?;
            check("top", &judged, Some(&words));
        }
        Ok(Played {
            cause,
            kind,
            answer,
            wrong,
            disturbed,
        })
    }

    /// Stops the neighbours and returns the victim's CPU use without them.
    fn without_neighbours(&self, cast: &mut Cast) -> Result<f64> {
        // The victim was started last.
        let neighbours = cast.loads.0.len() - 1;
        drop(Loads(cast.loads.0.drain(..neighbours).collect()));
        thread::sleep(Duration::from_millis(300));
        let before = self.measure(cast);
        thread::sleep(Duration::from_secs(2));
        Ok(self.measure(cast).victim_part(&before))
    }

    fn cast(&self, scene: &Scene) -> Result<Cast> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("/scene-{}-{number}", std::process::id());
        let parent = self.group(&name)?;
        let victim = self.group(&format!("{name}/victim"))?;
        parent.weigh(scene.weights.0)?;
        victim.weigh(10_000)?;
        if scene.quota > 0 {
            let limited = if scene.nested { &parent } else { &victim };
            limited.limit(scene.quota)?;
        }
        let mut cast = Cast {
            loads: Loads(Vec::new()),
            victim,
            neighbours: Vec::new(),
            parent,
        };
        // A victim that must starve spins before the neighbours start. Otherwise it would starve
        // during its start, and each step of the start would end a wait.
        if scene.idle {
            self.start_victim(&mut cast, scene)?;
            thread::sleep(Duration::from_millis(300));
        }
        for (place, load) in scene.neighbours.iter().enumerate() {
            let group = self.group(&format!("{name}-neighbour-{place}"))?;
            group.weigh(scene.weights.1)?;
            cast.neighbours.push(group);
            let group = &cast.neighbours[place];
            let child = match load.split(' ').next() {
                Some("flood") => group.start(&self.flood(), &format!("flood {}", self.last)),
                Some("jobs") => {
                    let folder = group.folder().display();
                    group.start(&self.pinned(), &format!("{load} {folder}"))
                }
                _ => group.start(&self.pinned(), load),
            };
            cast.loads.0.push(child?);
        }
        if !scene.idle {
            self.start_victim(&mut cast, scene)?;
        }
        Ok(cast)
    }

    fn start_victim(&self, cast: &mut Cast, scene: &Scene) -> Result<()> {
        let mut words = self.pinned();
        if scene.idle {
            words.extend(["chrt", "-i", "0"].map(str::to_owned));
        }
        let load = format!("spin {}", scene.threads);
        cast.loads.0.push(cast.victim.start(&words, &load)?);
        Ok(())
    }

    pub(super) fn pinned(&self) -> Vec<String> {
        vec!["taskset".into(), "-c".into(), self.last.to_string()]
    }

    /// Returns the words that give the load its own namespaces, because the load configures packet
    /// steering of its loopback device.
    fn flood(&self) -> Vec<String> {
        let script = "mount -t sysfs sysfs /sys && ip link set lo up && exec \"$0\" \"$@\"";
        let words = ["unshare", "--net", "--mount", "sh", "-c", script];
        let mut words: Vec<String> = words.map(str::to_owned).into();
        words.extend(["taskset".into(), "-c".into(), self.others.clone()]);
        words
    }

    fn measure(&self, cast: &Cast) -> Used {
        let name = format!("ksoftirqd/{}", self.last);
        Used {
            at: Instant::now(),
            victim: cast.victim.cpu_seconds(),
            neighbours: cast.neighbours.iter().map(Group::cpu_seconds).sum(),
            ksoftirqd: kernel_thread_seconds(&name).unwrap_or(0.0),
        }
    }

    /// Returns a noctule command that runs on the other CPUs.
    pub(super) fn noctule_command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("nice");
        command.args(["-n", "-10", "taskset", "-c", &self.others]);
        command.arg(&self.noctule);
        command.args(args);
        command
    }

    /// Returns the verdict in the table, and the line above it about the victim.
    fn waits(&self, cast: &Cast) -> Result<(String, Option<String>)> {
        let args = [
            "waits",
            "--by",
            "cgroup",
            "--top",
            "1000",
            "--for",
            &self.window,
        ];
        let text = output(&mut self.noctule_command(&args))?;
        let victim = &cast.victim.path;
        let line = text
            .lines()
            .find(|line| line.starts_with(&format!("{victim}: ")));
        let row = text
            .lines()
            .find(|line| line.starts_with(&format!("{victim} ")));
        let kind = row.and_then(|row| row.split_whitespace().last());
        let kind = kind.with_context(|| format!("no row for {victim} in {text}"))?;
        Ok((kind.to_owned(), line.map(str::to_owned)))
    }

    pub(super) fn why(&self, path: &str) -> Result<Value> {
        let args = ["why", path, "--json", "--for", &self.window];
        let text = output(&mut self.noctule_command(&args))?;
        serde_json::from_str(&text).context("parsing the answer of why")
    }

    /// Returns the verdict and its explanation from the details in `top`.
    fn top(&self, cast: &Cast) -> Result<(String, String)> {
        let server = format!("noctule-scenes-{}", std::process::id());
        let tmux = |args: &[&str]| {
            let mut command = Command::new("tmux");
            command.args(["-L", &server, "-f", "/dev/null"]).args(args);
            output(&mut command)
        };
        let shown = format!(
            "nice -n -10 taskset -c {} {} top --waits --by cgroup --interval 500ms --cgroup {}",
            self.others,
            self.noctule.display(),
            cast.victim.path
        );
        tmux(&["new-session", "-d", "-x", "200", "-y", "50", &shown])?;
        let mut screen = String::new();
        let mut judged = false;
        for _ in 0..100 {
            thread::sleep(Duration::from_millis(200));
            screen = tmux(&["capture-pane", "-p"])?;
            // The last word of the row is the verdict, or "…" before the first verdict.
            let row = screen.lines().find(|line| line.contains("/victim"));
            judged = row
                .and_then(|row| row.split_whitespace().last())
                .is_some_and(|word| word.contains('_') || word == "quiet");
            if judged {
                break;
            }
        }
        // Opens the details of the only row. A later verdict may be shown by then.
        let mut found = None;
        if judged {
            tmux(&["send-keys", "Down", "Enter"])?;
            for _ in 0..50 {
                thread::sleep(Duration::from_millis(100));
                screen = tmux(&["capture-pane", "-p"])?;
                found = parse_details(&screen);
                if found.is_some() {
                    break;
                }
            }
        }
        tmux(&["kill-server"])?;
        found.with_context(|| format!("no verdict on the screen: {screen}"))
    }
}

/// Extracts the verdict and its explanation from the details of a row, in the format of `why`.
fn parse_details(screen: &str) -> Option<(String, String)> {
    let mut labels: Vec<(&str, String)> = Vec::new();
    for line in screen.lines() {
        // A label occupies eleven columns after a space.
        let (label, words) = line.split_at_checked(12).unwrap_or(("-", ""));
        match (label.trim(), labels.last_mut()) {
            ("", Some((_, before))) => before.push_str(&format!(" {}", words.trim())),
            (label, _) => labels.push((label, words.trim().to_owned())),
        }
    }
    let find = |label| labels.iter().find(|(it, _)| *it == label);
    let (_, verdict) = find("verdict")?;
    let (_, because) = find("because")?;
    let advice = find("try").map_or(String::new(), |(_, words)| format!(". Try: {words}"));
    let kind = verdict.split_whitespace().next()?;
    Some((kind.to_owned(), format!("{because}{advice}")))
}

impl Scene {
    /// Returns the figures if the groups got less CPU time than the scene requires, according to
    /// the kernel's accounting.
    fn disturbed(&self, before: &Used, after: &Used) -> Option<String> {
        let length = after.at.duration_since(before.at).as_secs_f64();
        let victim = after.victim_part(before);
        let neighbours = (after.neighbours - before.neighbours) / length;
        let ksoftirqd = (after.ksoftirqd - before.ksoftirqd) / length;
        let quota = self.quota as f64 / 100.0;
        let right = match self.kind {
            "quota" | "quota_threads" | "nested_quota" => victim > 0.9 * quota,
            "quota_beside_neighbour" => victim > 0.9 * quota && victim + neighbours > 0.9,
            "quota_and_neighbour" => neighbours > 0.3 && victim > 0.3 * quota,
            "kernel" => victim + ksoftirqd > 0.85 && ksoftirqd > 0.2,
            // If the victim runs, its wait ends, and noctule would report a shorter one.
            "starved" => neighbours > 0.9 && victim < 1e-6,
            _ => victim + neighbours > 0.9,
        };
        (!right).then(|| {
            format!("used {victim:.2}, neighbours {neighbours:.2}, ksoftirqd {ksoftirqd:.2}")
        })
    }
}

/// Returns the expected phrases that are not in the line, in order. `waits` prints no line for a
/// quiet group.
fn missing_words(
    scene: &Scene,
    cast: &Cast,
    expected: Vec<String>,
    line: Option<&str>,
) -> Vec<String> {
    let Some(mut rest) = line else {
        return match scene.expected_verdict() {
            "quiet" => Vec::new(),
            _ => vec!["a sentence".to_owned()],
        };
    };
    let neighbour = cast.neighbours.first().map_or("", |group| &group.path);
    let mut missing = Vec::new();
    for words in expected {
        let words = words
            .replace("{parent}", &cast.parent.path)
            .replace("{jobs}", neighbour.trim_start_matches('/'))
            // Any of three equal neighbours can come first.
            .replace("several: {neighbour}", "several: ")
            .replace("{neighbour}", neighbour);
        match rest.split_once(&words) {
            Some((_, after)) => rest = after,
            None => missing.push(words),
        }
    }
    missing
}

/// Locks the last CPU against the tests of the binary, which use the same locks
/// (`tests/support/machine.rs`).
pub(super) fn lock_last_cpu() -> Result<[File; 2]> {
    let lock = |folder: &str, operation| -> Result<File> {
        let file = File::open(folder).with_context(|| folder.to_owned())?;
        flock(&file, operation).context("locking a folder")?;
        Ok(file)
    };
    Ok([
        lock("/tmp", FlockOperation::LockShared)?,
        lock("/sys/devices/system/cpu", FlockOperation::LockExclusive)?,
    ])
}

fn kernel_thread_seconds(name: &str) -> Option<f64> {
    let entries = fs::read_dir("/proc").ok()?.flatten();
    let mut found = entries.map(|entry| entry.path()).filter(|path| {
        let comm = fs::read_to_string(path.join("comm"));
        comm.is_ok_and(|comm| comm.trim() == name)
    });
    let text = fs::read_to_string(found.next()?.join("schedstat")).ok()?;
    Some(text.split_whitespace().next()?.parse::<f64>().ok()? / 1e9)
}
