//! The data of the API: the last batches, the history of some minutes, and the last events.
//!
//! The pipeline's thread publishes data, and the web server's thread responds to clients. The two
//! threads share a lock, which each holds only while it exchanges pointers.

mod groups;
mod looked_at;
mod query;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use noctule_analysis::{
    EventLog, EventLogLimits, Report, ReportBuilder, TimePoint, TimeSpanQuery, Timeline,
    TimelineLimits, WaitReport, at_most,
};
use noctule_collect::SettingFiles;
use noctule_model::{Batch, Event, FeatureId, Level, ProcessId, UnreadZone, Zone};
use noctule_sinks::json::{self, AgentFacts, LookedAtProcess};
use noctule_sinks::json::{CgroupMount, Recorded};
use noctule_web::{Agent, Api, Hosts, Query, Refusal, Ticks};

use crate::config::{Config, ShownProcesses};
use crate::features::{self, When};
use crate::pace::Pace;
use crate::wire;
use looked_at::{Groups, Processes, Reader};
use query::{HistoryQuery, events_query, pid_query, table_query};

/// Resources that reveal names of processes.
const OF_PROCESSES: [&str; 3] = ["processes", "process", "events"];

/// Maximum number of table rows in a response.
const MOST_ROWS: usize = 10_000;

/// Limits of the history.
type Limits = (TimelineLimits, EventLogLimits);

/// Limits for a live node.
const RECENT: Limits = (TimelineLimits::RECENT, EventLogLimits::RECENT);

/// Maximum number of points of a recording. In a longer part, a point covers several batches.
pub(crate) const RECORDED_POINTS: usize = 3600;

/// Limits for a recording, which can be an hour long, with all of its verdicts.
const RECORDED: Limits = (
    TimelineLimits {
        points: RECORDED_POINTS,
        windows: 10_000,
        ..TimelineLimits::RECENT
    },
    EventLogLimits {
        events: 100_000,
        bytes: 64 << 20,
    },
);

/// The data that the agent provides to the API.
pub(crate) struct Feed {
    state: Mutex<State>,
    ticks: Ticks,
    host: String,
    unread: Vec<UnreadZone>,
    idle: noctule_analysis::IdleEnergy,
    /// Whether clients of the port can see events.
    events: bool,
    /// Whether clients of the port can see processes.
    processes: bool,
    /// Where the cgroups are mounted; `None` for a recording.
    cgroups: Option<CgroupMount>,
    /// Reads details of processes and groups from the kernel's files; `None` for a recording.
    reader: Option<Reader>,
    /// The period of a recording that is served.
    recorded: Option<Recorded>,
    /// When batches arrive; `None` if no more batches will arrive.
    pace: Option<Arc<Pace>>,
    /// Length of the windows for verdicts.
    verdict_window_seconds: f64,
}

struct State {
    timeline: Timeline,
    log: EventLog,
    last: Option<Window>,
    waits: Option<Arc<WaitReport>>,
    looked_at: Processes,
    groups: Groups,
    /// Whether verdicts name commands. False if clients may not see processes.
    names_commands: bool,
}

#[derive(Clone)]
struct Window {
    first: Arc<Batch>,
    last: Arc<Batch>,
}

impl State {
    fn observe(&mut self, batch: Batch) -> Option<Arc<TimePoint>> {
        let batch = Arc::new(batch);
        let before = self.last.take();
        let mut before = before.map_or_else(|| batch.clone(), |it| it.last);
        let point = self.timeline.observe(&batch);
        // A response in progress may still hold a reference.
        if let Some(before) = Arc::get_mut(&mut before) {
            let all = std::mem::take(before);
            *before = Batch {
                subjects: Vec::new(),
                waits: Vec::new(),
                connects: Vec::new(),
                destinations: Vec::new(),
                blames: Vec::new(),
                ..all
            };
        }
        self.last = Some(Window {
            first: before,
            last: batch,
        });
        point
    }

    /// Ignores provisional reports, so that each window is judged once.
    fn judge(&mut self, report: &Arc<WaitReport>, time_unix_ns: u64) {
        if !report.provisional {
            let report = &match self.names_commands {
                true => report.clone(),
                false => {
                    let mut report = (**report).clone();
                    report.hide_commands();
                    Arc::new(report)
                }
            };
            self.timeline.judge(report, Level::Container, time_unix_ns);
            self.waits = Some(report.clone());
        }
    }
}

