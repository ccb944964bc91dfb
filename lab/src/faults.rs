//! Implements `cargo lab faults`: runs the agent and lets one system call fail in each run.
//!
//! strace records the system calls of a start and several ticks, and injects single errors that the
//! kernel can return for them. The agent may exit with a message and a code, or continue. The agent
//! must not panic, be killed, hang, or leave anything in the kernel.

use std::fs::{self, File};
use std::io::{Write as _, stdout};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, geteuid, kill_process};

use crate::http;

mod errors;
mod plan;
mod residue;
mod verdict;

use plan::{Fault, Survey};
use residue::Residue;
use verdict::{Outcome, Verdict};

/// Let each system call of the agent fail once
///
/// Runs `noctule run` with all features enabled repeatedly, and lets one system call fail in each
/// run: the first few of its kind in each thread, and some random later ones. Prints the outcomes.
/// Fails if the agent panicked, was killed, hung, exported no metrics, or left programs in the
/// kernel. Needs root, strace and bpftool.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Path of the binary
    #[arg(long, value_name = "FILE", default_value = "target/release/noctule")]
    binary: PathBuf,
    /// Only test these system calls [default: all that the agent makes]
    #[arg(value_name = "NAME")]
    calls: Vec<String>,
    /// Start with this system call in alphabetical order
    #[arg(long, value_name = "NAME", default_value = "")]
    from: String,
    /// Number of first calls of each kind to fail
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    first: u64,
    /// Number of random later calls of each kind to fail
    #[arg(long, value_name = "COUNT", default_value_t = 2)]
    random: u64,
    /// Seed for selecting random calls
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Interval between batches; short, so that a run has several.
const INTERVAL: &str = "200ms";

/// How long the agent continues after the fault, which is several ticks.
const TICKS: Duration = Duration::from_millis(700);

