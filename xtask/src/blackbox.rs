//! Implements `cargo xtask blackbox`: runs the tests of the binary on this machine, each in its own
//! process.
//!
//! Each test declares its needs (`tests/support/machine.rs`). Tests that can share the machine run
//! in parallel; tests that need it alone follow one by one. If only a few tests fail, they run once
//! more, alone. A test that passes the second time is reported as flaky.

use std::env;
use std::fs::{self, File};
use std::io::{Write as _, stdout};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use noctule_vm::Outcome;

use crate::{cargo, notes};

mod queue;

use queue::{Queue, Test};

/// Run the tests of the binary on this machine, as root
///
/// Tests that can share the machine run in parallel. Tests that need the machine alone follow one
/// by one. Waits for tests of other source trees, which use the same locks. A single test can also
/// be run with `cargo test`. Up to eight failed tests run again, alone. Tests that pass when they
/// run alone are reported as flaky and do not fail the run.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Number of tests to run in parallel
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..))]
    jobs: u8,
    /// Run only tests whose names contain one of these words
    #[arg(value_name = "TEST")]
    tests: Vec<String>,
}

pub(crate) fn run(root: &Path, args: &Args) -> Result<ExitCode> {
    let began = Instant::now();
    let runner = Runner {
        binary: cargo::build_blackbox_tests(root)?.named("blackbox")?,
        folder: root.join("crates/noctule"),
        root: rustix::process::geteuid().is_root(),
        scratch: env::temp_dir().join(format!("noctule-blackbox-{}", std::process::id())),
    };
    fs::create_dir_all(&runner.scratch).context("creating a folder for test output")?;
    let reports = runner.run_all(args);
    // A leftover directory only wastes space.
    let _ = fs::remove_dir_all(&runner.scratch);
    let reports = reports?;
    let count = |fits: fn(&Outcome) -> bool| reports.iter().filter(|r| fits(&r.outcome)).count();
    let failed = count(|o| *o == Outcome::Failed);
    let skipped = count(|o| matches!(o, Outcome::Skipped(_)));
    let flaky: Vec<&str> = (reports.iter().filter(|r| r.flaky))
        .map(|r| r.name.as_str())
        .collect();
    for report in reports.iter().filter(|r| r.outcome == Outcome::Failed) {
        say(&format!("FAILED: {}", report.name));
    }
    for name in &flaky {
        say(&format!("flaky: {name}"));
    }
    say(&format!(
        "{} passed, {failed} failed, {skipped} not run, in {:.1} s",
        reports.len() - failed - skipped,
        began.elapsed().as_secs_f64()
    ));
    if skipped > 0 {
        notes::not_run(&reasons(&reports))?;
    }
    if !flaky.is_empty() {
        notes::flaky(&flaky.join(", "))?;
    }
    Ok(ExitCode::from(u8::from(failed > 0)))
}

/// The result of a test.
struct Report {
    name: String,
    outcome: Outcome,
    /// Whether the test failed first and passed when it ran again alone.
    flaky: bool,
}

/// Maximum number of failed tests that run again. More failures are unlikely to be flaky tests.
const MAX_RERUNS: usize = 8;

/// Runs the failed tests once more, unless there are too many.
fn rerun_failed(
    reports: &mut [Report],
    mut run: impl FnMut(&str) -> Result<Outcome>,
) -> Result<()> {
    let mut failed: Vec<&mut Report> = reports
        .iter_mut()
        .filter(|report| report.outcome == Outcome::Failed)
        .collect();
    if failed.is_empty() || failed.len() > MAX_RERUNS {
        return Ok(());
    }
    say(&format!(
        "{} failed; running them again, alone:",
        failed.len()
    ));
    for report in &mut failed {
        report.outcome = run(&report.name)?;
        report.flaky = report.outcome == Outcome::Passed;
    }
    Ok(())
}

/// Runs tests.
struct Runner {
    binary: PathBuf,
    /// The working directory in which cargo runs the tests.
    folder: PathBuf,
    /// Whether this process is root. If not, tests run with sudo.
    root: bool,
    scratch: PathBuf,
}

impl Runner {
    /// Runs the selected tests.
    fn run_all(&self, args: &Args) -> Result<Vec<Report>> {
        let (alone, shared): (Vec<_>, Vec<_>) = self
            .select_tests(args)?
            .into_iter()
            .partition(|test| test.alone);
        say(&format!(
            "{} tests, {} in parallel, then {} alone",
            shared.len(),
            args.jobs,
            alone.len()
        ));
        let mut reports = self.run_tests(shared, args.jobs)?;
        if !alone.is_empty() {
            say("waiting for other tests on this machine");
        }
        reports.extend(self.run_tests(alone, 1)?);
        rerun_failed(&mut reports, |name| Ok(self.run_one(name)?.outcome))?;
        Ok(reports)
    }