impl Feed {
    pub(crate) fn new(
        config: &Config,
        unread: &[UnreadZone],
        files: Option<SettingFiles>,
        pace: Arc<Pace>,
    ) -> Arc<Self> {
        // Command lines are part of events, so both settings apply.
        let shown = config.web.events && config.web.processes != ShownProcesses::Hide;
        let reader = Reader::new(shown.then_some(config.events.args), files);
        Arc::new(Self {
            unread: unread.to_vec(),
            cgroups: reader.cgroups(),
            reader: Some(reader),
            pace: Some(pace),
            ..Self::empty(config, config.host.name(), RECENT)
        })
    }

    /// Creates a feed for a period of a recording. The feed keeps the whole period.
    pub(crate) fn of_recording(config: &Config, host: &str, recorded: Recorded) -> Arc<Self> {
        Arc::new(Self {
            recorded: Some(recorded),
            ..Self::empty(config, host.to_owned(), RECORDED)
        })
    }

    fn empty(config: &Config, host: String, (points, events): Limits) -> Self {
        Self {
            state: Mutex::new(State {
                timeline: Timeline::new(points),
                log: EventLog::new(events),
                last: None,
                waits: None,
                looked_at: Processes::default(),
                groups: Groups::default(),
                names_commands: config.web.processes != ShownProcesses::Hide,
            }),
            ticks: Ticks::default(),
            host,
            unread: Vec::new(),
            idle: config.energy.idle.into(),
            events: config.web.events,
            processes: config.web.processes != ShownProcesses::Hide,
            cgroups: None,
            reader: None,
            recorded: None,
            pace: None,
            verdict_window_seconds: config.verdicts.window_seconds,
        }
    }

    /// Returns the handle for the server.
    pub(crate) fn api(self: &Arc<Self>, config: &Config) -> Api {
        Api {
            agent: self.clone(),
            ticks: self.ticks.clone(),
            hosts: Arc::new(Hosts::new(config.web.hosts.iter().cloned())),
            start: wire::now_ns(),
        }
    }

    /// Adds a batch, and the report of the window that it ends, if any.
    pub(crate) fn publish(&self, batch: Batch, judged: Option<&Arc<WaitReport>>) {
        let time_unix_ns = batch.time_unix_ns;
        self.look_at(&batch);
        let mut state = self.state();
        let point = state.observe(batch);
        if let Some(report) = judged {
            state.judge(report, time_unix_ns);
        }
        drop(state);
        if let Some(point) = point {
            let (sequence, time) = (point.sequence, point.time_unix_ns);
            let json = format!("{{\"sequence\":{sequence},\"time_unix_nano\":{time}}}");
            self.ticks.publish(sequence, &json);
        }
    }

    /// Reads the files of the processes and groups that clients are viewing.
    fn look_at(&self, batch: &Batch) {
        let Some(reader) = &self.reader else { return };
        let ids = self.state().looked_at.of(batch);
        for id in ids {
            let told = reader.read(id);
            self.state().looked_at.store(&id, told);
        }
        let paths = self.state().groups.viewed(batch.sequence);
        for path in paths {
            let told = reader.settings(&path).map(Arc::new);
            self.state().groups.store(&path, told);
        }
    }

    /// Adds the report of a window. The last batch of the window is not in the feed.
    pub(crate) fn judge(&self, report: &Arc<WaitReport>, time_unix_ns: u64) {
        self.state().judge(report, time_unix_ns);
    }

    /// Adds events, which must be in order. Does nothing if `web.events` is off.
    pub(crate) fn log(&self, events: Vec<Event>) {
        if self.events && !events.is_empty() {
            self.state().log.add(events);
        }
    }

    /// Ends the notification streams of all clients.
    pub(crate) fn close(&self) {
        self.ticks.close();
    }

