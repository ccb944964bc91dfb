//! `noctule run --from`: serves the web page, the API and the metrics of a recording.

use std::io::stdout;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use noctule_analysis::Thinned;
use noctule_model::Event;
use noctule_sinks::json::Recorded;
use noctule_sinks::openmetrics::View;
use noctule_tape::Stretch;
use noctule_text::{counted, date_time, escape};
use noctule_web::Handlers;

use super::serving::{Serving, hide_processes};
use crate::args::RunArgs;
use crate::commands::shared::window::{self, Window};
use crate::config::Config;
use crate::exit;
use crate::feed::{Feed, RECORDED_POINTS};
use crate::limits;
use crate::patient;
use crate::print::utc_offset;
use crate::published::Published;
use crate::replay::Replay;
use crate::stop::{Signals, Woken};

/// Default length of the served part: the history that a live agent keeps.
const PART: Duration = Duration::from_secs(900);

/// Longest sleep between checks. Nothing changes in a recording; only a signal ends the sleep
/// early.
const PATIENCE: Duration = Duration::from_secs(3600);

pub(crate) fn run(folder: &Path, args: &RunArgs, config: Config) -> Result<u8> {
    let window = match (&args.recorded.at, args.duration) {
        (None, None) => Window::of_option(folder, None, Some(PART), PART)?,
        (at, duration) => Window::of_option(folder, at.as_deref(), duration, PART)?,
    };
    let config = hide_processes(config.with(args)?);
    let signals = Signals::catch()?;
    let serving = Serving::open(args, &config)?;
    let _doors = serving.kept;
    let (feed, published) = load(&window, &config)?;
    let server = serving
        .bound
        .at_most(limits::connections()?)
        .serve_with_api(handlers(published), feed.api(&config))
        .context("starting the HTTP server")?;
    announce(&window, &serving.origin);
    while signals.wait(Instant::now() + PATIENCE, &[])? != Woken::End {}
    feed.close();
    server.stop();
    Ok(exit::DONE)
}

/// Reads the selected period into a feed, as if a live agent had collected it.
fn load(window: &Window, config: &Config) -> Result<(Arc<Feed>, Published)> {
    let Stretch {
        span,
        from_unix_ns,
        to_unix_ns,
        ..
    } = window.stretch;
    let host = window.tape.segments()[span.segments.0].meta().host.clone();
    let recorded = Recorded {
        from_unix_nano: from_unix_ns,
        to_unix_nano: to_unix_ns,
    };
    let feed = Feed::of_recording(config, &host, recorded);
    let (first, last) = window.stretch.numbers();
    let count_of_batches = last.saturating_sub(first).saturating_add(1);
    let every = count_of_batches.div_ceil(RECORDED_POINTS as u64);
    let mut replay = Replay::new(config)?;
    let mut snapshot = None;
    let mut batches = window.batches();
    let mut thinned = Thinned::new(every);
    while let Some(time_ns) = batches.next_unix_ns()
        && let Some(mut batch) = batches.next()
    {
        let (shown, judged) = replay.observe(&mut batch);
        snapshot = Some(shown);
        let is_last = batches.next_unix_ns().is_none();
        let chosen = thinned.take(batch, is_last);
        chosen.for_each(|batch| feed.publish(batch, None));
        if let Some(report) = judged {
            feed.judge(&report, time_ns);
        }
    }
    window::warn(batches.damages().iter());
    let mut events = window.events();
    loop {
        let some: Vec<Event> = events.by_ref().take(1000).collect();
        if some.is_empty() {
            break;
        }
        feed.log(some);
    }
    window::warn(events.damages().iter());
    tracing::info!("read {}", counted(thinned.count(), "batch", "batches"));
    let snapshot = snapshot.context("no batch in the recording can be read")?;
    Ok((feed, Published::new(snapshot)))
}

fn handlers(published: Published) -> Handlers {
    let published = Arc::new(published);
    let taken_ns = published.taken_ns();
    Handlers {
        metrics: Arc::new(move |wish| Some(published.page(wish, View::Complete, taken_ns))),
        ready: Arc::new(|| Ok(())),
    }
}

fn announce(window: &Window, origin: &str) {
    let time = |unix_ns| date_time(unix_ns, utc_offset(unix_ns));
    let Stretch {
        span,
        from_unix_ns,
        to_unix_ns,
        ..
    } = window.stretch;
    let host = &window.tape.segments()[span.segments.0].meta().host;
    let text = format!(
        "recording of {} from {} to {} on {origin}/\n",
        escape(host),
        time(from_unix_ns),
        time(to_unix_ns)
    );
    patient::offer(stdout(), text.as_bytes());
}
