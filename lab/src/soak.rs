//! Implements `cargo lab soak`: runs an agent with all features enabled under churn for a long
//! time.
//!
//! Memory, descriptors, threads and map entries must not grow. Some of these figures grow by design
//! in the first minutes, because the web page shows the last 15 minutes. The first third of the run
//! is therefore not judged.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _, stdout};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

mod server;

use server::Prometheus;

/// Run the agent with all features enabled under churn, and check for growth
///
/// Processes, cgroups and connections come and go continuously. The agent writes events and a
/// recording, exports each process, and is scraped. Prints memory, descriptors, threads and map
/// entries over time. Fails if one of them grows, a scrape fails or the agent exits. Needs root.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Duration in seconds [default: 7200, or 60 with --short]
    #[arg(long = "for", value_name = "SECONDS")]
    seconds: Option<u64>,
    /// Run for a minute with an agent that forgets within seconds; fail on losses or too much
    /// memory
    #[arg(long)]
    short: bool,
    /// Path of the binary
    #[arg(long, value_name = "FILE", default_value = "target/release/noctule")]
    binary: PathBuf,
    /// Let a real Prometheus scrape the agent, and fail on counter resets and on duplicate or
    /// out-of-order samples
    #[arg(long)]
    prometheus: bool,
}

/// Prometheus keeps ended series in memory for hours, so fewer rows get series.
const FEW_ROWS: &str = "subject_rows = 500\nprocess_rows = 200\n";

/// Makes the agent forget ended processes and groups within seconds, so that maps quickly reach
/// their final size.
const SHORT_MEMORY: &str = "grace_seconds = 5.0\n[collect]\ndead_cgroup_memory_seconds = 5.0\n";

const SECONDS: u64 = 7200;
const SHORT_SECONDS: u64 = 60;

/// Minimum duration of a run whose growth is judged. In a shorter run, the 15-minute history is
/// still filling.
const LEAST_SECONDS: u64 = 3600;

/// Memory limit of a short run: about twice what an unoptimized build uses in a minute (277 MiB).
/// Memory varies by 100 MiB, because the recording keeps rows for ten seconds. Growth of memory is
/// therefore meaningless in a short run.
const MOST_MEMORY_MIB: f64 = 512.0;

/// Since Linux 6.12, the start of a wait is occasionally lost when a sleeping task is migrated.
const LOST_WAIT_STARTS: &str = "noctule_self_losses_total{kind=\"wait_start\"";

const LOST: &str = "noctule_self_losses_total{";

/// The nice value of the tests of the binary, which may run at the same time. The agent needs most
/// of a CPU.
const NICE: i32 = -10;

/// Number of lines in the table.
const SAMPLES: u64 = 24;

/// Growth of memory from the second to the last third that counts as noise: a share, and at least a
/// minimum.
const MEMORY_SHARE: f64 = 0.05;
const MEMORY_MIB: f64 = 4.0;
/// Growth of descriptors and threads that counts as noise, because a response may be in progress.
const COUNT_NOISE: f64 = 4.0;

