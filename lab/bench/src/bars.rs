//! The bars are limits for the agent's cost, relative to other contenders in the same round.

use std::fmt;
use std::io::{self, Write};

use super::contender::{
    Contender, FLOORS, KEPLER, NETFLIX, NO_EVENTS, NONE, OURS, RUNQLAT, STREAM,
};
use super::figures::{self, Figures, Kind, Ratio};
use super::load::Load;
use super::rounds::Plan;
use super::table::{number, ratio, write};

/// The limit for a ratio between the agent's figure and another contender's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Bound {
    AtMost(f64),
    Below(f64),
}

impl Bound {
    fn holds(self, value: f64) -> bool {
        match self {
            Self::AtMost(most) => value <= most,
            Self::Below(limit) => value < limit,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(most) => write!(f, "<= {most}"),
            Self::Below(limit) => write!(f, "< {limit}"),
        }
    }
}

/// A comparison with another contender, and its limit.
#[derive(Debug)]
pub(super) struct Bar {
    pub(super) kind: &'static Kind,
    /// The contender that is judged. Variants of the agent are shown only for comparison.
    of: &'static str,
    /// Contender with which `of` is compared.
    pub(super) to: &'static str,
    pub(super) bound: Bound,
    loads: &'static [Load],
}

/// All bars. The first two compare the cost of a context switch with the published designs of
/// Netflix and Kepler, and the third compares the slowdown with runqlat. These three use only loads
/// that switch often, because other loads do not measure the switch. The remaining bars limit what
/// events cost a server, whether events are counted (the default) or streamed.
pub(super) const BARS: [Bar; 6] = [
    Bar {
        kind: &figures::BPF_PER_SWITCH,
        of: OURS,
        to: NETFLIX,
        bound: Bound::AtMost(0.4),
        loads: &[Load::PingPong, Load::Hackbench],
    },
    Bar {
        kind: &figures::BPF_PER_SWITCH,
        of: OURS,
        to: KEPLER,
        bound: Bound::AtMost(0.45),
        loads: &[Load::PingPong, Load::Hackbench],
    },
    Bar {
        kind: &figures::ELAPSED,
        of: OURS,
        to: RUNQLAT,
        bound: Bound::Below(1.0),
        loads: &[Load::PingPong],
    },
    Bar {
        kind: &figures::ELAPSED,
        of: OURS,
        to: NO_EVENTS,
        bound: Bound::AtMost(1.02),
        loads: &[Load::Redis, Load::Nginx],
    },
    Bar {
        kind: &figures::ELAPSED,
        of: OURS,
        to: NONE,
        bound: Bound::AtMost(1.03),
        loads: &[Load::Nginx],
    },
    Bar {
        kind: &figures::ELAPSED,
        of: STREAM,
        to: NONE,
        bound: Bound::AtMost(1.02),
        loads: &[Load::Redis],
    },
];

/// Compares the agent, or a variant of it, with one bar under one load.
pub(super) struct Comparison {
    pub(super) bar: &'static Bar,
    pub(super) load: Load,
    pub(super) contender: &'static str,
    /// The medians of both contenders.
    values: [Option<f64>; 2],
    /// The ratio of the two values, or `None` if one of the contenders was not measured.
    pub(super) ratio: Option<Ratio>,
}

impl Comparison {
    /// Returns whether the bar applies. Variants of the agent and the baselines are only shown for
    /// comparison.
    pub(super) fn is_judged(&self) -> bool {
        self.contender == self.bar.of
    }

    /// Returns whether the median over the rounds meets the bar, or `None` if the median is
    /// unknown.
    pub(super) fn is_met(&self) -> Option<bool> {
        let ratio = self.ratio.filter(|_| self.is_judged())?;
        Some(self.bar.bound.holds(ratio.rounds.median))
    }

    fn verdict(&self) -> String {
        if !self.is_judged() {
            return String::new();
        }
        let words = match self.is_met() {
            Some(true) => "ok",
            Some(false) => "missed",
            None => "not measured",
        };
        format!("{}: {words}", self.bar.bound)
    }
}

/// Compares the agent and its variants at each bar, under each load of the bar that ran.
pub(super) fn compare(plan: &Plan, figures: &Figures) -> Vec<Comparison> {
    let shown = |c: &&Contender| c.is_noctule() || FLOORS.contains(&c.name);
    let shown = plan.contenders.iter().filter(shown);
    let shown: Vec<&'static str> = shown.map(|c| c.name).collect();
    of(&plan.loads, &shown, figures)
}

