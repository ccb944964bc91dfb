//! Jobs from the host to a virtual machine, and messages back: one line of JSON each.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Path of the job in the initial file system.
pub const JOB: &str = "/job.json";

/// Path of the modules in the initial file system.
pub const MODULES: &str = "/modules";

/// Name of the port for messages.
pub const PORT: &str = "results";

/// Path of the tests on the disk.
pub const TESTS: &str = "/usr/bin/blackbox";

/// Path of the agent on the disk.
pub const AGENT: &str = "/usr/bin/noctule";

/// Path of the file that lists the features that the kernel must have.
pub const EXPECT: &str = "/etc/noctule-expect.toml";

/// Path of the file in which a test explains why it cannot run on this kernel.
pub const SKIPPED: &str = "/run/noctule-skipped";

/// The job of a virtual machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Modules to load in this order. Each entry is a file name in [`MODULES`], optionally followed
    /// by a space and parameters.
    pub modules: Vec<String>,
    /// Words to look for in test names. If empty, all tests run.
    pub tests: Vec<String>,
    /// Words in the names of tests to leave out.
    pub skip: Vec<String>,
    /// Contents of the file [`EXPECT`].
    pub expect: String,
    /// Environment variables of the tests.
    pub environment: Vec<(String, String)>,
    /// A command to run instead of the tests.
    pub command: Vec<String>,
    /// Time limit of a test, in seconds.
    pub limit: u64,
}

/// How a test ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The test passed.
    Passed,
    /// The test failed.
    Failed,
    /// The kernel lacks an optional feature.
    Skipped(String),
    /// The test exceeded the time limit and was killed.
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

/// A message from the virtual machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// The machine booted this kernel.
    Booted(String),
    /// The machine starts a test.
    Begins(String),
    /// A test ended after this many seconds.
    Ended(String, Outcome, f64),
    /// A line of output of the previous test, or of the command.
    Said(String),
    /// The machine is still working.
    Alive,
    /// The machine cannot continue.
    Broken(String),
    /// The machine has finished.
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
