//! `noctule doctor`: what works here, what does not, why, and how to change it.

use std::io::{Write as _, stdout};

use anyhow::Result;
use noctule_model::{Feature, FeatureId, FeatureState, Unread, UnreadZone, Zone};
use noctule_text::escape;

use crate::args::DoctorArgs;
use crate::config::Config;
use crate::print::Paint;
use crate::{exit, wire};

pub(super) fn run(args: &DoctorArgs, config: &Config) -> Result<u8> {
    let meters = wire::meters(config);
    let features = wire::examine(config, &meters);
    let (zones, unread) = (meters.zones(), meters.unread());
    let mut out = stdout().lock();
    if args.json {
        writeln!(
            out,
            "{}",
            noctule_sinks::json::doctor_json(&features, zones, unread)
        )?;
    } else {
        out.write_all(table(&features, Paint::of(&stdout())).as_bytes())?;
        out.write_all(meter_table(zones, unread).as_bytes())?;
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

fn table(features: &[Feature], paint: Paint) -> String {
    let width = features
        .iter()
        .map(|f| f.id.name().len())
        .max()
        .unwrap_or(0);
    let mut out = String::new();
    for feature in features {
        let state = format!("{:8}", feature.state.name());
        let state = match feature.state {
            FeatureState::On => paint.green(&state),
            FeatureState::Degraded => paint.yellow(&state),
            FeatureState::Off => paint.red(&state),
        };
        let reason = escape(&feature.reason);
        out.push_str(&format!("{:width$}  {state}  {reason}\n", feature.id));
        if !feature.mend.is_empty() {
            let mend = escape(&feature.mend);
            out.push_str(&format!(
                "{:width$}  {:8}  {} {mend}\n",
                "",
                "",
                paint.bold("to mend:")
            ));
        }
    }
    out
}

/// A line for each zone of energy: what it covers, by which meter, and what it is part of.
fn meter_table(zones: &[Zone], unread: &[UnreadZone]) -> String {
    if zones.is_empty() && unread.is_empty() {
        return String::new();
    }
    let mut out = String::from("\nzones of energy:\n");
    for zone in zones {
        let part = match zone.parent.map(|parent| &zones[parent]) {
            Some(parent) => format!(", part of {}", escape(&parent.name)),
            None => String::new(),
        };
        let step = zone.resolution_uj;
        let words = format!("{}{part}, in steps of {step} µJ", describe(zone));
        out.push_str(&format!("  {words}: {}\n", escape(&zone.path)));
    }
    for unread in unread {
        let why = match &unread.why {
            Unread::Refused(why) => format!("not read: {}", escape(why)),
            Unread::Covered(by) => format!("not read: the same as {}", escape(by)),
        };
        let path = escape(&unread.zone.path);
        out.push_str(&format!("  {}, {why}: {path}\n", describe(&unread.zone)));
    }
    out
}

/// `package-0 (package of socket 0) by powercap`.
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
