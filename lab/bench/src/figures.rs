//! Figures, identified by kind, load, contender and round.

use super::contender::{EMPTY, NONE, SCAN};

/// A kind of figure. All kinds are constants here, because their names and units are stable in the
/// JSON.
#[derive(Debug, PartialEq)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    /// The contender to which others are compared, round by round.
    pub(super) reference: Option<&'static str>,
    /// Upper limit for the agent.
    pub(super) target: Option<f64>,
}

const fn kind(name: &'static str, unit: &'static str) -> Kind {
    Kind {
        name,
        unit,
        reference: None,
        target: None,
    }
}

/// Elapsed time per operation of the load.
pub(super) const ELAPSED: Kind = Kind {
    reference: Some(NONE),
    ..kind("elapsed", "ns/operation")
};
/// CPU time per operation of the load, which excludes time taken by other processes.
pub(super) const CPU: Kind = Kind {
    reference: Some(NONE),
    ..kind("cpu", "ns/operation")
};
/// Context switches of the load's own threads. These switches show whether the load does what it
/// should.
pub(super) const SWITCHES: Kind = kind("switches", "1/operation");
/// Time in all BPF programs of the contender per context switch of the machine.
pub(super) const BPF_PER_SWITCH: Kind = Kind {
    reference: Some(EMPTY),
    ..kind("bpf_per_switch", "ns/switch")
};
/// Time in all BPF programs of the contender per operation of the load.
pub(super) const BPF_PER_OPERATION: Kind = kind("bpf_per_operation", "ns/operation");
/// Time in all BPF programs of the contender as a share of one CPU.
pub(super) const BPF_SHARE: Kind = kind("bpf_share", "% of a core");
/// Context switches of the machine while the programs of the contender are measured.
pub(super) const MACHINE_SWITCHES: Kind = kind("machine_switches", "1/s");
/// Time per run of one program.
pub(super) const PROGRAM_RUN: Kind = kind("program_run", "ns/run");
/// Time of one program per context switch.
pub(super) const PROGRAM_PER_SWITCH: Kind = kind("program_per_switch", "ns/switch");
/// Time of one program per operation of the load.
pub(super) const PROGRAM_PER_OPERATION: Kind = kind("program_per_operation", "ns/operation");
/// Runs of one program per second.
pub(super) const PROGRAM_RUNS: Kind = kind("program_runs", "1/s");
/// CPU time of the process, without the time of its BPF programs in other processes.
pub(super) const AGENT_CPU: Kind = Kind {
    reference: Some(SCAN),
    target: Some(1.0),
    ..kind("agent_cpu", "% of a core")
};
/// CPU time of the process until it has reported the events of a load, per operation.
pub(super) const AGENT_TIME: Kind = kind("agent_time", "ns/operation");
/// Number of events of the load. A tool must report each of them.
pub(super) const EVENTS_EXPECTED: Kind = kind("events_expected", "events");
/// Number of events of the load that were reported.
pub(super) const EVENTS_DELIVERED: Kind = kind("events_delivered", "events");
/// Number of lost events of the whole machine, according to the tool.
pub(super) const EVENTS_LOST: Kind = kind("events_lost", "events");
/// Events that were expected but not reported.
pub(super) const EVENTS_MISSING: Kind = kind("events_missing", "events");
/// Resident memory of the process, in 10^6 bytes.
pub(super) const AGENT_MEMORY: Kind = Kind {
    target: Some(40.0),
    ..kind("agent_memory", "MB")
};
/// Median duration of a round's scrapes.
pub(super) const SCRAPE: Kind = Kind {
    target: Some(20.0),
    ..kind("scrape", "ms")
};
/// Duration of a round's fastest scrape.
pub(super) const SCRAPE_BEST: Kind = kind("scrape_best", "ms");
/// Size of a response.
pub(super) const SCRAPE_SIZE: Kind = kind("scrape_size", "kB");

/// A figure with a value for each round.
#[derive(Debug)]
pub(super) struct Figure {
    pub(super) kind: &'static Kind,
    pub(super) load: &'static str,
    pub(super) contender: &'static str,
    /// The BPF program, for figures of a single program.
    pub(super) program: Option<String>,
    pub(super) samples: Vec<(u32, f64)>,
}

impl Figure {
    pub(super) fn summary(&self) -> Summary {
        Summary::of(self.samples.iter().map(|s| s.1).collect())
    }
}

/// The summary of several values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Summary {
    pub(super) minimum: f64,
    pub(super) median: f64,
}

impl Summary {
    /// Summarizes the values. Returns NaN if there are none.
    pub(super) fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |i: usize| values.get(i).copied().unwrap_or(f64::NAN);
        let half = values.len() / 2;
        let median = match values.len() % 2 {
            1 => at(half),
            _ => (at(half.wrapping_sub(1)) + at(half)) / 2.0,
        };
        Self {
            minimum: at(0),
            median,
        }
    }
}

/// A figure relative to the same figure of its reference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ratio {
    /// Summary of the ratios of all rounds.
    pub(super) rounds: Summary,
    /// Ratio of the minima. On a busy machine it is the least disturbed result. The smallest ratio
    /// would be misleading, because a disturbed round of the reference causes it.
    pub(super) best: f64,
}