/// What the agent uses at one time.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    /// Time since the start.
    hours: f64,
    memory_mib: f64,
    descriptors: f64,
    threads: f64,
    entries: f64,
    losses: f64,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "this command needs root"
    );
    // Child processes inherit this priority.
    rustix::process::setpriority_process(None, NICE).context("setting the priority")?;
    let folder = Folder::new()?;
    let config = folder.0.join("noctule.toml");
    let usual = if args.short { SHORT_SECONDS } else { SECONDS };
    let seconds = args.seconds.unwrap_or(usual);
    fs::write(&config, configuration(args))?;
    let mut agent = Agent::start(&args.binary, &config, &folder.0)?;
    let server = match args.prometheus {
        true => Some(Prometheus::start(&agent.address, &folder.0)?),
        false => None,
    };
    let (stop, churned) = (AtomicBool::new(false), Churned::default());
    let group = folder.0.file_name().and_then(|name| name.to_str());
    let group = group.unwrap_or("noctule-soak");
    let samples = thread::scope(|scope| {
        scope.spawn(|| churned.processes(&stop));
        scope.spawn(|| churned.groups(group, &stop));
        scope.spawn(|| churned.connections(&stop));
        let samples = watch(&mut agent, seconds);
        stop.store(true, Ordering::Relaxed);
        samples
    })?;
    let mut summary = String::new();
    let judged_samples = server
        .map(|server| server.judge(&mut summary))
        .transpose()?;
    agent.stop()?;
    let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let judged = args.short || seconds >= LEAST_SECONDS;
    let grown = match args.short {
        true => find_short_growth(&samples),
        false if judged => find_growth(&samples),
        false => Vec::new(),
    };
    let wrong = judged_samples.unwrap_or_default();
    let mut out = format!(
        "{} processes, {} cgroups and {} connections came and went; {} scrapes, none failed\n",
        of(&churned.processes),
        of(&churned.groups),
        of(&churned.connections),
        agent.scrapes
    );
    for (name, of, unit) in SLOPES {
        if let Some((slope, error)) = slope(&samples, of) {
            writeln!(out, "{name}: {slope:+.2} ± {error:.2} {unit} per hour")?;
        }
    }
    out.push_str(&summary);
    for words in &wrong {
        writeln!(out, "wrong: {words}")?;
    }
    for words in &grown {
        writeln!(out, "grew: {words}")?;
    }
    for line in agent.lost.iter().filter(|_| !grown.is_empty()) {
        writeln!(out, "lost: {line}")?;
    }
    match (judged, grown.is_empty()) {
        (true, true) => out.push_str("nothing grew\n"),
        (true, false) => {}
        (false, _) => writeln!(out, "growth is only judged after {LEAST_SECONDS} s")?,
    }
    stdout().write_all(out.as_bytes())?;
    Ok(match grown.is_empty() && wrong.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Returns a configuration with all features enabled.
fn configuration(args: &Args) -> String {
    let rows = if args.prometheus || args.short {
        FEW_ROWS
    } else {
        ""
    };
    let memory = if args.short { SHORT_MEMORY } else { "" };
    format!("[metrics]\nprocesses = true\n{rows}{memory}[events]\nfiles = true\n")
}

/// Scrapes every second, and regularly prints a line of the table.
fn watch(agent: &mut Agent, seconds: u64) -> Result<Vec<Sample>> {
    let begun = Instant::now();
    let every = Duration::from_secs_f64(seconds as f64 / SAMPLES as f64);
    let mut samples = Vec::new();
    writeln!(
        stdout(),
        "  after  memory  descriptors  threads  entries  losses"
    )?;
    while samples.len() < SAMPLES as usize {
        thread::sleep(Duration::from_secs(1).min(every));
        let page = agent.scrape()?;
        if begun.elapsed() < every * (samples.len() as u32 + 1) {
            continue;
        }
        let sample = agent.sample(&page, begun.elapsed().as_secs_f64() / 3600.0)?;
        let Sample {
            hours,
            memory_mib,
            descriptors,
            threads,
            entries,
            losses,
        } = sample;
        let after = hours * 3600.0;
        writeln!(
            stdout(),
            "{after:5.0} s {memory_mib:5.1}M {descriptors:12} {threads:8} {entries:8} {losses:7}"
        )?;
        samples.push(sample);
    }
    Ok(samples)
}

/// A value of a sample, with its name and its unit.
type Slope = (&'static str, fn(&Sample) -> f64, &'static str);

const SLOPES: [Slope; 4] = [
    ("memory", |it| it.memory_mib, "MiB"),
    ("descriptors", |it| it.descriptors, "descriptors"),
    ("threads", |it| it.threads, "threads"),
    ("map entries", |it| it.entries, "entries"),
];

/// Fits a line through the last two thirds. Returns the growth per hour and its standard error, or
/// `None` for fewer than three samples.
fn slope(samples: &[Sample], of: fn(&Sample) -> f64) -> Option<(f64, f64)> {
    let part = &samples[samples.len() / 3..];
    let count = part.len() as f64;
    if part.len() < 3 {
        return None;
    }
    let mean = |of: &dyn Fn(&Sample) -> f64| part.iter().map(of).sum::<f64>() / count;
    let (hours, value) = (mean(&|it| it.hours), mean(&of));
    let spread: f64 = part.iter().map(|it| (it.hours - hours).powi(2)).sum();
    let both = |it: &Sample| (it.hours - hours) * (of(it) - value);
    let slope = part.iter().map(both).sum::<f64>() / spread;
    let off = |it: &Sample| (of(it) - value - slope * (it.hours - hours)).powi(2);
    let rest: f64 = part.iter().map(off).sum();
    Some((slope, (rest / (count - 2.0) / spread).sqrt()))
}

/// Returns the figures that grew from the second third of the run to the last.
fn find_growth(samples: &[Sample]) -> Vec<String> {
    growth_of(&FIGURES, samples)
}

/// Like [`find_growth`] for values that stabilize within seconds. Also returns new losses and
/// excessive memory.
fn find_short_growth(samples: &[Sample]) -> Vec<String> {
    let mut grown = growth_of(&FIGURES[1..], samples);
    grown.extend(growth_of(&[LOSSES], samples));
    let most = samples.iter().map(|it| it.memory_mib).fold(0.0, f64::max);
    if most > MOST_MEMORY_MIB {
        grown.push(format!("memory (MiB): {most} of {MOST_MEMORY_MIB}"));
    }
    grown
}

/// A value of a sample, and the growth that counts as noise: a share of the value, and at least a
/// minimum.
type Figure = (&'static str, fn(&Sample) -> f64, f64, f64);

const FIGURES: [Figure; 4] = [
    ("memory (MiB)", |it| it.memory_mib, MEMORY_SHARE, MEMORY_MIB),
    ("descriptors", |it| it.descriptors, 0.0, COUNT_NOISE),
    ("threads", |it| it.threads, 0.0, COUNT_NOISE),
    // Groups appear and disappear in bursts.
    ("map entries", |it| it.entries, 0.25, 200.0),
];

const LOSSES: Figure = ("losses", |it| it.losses, 0.0, 0.0);

fn growth_of(figures: &[Figure], samples: &[Sample]) -> Vec<String> {
    let third = samples.len() / 3;
    let median = |part: &[Sample], of: fn(&Sample) -> f64| {
        let mut values: Vec<f64> = part.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(0.0)
    };
    let mut grown = Vec::new();
    for &(name, of, share, least) in figures {
        let before = median(&samples[third..2 * third], of);
        let after = median(&samples[2 * third..], of);
        if after - before > (before * share).max(least) {
            grown.push(format!("{name}: {before} to {after}"));
        }
    }
    grown
}

/// A temporary directory for the agent's files.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self> {
        let name = format!("noctule-soak-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).context("creating a temporary folder")?;
        Ok(Self(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A leftover directory only wastes space.
        let _ = fs::remove_dir_all(&self.0);
    }
}

struct Agent {
    child: Child,
    address: String,
    scrapes: u64,
    /// Loss series of the last sample that are not 0.
    lost: Vec<String>,
}

impl Agent {
    fn start(binary: &Path, config: &Path, folder: &Path) -> Result<Self> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        let child = Command::new(binary)
            .args(["run", "--listen", &address, "--events-size", "4MiB"])
            .arg("--config")
            .arg(config)
            .arg("--events")
            .arg(folder.join("events.jsonl"))
            .arg("--tape")
            .arg(folder.join("tape"))
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("starting {}", binary.display()))?;
        let mut agent = Self {
            child,
            address,
            scrapes: 0,
            lost: Vec::new(),
        };
        let begun = Instant::now();
        while agent.get().is_err() {
            agent.check_alive()?;
            ensure!(
                begun.elapsed() < Duration::from_secs(60),
                "the agent does not answer"
            );
            thread::sleep(Duration::from_millis(100));
        }
        Ok(agent)
    }

    fn check_alive(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("the agent exited: {status}"),
        }
    }

    fn get(&self) -> Result<String> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
        let mut page = String::new();
        stream.read_to_string(&mut page)?;
        ensure!(page.contains(" 200 OK"), "{page:.200}");
        Ok(page)
    }

    fn scrape(&mut self) -> Result<String> {
        self.check_alive()?;
        let page = self.get().context("scraping the agent")?;
        self.scrapes += 1;
        Ok(page)
    }

    fn sample(&mut self, page: &str, hours: f64) -> Result<Sample> {
        let process = PathBuf::from(format!("/proc/{}", self.child.id()));
        let status = fs::read_to_string(process.join("status"))?;
        let number = |key: &str| -> Result<f64> {
            let line = status.lines().find_map(|line| line.strip_prefix(key));
            let word = line.and_then(|line| line.split_whitespace().next());
            Ok(word.context("/proc/PID/status lacks a line")?.parse()?)
        };
        let sum = |name: &str| -> f64 {
            let lines = page.lines().filter(|line| line.starts_with(name));
            let values = lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
            values.sum()
        };
        let lost = page.lines().filter(|line| line.starts_with(LOST));
        self.lost = lost
            .filter(|line| !line.ends_with(" 0"))
            .map(str::to_owned)
            .collect();
        Ok(Sample {
            hours,
            memory_mib: number("VmRSS:")? / 1024.0,
            descriptors: fs::read_dir(process.join("fd"))?.count() as f64,
            threads: number("Threads:")?,
            entries: sum("noctule_self_map_entries{"),
            losses: sum(LOST) - sum(LOST_WAIT_STARTS),
        })
    }

    fn stop(&mut self) -> Result<()> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        let status = self.child.wait()?;
        ensure!(status.success(), "the agent exited with {status}");
        Ok(())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // The agent may have exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Counts of created and removed objects.
