//! `noctule doctor`: which features work on this machine, why others do not, and how to enable
//! those.

use anyhow::Result;
use noctule_model::{Feature, FeatureId, FeatureState, Unread, UnreadZone, Zone};
use noctule_otlp::Outcome;
use noctule_text::{Tone, escape, fold};

use crate::args::DoctorArgs;
use crate::commands::shared::watch::Output;
use crate::config::Config;
use crate::print::Paint;
use crate::{exit, otlp, wire};

pub(crate) fn run(args: &DoctorArgs, config: &Config) -> Result<u8> {
    let mut meters = wire::meters(config);
    meters.listen(wire::SLOWEST_COUNTER);
    let features = wire::examine(config, &meters);
    let (zones, unread) = (meters.zones(), meters.unread());
    let mut output = Output::open(None)?;
    if args.json {
        let json = noctule_sinks::json::doctor_json(&features, zones, unread);
        output.write(&format!("{json}\n"))?;
    } else {
        let paint = output.paint();
        let receiver = receiver_lines(config, paint)?;
        output.print(&draw(&features, (zones, unread), &receiver, paint))?;
    }
    let impossible = features
        .iter()
        .any(|f| f.id == FeatureId::CpuTime && f.state == FeatureState::Off);
    Ok(if impossible {
        exit::NOT_ALLOWED
    } else {
        exit::DONE
    })
}

/// Sends an empty request for each signal to the configured OpenTelemetry receiver, and reports
/// whether the receiver accepts them.
fn receiver_lines(config: &Config, paint: Paint) -> Result<String> {
    let mut out = String::new();
    for (signal, outcome) in otlp::probe(config)? {
        let (tone, what) = match outcome {
            Outcome::Accepted { .. } => (Tone::Good, "accepts them".to_owned()),
            Outcome::Later { why, .. } => (Tone::Bad, format!("does not answer: {why}")),
            Outcome::Refused { why } => (Tone::Bad, format!("rejects them: {why}")),
        };
        let head = format!("otlp {}: {} ", signal.name(), config.otlp.endpoint);
        out.push_str(&format!("{head}{}\n", paint.tone(tone, &escape(&what))));
    }
    Ok(out)
}

/// Renders the complete report. `receiver` is inserted before the last line.
pub(crate) fn draw(
    features: &[Feature],
    (zones, unread): (&[Zone], &[UnreadZone]),
    receiver: &str,
    paint: Paint,
) -> String {
    let tables = table(features, paint) + &meter_table(zones, unread, paint) + receiver;
    tables + &paint.folded(Tone::Strong, &conclusion(features), 0)
}

/// Width of the column of states.
const STATE: usize = 8;

/// Renders one line per feature. If consecutive features have the same reason, it is printed only
/// once.
fn table(features: &[Feature], paint: Paint) -> String {
    let names = features.iter().map(|f| f.id.name().len());
    let name = names.max().unwrap_or(0);
    let hang = name + STATE + 4;
    let mut out = String::new();
    for (i, feature) in features.iter().enumerate() {
        let before = i.checked_sub(1).map(|i| &features[i]);
        let same = before.is_some_and(|before| {
            let said = (feature.state, &feature.reason, &feature.mend);
            !said.1.is_empty() && said == (before.state, &before.reason, &before.mend)
        });
        let tone = match feature.state {
            FeatureState::On => Tone::Good,
            _ if !feature.is_fixable_here() => Tone::Faint,
            FeatureState::Degraded => Tone::Own,
            FeatureState::Off => Tone::Bad,
        };
        let reason = match same {
            true => "same as above".to_owned(),
            false => escape(&feature.reason),
        };
        let head = format!("{:name$}  ", feature.id);
        let state = format!("{:STATE$}", feature.state.name());
        let lines = fold(&format!("{head}{state}  {reason}"), paint.width(), hang);
        let rest = |line: &str| {
            line.get(head.len() + state.len()..)
                .unwrap_or("")
                .to_owned()
        };
        let text_tone = if tone == Tone::Faint {
            tone
        } else {
            Tone::Plain
        };
        out.push_str(&format!(
            "{head}{}{}\n",
            paint.tone(tone, &state),
            paint.tone(text_tone, &rest(&lines[0]))
        ));
        for line in &lines[1..] {
            out.push_str(&(paint.tone(text_tone, line) + "\n"));
        }
        if !feature.mend.is_empty() && !same {
            let mend = format!("{:hang$}to fix: {}", "", escape(&feature.mend));
            out.push_str(&paint.folded(text_tone, &mend, hang));
        }
    }
    out
}

