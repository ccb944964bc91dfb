//! `cargo xtask blackbox`: the tests of the binary on this machine, each in a process of its own.
//!
//! Each test says what it needs of the machine (`tests/support/machine.rs`). Those that can run beside
//! others do, some at a time; then those that need the machine alone, one after the other. The few that
//! failed run once more then, alone: one that passes is unsteady, and is named as such.

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
/// Those that can run beside others do so; those that need the machine alone follow. Tests of
/// another tree, which keep to the same locks, are waited for. A single test may as well be run by
/// `cargo test`. Up to eight tests that fail are run again, alone: those that pass then are listed as
/// unsteady and do not fail the run.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many tests run at the same time, of those that can
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..))]
    jobs: u8,
    /// Words in the names of tests; without any, all run
    #[arg(value_name = "TEST")]
    tests: Vec<String>,
}

pub(crate) fn run(root: &Path, args: &Args) -> Result<ExitCode> {
    let began = Instant::now();
    let runner = Runner {
        binary: cargo::tests_of_the_binary(root)?.named("blackbox")?,
        folder: root.join("crates/noctule"),
        root: rustix::process::geteuid().is_root(),
        scratch: env::temp_dir().join(format!("noctule-blackbox-{}", std::process::id())),
    };
    fs::create_dir_all(&runner.scratch).context("a folder for what the tests say")?;
    let reports = runner.all(args);
    // What stays is only space.
    let _ = fs::remove_dir_all(&runner.scratch);
    let reports = reports?;
    let count = |fits: fn(&Outcome) -> bool| reports.iter().filter(|r| fits(&r.outcome)).count();
    let failed = count(|o| *o == Outcome::Failed);
    let skipped = count(|o| matches!(o, Outcome::Skipped(_)));
    let unsteady: Vec<&str> = (reports.iter().filter(|r| r.unsteady))
        .map(|r| r.name.as_str())
        .collect();
    for report in reports.iter().filter(|r| r.outcome == Outcome::Failed) {
        say(&format!("FAILED: {}", report.name));
    }
    for name in &unsteady {
        say(&format!("unsteady: {name}"));
    }
    say(&format!(
        "{} passed, {failed} failed, {skipped} not run, in {:.1} s",
        reports.len() - failed - skipped,
        began.elapsed().as_secs_f64()
    ));
    if skipped > 0 {
        notes::not_run(&reasons(&reports))?;
    }
    if !unsteady.is_empty() {
        notes::unsteady(&unsteady.join(", "))?;
    }
    Ok(ExitCode::from(u8::from(failed > 0)))
}

/// How a test ended.
struct Report {
    name: String,
    outcome: Outcome,
    /// It failed first, and passed when it ran again alone.
    unsteady: bool,
}

/// So many that failed run again. More are no accident.
const SECOND_RUNS: usize = 8;

/// Runs the few tests that failed once more.
fn second_runs(reports: &mut [Report], mut run: impl FnMut(&str) -> Result<Outcome>) -> Result<()> {
    let mut failed: Vec<&mut Report> = reports
        .iter_mut()
        .filter(|report| report.outcome == Outcome::Failed)
        .collect();
    if failed.is_empty() || failed.len() > SECOND_RUNS {
        return Ok(());
    }
    say(&format!("{} failed; run again, alone:", failed.len()));
    for report in &mut failed {
        report.outcome = run(&report.name)?;
        report.unsteady = report.outcome == Outcome::Passed;
    }
    Ok(())
}

/// How tests are run.
struct Runner {
    binary: PathBuf,
    /// Where cargo runs them.
    folder: PathBuf,
    /// Whether this is root; else they are run by sudo.
    root: bool,
    scratch: PathBuf,
}

impl Runner {
    /// Runs all that are wanted.
    fn all(&self, args: &Args) -> Result<Vec<Report>> {
        let (alone, shared): (Vec<_>, Vec<_>) =
            self.tests(args)?.into_iter().partition(|test| test.alone);
        say(&format!(
            "{} tests, {} at a time, then {} alone",
            shared.len(),
            args.jobs,
            alone.len()
        ));
        let mut reports = self.several(shared, args.jobs)?;
        if !alone.is_empty() {
            say("waiting until nothing else runs that shares the machine");
        }
        reports.extend(self.several(alone, 1)?);
        second_runs(&mut reports, |name| Ok(self.one(name)?.outcome))?;
        Ok(reports)
    }

