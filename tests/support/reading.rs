//! A scrape, and the time of its figures.

use super::agent::{Agent, Sample};
use super::cgroup::Group;
use super::expect::loses;
use super::{now, wait_for};

/// The samples of a scrape.
pub(crate) struct Reading {
    pub(crate) samples: Vec<Sample>,
    /// Earliest and latest moment at which the figures can have been taken, in seconds of
    /// `CLOCK_MONOTONIC`.
    pub(crate) taken: (f64, f64),
    /// Time needed to take the figures, in seconds. Counters other than CPU time may be that much
    /// younger or older than `taken`.
    pub(crate) duration: f64,
}

impl Reading {
    /// Scrapes the agent.
    pub(crate) fn of(agent: &Agent) -> Self {
        Self::read(|| agent.metrics())
    }

    /// Scrapes the agent as Prometheus does.
    pub(crate) fn scraped(agent: &Agent) -> Self {
        Self::read(|| agent.scrape())
    }

    fn read(samples: impl FnOnce() -> Vec<Sample>) -> Self {
        let asked = now();
        let samples = samples();
        let answered = now();
        let one = |name: &str| sum(&samples, name, &[]).unwrap_or_else(|| panic!("no {name}"));
        let age = one("noctule_self_tick_age_seconds");
        Self {
            taken: (asked - age, answered - age),
            duration: one("noctule_self_tick_duration_seconds"),
            samples,
        }
    }

    /// Scrapes until the figures are newer than this call.
    pub(crate) fn fresh(agent: &Agent) -> Self {
        let called = now();
        wait_for("a new batch", || {
            let reading = Self::of(agent);
            (reading.taken.0 > called).then_some(reading)
        })
    }

    /// Scrapes until the figures are newer than this call and `find` returns a value. A series
    /// appears once the name of its subject is known.
    pub(crate) fn fresh_with<T>(agent: &Agent, what: &str, find: impl Fn(&Self) -> Option<T>) -> T {
        let called = now();
        wait_for(what, || {
            let reading = Self::of(agent);
            (reading.taken.0 > called).then(|| find(&reading)).flatten()
        })
    }

    /// Returns the sum of the samples with this name and matching labels.
    pub(crate) fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        sum(&self.samples, name, labels)
    }

    /// Returns a value of a process, if exactly one process has this pid.
    pub(crate) fn of_process(&self, name: &str, pid: u32, labels: &[(&str, &str)]) -> Option<f64> {
        let pid = pid.to_string();
        let labels: Vec<_> = labels
            .iter()
            .copied()
            .chain([("pid", pid.as_str())])
            .collect();
        sum(&self.samples, &format!("noctule_process_{name}"), &labels)
    }

    /// Returns the CPU time of the process with this pid.
    pub(crate) fn process_seconds(&self, pid: u32) -> Option<f64> {
        self.of_process("cpu_seconds_total", pid, &[])
    }

    /// Returns the CPU time of a group.
    pub(crate) fn group_seconds(&self, group: &Group) -> Option<f64> {
        let name = "noctule_cgroup_cpu_seconds_total";
        sum(&self.samples, name, &[("cgroup", &group.path())])
    }

    /// Returns all losses by kind, except those listed in the table of this kernel.
    pub(crate) fn losses(&self) -> Vec<(&str, f64)> {
        let losses = self
            .samples
            .iter()
            .filter(|s| s.name == "noctule_self_losses_total");
        let found: Vec<_> = losses
            .map(|s| (s.labels["kind"].as_str(), s.value))
            .collect();
        assert!(!found.is_empty(), "the agent lists no losses");
        found
            .into_iter()
            // Since 6.12 the start of a wait is occasionally lost when a sleeper is migrated. A
            // container test mounts a file system that does not reply, which affects every agent.
            .filter(|(kind, _)| !["wait_start", "names_hang"].contains(kind))
            .filter(|(kind, count)| *count != 0.0 && !loses(kind))
            .collect()
    }
}

fn sum(samples: &[Sample], name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let fits = |s: &&Sample| {
        let has = |(k, v): &(&str, &str)| s.labels.get(*k).map(String::as_str) == Some(*v);
        s.name == name && labels.iter().all(has)
    };
    samples
        .iter()
        .filter(fits)
        .map(|s| s.value)
        .reduce(|a, b| a + b)
}
