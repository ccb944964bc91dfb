//! Selects the calls that fail.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context as _, Result, ensure};

use super::errors;

/// Number of calls of each system call by all threads of the agent.
pub(super) struct Survey(BTreeMap<String, u64>);

impl Survey {
    /// Parses the table of `strace -c`.
    pub(super) fn parse(table: &str) -> Result<Self> {
        let mut calls = BTreeMap::new();
        for line in table.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            // Columns: share, seconds, microseconds per call, calls, optional errors, name.
            let (Some(share), Some(name)) = (words.first(), words.last()) else {
                continue;
            };
            if share.parse::<f64>().is_err() || *name == "total" {
                continue;
            }
            let count = words.get(3).context("a line of strace has no count")?;
            calls.insert(
                (*name).to_owned(),
                count.parse().context("invalid count of strace")?,
            );
        }
        ensure!(!calls.is_empty(), "strace recorded no system call");
        Ok(Self(calls))
    }
}

/// A call that fails.
pub(super) struct Fault {
    pub(super) call: String,
    error: &'static str,
    /// Number of the call among the calls of its kind in each thread, from 1.
    number: u64,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.call, self.number, self.error)
    }
}

impl Fault {
    /// Returns strace's options for the fault. Other system calls run without being stopped.
    pub(super) fn options(&self) -> Vec<String> {
        let Self {
            call,
            error,
            number,
        } = self;
        let options = [
            "-f".to_owned(),
            "--seccomp-bpf".to_owned(),
            "-o/dev/null".to_owned(),
            format!("-etrace={call}"),
            format!("-einject={call}:error={error}:when={number}"),
        ];
        options.into()
    }
}

/// Returns faults for the first calls of each kind and some random later ones, cycling through the
/// errors.
pub(super) fn faults(survey: &Survey, first: u64, random: u64, seed: u64) -> Vec<Fault> {
    let mut dice = Dice(seed);
    let mut all = Vec::new();
    for (call, count) in &survey.0 {
        let errors = errors::errors_of(call);
        let later = (0..random).filter(|_| *count > first);
        let later: Vec<u64> = later
            .map(|_| first + 1 + dice.below(count - first))
            .collect();
        let numbers = (1..=first.min(*count)).chain(later);
        let each = errors.iter().cycle().zip(numbers);
        all.extend(each.map(|(error, number)| Fault {
            call: call.clone(),
            error,
            number,
        }));
    }
    all
}

/// A random number generator that depends only on the seed (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % end.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 60.00    0.000600          12        50         3 bpf
 40.00    0.000400         400         1           accept4
  0.00    0.000000           0         9           futex
------ ----------- ----------- --------- --------- ----------------
100.00    0.001000          16        60         3 total
";

    #[test]
    fn first_and_some_later_calls_fail() {
        let survey = Survey::parse(TABLE).expect("a table");
        let plan = |seed| {
            let all = faults(&survey, 2, 1, seed);
            all.iter().map(Fault::to_string).collect::<Vec<_>>()
        };
        let all = plan(1);
        assert_eq!(
            all[..3],
            ["accept4 1 EMFILE", "bpf 1 ENOMEM", "bpf 2 EPERM"]
        );
        assert_eq!(all.len(), 4, "{all:?}");
        assert!(all[3].starts_with("bpf "), "{all:?}");
        assert_eq!(all, plan(1));
        assert!((2..9).any(|seed| plan(seed) != all));
        assert!(Survey::parse("nothing").is_err());
    }
}
