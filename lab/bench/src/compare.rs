//! Compares this run with an earlier one.

use std::io::{self, Write};

use serde_json::Value;

use super::figures::{self, Figure, Figures, Kind};
use super::table::{number, ratio, write};

/// The other figures derive from these, or describe the load of the machine.
const COMPARED: [&Kind; 8] = [
    &figures::BPF_PER_SWITCH,
    &figures::PROGRAM_RUN,
    &figures::ELAPSED,
    &figures::CPU,
    &figures::AGENT_CPU,
    &figures::AGENT_MEMORY,
    &figures::SCRAPE,
    &figures::SCRAPE_SIZE,
];

/// Prints new / old for each figure of `contenders` that both runs have. Prints the figures
/// themselves, which depend on the machine and its load, and their ratios to the reference, which
/// hardly do.
pub(super) fn print(
    out: &mut impl Write,
    figures: &Figures,
    contenders: &[&str],
    earlier: &Value,
) -> io::Result<()> {
    let commit = earlier["commit"].as_str().unwrap_or("?");
    writeln!(out, "\nNew / old, against commit {commit} (medians)")?;
    if earlier["quick"] == true {
        writeln!(
            out,
            "  the earlier run was quick: its figures are not comparable"
        )?;
    }
    let compared = figures.all().iter().filter(|f| {
        COMPARED.contains(&f.kind) && contenders.contains(&f.contender) && figures.matters(f)
    });
    let line = |figure: &Figure| {
        let old = find(earlier, figure)?;
        let summary = figure.summary();
        let of = |new: f64, old: &Value| Some(new / old.as_f64().filter(|o| *o != 0.0)?);
        let against = figures.ratio(figure);
        Some(vec![
            figure.load.to_owned(),
            figure.contender.to_owned(),
            figure.program.clone().unwrap_or_default(),
            figure.kind.name.to_owned(),
            number(old["median"].as_f64().unwrap_or(f64::NAN)),
            number(summary.median),
            ratio(of(summary.minimum, &old["minimum"])),
            ratio(of(summary.median, &old["median"])),
            ratio(against.and_then(|r| of(r.best, &old["ratio"]["best"]))),
            ratio(against.and_then(|r| of(r.rounds.median, &old["ratio"]["median"]))),
        ])
    };
    let lines: Vec<Vec<String>> = compared.filter_map(line).collect();
    let head = [
        "load",
        "beside",
        "program",
        "figure",
        "old",
        "new",
        "min",
        "median",
        "of ratios: best",
        "median",
    ];
    write(out, 4, &head, &lines)
}

/// Returns the same figure in the earlier record.
fn find<'a>(earlier: &'a Value, figure: &Figure) -> Option<&'a Value> {
    let program = figure.program.as_deref();
    earlier["figures"].as_array()?.iter().find(|old| {
        old["figure"] == figure.kind.name
            && old["load"] == figure.load
            && old["contender"] == figure.contender
            && old["program"].as_str() == program
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::figures::{BPF_PER_SWITCH, Place};

    #[test]
    fn figure_is_compared_with_the_matching_one() {
        let mut figures = Figures::default();
        for (contender, value) in [("empty", 20.0), ("noctule", 60.0)] {
            let place = Place {
                load: "ping-pong",
                contender,
                round: 0,
            };
            figures.add(place, &BPF_PER_SWITCH, value);
        }
        let old = |load: &str| {
            json!({"figure": "bpf_per_switch", "load": load, "contender": "noctule",
                   "program": null, "minimum": 80.0, "median": 120.0,
                   "ratio": {"best": 6.0, "median": 6.0}})
        };
        let earlier = json!({"commit": "abc", "figures": [old("hackbench"), old("ping-pong")]});
        let mut out = Vec::new();
        print(&mut out, &figures, &["noctule"], &earlier).expect("a vector takes everything");
        let text = String::from_utf8(out).expect("UTF-8");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "New / old, against commit abc (medians)");
        assert_eq!(lines.len(), 4, "{text}");
        let cells: Vec<&str> = lines[3].split_whitespace().collect();
        let expected = ["ping-pong", "noctule", "bpf_per_switch", "120", "60.0"];
        assert_eq!(cells[..5], expected);
        assert_eq!(cells[5..], ["0.750", "0.500", "0.500", "0.500"]);
    }
}
