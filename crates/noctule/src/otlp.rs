//! Sends data to an OpenTelemetry receiver.
//!
//! The main thread passes snapshots, events and judged windows to a bounded inbox. A separate
//! thread converts them to requests and sends the requests. A slow receiver causes losses, which
//! are counted, but never delays a batch.

mod identity;
mod inbox;
mod verdicts;

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use noctule_analysis::WaitReport;
use noctule_model::{CgroupId, Event, Owner, Sending};
use noctule_otlp::{Client, Outcome, Queue, Reason, Settings, Signal, Tls, deliver};
use noctule_sinks::openmetrics::{View, has_names};
use noctule_sinks::otlp::{EventRecords, Identity, Request, Severity, severity};
use tokio::runtime::Runtime;
use tokio::time::sleep;

use crate::changes::Files;
use crate::config::{self, Config, OtlpEvents};
use crate::published::Published;
use crate::{rights, wire};
use inbox::{Inbox, Message};
use verdicts::{Verdicts, Window};

/// Maximum time to wait at shutdown until the queues are sent.
const LAST_SENDS: Duration = Duration::from_secs(5);

/// Maximum time that an event or a verdict waits for the name of a container, which is the same as
/// for series.
const SETTLE: Duration = Duration::from_secs(3);

/// Interval between checks of the TLS files for changes.
const LOOKS: Duration = Duration::from_secs(1);

/// Maximum number of events that wait for names.
const UNNAMED: usize = 10_000;

/// The main thread's side, which never blocks.
pub(crate) struct Otlp {
    inbox: Arc<Inbox>,
    queues: [Arc<Queue>; 2],
    metrics: bool,
    events: OtlpEvents,
    interval_ns: u64,
    /// `CLOCK_MONOTONIC` at which the next metrics are due.
    next_ns: u64,
    /// Events that wait for names, with the time of their arrival.
    unnamed: VecDeque<(u64, Event)>,
    /// Windows that wait for names.
    verdicts: Verdicts,
    ended: Receiver<()>,
}

impl Otlp {
    /// Starts the sending thread, if a receiver is configured.
    pub(crate) fn start(config: &Config) -> Result<Option<Self>> {
        let otlp = &config.otlp;
        if !otlp.is_on() {
            return Ok(None);
        }
        let files = otlp.files();
        let settings = otlp.settings()?;
        let renewal = settings.tls.clone().map(|tls| Renewal {
            otlp: otlp.clone(),
            files,
            tls,
        });
        let room = usize::try_from(otlp.queue_bytes).unwrap_or(usize::MAX);
        let queues = Signal::ALL.map(|_| Arc::new(Queue::new(room)));
        let inbox = Arc::new(Inbox::default());
        let sender = Sender {
            inbox: inbox.clone(),
            queues: queues.clone(),
            identity: identity::of(config),
            settings,
            renewal,
        };
        let runtime = runtime()?;
        let (end, ended) = sync_channel(1);
        thread::Builder::new()
            .name("noctule-otlp".into())
            .spawn(move || {
                rights::none();
                sender.run(&runtime);
                // Shuts down without waiting for a pending DNS lookup.
                runtime.shutdown_background();
                let _ = end.send(());
            })
            .context("starting the thread that sends to the OpenTelemetry receiver")?;
        Ok(Some(Self {
            inbox,
            queues,
            metrics: otlp.metrics,
            events: otlp.events,
            interval_ns: (otlp.interval_seconds * 1e9) as u64,
            next_ns: 0,
            unnamed: VecDeque::new(),
            verdicts: Verdicts::default(),
            ended,
        }))
    }

    /// Passes on the snapshot, if metrics are due.
    pub(crate) fn figures(&mut self, last: &Arc<Published>) {
        let now = last.taken_ns();
        if self.metrics && now >= self.next_ns {
            // Skips the intervals that were missed while the machine was suspended.
            let next = self.next_ns + self.interval_ns;
            self.next_ns = if next > now {
                next
            } else {
                now + self.interval_ns
            };
            self.inbox.put(Message::Figures(last.clone()));
        }
    }

