//! Judges the outcome of a fault.

use std::fmt;

/// The outcome of a run.
pub(super) struct Outcome {
    /// Exit code, or `None` if the agent had to be killed.
    pub(super) status: Option<i32>,
    /// Whether the agent served metrics until the test stopped it.
    pub(super) answered: bool,
    /// Standard output: which features are on, degraded or off, with reasons.
    pub(super) features: String,
    /// Standard error.
    pub(super) errors: String,
}

/// A verdict with its description.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The agent served metrics and exited when the test stopped it. The text is the agent's first
    /// message, if any.
    Continued(String),
    /// The agent exited with a code and a message.
    Ended(i32, String),
    Failed(String),
}

impl Verdict {
    pub(super) const COUNT: usize = 3;

    pub(super) fn index(&self) -> usize {
        match self {
            Self::Continued(_) => 0,
            Self::Ended(..) => 1,
            Self::Failed(_) => 2,
        }
    }

    pub(super) fn is_failure(&self) -> bool {
        matches!(self, Self::Failed(_))
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Continued(message) if message.is_empty() => write!(f, "continued"),
            Self::Continued(message) => write!(f, "continued: {message}"),
            Self::Ended(code, message) => write!(f, "exited with {code}: {message}"),
            Self::Failed(reason) => write!(f, "FAILED: {reason}"),
        }
    }
}

/// Judges an outcome. `usual` is the agent's output without a fault. `left` lists what remained in
/// the kernel.
pub(super) fn judge(outcome: &Outcome, usual: &str, left: &[String]) -> Verdict {
    let errors = outcome.errors.trim();
    let mut features = outcome.features.lines();
    let unusual = features.find(|line| {
        let missing = line.starts_with("off: ") || line.starts_with("degraded: ");
        missing && !usual.lines().any(|known| known == *line)
    });
    let first = errors
        .lines()
        .next()
        .or(unusual)
        .unwrap_or_default()
        .to_owned();
    if let Some(panic) = errors.lines().find(|line| line.contains("panicked at")) {
        return Verdict::Failed(panic.to_owned());
    }
    // strace failed, so the agent was not tested.
    if first.starts_with("strace:") {
        return Verdict::Failed(first);
    }
    if !left.is_empty() {
        return Verdict::Failed(format!("left in the kernel: {}", left.join(", ")));
    }
    match outcome.status {
        None => Verdict::Failed(format!("the agent hung: {first}")),
        Some(0) if outcome.answered => Verdict::Continued(first),
        Some(0) => Verdict::Failed(format!("no metrics: {first}")),
        // A fatal signal. SIGTERM can be one, if it arrives before the agent handles it.
        Some(code) if !(0..=128).contains(&code) => {
            Verdict::Failed(format!("signal {}: {first}", code - 128))
        }
        Some(code) if errors.is_empty() => {
            Verdict::Failed(format!("code {code} without a message"))
        }
        Some(code) => Verdict::Ended(code, first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: &str = "on http://127.0.0.1:2\non: cpu_time\n";

    #[test]
    fn judges_each_outcome() {
        let cases = [
            ((Some(0), true, ""), "continued"),
            (
                (Some(0), true, "WARN no counters\n"),
                "continued: WARN no counters",
            ),
            (
                (Some(1), false, "noctule: no memory\nhint\n"),
                "exited with 1: noctule: no memory",
            ),
            ((Some(1), false, ""), "FAILED: code 1 without a message"),
            ((Some(0), false, ""), "FAILED: no metrics: "),
            ((None, true, ""), "FAILED: the agent hung: "),
            ((Some(134), false, "aborted"), "FAILED: signal 6: aborted"),
            ((Some(1), false, "strace: no\n"), "FAILED: strace: no"),
            (
                (Some(0), true, "x\nthread 'a' panicked at b\n"),
                "FAILED: thread 'a' panicked at b",
            ),
        ];
        for ((status, answered, errors), expected) in cases {
            let outcome = Outcome {
                status,
                answered,
                features: "on http://127.0.0.1:1\non: cpu_time\n".to_owned(),
                errors: errors.to_owned(),
            };
            assert_eq!(judge(&outcome, USUAL, &[]).to_string(), expected);
        }
        let fine = Outcome {
            status: Some(0),
            answered: true,
            features: "on http://127.0.0.1:1\non: cpu_time\noff: waits: no memory\n".to_owned(),
            errors: String::new(),
        };
        let verdict = judge(&fine, USUAL, &[]);
        assert_eq!(verdict.to_string(), "continued: off: waits: no memory");
        let left = judge(&fine, USUAL, &["prog 7".to_owned()]);
        assert_eq!(left.to_string(), "FAILED: left in the kernel: prog 7");
    }
}