#[derive(Default)]
struct Churned {
    processes: AtomicU64,
    groups: AtomicU64,
    connections: AtomicU64,
}

/// Pause between two objects of a kind. A hundred per second is a high rate for a node.
const PAUSE: Duration = Duration::from_millis(10);

impl Churned {
    fn processes(&self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            if Command::new("/bin/true").status().is_ok() {
                self.processes.fetch_add(1, Ordering::Relaxed);
            }
            thread::sleep(PAUSE);
        }
    }

    fn groups(&self, name: &str, stop: &AtomicBool) {
        let Some(mount) = hierarchy() else { return };
        for number in 0_u64.. {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let group = mount.join(format!("{name}-{number}"));
            if fs::create_dir(&group).is_ok() {
                // A process runs in the group briefly.
                let script = format!("echo $$ >{}/cgroup.procs", group.display());
                let _ = Command::new("sh").args(["-c", &script]).status();
                while fs::remove_dir(&group).is_err() && group.exists() {
                    thread::sleep(PAUSE);
                }
                self.groups.fetch_add(1, Ordering::Relaxed);
            }
            thread::sleep(PAUSE);
        }
    }

    fn connections(&self, stop: &AtomicBool) {
        let Ok(listener) = TcpListener::bind("127.0.0.1:0") else {
            return;
        };
        let Ok(address) = listener.local_addr() else {
            return;
        };
        while !stop.load(Ordering::Relaxed) {
            if TcpStream::connect(address).is_ok() && listener.accept().is_ok() {
                self.connections.fetch_add(1, Ordering::Relaxed);
            }
            thread::sleep(PAUSE);
        }
    }
}