fn of(loads: &[Load], shown: &[&'static str], figures: &Figures) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    for bar in &BARS {
        for &load in loads.iter().filter(|load| bar.loads.contains(load)) {
            for &contender in shown {
                let find = |name| figures.find(bar.kind, load.name(), name);
                let is_other = contender != bar.of;
                let is_alike = !FLOORS.contains(&contender) || bar.to == NONE;
                if is_other && (contender == bar.to || find(contender).is_none() || !is_alike) {
                    continue;
                }
                let median = |name| Some(find(name)?.summary().median);
                comparisons.push(Comparison {
                    bar,
                    load,
                    contender,
                    values: [median(contender), median(bar.to)],
                    ratio: find(contender).and_then(|own| figures.against(own, bar.to)),
                });
            }
        }
    }
    comparisons
}

/// Prints the comparisons, if there are any.
pub(super) fn print(out: &mut impl Write, plan: &Plan, figures: &Figures) -> io::Result<()> {
    let comparisons = compare(plan, figures);
    if comparisons.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\nThe bars (to another contender in the same round; the median of the ratios is judged)"
    )?;
    let value = |value: Option<f64>| value.map_or("-".into(), number);
    let line = |comparison: &Comparison| {
        let Bar { kind, to, .. } = comparison.bar;
        let ratios = comparison.ratio;
        vec![
            comparison.load.name().to_owned(),
            kind.name.to_owned(),
            comparison.contender.to_owned(),
            (*to).to_owned(),
            value(comparison.values[0]),
            value(comparison.values[1]),
            ratio(ratios.map(|r| r.rounds.minimum)),
            ratio(ratios.map(|r| r.rounds.median)),
            ratio(ratios.map(|r| r.best)),
            comparison.verdict(),
        ]
    };
    let lines: Vec<Vec<String>> = comparisons.iter().map(line).collect();
    let head = [
        "load",
        "figure",
        "of",
        "to",
        "median",
        "median",
        "ratio min",
        "median",
        "best",
        "bar",
    ];
    write(out, 4, &head, &lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contender;
    use crate::figures::Place;

    fn add(figures: &mut Figures, kind: &'static Kind, contender: &'static str, value: f64) {
        let place = Place {
            load: "ping-pong",
            contender,
            round: 0,
        };
        figures.add(place, kind, value);
    }

    #[test]
    fn every_bar_names_contenders_and_is_documented() {
        let page = include_str!("../../../docs/bench.md");
        for bar in &BARS {
            for name in [bar.of, bar.to] {
                assert!(contender::ALL.iter().any(|c| c.name == name));
            }
            assert!(!bar.loads.is_empty());
            let Bar { of, to, bound, .. } = bar;
            let row = format!("| `{}` | `{of}` | `{to}` | {bound} |", bar.kind.name);
            assert!(page.contains(&row), "docs/bench.md: {row}");
        }
    }

    #[test]
    fn only_the_default_agent_is_judged_if_measured() {
        let mut figures = Figures::default();
        for (contender, value) in [(OURS, 40.0), ("variant", 50.0), (NETFLIX, 100.0)] {
            add(&mut figures, &figures::BPF_PER_SWITCH, contender, value);
        }
        for (contender, value) in [(OURS, 3000.0), (RUNQLAT, 3000.0)] {
            add(&mut figures, &figures::ELAPSED, contender, value);
        }
        let loads = [Load::PingPong, Load::ForkStorm];
        let comparisons = of(&loads, &[OURS, "variant"], &figures);
        let verdicts: Vec<(&str, &str, String)> = comparisons
            .iter()
            .map(|c| (c.contender, c.bar.to, c.verdict()))
            .collect();
        let expected = [
            (OURS, NETFLIX, "<= 0.4: ok"),
            ("variant", NETFLIX, ""),
            (OURS, KEPLER, "<= 0.45: not measured"),
            ("variant", KEPLER, ""),
            (OURS, RUNQLAT, "< 1: missed"),
        ];
        assert_eq!(verdicts, expected.map(|(a, b, c)| (a, b, c.to_owned())));
        let variant = comparisons[1].ratio.expect("both measured");
        assert_eq!(variant.rounds.median, 0.5);
    }
}