/// All measured figures.
#[derive(Debug, Default)]
pub(super) struct Figures {
    all: Vec<Figure>,
}

/// What a sample belongs to: load, contender and round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) load: &'static str,
    pub(super) contender: &'static str,
    pub(super) round: u32,
}

impl Figures {
    pub(super) fn add(&mut self, place: Place, kind: &'static Kind, value: f64) {
        self.add_of(place, kind, None, value);
    }

    /// Adds a sample, for a single program if one is named.
    pub(super) fn add_of(
        &mut self,
        place: Place,
        kind: &'static Kind,
        program: Option<&str>,
        value: f64,
    ) {
        let sample = (place.round, value);
        let found = self.all.iter_mut().find(|f| {
            (f.kind, f.load, f.contender) == (kind, place.load, place.contender)
                && f.program.as_deref() == program
        });
        match found {
            Some(figure) => figure.samples.push(sample),
            None => self.all.push(Figure {
                kind,
                load: place.load,
                contender: place.contender,
                program: program.map(str::to_owned),
                samples: vec![sample],
            }),
        }
    }

    pub(super) fn all(&self) -> &[Figure] {
        &self.all
    }

    pub(super) fn find(&self, kind: &Kind, load: &str, contender: &str) -> Option<&Figure> {
        let mut all = self.all.iter();
        all.find(|f| {
            f.kind == kind && f.load == load && f.contender == contender && f.program.is_none()
        })
    }

    /// Returns the figures of each program of a contender.
    pub(super) fn programs(
        &self,
        kind: &Kind,
        load: &str,
        contender: &str,
    ) -> Vec<(&str, Summary)> {
        let mut found = Vec::new();
        for figure in &self.all {
            let fits = figure.kind == kind && (figure.load, figure.contender) == (load, contender);
            if let Some(program) = figure.program.as_deref().filter(|_| fits) {
                found.push((program, figure.summary()));
            }
        }
        found
    }

    /// Returns whether to print a figure. A program's figure is printed if it is at least 1 % of
    /// the contender's cost.
    pub(super) fn matters(&self, figure: &Figure) -> bool {
        let Some(program) = &figure.program else {
            return true;
        };
        let pairs = [
            (&BPF_PER_SWITCH, &PROGRAM_PER_SWITCH),
            (&BPF_PER_OPERATION, &PROGRAM_PER_OPERATION),
        ];
        let small = |(of_all, of_one): (&Kind, &Kind)| {
            let sum = self.find(of_all, figure.load, figure.contender)?;
            let programs = self.programs(of_one, figure.load, figure.contender);
            let share = programs.iter().find(|(name, _)| name == program)?;
            Some(share.1.median < sum.summary().median / 100.0)
        };
        !pairs.into_iter().filter_map(small).any(|small| small)
    }

    /// Returns the figure relative to its reference. Returns `None` for the reference itself, and
    /// if there is no reference.
    pub(super) fn ratio(&self, figure: &Figure) -> Option<Ratio> {
        self.against(figure, figure.kind.reference?)
    }

    /// Returns the figure relative to the same figure of another contender, round by round.
    pub(super) fn against(&self, figure: &Figure, reference: &str) -> Option<Ratio> {
        if figure.contender == reference {
            return None;
        }
        let reference = self.find(figure.kind, figure.load, reference)?;
        let of_round = |&(round, value): &(u32, f64)| {
            let other = reference.samples.iter().find(|s| s.0 == round)?;
            (other.1 > 0.0).then_some(value / other.1)
        };
        let ratios: Vec<f64> = figure.samples.iter().filter_map(of_round).collect();
        (!ratios.is_empty()).then(|| Ratio {
            rounds: Summary::of(ratios),
            best: figure.summary().minimum / reference.summary().minimum,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(contender: &'static str, round: u32) -> Place {
        Place {
            load: "ping-pong",
            contender,
            round,
        }
    }

    #[test]
    fn ratio_uses_the_reference_of_the_same_round() {
        let mut figures = Figures::default();
        for (round, alone, beside) in [(0, 10.0, 11.0), (1, 20.0, 24.0), (3, 40.0, 44.0)] {
            figures.add(place(NONE, round), &ELAPSED, alone);
            figures.add(place("a", round), &ELAPSED, beside);
        }
        // A sample without a reference in its round has no ratio.
        figures.add(place("a", 2), &ELAPSED, 1000.0);
        let figure = figures.find(&ELAPSED, "ping-pong", "a").expect("added");
        let ratio = figures.ratio(figure).expect("a reference");
        let expected = Summary {
            minimum: 1.1,
            median: 1.1,
        };
        assert_eq!(ratio.rounds, expected);
        assert_eq!(ratio.best, 1.1);
        let none = figures.find(&ELAPSED, "ping-pong", NONE).expect("added");
        assert_eq!(figures.ratio(none), None);
    }

    #[test]
    fn median_of_even_count_is_the_mean_of_the_middle() {
        assert_eq!(Summary::of(vec![4.0, 1.0, 2.0, 3.0]).median, 2.5);
        assert_eq!(Summary::of(vec![3.0, 1.0, 2.0]).median, 2.0);
        assert_eq!(Summary::of(vec![7.0]).minimum, 7.0);
        assert!(Summary::of(vec![]).median.is_nan());
    }
}