    fn run_tests(&self, tests: Vec<Test>, jobs: u8) -> Result<Vec<Report>> {
        let queue = Queue::new(tests);
        let worker = || {
            let mut reports = Vec::new();
            while let Some(test) = queue.take() {
                let report = self.run_one(&test.name);
                queue.release(&test);
                reports.push(report?);
            }
            Ok(reports)
        };
        let reports = thread::scope(|scope| {
            let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(worker)).collect();
            let ended = workers.into_iter().map(|w| w.join().expect("no panic"));
            ended.collect::<Result<Vec<Vec<Report>>>>()
        })?;
        Ok(reports.into_iter().flatten().collect())
    }

    /// Returns the selected tests with their needs.
    fn select_tests(&self, args: &Args) -> Result<Vec<Test>> {
        let mut command = self.command(&["--list", "--format", "terse"], &[]);
        let output = command.output().context("starting the tests")?;
        let text = String::from_utf8(output.stdout).context("names of tests")?;
        let names: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_suffix(": test"))
            .collect();
        for word in &args.tests {
            if !names.iter().any(|name| name.contains(word.as_str())) {
                bail!("no test name contains {word}");
            }
        }
        let wanted = |name: &&&str| {
            let has = |word: &String| name.contains(word.as_str());
            args.tests.is_empty() || args.tests.iter().any(has)
        };
        let wanted = names.iter().filter(wanted);
        wanted.map(|name| self.query_needs(name)).collect()
    }

    /// Asks a test for its needs.
    fn query_needs(&self, name: &str) -> Result<Test> {
        let test = ["--exact", name, "--test-threads=1", "--nocapture"];
        let mut command = self.command(&test, &["NOCTULE_ASK=1"]);
        let output = command.output().context("starting a test")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let mut lines = text.lines();
        // The harness prints the name of the test on the same line.
        let wants = lines.find_map(|line| Some(line.split_once("machine: ")?.1));
        let wants = wants.with_context(|| format!("{name} does not declare its needs"))?;
        Test::new(name, wants)
    }

    /// Runs a test, and prints its output if it failed.
    fn run_one(&self, name: &str) -> Result<Report> {
        let file = |what: &str| {
            let name = format!("{}.{what}", name.replace(':', "-"));
            self.scratch.join(name)
        };
        let (output_path, skipped) = (file("output"), file("skipped"));
        let output = File::create(&output_path).context("creating a file for test output")?;
        let began = Instant::now();
        let status = self
            .command(
                &["--exact", name, "--test-threads=1"],
                &[&format!("NOCTULE_SKIPPED={}", skipped.display())],
            )
            .stdin(Stdio::null())
            .stderr(output.try_clone()?)
            .stdout(output)
            .status()
            .context("starting a test")?;
        let seconds = began.elapsed().as_secs_f64();
        let outcome = match fs::read_to_string(&skipped) {
            _ if !status.success() => Outcome::Failed,
            Ok(reason) => Outcome::Skipped(reason.trim().to_owned()),
            Err(_) => Outcome::Passed,
        };
        let mut text = format!("{name}: {outcome} ({seconds:.1} s)");
        if outcome == Outcome::Failed {
            let output = fs::read(&output_path).unwrap_or_default();
            text = format!("{text}: {status}\n{}", String::from_utf8_lossy(&output));
        }
        say(&text);
        Ok(Report {
            name: name.to_owned(),
            outcome,
            flaky: false,
        })
    }

    /// Returns a command that runs the test binary as root with these arguments and variables.
    fn command(&self, args: &[&str], variables: &[&str]) -> Command {
        let program = if self.root { "env" } else { "sudo" };
        let mut command = Command::new(program);
        if !self.root {
            command.args(["-E", "env"]);
        }
        command.args(variables).arg(&self.binary).args(args);
        command.current_dir(&self.folder);
        command
    }
}

/// Lists the reasons why tests were skipped, each with the number of tests.
fn reasons(reports: &[Report]) -> String {
    let mut counts = std::collections::BTreeMap::<&str, usize>::new();
    for report in reports {
        if let Outcome::Skipped(reason) = &report.outcome {
            *counts.entry(reason).or_default() += 1;
        }
    }
    let words = counts.iter().map(|(reason, count)| match count {
        1 => format!("a test of the binary ({reason})"),
        _ => format!("{count} tests of the binary ({reason})"),
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Prints progress. A closed stdout must not stop the tests.
fn say(text: &str) {
    let _ = writeln!(stdout().lock(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs tests whose names state the outcomes of the first and the second run.
    fn outcomes_after_reruns(names: &[&str]) -> Vec<(Outcome, bool)> {
        let outcome = |fails: bool| match fails {
            true => Outcome::Failed,
            false => Outcome::Passed,
        };
        let mut reports: Vec<Report> = names
            .iter()
            .map(|name| Report {
                name: (*name).to_owned(),
                outcome: outcome(name.starts_with("fails")),
                flaky: false,
            })
            .collect();
        rerun_failed(&mut reports, |name| Ok(outcome(name.ends_with("fails")))).expect("no error");
        reports.into_iter().map(|r| (r.outcome, r.flaky)).collect()
    }

    #[test]
    fn only_tests_that_pass_alone_are_flaky() {
        assert_eq!(
            outcomes_after_reruns(&["passes", "fails, passes", "fails, fails"]),
            [
                (Outcome::Passed, false),
                (Outcome::Passed, true),
                (Outcome::Failed, false),
            ]
        );
    }

    #[test]
    fn many_failures_are_not_rerun() {
        let ended = outcomes_after_reruns(&["fails, passes"; MAX_RERUNS + 1]);
        assert_eq!(ended, vec![(Outcome::Failed, false); MAX_RERUNS + 1]);
    }
}