    /// Ignores poisoning: no code panics while it holds the lock, and the state is always
    /// consistent.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn window(&self) -> Result<Window, Refusal> {
        let window = self.state().last.clone();
        window.ok_or_else(|| Refusal::NotYet("no data yet".into()))
    }

    /// Returns a report of the node without rows.
    fn node_report(&self) -> Result<Report, Refusal> {
        let Window { first, last } = self.window()?;
        let mut builder = ReportBuilder::new(of_node(&first));
        builder.add(of_node(&last));
        Ok(builder.report(Level::Unit, false))
    }

    fn report(&self, level: Level) -> Result<Report, Refusal> {
        let Window { first, last } = self.window()?;
        let mut builder = ReportBuilder::new(of_tables(&first));
        builder.add(of_tables(&last));
        Ok(builder.report(level, false))
    }

    fn table(&self, level: Level, query: &Query) -> Result<String, Refusal> {
        let wanted = table_query(query)?;
        let mut report = self.report(level)?;
        wanted.apply(&mut report, level);
        Ok(json::stat_json(&report, level))
    }

    /// Returns whether, at this time of `CLOCK_MONOTONIC`, the next batch is overdue.
    fn is_stalled(&self, now_ns: u64) -> bool {
        self.pace.as_ref().is_some_and(|it| it.is_overdue(now_ns))
    }

    /// Returns the version of the responses at this time of `CLOCK_MONOTONIC`.
    fn published_at(&self, now_ns: u64) -> Option<u64> {
        let Window { first, last } = self.window().ok()?;
        // The first batch has no deltas. Responses differ while the pipeline is stalled, so a stall
        // changes the version.
        let stalled = u64::from(self.is_stalled(now_ns));
        (first.sequence < last.sequence).then_some(2 * last.sequence + stalled)
    }

    /// Returns the state of the node at this time of `CLOCK_MONOTONIC`.
    fn node(&self, now_ns: u64) -> Result<String, Refusal> {
        let Window { last, .. } = self.window()?;
        let stalled = self.is_stalled(now_ns);
        let facts = AgentFacts {
            sequence: last.sequence,
            stalled_since: stalled.then_some(last.time_unix_ns),
            host: &self.host,
            version: env!("CARGO_PKG_VERSION"),
            recorded: self.recorded,
            verdict_window_seconds: self.verdict_window_seconds,
            cgroups: self.cgroups.as_ref(),
            cost: &last.agent,
            losses: &last.losses,
        };
        Ok(json::node_json(&self.node_report()?, &facts))
    }

    /// Returns the properties of a process. The files of the process are read at the next batch.
    fn process(&self, query: &Query) -> Result<String, Refusal> {
        let pid = pid_query(query)?;
        let Window { last, .. } = self.window()?;
        let found = last.processes.iter().find(|row| row.id.pid == pid);
        let created = |id: ProcessId| last.boot_unix_ns.saturating_add(id.start_ns);
        let id = found.map(|row| row.id);
        let told = id.map(|id| self.state().looked_at.ask(id, last.sequence));
        let told = told.unwrap_or_default();
        Ok(json::process_json(&LookedAtProcess {
            pid,
            created: id.map(created),
            owner: told.user.as_deref(),
            command_line: told.command_line.as_deref(),
        }))
    }

    fn energy(&self) -> Result<String, Refusal> {
        let report = self.report(Level::Container)?;
        Ok(json::energy_json(&report, Level::Container, self.idle))
    }

    /// Returns an error with the reason if the feature is off, so that missing data is not mistaken
    /// for zeros.
    fn need(&self, feature: FeatureId) -> Result<(), Refusal> {
        let Window { last, .. } = self.window()?;
        let when = match self.recorded {
            Some(_) => When::Recorded,
            None => When::Live,
        };
        let needed = features::need_one(&last.features, &[feature], when);
        needed.map(drop).map_err(Refusal::NotYet)
    }

    fn judged(&self) -> Result<Arc<WaitReport>, Refusal> {
        self.need(FeatureId::CpuWaits)?;
        let waits = self.state().waits.clone();
        waits.ok_or_else(|| {
            let takes = format!(
                "needs {} s of data (verdicts.window_seconds)",
                self.verdict_window_seconds
            );
            Refusal::NotYet(match self.recorded {
                None => format!("no verdict yet: the first {takes}"),
                Some(_) => format!(
                    "the served part of the recording is too short for a verdict: one {takes}"
                ),
            })
        })
    }

    fn features(&self) -> Result<String, Refusal> {
        let Window { last, .. } = self.window()?;
        // Some meters may have become readable since the start.
        let same = |one: &Zone, two: &Zone| {
            (&one.path, &one.name, one.socket) == (&two.path, &two.name, two.socket)
        };
        let is_read = |it: &UnreadZone| zones(&last).iter().any(|zone| same(zone, &it.zone));
        let unread = self.unread.iter().filter(|it| !is_read(it));
        let unread: Vec<UnreadZone> = unread.cloned().collect();
        Ok(json::doctor_json(&last.features, zones(&last), &unread))
    }

    fn events(&self, query: &Query) -> Result<String, Refusal> {
        let wanted = events_query(query)?;
        if !self.events {
            let why = "events are hidden: events is false in section [web] of the configuration";
            return Err(Refusal::NotYet(why.into()));
        }
        let state = self.state();
        let parties = state.timeline.view().parties;
        let inside = state.log.within(wanted.from_ns, wanted.to_ns);
        let forgotten = state.log.forgotten();
        // The filter formats every event, so the lock is released first.
        drop(state);
        let unknown = |id| Refusal::Query(format!("owner: no owner has the id {id}"));
        let party = wanted.owner.map(|id| parties.get(&id).ok_or(unknown(id)));
        let party = party.transpose()?;
        let fits = |it: &Arc<Event>| wanted.fits(it, party);
        let fits: Vec<_> = inside.into_iter().filter(fits).collect();
        let all = fits.len();
        let events = at_most(fits, wanted.limit);
        let more = all - events.len();
        Ok(noctule_sinks::events::events_json(&events, more, forgotten))
    }

    fn history(&self, query: &Query) -> Result<String, Refusal> {
        let Window { last, .. } = self.window()?;
        let wanted = HistoryQuery::parse(query, last.time_unix_ns)?;
        let view = self.state().timeline.view();
        let query = TimeSpanQuery {
            from_unix_ns: wanted.from_ns,
            to_unix_ns: wanted.to_ns,
            steps: wanted.steps,
            waits_of: wanted.waits_of,
            pair: wanted.pair,
            strips: wanted.strips,
        };
        Ok(json::history_json(
            &view,
            &query,
            &wanted.rows,
            zones(&last),
        ))
    }

    fn now(&self) -> Result<String, Refusal> {
        self.need(FeatureId::CpuWaits)?;
        let view = self.state().timeline.view();
        Ok(json::now_json(view.judged.last().map(|window| &**window)))
    }
}

