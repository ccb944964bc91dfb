//! The figures: what was measured, for which load, beside which contender, in which round.

use super::contender::{EMPTY, NONE, SCAN};

/// A figure and its meaning. One table for the whole bench: names and units are in the JSON and stay.
#[derive(Debug, PartialEq)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    /// The contender to which the others are compared, round by round.
    pub(super) reference: Option<&'static str>,
    /// The agent's figure is to be below.
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

/// Time of an operation of the load.
pub(super) const ELAPSED: Kind = Kind {
    reference: Some(NONE),
    ..kind("elapsed", "ns/operation")
};
/// CPU time of an operation of the load: without what others took from it.
pub(super) const CPU: Kind = Kind {
    reference: Some(NONE),
    ..kind("cpu", "ns/operation")
};
/// Switches of the load's own threads: proves that it does what it should.
pub(super) const SWITCHES: Kind = kind("switches", "1/operation");
/// Time in all BPF programs of the contender for each context switch of the machine.
pub(super) const BPF_PER_SWITCH: Kind = Kind {
    reference: Some(EMPTY),
    ..kind("bpf_per_switch", "ns/switch")
};
/// Time in all BPF programs of the contender for each operation of the load.
pub(super) const BPF_PER_OPERATION: Kind = kind("bpf_per_operation", "ns/operation");
/// The same as a share of one CPU.
pub(super) const BPF_SHARE: Kind = kind("bpf_share", "% of a core");
/// Context switches of the machine while that was measured.
pub(super) const MACHINE_SWITCHES: Kind = kind("machine_switches", "1/s");
/// Time of one program in a run of it.
pub(super) const PROGRAM_RUN: Kind = kind("program_run", "ns/run");
/// Time of one program for each context switch.
pub(super) const PROGRAM_PER_SWITCH: Kind = kind("program_per_switch", "ns/switch");
/// Time of one program for each operation of the load.
pub(super) const PROGRAM_PER_OPERATION: Kind = kind("program_per_operation", "ns/operation");
/// How often one program runs.
pub(super) const PROGRAM_RUNS: Kind = kind("program_runs", "1/s");
/// CPU time of the process, without what its programs take from others.
pub(super) const AGENT_CPU: Kind = Kind {
    reference: Some(SCAN),
    target: Some(1.0),
    ..kind("agent_cpu", "% of a core")
};
/// CPU time of the process until it has reported the events of a load, for each operation.
pub(super) const AGENT_TIME: Kind = kind("agent_time", "ns/operation");
/// Events of the load, each of which must be reported.
pub(super) const EVENTS_EXPECTED: Kind = kind("events_expected", "events");
/// Reported events of the load.
pub(super) const EVENTS_DELIVERED: Kind = kind("events_delivered", "events");
/// Events of the whole machine that the tool itself reports as lost.
pub(super) const EVENTS_LOST: Kind = kind("events_lost", "events");
/// Expected and not reported.
pub(super) const EVENTS_MISSING: Kind = kind("events_missing", "events");
/// Resident memory of the process, 10^6 bytes.
pub(super) const AGENT_MEMORY: Kind = Kind {
    target: Some(40.0),
    ..kind("agent_memory", "MB")
};
/// Median of the scrapes of a round.
pub(super) const SCRAPE: Kind = Kind {
    target: Some(20.0),
    ..kind("scrape", "ms")
};
/// Fastest scrape of a round.
pub(super) const SCRAPE_BEST: Kind = kind("scrape_best", "ms");
/// Size of an answer.
pub(super) const SCRAPE_SIZE: Kind = kind("scrape_size", "kB");

/// One figure with a value for each round.
#[derive(Debug)]
pub(super) struct Figure {
    pub(super) kind: &'static Kind,
    pub(super) load: &'static str,
    pub(super) contender: &'static str,
    /// The BPF program, for figures of one.
    pub(super) program: Option<String>,
    pub(super) samples: Vec<(u32, f64)>,
}

impl Figure {
    pub(super) fn summary(&self) -> Summary {
        Summary::of(self.samples.iter().map(|s| s.1).collect())
    }
}

/// What is shown of several values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Summary {
    pub(super) minimum: f64,
    pub(super) median: f64,
}

impl Summary {
    /// Of at least one value; NaN of none.
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

/// A figure compared with that of its reference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ratio {
    /// Over the ratios of the rounds.
    pub(super) rounds: Summary,
    /// The smallest value to the smallest value of the reference: on a busy machine the least
    /// disturbed answer, because the smallest ratio is that of a disturbed reference.
    pub(super) best: f64,
}

/// Everything that was measured.
#[derive(Debug, Default)]
pub(super) struct Figures {
    all: Vec<Figure>,
}

/// What a sample belongs to.
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

    /// Adds a sample, of one program if one is named.
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

    /// The figures of each program of a contender.
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

    /// Whether a figure is worth a line for people: one of a program is when the program makes at
    /// least 1 % of what its contender costs.
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

    /// The figure against its reference; `None` for the reference itself, or where there is none.
    pub(super) fn ratio(&self, figure: &Figure) -> Option<Ratio> {
        self.against(figure, figure.kind.reference?)
    }

    /// The figure against the same one of another contender, round by round.
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
        // Without a reference in its round a sample has no ratio.
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