    /// Adds the report of a window that ended at this time; [`Otlp::name_verdicts`] passes it on.
    pub(crate) fn judged(&mut self, report: &Arc<WaitReport>, time_unix_ns: u64) {
        if self.events != OtlpEvents::Off && !report.provisional {
            self.verdicts
                .push(report.clone(), time_unix_ns, wire::now_ns());
        }
    }

    /// Passes on the reports of windows whose group names can no longer change.
    pub(crate) fn name_verdicts(&mut self, owner: impl FnMut(CgroupId) -> Arc<Owner>) {
        let settled = self.verdicts.settled(wire::now_ns(), owner);
        self.hand_over(settled);
    }

    fn hand_over(&self, windows: Vec<Window>) {
        for window in windows {
            let message = Message::Judged(window.report, window.time_unix_ns);
            self.inbox.put(message);
        }
    }

    /// Passes on events, in order. An event of an unnamed container waits for the name, and later
    /// events wait for that event. `rename` looks up the name.
    pub(crate) fn events(&mut self, events: &[Event], rename: impl FnMut(&mut Event)) {
        let least = match self.events {
            OtlpEvents::Off => return,
            OtlpEvents::Warnings => Severity::Warn,
            OtlpEvents::All => Severity::Info,
        };
        let now = wire::now_ns();
        let wanted = events.iter().filter(|event| severity(&event.what) >= least);
        self.unnamed
            .extend(wanted.map(|event| (now, event.clone())));
        self.name(rename);
    }

    /// Passes on the events whose names are final.
    pub(crate) fn name(&mut self, mut rename: impl FnMut(&mut Event)) {
        let now = wire::now_ns();
        let mut named = Vec::new();
        while let Some((came, event)) = self.unnamed.front_mut() {
            if !is_named(event) {
                rename(event);
                let waits = now.saturating_sub(*came) < SETTLE.as_nanos() as u64;
                if waits && !is_named(event) && self.unnamed.len() <= UNNAMED {
                    break;
                }
            }
            named.extend(self.unnamed.pop_front().map(|(_, event)| event));
        }
        if !named.is_empty() {
            let lost = self.inbox.put_events(named);
            self.queues[Signal::Logs as usize].lose(Reason::QueueFull, lost);
        }
    }

    /// Returns the numbers of sent and lost items so far.
    pub(crate) fn sendings(&self) -> Vec<Sending> {
        let sending = |signal: Signal| {
            let counts = self.queues[signal as usize].counts();
            Sending {
                signal: signal.name(),
                sent: counts.sent,
                lost: Reason::ALL
                    .map(|reason| (reason.name(), counts.lost[reason as usize]))
                    .to_vec(),
                waiting: counts.waiting,
                waiting_bytes: counts.waiting_bytes,
                retries: counts.retries,
            }
        };
        Signal::ALL.map(sending).to_vec()
    }

    /// Sends the last snapshot, and waits a limited time until everything is sent.
    pub(crate) fn close(mut self, last: Option<&Arc<Published>>) {
        if let Some(last) = last.filter(|_| self.metrics) {
            self.inbox.put(Message::Figures(last.clone()));
        }
        let windows = self.verdicts.rest();
        self.hand_over(windows);
        let all = self.unnamed.drain(..).map(|(_, event)| event).collect();
        let lost = self.inbox.put_events(all);
        self.queues[Signal::Logs as usize].lose(Reason::QueueFull, lost);
        self.inbox.close();
        if let Err(mpsc::RecvTimeoutError::Timeout) = self.ended.recv_timeout(LAST_SENDS) {
            let waiting = self.queues.iter().map(|queue| queue.counts().waiting);
            let waiting: u64 = waiting.sum();
            tracing::warn!("otlp: the last {waiting} items were not sent within {LAST_SENDS:?}");
        }
    }
}

/// Sends an empty request for each signal and returns the receiver's responses.
pub(crate) fn probe(config: &Config) -> Result<Vec<(Signal, Outcome)>> {
    if !config.otlp.is_on() {
        return Ok(Vec::new());
    }
    let settings = config.otlp.settings()?;
    let runtime = runtime()?;
    let outcomes = Signal::ALL.map(|signal| {
        let mut client = Client::new(settings.clone());
        (signal, runtime.block_on(client.probe(signal)))
    });
    runtime.shutdown_background();
    Ok(outcomes.to_vec())
}