impl Agent for Feed {
    fn published(&self) -> Option<u64> {
        if let Some(pace) = &self.pace {
            pace.view();
        }
        self.published_at(wire::now_ns())
    }

    fn follow(&self) {
        if let Some(pace) = &self.pace {
            pace.follow();
        }
    }

    fn answer(&self, resource: &str, query: &Query) -> Result<String, Refusal> {
        if !self.processes && OF_PROCESSES.contains(&resource) {
            let why = "processes are hidden: this system hides them from other users (hidepid), or \
                       processes is \"hide\" in section [web] of the configuration";
            return Err(Refusal::NotYet(why.into()));
        }
        match resource {
            "node" => self.node(wire::now_ns()),
            "processes" => self.table(Level::Process, query),
            "process" => self.process(query),
            "containers" => self.table(Level::Container, query),
            "pods" => self.table(Level::Pod, query),
            "units" => self.table(Level::Unit, query),
            "cgroups" => self.table(Level::Cgroup, query),
            "waits" => Ok(json::waits_json(&*self.judged()?, Level::Container)),
            "pairs" => Ok(json::pairs_json(&*self.judged()?, Level::Container)),
            "now" => self.now(),
            "episodes" => self.episodes(query),
            "group" => self.group(query),
            "energy" => self.energy(),
            "events" => self.events(query),
            "features" => self.features(),
            "history" => self.history(query),
            other => Err(Refusal::NotYet(format!("unknown resource {other}"))),
        }
    }
}

/// Returns the node's figures from a batch. Copying a thousand processes and the histograms of
/// their groups was the main cost of an open page.
fn of_node(batch: &Batch) -> Batch {
    Batch {
        sequence: batch.sequence,
        time_unix_ns: batch.time_unix_ns,
        taken_ns: batch.taken_ns,
        boot_unix_ns: batch.boot_unix_ns,
        node: batch.node,
        measured: batch.measured,
        ..Batch::default()
    }
}

/// Returns the figures of a batch that tables need. For a thousand groups, the remaining figures
/// need about as much memory.
fn of_tables(batch: &Batch) -> Batch {
    Batch {
        packages: batch.packages.clone(),
        processes: batch.processes.clone(),
        exited: batch.exited.clone(),
        cgroups: batch.cgroups.clone(),
        energy: batch.energy.clone(),
        zone_accounts: batch.zone_accounts.clone(),
        features: batch.features.clone(),
        losses: batch.losses.clone(),
        ..of_node(batch)
    }
}