/// Returns the mount point of the hierarchy that noctule measures: v1 with the controller `cpu`, or
/// v2.
fn hierarchy() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/mounts").ok()?;
    let find = |kind: &str, option: &str| {
        let mut fields = mounts
            .lines()
            .map(|line| line.split(' ').collect::<Vec<_>>());
        let has =
            |it: &Vec<&str>| it.len() > 3 && it[2] == kind && it[3].split(',').any(|o| o == option);
        fields.find(has).map(|it| PathBuf::from(it[1]))
    };
    find("cgroup", "cpu").or_else(|| find("cgroup2", "rw"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_have_a_standard_error() {
        let at = |n: u32, memory_mib| Sample {
            hours: f64::from(n) / 10.0,
            memory_mib,
            ..Sample::default()
        };
        let line: Vec<Sample> = (0..24).map(|n| at(n, 20.0 + f64::from(n))).collect();
        let (slope_of_line, error) = slope(&line, |it| it.memory_mib).expect("enough");
        assert!((slope_of_line - 10.0).abs() < 1e-9 && error < 1e-9);
        let noise: Vec<Sample> = (0..24).map(|n| at(n, f64::from(n % 2))).collect();
        let (slope_of_noise, error) = slope(&noise, |it| it.memory_mib).expect("enough");
        assert!(error > 0.1 && slope_of_noise.abs() < 2.0 * error);
        assert_eq!(slope(&line[..2], |it| it.memory_mib), None);
    }

    #[test]
    fn growth_after_the_first_third_is_reported() {
        let at = |memory_mib, threads| Sample {
            memory_mib,
            threads,
            ..Sample::default()
        };
        let filling: Vec<Sample> = (0..24)
            .map(|n| at(if n < 8 { 20.0 + f64::from(n) } else { 40.0 }, 9.0))
            .collect();
        assert!(find_growth(&filling).is_empty());
        let leaking: Vec<Sample> = (0..24).map(|n| at(20.0 + f64::from(n), 9.0)).collect();
        assert_eq!(find_growth(&leaking), ["memory (MiB): 32 to 40"]);
    }

    #[test]
    fn short_runs_report_losses_and_excess_memory() {
        let samples = |most_mib, loses: bool| -> Vec<Sample> {
            let at = |n: u32| Sample {
                memory_mib: most_mib * f64::from(n) / 24.0,
                losses: if loses { f64::from(n / 20) } else { 7.0 },
                ..Sample::default()
            };
            (1..=24).map(at).collect()
        };
        assert!(find_short_growth(&samples(200.0, false)).is_empty());
        let wrong = find_short_growth(&samples(600.0, true));
        assert_eq!(wrong, ["losses: 0 to 1", "memory (MiB): 600 of 512"]);
    }
}