fn runtime() -> Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(1)
        .thread_name("noctule-resolve")
        .build()
        .context("preparing to send to the OpenTelemetry receiver")
}

fn is_named(event: &Event) -> bool {
    let process = event.process.as_ref();
    let owner = process.and_then(|process| process.owner.as_deref());
    owner.is_none_or(is_settled)
}

/// Returns whether the owner's names are final: it has no container, or the container's names are
/// known.
fn is_settled(owner: &Owner) -> bool {
    owner.container.is_none() || has_names(owner)
}

/// Returns the startup message with the receiver's address.
pub(crate) fn announcement(config: &Config) -> Option<String> {
    let otlp = &config.otlp;
    let every = otlp.interval_seconds;
    otlp.is_on()
        .then(|| format!("otlp: {}, metrics every {every} s\n", otlp.endpoint))
}

/// State of the sending thread.
struct Sender {
    inbox: Arc<Inbox>,
    queues: [Arc<Queue>; 2],
    identity: Identity,
    settings: Settings,
    renewal: Option<Renewal>,
}

impl Sender {
    fn run(mut self, runtime: &Runtime) {
        runtime.block_on(async {
            // The spawned task ends with the runtime.
            self.renewal.take().map(|it| tokio::spawn(it.run()));
            let workers = Signal::ALL.map(|signal| {
                let queue = self.queues[signal as usize].clone();
                tokio::spawn(deliver(signal, queue, self.settings.clone()))
            });
            let run = identity::run(&self.identity, now_unix_ns());
            let mut records = EventRecords::new(self.identity.clone(), run);
            let mut seen_ns = 0;
            while let Some(messages) = self.inbox.take().await {
                for message in messages {
                    self.pack(message, &mut records, &mut seen_ns);
                }
                for request in records.take() {
                    let queue = &self.queues[Signal::Logs as usize];
                    queue.push(&self.settings, &request.body, request.items);
                }
                // Lets the workers run between two requests.
                tokio::task::yield_now().await;
            }
            self.queues.iter().for_each(|queue| queue.close());
            for worker in workers {
                // A worker ends when its queue is closed and empty.
                let _ = worker.await;
            }
        });
    }

    /// Packs a message into requests and queues them. `seen_ns` is the time of the last snapshot
    /// that was packed.
    fn pack(&self, message: Message, records: &mut EventRecords, seen_ns: &mut u64) {
        let now_ns = wire::now_ns();
        let mut push = |request: Request| {
            let queue = &self.queues[Signal::Metrics as usize];
            queue.push(&self.settings, &request.body, request.items);
        };
        match message {
            Message::Figures(last) => {
                let view = View::Since(*seen_ns);
                last.otlp(&self.identity, view, now_ns, &mut push);
                *seen_ns = last.taken_ns();
            }
            Message::Events(events) => {
                let now = now_unix_ns();
                events.iter().for_each(|event| records.event(event, now));
            }
            Message::Judged(report, at) => records.judged(&report, at),
        }
    }
}

/// Reloads changed TLS files, so that certificates can be renewed without a restart.
struct Renewal {
    otlp: config::Otlp,
    files: Files,
    tls: Tls,
}

impl Renewal {
    async fn run(mut self) {
        loop {
            sleep(LOOKS).await;
            if self.files.changed() {
                self.read();
            }
        }
    }

    fn read(&mut self) {
        // A file can be partially written, or a key can be newer than its certificate. The next
        // change then triggers another read.
        self.files = self.otlp.files();
        match self.otlp.tls() {
            Ok(tls) => {
                self.tls.replace(&tls);
                tracing::info!("otlp: reloaded the TLS files");
            }
            Err(error) => {
                tracing::warn!("{error}; the previous files stay in effect");
            }
        }
    }
}

/// Returns nanoseconds since 1970.
pub(crate) fn now_unix_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_nanos() as u64)
}