fn zones(batch: &Batch) -> &[Zone] {
    batch.energy.as_ref().map_or(&[], |energy| &energy.zones)
}

#[cfg(test)]
mod tests {
    use noctule_model::{
        AgentCost, CgroupId, Counter, Feature, Measured, Owner, ProcessRow, SubjectRow,
    };

    use super::*;

    fn pace(config: &Config) -> Arc<Pace> {
        Arc::new(Pace::new(config, true, None, 0))
    }

    #[test]
    fn configured_host_name_is_served() {
        let mut config = Config::default();
        config.host.name = "of-the-node".into();
        let feed = Feed::new(&config, &[], None, pace(&config));
        feed.publish(Batch::default(), None);
        let node = feed.node(0).expect("figures");
        assert!(node.contains("\"host.name\":\"of-the-node\""), "{node}");
    }

    #[test]
    fn hidden_processes_are_in_no_answer() {
        let mut config = Config::default();
        config.web.processes = ShownProcesses::Hide;
        let feed = Feed::new(&config, &[], None, pace(&config));
        let batch = |sequence: u64| {
            let owner = Arc::new(Owner {
                unit: Some("a.service".into()),
                ..Owner::unknown(CgroupId(1))
            });
            let mut subject = SubjectRow::new(owner.subject(), owner);
            subject.counters[Counter::CpuTime] = sequence * 1_000_000;
            Batch {
                sequence,
                time_unix_ns: sequence * 1_000_000_000,
                taken_ns: sequence * 1_000_000_000,
                processes: vec![ProcessRow::default()],
                subjects: vec![subject],
                ..Batch::default()
            }
        };
        feed.publish(batch(1), None);
        feed.publish(batch(2), None);
        for resource in OF_PROCESSES {
            let answer = feed.answer(resource, &Query::default());
            let refused =
                |it: &Refusal| matches!(it, Refusal::NotYet(why) if why.contains("hidepid"));
            assert!(
                answer.as_ref().is_err_and(refused),
                "{resource}: {answer:?}"
            );
        }
        assert!(feed.answer("units", &Query::default()).is_ok());
        let group = feed.answer("group", &Query::default());
        let group = group.expect("the group");
        assert!(
            group.contains("a.service") && !group.contains("processes"),
            "{group}"
        );
        let shown = ShownProcesses::Auto;
        assert!(shown.are_shown(false) && !shown.are_shown(true));
    }

    #[test]
    fn events_that_are_not_kept_are_refused_with_a_reason() {
        let mut config = Config::default();
        config.web.events = false;
        let feed = Feed::empty(&config, "h".into(), RECENT);
        let answer = feed.answer("events", &Query::default());
        let refused = |it: &Refusal| matches!(it, Refusal::NotYet(why) if why.contains("[web]"));
        assert!(answer.as_ref().is_err_and(refused), "{answer:?}");
    }

    #[test]
    fn limit_keeps_signs_of_trouble_and_counts_omitted_events() {
        let feed = Feed::empty(&Config::default(), "h".into(), RECENT);
        let event = |at: u64| Event {
            time_unix_ns: at,
            process: None,
            origin: noctule_model::Origin::Seen,
            what: match at {
                1 => noctule_model::What::OomKill {
                    rss_bytes: None,
                    limit_bytes: None,
                },
                _ => noctule_model::What::ProcessStart {
                    parent_pid: 1,
                    parent: None,
                },
            },
        };
        feed.log((1..=300).map(event).collect());
        let answer = feed.answer("events", &Query::default()).expect("events");
        assert!(answer.contains("oom.kill"), "{answer}");
        assert!(answer.contains("\"more\":100,\"forgotten\":0,"), "{answer}");
    }

    #[test]
    fn unmeasured_waits_are_refused_with_a_reason() {
        let feed = Feed::empty(&Config::default(), "h".into(), RECENT);
        let off = Feature::off(FeatureId::CpuWaits, "no such hook").with_fix("a newer kernel");
        for sequence in 1..3 {
            let batch = Batch {
                sequence,
                features: [off.clone()].into(),
                ..Batch::default()
            };
            let mut report = ReportBuilder::new(batch.clone()).waits(
                Level::Container,
                false,
                &noctule_analysis::Thresholds::default(),
            );
            report.provisional = false;
            feed.publish(batch, Some(&Arc::new(report)));
        }
        let why = "cpu_waits is off: no such hook; a newer kernel";
        for resource in ["now", "waits", "pairs"] {
            let answer = feed.answer(resource, &Query::default());
            assert_eq!(answer, Err(Refusal::NotYet(why.into())), "{resource}");
        }
    }

