//! Prints the side-by-side run, for people and as JSON.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::matching::{Matched, Reasons, Several};
use super::{Counter, Peer, Report};
use crate::table::write;

/// Prints the report.
pub(crate) fn print(out: &mut impl Write, report: &Report) -> io::Result<()> {
    writeln!(
        out,
        "\nSide by side, event by event, under one mixed load (ours, and only ours: in the time of \
         the load; the agent says it lost {})",
        report.lost
    )?;
    let line = |(peer, matched): (&Peer, &Matched)| {
        let sum = |reasons: &Reasons| reasons.values().map(|r| r.count).sum::<u64>().to_string();
        vec![
            peer.name.to_owned(),
            matched.peer.to_string(),
            matched.ours.to_string(),
            matched.both.to_string(),
            sum(&matched.only_peer),
            sum(&matched.only_ours),
            peer.lost.to_string(),
        ]
    };
    let compared = || {
        let peers = report.peers.iter();
        peers.filter_map(|peer| Some((peer, peer.matched.as_ref().ok()?)))
    };
    let lines: Vec<Vec<String>> = compared().map(line).collect();
    let head = [
        "peer",
        "peer's",
        "ours",
        "both",
        "only peer's",
        "only ours",
        "peer lost",
    ];
    write(out, 1, &head, &lines)?;
    for peer in &report.peers {
        if let Some((other, reason)) = &peer.instead {
            writeln!(out, "  {} could not attach: {reason}", peer.name)?;
            writeln!(out, "    instead ran {other}, of our own, with bpftrace")?;
        }
        if let Err(reason) = &peer.matched {
            writeln!(out, "  absent: {}: {reason}", peer.name)?;
        }
    }
    for (peer, matched) in compared() {
        let sides = [
            ("only peer's", &matched.only_peer),
            ("only ours", &matched.only_ours),
            ("with other arguments", &matched.other_arguments),
        ];
        for (side, reasons) in sides {
            for (reason, several) in reasons {
                let examples = several.examples.join(", ");
                let (name, count) = (peer.name, several.count);
                writeln!(out, "  {name}: {count} {side}: {reason}; as {examples}")?;
            }
        }
    }
    writeln!(out, "\nThe kernel's own counters")?;
    let line = |counter: &Counter| {
        let (least, most) = counter.reported;
        let reported = match least == most {
            true => least.to_string(),
            false => format!("{least}-{most}"),
        };
        vec![
            counter.name.to_owned(),
            counter.of.to_owned(),
            counter.kernel.to_string(),
            reported,
            if counter.is_equal() {
                "equal"
            } else {
                "DIFFERS"
            }
            .to_owned(),
        ]
    };
    let lines: Vec<Vec<String>> = report.counters.iter().map(line).collect();
    write(out, 2, &["kernel", "ours", "kernel", "ours", ""], &lines)
}

/// Returns the report as JSON.
pub(crate) fn record(report: &Report) -> Value {
    let reasons = |reasons: &Reasons| {
        let one = |(reason, several): (&&str, &Several)| json!({"reason": reason, "count": several.count, "examples": several.examples});
        reasons.iter().map(one).collect::<Value>()
    };
    let peer = |peer: &Peer| {
        let matched = peer.matched.as_ref();
        json!({
            "peer": peer.name,
            "instead": peer.instead.as_ref().map(|(name, reason)| json!({"name": name, "reason": reason})),
            "absent": matched.err(),
            "lost": peer.lost,
            "events": matched.ok().map(|m| json!({
                "peer": m.peer,
                "ours": m.ours,
                "both": m.both,
                "only_peer": reasons(&m.only_peer),
                "only_ours": reasons(&m.only_ours),
                "other_arguments": reasons(&m.other_arguments),
            })),
        })
    };
    let counter = |counter: &Counter| {
        json!({
            "counter": counter.name,
            "of": counter.of,
            "kernel": counter.kernel,
            "least": counter.reported.0,
            "most": counter.reported.1,
            "equal": counter.is_equal(),
        })
    };
    json!({
        "lost": report.lost,
        "peers": report.peers.iter().map(peer).collect::<Value>(),
        "counters": report.counters.iter().map(counter).collect::<Value>(),
    })
}