/// Time limit for the start of the agent, longer than a start under strace takes on a busy machine.
/// An agent that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    ensure!(geteuid().is_root(), "this command needs root");
    for (tool, package) in [("strace", "strace"), ("bpftool", "bpftool")] {
        let found = Command::new(tool).arg("-V").output();
        ensure!(
            found.is_ok_and(|output| output.status.success()),
            "{tool} is missing: apt-get install {package}"
        );
    }
    let folder = Folder::new()?;
    let (survey, usual) = survey(args, &folder)?;
    let faults = plan::faults(&survey, args.first, args.random, args.seed);
    let wanted = |fault: &&Fault| {
        let named = args.calls.is_empty() || args.calls.contains(&fault.call);
        named && fault.call >= args.from
    };
    let faults: Vec<&Fault> = faults.iter().filter(wanted).collect();
    ensure!(!faults.is_empty(), "the agent makes no such system call");
    writeln!(stdout(), "{} faults", faults.len())?;
    let mut counts = [0; Verdict::COUNT];
    let mut wrong = Vec::new();
    for fault in faults {
        let verdict = try_one(args, &folder, fault, &usual)?;
        writeln!(stdout(), "{fault}: {verdict}")?;
        counts[verdict.index()] += 1;
        if verdict.is_failure() {
            wrong.push(format!("{fault}: {verdict}"));
        }
    }
    writeln!(
        stdout(),
        "{} continued, {} exited with a message, {} failed",
        counts[0],
        counts[1],
        counts[2]
    )?;
    for words in &wrong {
        writeln!(stdout(), "failed: {words}")?;
    }
    Ok(match wrong.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Runs the agent without a fault, which must succeed. Returns its system calls and its reported
/// features.
fn survey(args: &Args, folder: &Folder) -> Result<(Survey, String)> {
    let table = folder.0.join("calls");
    let options = ["-f", "-c", "-o", path(&table)?].map(str::to_owned);
    let residue = Residue::now()?;
    let outcome = Run::start(&args.binary, folder, &options)?.watch()?;
    let verdict = verdict::judge(&outcome, &outcome.features, &residue.left()?);
    ensure!(
        !verdict.is_failure() && outcome.answered,
        "without a fault: {verdict}"
    );
    let survey = Survey::parse(&fs::read_to_string(&table)?)?;
    Ok((survey, outcome.features))
}

fn try_one(args: &Args, folder: &Folder, fault: &Fault, usual: &str) -> Result<Verdict> {
    let residue = Residue::now()?;
    let options = fault.options();
    let outcome = Run::start(&args.binary, folder, &options)?.watch()?;
    let verdict = verdict::judge(&outcome, usual, &residue.left()?);
    let code = outcome.status.unwrap_or_default();
    Ok(
        match errors::known_cause(&fault.call, &verdict.to_string()) {
            Some(cause) if verdict.is_failure() => Verdict::Ended(code, cause.to_owned()),
            _ => verdict,
        },
    )
}

/// A run of the agent under strace.
struct Run {
    strace: Child,
    address: String,
    output: PathBuf,
    errors: PathBuf,
}

impl Run {
    fn start(binary: &Path, folder: &Folder, options: &[String]) -> Result<Self> {
        let address = http::free_address()?;
        let [output, errors] = ["output", "errors"].map(|name| folder.0.join(name));
        let tape = folder.0.join("tape");
        // The agent appends to an existing tape, but each run must start a new one.
        if tape.exists() {
            fs::remove_dir_all(&tape)?;
        }
        let strace = Command::new("strace")
            .args(options)
            .arg(binary)
            .args(["run", "--interval", INTERVAL, "--listen", &address])
            .arg("--config")
            .arg(folder.configuration())
            .arg("--events")
            .arg(folder.0.join("events.jsonl"))
            .arg("--tape")
            .arg(tape)
            .stdin(Stdio::null())
            .stdout(File::create(&output)?)
            .stderr(File::create(&errors)?)
            .spawn()
            .context("starting strace")?;
        Ok(Self {
            strace,
            address,
            output,
            errors,
        })
    }

    /// Waits until the agent responds, lets it run for several ticks, and stops it.
    fn watch(mut self) -> Result<Outcome> {
        let mut status = self.wait_until(PATIENCE, |run| run.scrape().is_ok())?;
        let mut answered = false;
        let mut hung = false;
        if status.is_none() {
            thread::sleep(TICKS);
            // The fault may affect this connection, so a second attempt is allowed.
            answered = self.scrape().or_else(|_| self.scrape()).is_ok();
            // If the agent has exited by itself, the signal does nothing and the wait returns its
            // status.
            self.signal(Signal::TERM);
            status = self.wait_until(PATIENCE, |_| false)?;
            hung = status.is_none();
        }
        if hung {
            self.signal(Signal::KILL);
            self.strace.wait()?;
        }
        Ok(Outcome {
            status: status.filter(|_| !hung).map(code),
            answered,
            features: fs::read_to_string(&self.output)?,
            errors: fs::read_to_string(&self.errors)?,
        })
    }

    /// Waits until the agent has exited, `done` returns true, or the time is up.
    fn wait_until(
        &mut self,
        patience: Duration,
        done: impl Fn(&Self) -> bool,
    ) -> Result<Option<ExitStatus>> {
        let begun = Instant::now();
        while begun.elapsed() < patience {
            if let Some(status) = self.strace.try_wait()? {
                return Ok(Some(status));
            }
            if done(self) {
                break;
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(None)
    }

    fn scrape(&self) -> Result<()> {
        let page = http::get(&self.address, "/metrics")?;
        match page.contains("noctule_self_build_info") {
            true => Ok(()),
            false => bail!("the answer has no metrics"),
        }
    }

    /// Sends a signal to the agent. strace exits after the agent, with the same status.
    fn signal(&self, signal: Signal) {
        let strace = self.strace.id();
        let children = fs::read_to_string(format!("/proc/{strace}/task/{strace}/children"));
        let children = children.unwrap_or_default();
        let pids = children.split_whitespace().flat_map(str::parse);
        for pid in pids.filter_map(Pid::from_raw) {
            // The agent may have exited.
            let _ = kill_process(pid, signal);
        }
    }
}

/// Returns the exit code, or 128 plus the signal number, as in a shell.
fn code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt as _;
    let signal = status.signal().map_or(-1, |signal| 128 + signal);
    status.code().unwrap_or(signal)
}

fn path(path: &Path) -> Result<&str> {
    path.to_str().context("the path is not valid UTF-8")
}

/// A temporary directory for the files of the runs.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self> {
        let name = format!("noctule-faults-{}", std::process::id());
        let folder = Self(std::env::temp_dir().join(name));
        fs::create_dir(&folder.0).context("creating a temporary folder")?;
        let configuration = "[metrics]\nprocesses = true\n[events]\nfiles = true\ndns = true\n";
        fs::write(folder.configuration(), configuration)?;
        Ok(folder)
    }

    fn configuration(&self) -> PathBuf {
        self.0.join("noctule.toml")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A leftover directory only wastes space.
        let _ = fs::remove_dir_all(&self.0);
    }
}