    #[test]
    fn stalled_pipeline_reports_since_when() {
        const SECOND: u64 = 1_000_000_000;
        let batch = |sequence: u64| Batch {
            sequence,
            taken_ns: sequence * SECOND,
            time_unix_ns: (1_700_000_000 + sequence) * SECOND,
            ..Batch::default()
        };
        let of = |feed: &Feed, at: u64| {
            let node = feed.node(at * SECOND).expect("figures");
            let since = node.contains("\"stalled_since_unix_nano\":1700000002000000000,");
            assert_eq!(since, node.contains("stalled"), "{node}");
            (since, feed.published_at(at * SECOND))
        };
        // The limit is five intervals of a second, plus one second.
        let pace = Arc::new(Pace::new(&Config::default(), true, None, SECOND));
        let feed = Feed::new(&Config::default(), &[], None, pace.clone());
        let publish = |sequence: u64| {
            feed.publish(batch(sequence), None);
            pace.begin(sequence * SECOND);
            pace.end(sequence * SECOND, true, true, None);
        };
        publish(1);
        publish(2);
        assert_eq!(of(&feed, 2), (false, Some(4)));
        assert_eq!(of(&feed, 8), (false, Some(4)), "the same answers");
        assert_eq!(of(&feed, 9), (true, Some(5)), "others");
        publish(3);
        assert_eq!(of(&feed, 9), (false, Some(6)), "it goes on");
        let recorded = Recorded {
            from_unix_nano: 1,
            to_unix_nano: 2,
        };
        let feed = Feed::of_recording(&Config::default(), "h", recorded);
        feed.publish(batch(2), None);
        assert!(!of(&feed, 1000).0, "nothing is to come");
    }

    #[test]
    fn missing_verdict_states_the_window_length() {
        let config = Config::default();
        let recorded = Recorded {
            from_unix_nano: 1,
            to_unix_nano: 2,
        };
        let cases = [
            (
                Feed::new(&config, &[], None, pace(&config)),
                "no verdict yet: the first needs 10 s",
            ),
            (
                Feed::of_recording(&config, "h", recorded),
                "the served part of the recording is too short for a verdict: one needs 10 s",
            ),
        ];
        for (feed, words) in cases {
            feed.publish(Batch::default(), None);
            for resource in ["waits", "pairs"] {
                let answer = feed.answer(resource, &Query::default());
                let said = |it: &Refusal| matches!(it, Refusal::NotYet(why) if why.contains(words));
                assert!(answer.as_ref().is_err_and(said), "{answer:?}");
            }
            let node = feed.node(0).expect("figures");
            assert!(node.contains("\"verdict_window_seconds\":10.0,"), "{node}");
        }
    }

    #[test]
    fn node_answer_does_not_need_rows() {
        let batch = |sequence: u64| {
            let mut batch = Batch {
                sequence,
                taken_ns: sequence * 1_000_000_000,
                time_unix_ns: sequence * 1_000_000_000,
                measured: Measured::NONE.with(Counter::CpuTime),
                processes: vec![ProcessRow::default()],
                ..Batch::default()
            };
            batch.processes[0].counters[Counter::CpuTime] = sequence * 500_000_000;
            batch.node.total[Counter::CpuTime] = sequence * 500_000_000;
            batch.node.cpus = 2;
            batch.node.elapsed_ns = sequence * 2_000_000_000;
            batch.node.idle_ns = sequence * 1_250_000_000;
            batch.node.sockets.connections = sequence;
            batch
        };
        let facts = AgentFacts {
            sequence: 2,
            stalled_since: None,
            host: "h",
            version: "1",
            recorded: None,
            verdict_window_seconds: 10.0,
            cgroups: None,
            cost: &AgentCost::default(),
            losses: &[],
        };
        let json = |first: Batch, last: Batch| {
            let mut builder = ReportBuilder::new(first);
            builder.add(last);
            json::node_json(&builder.report(Level::Unit, false), &facts)
        };
        let whole = json(batch(1), batch(2));
        assert!(whole.contains("\"used_seconds\":0.5,"), "{whole}");
        assert_eq!(json(of_node(&batch(1)), of_node(&batch(2))), whole);
    }
}
