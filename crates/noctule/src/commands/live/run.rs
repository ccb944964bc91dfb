//! `noctule run`: the agent.

use std::io::{IsTerminal as _, stdout};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use arc_swap::ArcSwapOption;
use noctule_analysis::{Judge, ReportBuilder, WaitReport};
use noctule_model::{Batch, Event, Feature, FeatureState, Level, Owner};
use noctule_sinks::openmetrics::{Exporter, Options, View};
use noctule_text::{duration, escape};
use noctule_web::{Handlers, Sent};

use super::run_recorded;
use super::scrapers::Scrapers;
use super::serving::{Serving, hide_processes};
use crate::args::RunArgs;
use crate::commands::shared::columns::Choice;
use crate::commands::shared::stat_table;
use crate::config::Config;
use crate::event_file::EventFile;
use crate::exit;
use crate::feed::Feed;
use crate::idle_power::IdleFile;
use crate::limits;
use crate::otlp::{self, Otlp, now_unix_ns};
use crate::pace::{self, Pace};
use crate::patient;
use crate::print::{self, Paint};
use crate::published::Published;
use crate::recording::Recording;
use crate::replay;
use crate::stop::{Signals, Woken};
use crate::users::Users;
use crate::wire::{self, Pipeline};

/// Length of the window and number of rows of the tables printed once at startup.
const FIRST_LOOK: Duration = Duration::from_secs(2);
const FIRST_LOOK_ROWS: usize = 8;

pub(crate) fn run(args: &RunArgs, config: Config) -> Result<u8> {
    if let Some(folder) = &args.recorded.from {
        return run_recorded::run(folder, args, config);
    }
    let config = hide_processes(config.with(args)?);
    let started_unix_ns = now_unix_ns();
    let (signals, waker) = Signals::catch_as_agent()?;
    // Binds the address first, so that a second agent notices that the port is in use before it
    // loads any program.
    let serving = Serving::open(args, &config)?;
    let doors = serving.kept;
    let mut kept = Kept::open(&config)?;
    let mut pipeline = Pipeline::start_agent(&config)?;
    let files = Some(pipeline.setting_files());
    let always = kept.needs_each_batch() || pipeline.has_meters();
    let pace = Arc::new(Pace::new(&config, always, Some(waker), wire::now_ns()));
    let feed = Feed::new(&config, pipeline.unread_zones(), files, pace.clone());
    let last: Arc<ArcSwapOption<Published>> = Arc::default();
    let scrapers: Arc<Scrapers> = Arc::default();
    let server = serving
        .bound
        .at_most(limits::connections()?)
        .serve_with_api(handlers(&last, &scrapers, &pace), feed.api(&config))
        .context("starting the HTTP server")?;

    let mut exporter = Exporter::new(Options {
        start_unix_ns: started_unix_ns,
        ..replay::options(&config)?
    });
    let mut judge = Judge::new(config.verdicts.judge());
    pace.begin(wire::now_ns());
    let mut batch = pipeline.tick_without_rights()?;
    kept.batch(&mut batch);
    judge.observe(&batch);
    announce(&serving.origin, &config, &batch.features);
    exporter.served(doors.served(scrapers.untracked()));
    last.store(Some(Arc::new(Published::new(exporter.observe(&batch)))));

    // If standard output is a journal or a file, only log lines are written.
    let mut first_look = stdout()
        .is_terminal()
        .then(|| ReportBuilder::new(batch.clone()));
    if first_look.is_some() {
        pace.follow();
    }
    let crowded = pace::is_crowded(&batch);
    feed.publish(batch, None);
    pace.end(wire::now_ns(), true, crowded, judge.window_ends_ns());
    let end = args.duration.map(|d| Instant::now() + d);
    let mut ticks = Ticks::default();
    while wait_until_due(&mut pipeline, &signals, &mut kept, &feed, &pace, end)? {
        pace.begin(wire::now_ns());
        let mut crowded = true;
        let batch = ticks.take(pipeline.tick())?;
        let published = batch.is_some();
        if let Some(mut batch) = batch {
            warn_of_floods(&pipeline.newly_bounded());
            kept.batch(&mut batch);
            let judged = judge.observe(&batch);
            judge.mark(&mut batch);
            exporter.served(doors.served(scrapers.untracked()));
            let published = Arc::new(Published::new(exporter.observe(&batch)));
            last.store(Some(published.clone()));
            kept.figures(&published, judged.as_ref(), &batch, &mut pipeline);
            first_look = first_look.and_then(|look| print_first_look(look, batch.clone()));
            crowded = pace::is_crowded(&batch);
            feed.publish(batch, judged.as_ref());
        }
        pace.end(wire::now_ns(), published, crowded, judge.window_ends_ns());
    }
    pace.close();
    feed.close();
    server.stop();
    let events = pipeline.last_events()?;
    kept.events(events, &feed, &mut pipeline);
    kept.close(last.load_full().as_ref(), &pipeline);
    Ok(exit::DONE)
}

