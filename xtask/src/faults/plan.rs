//! Which calls are to fail.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context as _, Result, ensure};

use super::errors;

/// How often the agent made each system call, all its threads together.
pub(super) struct Survey(BTreeMap<String, u64>);

impl Survey {
    /// Reads the table of `strace -c`.
    pub(super) fn parse(table: &str) -> Result<Self> {
        let mut calls = BTreeMap::new();
        for line in table.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            // Share, seconds, microseconds of each, calls, perhaps errors, name.
            let (Some(share), Some(name)) = (words.first(), words.last()) else {
                continue;
            };
            if share.parse::<f64>().is_err() || *name == "total" {
                continue;
            }
            let count = words.get(3).context("a line without a count")?;
            calls.insert((*name).to_owned(), count.parse().context("a count")?);
        }
        ensure!(!calls.is_empty(), "strace saw no system call");
        Ok(Self(calls))
    }
}

/// One call that fails.
pub(super) struct Fault {
    pub(super) call: String,
    error: &'static str,
    /// Which one of its kind in each thread; from 1.
    number: u64,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.call, self.number, self.error)
    }
}

impl Fault {
    /// How strace lets it fail. Other system calls do not stop the agent.
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

/// The first ones of each kind, and some later ones, each with the errors in turn.
pub(super) fn faults(survey: &Survey, first: u64, random: u64, seed: u64) -> Vec<Fault> {
    let mut dice = Dice(seed);
    let mut all = Vec::new();
    for (call, count) in &survey.0 {
        let errors = errors::of(call);
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

/// Numbers that depend on the seed alone (splitmix64).
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
    fn the_first_of_each_kind_and_some_later_ones_fail() {
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