/// Counts the features that work, and the features that do not work but can be enabled here.
fn conclusion(features: &[Feature]) -> String {
    let count = |state| features.iter().filter(|f| f.state == state).count();
    let (on, degraded, off) = (
        count(FeatureState::On),
        count(FeatureState::Degraded),
        count(FeatureState::Off),
    );
    let verb = |count: usize, one: &str, many: &str| match count {
        1 => format!("1 {one}"),
        count => format!("{count} {many}"),
    };
    let mut words = verb(on, "feature works", "features work");
    if degraded > 0 {
        words.push_str(&format!(
            ", {}",
            verb(degraded, "works in part", "work in part")
        ));
    }
    if off > 0 {
        words.push_str(&format!(", {}", verb(off, "does not", "do not")));
    }
    let to_do: Vec<&str> = features
        .iter()
        .filter(|feature| feature.is_fixable_here())
        .map(|feature| feature.id.name())
        .collect();
    words
        + &match to_do.is_empty() {
            true => "; nothing to do".to_owned(),
            false => format!("; to fix: {}", to_do.join(", ")),
        }
}

/// Renders one line per energy zone: the part of the machine, the meter that reads the zone, and
/// the parent zone.
fn meter_table(zones: &[Zone], unread: &[UnreadZone], paint: Paint) -> String {
    if zones.is_empty() && unread.is_empty() {
        return String::new();
    }
    let mut out = String::from("\nenergy zones:\n");
    let mut add = |words: String| out.push_str(&paint.folded(Tone::Plain, &words, 4));
    for zone in zones {
        let part = match zone.parent.map(|parent| &zones[parent]) {
            Some(parent) => format!(", part of {}", escape(&parent.name)),
            None => String::new(),
        };
        let step = zone.resolution_uj;
        let words = format!("{}{part}, in steps of {step} µJ", describe(zone));
        add(format!("  {words}: {}", escape(&zone.path)));
    }
    for unread in unread {
        let why = match &unread.why {
            Unread::Refused(why) => format!("not read: {}", escape(why)),
            Unread::Covered(by) => {
                format!("not read: measures the same energy as {}", escape(by))
            }
        };
        let path = escape(&unread.zone.path);
        add(format!("  {}, {why}: {path}", describe(&unread.zone)));
    }
    out
}

/// Describes a zone, as in `package-0 (package of socket 0) by powercap`.
fn describe(zone: &Zone) -> String {
    let mut covers = zone.kind.name().to_owned();
    if let Some(socket) = zone.socket {
        covers.push_str(&format!(" of socket {socket}"));
    }
    if let Some(die) = zone.die {
        covers.push_str(&format!(", die {die}"));
    }
    let name = escape(&zone.name);
    format!("{name} ({covers}) by {}", zone.source.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feature(id: FeatureId, state: FeatureState, reason: &str, mend: &str) -> Feature {
        Feature {
            id,
            state,
            reason: reason.into(),
            mend: mend.into(),
        }
    }

    #[test]
    fn last_line_says_what_to_fix() {
        use FeatureState::{Degraded, Off, On};
        let pmu = "on a virtual machine, ask the provider for a type with a PMU";
        let mut features = vec![
            feature(FeatureId::Btf, On, "it is there", ""),
            feature(FeatureId::Cycles, Off, "no PMU", pmu),
            feature(FeatureId::Instructions, Off, "no PMU", pmu),
            feature(FeatureId::FileOpens, Off, "not enabled", "switch it on"),
        ];
        assert_eq!(
            conclusion(&features),
            "1 feature works, 3 do not; nothing to do"
        );
        let table = table(&features, Paint::none());
        assert_eq!(table.matches("no PMU").count(), 1, "{table}");
        assert!(
            table.contains("instructions  off       same as above\n"),
            "{table}"
        );
        features.push(feature(
            FeatureId::Tracefs,
            Degraded,
            "not mounted",
            "mount it",
        ));
        let expected = "1 feature works, 1 works in part, 3 do not; to fix: tracefs";
        assert_eq!(conclusion(&features), expected);
    }
}