/// Waits until a batch is due, and passes on events meanwhile. Returns `false` if the agent must end.
fn wait_until_due(
    pipeline: &mut Pipeline,
    signals: &Signals,
    kept: &mut Kept,
    feed: &Feed,
    pace: &Pace,
    end: Option<Instant>,
) -> Result<bool> {
    loop {
        let due = pace.due();
        let deadline = end.map_or(due, |end| end.min(due));
        match pipeline.wait(signals, deadline)? {
            Woken::End => return Ok(false),
            Woken::Reload => kept.file.iter().for_each(EventFile::reopen),
            _ => {}
        }
        let events = pipeline.events()?;
        kept.events(events, feed, pipeline);
        if end.is_some_and(|end| Instant::now() >= end) {
            return Ok(false);
        }
        if pipeline.is_crowded() {
            pace.hurry();
        }
        // An event or a signal may have ended the wait early.
        if pace.is_due() {
            return Ok(true);
        }
    }
}

/// Counts failed ticks. A tick can fail while memory or descriptors are short. Counters are
/// absolute, so the next batch loses no counts.
#[derive(Default)]
struct Ticks {
    failed: u32,
}

impl Ticks {
    /// Maximum number of consecutive failures before the agent ends.
    const MOST_FAILED: u32 = 10;

