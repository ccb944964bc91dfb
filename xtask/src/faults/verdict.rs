//! What came of a fault.

use std::fmt;

/// How a run went.
pub(super) struct Outcome {
    /// With which code it ended; `None`: it had to be killed.
    pub(super) status: Option<i32>,
    /// It gave figures until it was told to end.
    pub(super) answered: bool,
    /// On standard output: which features are on, degraded, or off, and why.
    pub(super) features: String,
    /// On standard error.
    pub(super) said: String,
}

/// A verdict, with the words that belong to it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It gave figures, and ended when it was told so; with its first words, if it said something.
    WentOn(String),
    /// It ended with a code and a message.
    Ended(i32, String),
    Wrong(String),
}

impl Verdict {
    pub(super) const COUNT: usize = 3;

    pub(super) fn place(&self) -> usize {
        match self {
            Self::WentOn(_) => 0,
            Self::Ended(..) => 1,
            Self::Wrong(_) => 2,
        }
    }

    pub(super) fn is_wrong(&self) -> bool {
        matches!(self, Self::Wrong(_))
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WentOn(said) if said.is_empty() => write!(f, "went on"),
            Self::WentOn(said) => write!(f, "went on: {said}"),
            Self::Ended(code, said) => write!(f, "ended with {code}: {said}"),
            Self::Wrong(words) => write!(f, "WRONG: {words}"),
        }
    }
}

/// `usual`: what it says of its features without a fault; `left`: what it left in the kernel.
pub(super) fn of(outcome: &Outcome, usual: &str, left: &[String]) -> Verdict {
    let said = outcome.said.trim();
    let mut features = outcome.features.lines();
    let unusual = features.find(|line| {
        let missing = line.starts_with("off: ") || line.starts_with("degraded: ");
        missing && !usual.lines().any(|known| known == *line)
    });
    let first = said
        .lines()
        .next()
        .or(unusual)
        .unwrap_or_default()
        .to_owned();
    if let Some(panic) = said.lines().find(|line| line.contains("panicked at")) {
        return Verdict::Wrong(panic.to_owned());
    }
    // Then the agent was not tried.
    if first.starts_with("strace:") {
        return Verdict::Wrong(first);
    }
    if !left.is_empty() {
        return Verdict::Wrong(format!("left in the kernel: {}", left.join(", ")));
    }
    match outcome.status {
        None => Verdict::Wrong(format!("it hung: {first}")),
        Some(0) if outcome.answered => Verdict::WentOn(first),
        Some(0) => Verdict::Wrong(format!("it gave no figures: {first}")),
        // Told to end before it listens for that.
        Some(code) if !(0..=128).contains(&code) => {
            Verdict::Wrong(format!("signal {}: {first}", code - 128))
        }
        Some(code) if said.is_empty() => Verdict::Wrong(format!("code {code} without a word")),
        Some(code) => Verdict::Ended(code, first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: &str = "on http://127.0.0.1:2\non: cpu_time\n";

    #[test]
    fn each_end_has_its_verdict() {
        let cases = [
            ((Some(0), true, ""), "went on"),
            (
                (Some(0), true, "WARN no counters\n"),
                "went on: WARN no counters",
            ),
            (
                (Some(1), false, "noctule: no memory\nhint\n"),
                "ended with 1: noctule: no memory",
            ),
            ((Some(1), false, ""), "WRONG: code 1 without a word"),
            ((Some(0), false, ""), "WRONG: it gave no figures: "),
            ((None, true, ""), "WRONG: it hung: "),
            ((Some(134), false, "aborted"), "WRONG: signal 6: aborted"),
            ((Some(1), false, "strace: no\n"), "WRONG: strace: no"),
            (
                (Some(0), true, "x\nthread 'a' panicked at b\n"),
                "WRONG: thread 'a' panicked at b",
            ),
        ];
        for ((status, answered, said), expected) in cases {
            let outcome = Outcome {
                status,
                answered,
                features: "on http://127.0.0.1:1\non: cpu_time\n".to_owned(),
                said: said.to_owned(),
            };
            assert_eq!(of(&outcome, USUAL, &[]).to_string(), expected);
        }
        let fine = Outcome {
            status: Some(0),
            answered: true,
            features: "on http://127.0.0.1:1\non: cpu_time\noff: waits: no memory\n".to_owned(),
            said: String::new(),
        };
        let told = of(&fine, USUAL, &[]);
        assert_eq!(told.to_string(), "went on: off: waits: no memory");
        let left = of(&fine, USUAL, &["prog 7".to_owned()]);
        assert_eq!(left.to_string(), "WRONG: left in the kernel: prog 7");
    }
}
