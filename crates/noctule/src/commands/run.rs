//! `noctule run`: the agent.

use std::io::{Write as _, stdout};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result};
use arc_swap::ArcSwapOption;
use noctule_model::{Feature, FeatureState, escape_terminal};
use noctule_sinks::openmetrics::{Exporter, Exposition, Options, Snapshot};
use noctule_web::{Handlers, Page};

use crate::args::RunArgs;
use crate::config::Config;
use crate::exit;
use crate::stop::{Signals, Woken};
use crate::wire::{self, Pipeline};

/// Batches that may be missed before the agent no longer counts as ready.
const STALE_TICKS: u32 = 5;

pub(super) fn run(args: &RunArgs, config: Config) -> Result<u8> {
    let config = config.with(args)?;
    let signals = Signals::catch()?;
    // The address first: a second agent should not load anything before it finds the port taken.
    let listen = config.web.listen;
    let bound = noctule_web::bind(listen).with_context(|| {
        format!("listening on {listen} (another agent? choose another with --listen)")
    })?;
    let address = bound.address();
    let mut pipeline = Pipeline::start(&config)?;
    let last: Arc<ArcSwapOption<Snapshot>> = Arc::default();
    let server = bound
        .serve(handlers(&last, &config))
        .context("starting the HTTP server")?;

    let mut exporter = Exporter::new(Options {
        process_level: config.metrics.processes,
        max_subjects: config.metrics.subject_rows,
        max_processes: config.metrics.process_rows,
        version: env!("CARGO_PKG_VERSION"),
        ..Options::default()
    });
    let batch = pipeline.tick()?;
    announce(&address.to_string(), &batch.features);
    last.store(Some(Arc::new(exporter.observe(&batch))));

    let interval = config.interval();
    let end = args.duration.map(|d| Instant::now() + d);
    let mut next = Instant::now() + interval;
    loop {
        let deadline = end.map_or(next, |end| end.min(next));
        match pipeline.wait(&signals, deadline)? {
            Woken::End => break,
            Woken::Time if end.is_some_and(|end| Instant::now() >= end) => break,
            Woken::Time => {}
            Woken::Child | Woken::Data => continue,
        }
        let batch = pipeline.tick()?;
        last.store(Some(Arc::new(exporter.observe(&batch))));
        // After a stop (suspend, a stopped process) the ticks that were missed are not made up for.
        next = (next + interval).max(Instant::now());
    }
    server.stop();
    Ok(exit::DONE)
}

fn handlers(last: &Arc<ArcSwapOption<Snapshot>>, config: &Config) -> Handlers {
    let (metrics, ready) = (last.clone(), last.clone());
    let stale_ns = (config.interval() * STALE_TICKS).as_nanos() as u64 + 1_000_000_000;
    Handlers {
        metrics: Arc::new(move |accept| {
            let snapshot = metrics.load_full()?;
            let exposition = Exposition::negotiate(accept);
            let body = snapshot.render(exposition, wire::now_ns());
            Some(Page {
                content_type: exposition.content_type(),
                body,
            })
        }),
        ready: Arc::new(move || match ready.load_full() {
            None => Err("nothing is collected yet".into()),
            Some(snapshot) => {
                let age = wire::now_ns().saturating_sub(snapshot.taken_ns());
                if age > stale_ns {
                    return Err(format!("the last batch is {} s old", age / 1_000_000_000));
                }
                Ok(())
            }
        }),
    }
}

/// Where it listens, and what is off and why. Standard output may be closed: that ends nothing.
fn announce(address: &str, features: &[Feature]) {
    let mut text = format!(
        "noctule {} on http://{address}/metrics\n",
        env!("CARGO_PKG_VERSION")
    );
    let on: Vec<&str> = features
        .iter()
        .filter(|f| f.state == FeatureState::On)
        .map(|f| f.name)
        .collect();
    text.push_str(&format!("on: {}\n", on.join(", ")));
    for feature in features.iter().filter(|f| f.state != FeatureState::On) {
        let reason = escape_terminal(&feature.reason);
        text.push_str(&format!(
            "{}: {}: {reason}\n",
            feature.state.name(),
            feature.name
        ));
    }
    let _ = stdout().write_all(text.as_bytes());
}
