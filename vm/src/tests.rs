//! Runs the tests, each in its own process.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use noctule_vm::{EXPECT, Job, Message, Outcome, SKIPPED, TESTS};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::port::Port;

/// Interval of the messages that show that the machine is still working.
const ALIVE: Duration = Duration::from_secs(5);

/// Tests that check the preconditions of all other tests.
const FIRST: &str = "environment::";

/// A test after which no BPF program can be loaded.
const LAST: &str = "lockdown::";

/// Maximum number of lines of a test's output that are sent to the host. Of longer output, only the
/// last lines are sent.
const LINES: usize = 120;

/// Start of a line that is sent to the host even if the test passes.
const NOTE: &str = "note: ";

const OUTPUT: &str = "/run/output";

/// Runs the job.
pub(crate) fn run(job: &Job, port: &mut Port) -> Result<()> {
    if let [program, args @ ..] = &job.command[..] {
        let mut command = Command::new(program);
        command.args(args);
        let (outcome, seconds) = one(&mut command, job, port)?;
        say(port, usize::MAX, "")?;
        return port.send(&Message::Ended(job.command.join(" "), outcome, seconds));
    }
    for name in names(job)? {
        port.send(&Message::Begins(name.clone()))?;
        let mut command = Command::new(TESTS);
        command.args(["--exact", &name, "--test-threads=1"]);
        let (outcome, seconds) = one(&mut command, job, port)?;
        if matches!(outcome, Outcome::Failed | Outcome::Late) {
            say(port, LINES, "")?;
        } else {
            say(port, LINES, NOTE)?;
        }
        port.send(&Message::Ended(name, outcome, seconds))?;
    }
    Ok(())
}

/// Returns the names of the tests to run, in order.
fn names(job: &Job) -> Result<Vec<String>> {
    let mut command = Command::new(TESTS);
    command.args(["--list", "--format", "terse"]);
    let output = command.output().context(TESTS)?;
    if !output.status.success() {
        bail!("{TESTS} --list: {}", output.status);
    }
    let text = String::from_utf8(output.stdout).context("names of tests")?;
    let fits = |name: &&str| {
        let has = |part: &String| name.contains(part.as_str());
        let wanted = job.tests.is_empty() || job.tests.iter().any(has);
        name.starts_with(FIRST) || (wanted && !job.skip.iter().any(has))
    };
    let names: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_suffix(": test"))
        .collect();
    for word in &job.tests {
        if !names.iter().any(|name| name.contains(word.as_str())) {
            bail!("no test has {word} in its name");
        }
    }
    let mut names: Vec<String> = names.into_iter().filter(fits).map(str::to_owned).collect();
    names.sort_by_key(|name| (!name.starts_with(FIRST), name.contains(LAST)));
    Ok(names)
}

/// Runs one test until it ends, or kills it at the time limit. Returns how the test ended and after
/// how many seconds.
fn one(command: &mut Command, job: &Job, port: &mut Port) -> Result<(Outcome, f64)> {
    let _ = fs::remove_file(SKIPPED);
    let output = File::create(OUTPUT).context(OUTPUT)?;
    let began = Instant::now();
    let child = command
        .envs(job.environment.iter().cloned())
        .envs([("NOCTULE_EXPECT", EXPECT), ("NOCTULE_SKIPPED", SKIPPED)])
        .envs([("HOME", "/"), ("PATH", "/usr/bin"), ("TERM", "linux")])
        .process_group(0)
        .stdin(Stdio::null())
        .stderr(output.try_clone()?)
        .stdout(output)
        .spawn()
        .context("starting a test")?;
    let group = Pid::from_child(&child);
    let status = await_end(child, began + Duration::from_secs(job.limit), port)?;
    let outcome = match status {
        Some(status) if !status.success() => Outcome::Failed,
        Some(_) => match fs::read_to_string(SKIPPED) {
            Ok(reason) => Outcome::Skipped(reason.trim().to_owned()),
            Err(_) => Outcome::Passed,
        },
        None => {
            // Kills the test's process group, and then everything that it started in other groups.
            let _ = kill_process_group(group, Signal::KILL);
            let ourselves = std::process::id().to_string();
            let all = ["killall5", "-9", "-o", &ourselves];
            let _ = Command::new("setsid").args(all).status();
            Outcome::Late
        }
    };
    Ok((outcome, began.elapsed().as_secs_f64()))
}

/// Returns the exit status, or `None` if the process did not end in time.
fn await_end(mut child: Child, deadline: Instant, port: &mut Port) -> Result<Option<ExitStatus>> {
    let (sender, ended) = channel();
    thread::spawn(move || {
        // After the deadline the receiver no longer exists.
        let _ = sender.send(child.wait());
    });
    loop {
        match ended.recv_timeout(ALIVE) {
            Ok(status) => return Ok(Some(status?)),
            Err(RecvTimeoutError::Disconnected) => bail!("the waiting thread has gone"),
            Err(RecvTimeoutError::Timeout) if Instant::now() > deadline => return Ok(None),
            Err(RecvTimeoutError::Timeout) => port.send(&Message::Alive)?,
        }
    }
}

/// Sends the last lines of the output that start with `begin`.
fn say(port: &mut Port, most: usize, begin: &str) -> Result<()> {
    let text = fs::read(OUTPUT).context(OUTPUT)?;
    let text = String::from_utf8_lossy(&text);
    let begins = |line: &&str| line.starts_with(begin);
    let lines: Vec<&str> = text.lines().filter(begins).collect();
    for line in &lines[lines.len().saturating_sub(most)..] {
        port.send(&Message::Said((*line).to_owned()))?;
    }
    Ok(())
}
