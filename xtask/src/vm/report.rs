//! Records the messages of a machine. Prints them immediately, and keeps them for the final table.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use noctule_vm::{Message, Outcome};

use super::say;
use crate::notes;

/// The report of a machine.
pub(super) struct Report {
    name: &'static str,
    release: String,
    running: Option<String>,
    tests: Vec<(String, Outcome, f64)>,
    /// Warnings of the kernel.
    complaints: Vec<String>,
    /// The reason why the machine failed.
    problem: Option<String>,
    boot: bool,
    time: Duration,
}

impl Report {
    pub(super) fn new(name: &'static str, release: &str) -> Self {
        Self {
            name,
            release: release.to_owned(),
            running: None,
            tests: Vec::new(),
            complaints: Vec::new(),
            problem: None,
            boot: false,
            time: Duration::ZERO,
        }
    }

    /// Creates a report of a machine that could not be started.
    pub(super) fn broken(name: &'static str, problem: String) -> Self {
        let mut report = Self::new(name, "");
        report.print(&problem);
        report.problem = Some(problem);
        report
    }

    /// Records and prints a message.
    pub(super) fn note(&mut self, message: Message) {
        match message {
            Message::Booted(release) => {
                self.print(&format!("booted {release}"));
                self.boot = true;
            }
            Message::Begins(name) => self.running = Some(name),
            Message::Ended(name, outcome, seconds) => {
                self.print(&format!("{name}: {outcome} ({seconds:.1} s)"));
                self.running = None;
                self.tests.push((name, outcome, seconds));
            }
            Message::Said(line) => self.print(&format!("| {line}")),
            Message::Broken(_) | Message::Alive | Message::Done => {}
        }
    }

    /// Completes the report after the virtual machine has ended.
    pub(super) fn complete(
        &mut self,
        problem: Option<String>,
        time: Duration,
        console: &str,
        most: usize,
    ) {
        self.time = time;
        let complaint = |line: &&str| line.contains("WARNING:") || line.contains("BUG:");
        self.complaints = console
            .lines()
            .filter(complaint)
            .map(str::to_owned)
            .collect();
        for line in &self.complaints {
            self.print(&format!("the kernel: {line}"));
        }
        if let Some(problem) = &problem {
            let lines: Vec<&str> = console.lines().collect();
            for line in &lines[lines.len().saturating_sub(most)..] {
                self.print(&format!("console: {line}"));
            }
            let during = self.running.as_ref();
            let during = during.map_or(String::new(), |name| format!(" in {name}"));
            self.print(&format!("{problem}{during}"));
        }
        self.problem = problem;
    }

    /// Returns whether every test passed or was skipped, and the kernel printed no warnings.
    pub(super) fn is_good(&self) -> bool {
        let good =
            |t: &(String, Outcome, f64)| matches!(t.1, Outcome::Passed | Outcome::Skipped(_));
        self.problem.is_none() && self.complaints.is_empty() && self.tests.iter().all(good)
    }

    /// Records how many tests the kernel cannot run. docs/kernels.md lists the reasons.
    pub(super) fn note_skipped(&self) -> Result<()> {
        match self.count(|o| matches!(o, Outcome::Skipped(_))) {
            0 => Ok(()),
            count => notes::not_run(&format!("{count} on {} (what the kernel lacks)", self.name)),
        }
    }

    fn count(&self, fits: impl Fn(&Outcome) -> bool) -> usize {
        self.tests
            .iter()
            .filter(|(_, outcome, _)| fits(outcome))
            .count()
    }

    fn print(&self, text: &str) {
        say(&format!("{}: {text}", self.name));
    }
}

/// Formats one line per kernel, and one block per test that did not pass everywhere.
pub(super) fn table(reports: &[Report]) -> String {
    let mut out = format!(
        "{:12} {:32} {:>6} {:>7} {:>6} {:>8}\n",
        "kernel", "release", "passed", "skipped", "failed", "time"
    );
    for report in reports {
        let passed = report.count(|o| *o == Outcome::Passed);
        let skipped = report.count(|o| matches!(o, Outcome::Skipped(_)));
        let failed = report.tests.len() - passed - skipped;
        let time = format!("{:.0} s", report.time.as_secs_f64());
        let problem = report.problem.as_deref().unwrap_or_default();
        let line = format!(
            "{:12} {:32} {passed:6} {skipped:7} {failed:6} {time:>8}  {problem}",
            report.name, report.release
        );
        out.push_str(line.trim_end());
        out.push('\n');
    }
    let names: BTreeSet<&str> = reports
        .iter()
        .flat_map(|r| &r.tests)
        .filter(|(_, outcome, _)| *outcome != Outcome::Passed)
        .map(|(name, ..)| name.as_str())
        .collect();
    for name in names {
        out.push_str(&format!("\n{name}\n"));
        for report in reports {
            let found = report.tests.iter().find(|(test, ..)| test == name);
            if let Some((_, outcome, _)) = found {
                out.push_str(&format!("    {:8} {outcome}\n", report.name));
            }
        }
    }
    out
}
