//! Jobs from the host to a virtual machine, and messages from it: one line of JSON each.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where the job is in the first file system.
pub const JOB: &str = "/job.json";

/// Where the modules are in the first file system.
pub const MODULES: &str = "/modules";

/// Name of the port on which the messages go.
pub const PORT: &str = "results";

/// Where the tests are on the disk.
pub const TESTS: &str = "/usr/bin/blackbox";

/// Where the agent is on the disk.
pub const AGENT: &str = "/usr/bin/noctule";

/// Where a test finds what its kernel must have.
pub const EXPECT: &str = "/etc/noctule-expect.toml";

/// Where a test says why it cannot run on this kernel.
pub const SKIPPED: &str = "/run/noctule-skipped";

/// What a virtual machine is to do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Modules to load, in this order: names of files in [`MODULES`], each with its parameters behind a
    /// blank, if it has any.
    pub modules: Vec<String>,
    /// What the names of the tests contain; none means all.
    pub tests: Vec<String>,
    /// What the names of tests contain that are left out.
    pub skip: Vec<String>,
    /// The file that goes to [`EXPECT`].
    pub expect: String,
    /// Environment of the tests.
    pub environment: Vec<(String, String)>,
    /// A command to run instead of the tests.
    pub command: Vec<String>,
    /// Seconds that one test may take.
    pub limit: u64,
}

/// How a test ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It passed.
    Passed,
    /// It did not.
    Failed,
    /// The kernel lacks something that the kernel may lack.
    Skipped(String),
    /// It took longer than it may, and was killed.
    Late,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed => f.write_str("passed"),
            Self::Failed => f.write_str("FAILED"),
            Self::Skipped(reason) => write!(f, "skipped: {reason}"),
            Self::Late => f.write_str("TOO LONG"),
        }
    }
}

/// A message of the machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// It has booted this kernel.
    Booted(String),
    /// It begins a test.
    Begins(String),
    /// A test has ended after that many seconds.
    Ended(String, Outcome, f64),
    /// A line of what the test before said, or of the command.
    Said(String),
    /// It is not stuck, and nothing has happened.
    Alive,
    /// It cannot go on.
    Broken(String),
    /// It has done everything.
    Done,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_round_trips_as_one_line() {
        let outcome = Outcome::Skipped("no\nBTF".into());
        let message = Message::Ended("a::b".into(), outcome, 1.5);
        let line = serde_json::to_string(&message).expect("JSON");
        assert!(!line.contains('\n'), "{line}");
        let back: Message = serde_json::from_str(&line).expect("JSON");
        assert_eq!(back, message);
    }
}