    fn several(&self, tests: Vec<Test>, jobs: u8) -> Result<Vec<Report>> {
        let queue = Queue::new(tests);
        let worker = || {
            let mut reports = Vec::new();
            while let Some(test) = queue.take() {
                let report = self.one(&test.name);
                queue.give_back(&test);
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

    /// The tests that are wanted, and what each needs.
    fn tests(&self, args: &Args) -> Result<Vec<Test>> {
        let mut command = self.command(&["--list", "--format", "terse"], &[]);
        let output = command.output().context("starting the tests")?;
        let text = String::from_utf8(output.stdout).context("names of tests")?;
        let names: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_suffix(": test"))
            .collect();
        for word in &args.tests {
            if !names.iter().any(|name| name.contains(word.as_str())) {
                bail!("no test has {word} in its name");
            }
        }
        let wanted = |name: &&&str| {
            let has = |word: &String| name.contains(word.as_str());
            args.tests.is_empty() || args.tests.iter().any(has)
        };
        let wanted = names.iter().filter(wanted);
        wanted.map(|name| self.ask(name)).collect()
    }

    /// Asks a test what it needs of the machine.
    fn ask(&self, name: &str) -> Result<Test> {
        let test = ["--exact", name, "--test-threads=1", "--nocapture"];
        let mut command = self.command(&test, &["NOCTULE_ASK=1"]);
        let output = command.output().context("starting a test")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let mut lines = text.lines();
        // The harness writes the name before it, on the same line.
        let wants = lines.find_map(|line| Some(line.split_once("machine: ")?.1));
        let wants = wants.with_context(|| format!("{name} does not say what it needs"))?;
        Test::new(name, wants)
    }

    /// Runs a test, and shows what it said if it failed.
    fn one(&self, name: &str) -> Result<Report> {
        let file = |what: &str| {
            let name = format!("{}.{what}", name.replace(':', "-"));
            self.scratch.join(name)
        };
        let (said, skipped) = (file("said"), file("skipped"));
        let output = File::create(&said).context("a file for what a test says")?;
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
            let said = fs::read(&said).unwrap_or_default();
            text = format!("{text}: {status}\n{}", String::from_utf8_lossy(&said));
        }
        say(&text);
        Ok(Report {
            name: name.to_owned(),
            outcome,
            unsteady: false,
        })
    }

    /// The tests' binary as root, with these arguments and variables.
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

/// The reasons for which tests were not run, with how many each kept.
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

/// Progress. Nobody may be listening any more; that is no reason to stop.
fn say(text: &str) {
    let _ = writeln!(stdout().lock(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reports of tests whose names say how they end: the first and the second time.
    fn after_second_runs(names: &[&str]) -> Vec<(Outcome, bool)> {
        let outcome = |fails: bool| match fails {
            true => Outcome::Failed,
            false => Outcome::Passed,
        };
        let mut reports: Vec<Report> = names
            .iter()
            .map(|name| Report {
                name: (*name).to_owned(),
                outcome: outcome(name.starts_with("fails")),
                unsteady: false,
            })
            .collect();
        second_runs(&mut reports, |name| Ok(outcome(name.ends_with("fails")))).expect("no error");
        reports
            .into_iter()
            .map(|r| (r.outcome, r.unsteady))
            .collect()
    }

    #[test]
    fn a_test_that_passes_alone_is_unsteady_and_one_that_fails_again_failed() {
        assert_eq!(
            after_second_runs(&["passes", "fails, passes", "fails, fails"]),
            [
                (Outcome::Passed, false),
                (Outcome::Passed, true),
                (Outcome::Failed, false),
            ]
        );
    }

    #[test]
    fn many_failures_are_no_accident() {
        let ended = after_second_runs(&["fails, passes"; SECOND_RUNS + 1]);
        assert_eq!(ended, vec![(Outcome::Failed, false); SECOND_RUNS + 1]);
    }
}
