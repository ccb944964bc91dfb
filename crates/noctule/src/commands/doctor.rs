//! `noctule doctor`: what works here, what does not, why, and how to change it.

use std::io::{Write as _, stdout};

use anyhow::Result;
use noctule_model::{Feature, FeatureId, FeatureState};
use noctule_text::escape;

use crate::args::DoctorArgs;
use crate::config::Config;
use crate::print::Paint;
use crate::{exit, wire};

pub(super) fn run(args: &DoctorArgs, config: &Config) -> Result<u8> {
    let features = wire::examine(config);
    let mut out = stdout().lock();
    if args.json {
        writeln!(out, "{}", noctule_sinks::json::doctor_json(&features))?;
    } else {
        out.write_all(table(&features, Paint::of(&stdout())).as_bytes())?;
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