    fn take(&mut self, tick: Result<Batch>) -> Result<Option<Batch>> {
        match tick {
            Ok(batch) => {
                self.failed = 0;
                Ok(Some(batch))
            }
            Err(error) if self.failed < Self::MOST_FAILED => {
                self.failed += 1;
                tracing::warn!("collection failed ({} in a row): {error:#}", self.failed);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// Maximum number of groups to name per batch, so that a thousand groups do not fill the log.
const FLOODS: usize = 8;

/// Warns of groups that used up their rows of destinations. For these groups, the metrics show only
/// `_other`.
fn warn_of_floods(groups: &[Arc<Owner>]) {
    for owner in groups.iter().take(FLOODS) {
        tracing::warn!(
            "{}: connects to more destinations than its share of the table (events.destinations); \
             the rest are counted as _other for at least a minute",
            escape(&owner.name(Level::Container))
        );
    }
    if let Some(more @ 1..) = groups.len().checked_sub(FLOODS) {
        tracing::warn!("{more} more groups also exceed their share of the table of destinations");
    }
}

/// Consumers of the agent's data: the event file, the recording, the OTLP sender and the file of
/// idle power.
struct Kept {
    file: Option<EventFile>,
    tape: Option<Recording>,
    otlp: Option<Otlp>,
    idle: IdleFile,
}

impl Kept {
    fn open(config: &Config) -> Result<Self> {
        let tape = &config.tape;
        let of = (&config.host, &[][..]);
        let open = |folder: &PathBuf| Recording::open(folder, tape.segment, tape.limits(), of);
        Ok(Self {
            file: config.events.place().map(EventFile::open).transpose()?,
            tape: tape.folder().map(open).transpose()?,
            otlp: Otlp::start(config)?,
            idle: IdleFile::new(config),
        })
    }

    /// Returns whether each interval needs a batch even without clients. The recording and the
    /// receiver get each batch, and the event file gets events that only a batch reveals.
    fn needs_each_batch(&self) -> bool {
        self.file.is_some() || self.tape.is_some() || self.otlp.is_some()
    }

    /// Adds the losses of the event file and the state of the sender to a batch, then records the
    /// batch.
    fn batch(&self, batch: &mut Batch) {
        batch.losses.extend(self.file.as_ref().map(EventFile::loss));
        batch.agent.sendings = self.otlp.as_ref().map(Otlp::sendings).unwrap_or_default();
        if let Some(tape) = &self.tape {
            tape.batch(batch);
        }
    }

    /// Saves idle power if that is due. Sends metrics if they are due, and the report of a window
    /// that ended with this batch.
    fn figures(
        &mut self,
        published: &Arc<Published>,
        judged: Option<&Arc<WaitReport>>,
        batch: &Batch,
        pipeline: &mut Pipeline,
    ) {
        self.idle.keep(|| pipeline.observed_idle());
        let Some(otlp) = &mut self.otlp else { return };
        otlp.figures(published);
        otlp.name(|event| pipeline.name_again(event));
        if let Some(report) = judged {
            otlp.judged(report, batch.time_unix_ns);
        }
        otlp.name_verdicts(|cgroup| pipeline.owner(cgroup));
    }

    /// Passes events to the recording, the event file, the sender and the web page.
    fn events(&mut self, events: Vec<Event>, feed: &Feed, pipeline: &mut Pipeline) {
        if let Some(tape) = &self.tape {
            tape.events(&events);
        }
        if let Some(file) = &self.file {
            file.write(events.clone());
        }
        if let Some(otlp) = &mut self.otlp {
            otlp.events(&events, |event| pipeline.name_again(event));
        }
        feed.log(events);
    }

    /// Waits for the disk and the receiver. Data that they did not accept are logged, but do not
    /// change the exit status.
    fn close(mut self, last: Option<&Arc<Published>>, pipeline: &Pipeline) {
        self.idle.write(&pipeline.observed_idle());
        if let Some(Err(error)) = self.tape.as_ref().map(Recording::close) {
            tracing::warn!("{error:#}");
        }
        if let Some(file) = self.file {
            file.close();
        }
        if let Some(otlp) = self.otlp {
            otlp.close(last);
        }
    }
}

fn handlers(
    last: &Arc<ArcSwapOption<Published>>,
    scrapers: &Arc<Scrapers>,
    pace: &Arc<Pace>,
) -> Handlers {
    let (metrics, ready) = (last.clone(), last.clone());
    let scrapers = scrapers.clone();
    let (scraped, looked_at) = (pace.clone(), pace.clone());
    Handlers {
        metrics: Arc::new(move |wish| {
            scraped.refresh();
            let last = metrics.load_full()?;
            let look = |scraper| scrapers.view_for(scraper, last.first_ns(), last.taken_ns());
            let view = wish.scraper.as_ref().map_or(View::Complete, look);
            let mut page = last.page(wish, view, wire::now_ns());
            let (scrapers, taken_ns) = (scrapers.clone(), last.taken_ns());
            page.sent = wish
                .scraper
                .clone()
                .map(|scraper| Sent::new(move || scrapers.record_sent(&scraper, taken_ns)));
            Some(page)
        }),
        ready: Arc::new(move || match ready.load_full() {
            None => Err("nothing has been collected yet".into()),
            Some(last) => {
                let now_ns = wire::now_ns();
                let age = now_ns.saturating_sub(last.taken_ns());
                if looked_at.is_overdue(now_ns) {
                    return Err(format!("the last batch is {} old", duration(age)));
                }
                Ok(())
            }
        }),
    }
}

/// Prints the busiest containers and processes once, so that new users see a first result. Returns
/// the builder if the window is still too short. Called only on a terminal.
fn print_first_look(mut builder: ReportBuilder, batch: Batch) -> Option<ReportBuilder> {
    builder.add(batch);
    let window_ns = builder.ended_ns().saturating_sub(builder.started_ns());
    if window_ns < FIRST_LOOK.as_nanos() as u64 {
        return Some(builder);
    }
    let paint = Paint::of(&stdout());
    let mut text = format!("\nthe first {}:\n", duration(window_ns));
    for level in [Level::Container, Level::Process] {
        let report = builder.report(level, false);
        let rows = FIRST_LOOK_ROWS;
        let (choice, users) = (Choice::usual(&stat_table::columns()), Users::new(None));
        let drawn = stat_table::draw(&report, level, rows, false, &choice, &users, paint);
        text.push_str(&drawn);
        text.push('\n');
    }
    text.push_str("live view: noctule top; status of features: noctule doctor\n");
    if print::ascii_only() {
        text = noctule_text::ascii(&text);
    }
    patient::offer(stdout(), text.as_bytes());
    None
}

/// Prints the address and the state of the features. A terminal shows the number of features in
/// each state; any other output lists the features with their reasons. A closed standard output is
/// not an error.
fn announce(origin: &str, config: &Config, features: &[Feature]) {
    let version = env!("CARGO_PKG_VERSION");
    let mut text = format!("noctule {version} on {origin}/ (page) and /metrics\n");
    text.extend(otlp::announcement(config));
    text.push_str(&match stdout().is_terminal() {
        true => count_states(features),
        false => list_features(features),
    });
    if !patient::offer(stdout(), text.as_bytes()) {
        tracing::debug!("standard output has no reader");
    }
}

/// Returns a line with the number of features in each state.
fn count_states(features: &[Feature]) -> String {
    let states = [FeatureState::On, FeatureState::Degraded, FeatureState::Off];
    let counts = states.map(|state| {
        let number = features.iter().filter(|it| it.state == state).count();
        format!("{number} {}", state.name())
    });
    let counts = counts.join(", ");
    format!("features: {counts}; noctule doctor explains each\n")
}

/// Lists the features that are on in one line, and all other features with their reasons.
fn list_features(features: &[Feature]) -> String {
    let on: Vec<&str> = features
        .iter()
        .filter(|f| f.state == FeatureState::On)
        .map(|f| f.id.name())
        .collect();
    let mut text = format!("on: {}\n", on.join(", "));
    // Features with the same state and reason share a line.
    let off: Vec<&Feature> = features
        .iter()
        .filter(|f| f.state != FeatureState::On)
        .collect();
    for same in off.chunk_by(|a, b| (a.state, &a.reason) == (b.state, &b.reason)) {
        let names: Vec<&str> = same.iter().map(|f| f.id.name()).collect();
        let reason = escape(&same[0].reason);
        let state = same[0].state.name();
        text.push_str(&format!("{state}: {}: {reason}\n", names.join(", ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use noctule_model::FeatureId;

    use super::*;

    #[test]
    fn a_terminal_shows_how_many_features_are_in_each_state() {
        let off = |id| Feature::off(id, "no such hook");
        let features = [
            Feature::on(FeatureId::CpuWaits, "sched_switch"),
            off(FeatureId::OomEvents),
            off(FeatureId::TcpEvents),
        ];
        assert_eq!(
            count_states(&features),
            "features: 1 on, 0 degraded, 2 off; noctule doctor explains each\n"
        );
        assert_eq!(
            list_features(&features),
            "on: cpu_waits\noff: oom_events, tcp_events: no such hook\n"
        );
    }
}
