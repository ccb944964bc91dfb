//! What the agent sends to an OpenTelemetry receiver.
//!
//! The main thread hands over what it has: the last figures, events, judged windows. A thread of its own makes
//! requests of them and sends these. Between the two is a bounded inbox: who is slow costs items, which are
//! counted, and never holds up a batch.

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

/// How long the end of the agent waits for what is in the queues.
const LAST_SENDS: Duration = Duration::from_secs(5);

/// How long an event or a verdict waits for the name of a container, as series do.
const SETTLE: Duration = Duration::from_secs(3);

/// Between two looks for changes of the files of TLS.
const LOOKS: Duration = Duration::from_secs(1);

/// Events that wait for names, at most.
const UNNAMED: usize = 10_000;

/// The agent's end: it hands over and never waits.
pub(crate) struct Otlp {
    inbox: Arc<Inbox>,
    queues: [Arc<Queue>; 2],
    metrics: bool,
    events: OtlpEvents,
    interval_ns: u64,
    /// When figures are due, `CLOCK_MONOTONIC`.
    next_ns: u64,
    /// Events that wait for names, with when they came.
    unnamed: VecDeque<(u64, Event)>,
    /// Windows that wait for names.
    verdicts: Verdicts,
    ended: Receiver<()>,
}

impl Otlp {
    /// Starts the thread, if there is a receiver.
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
                // A name that is being looked up holds up nobody.
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

    /// Hands over the figures, if they are due.
    pub(crate) fn figures(&mut self, last: &Arc<Published>) {
        let now = last.taken_ns();
        if self.metrics && now >= self.next_ns {
            // After a stop what was missed is not made up for.
            let next = self.next_ns + self.interval_ns;
            self.next_ns = if next > now {
                next
            } else {
                now + self.interval_ns
            };
            self.inbox.put(Message::Figures(last.clone()));
        }
    }

    /// Takes the report of a window that ended at that time; [`Otlp::name_verdicts`] hands it over.
    pub(crate) fn judged(&mut self, report: &Arc<WaitReport>, time_unix_ns: u64) {
        if self.events != OtlpEvents::Off && !report.provisional {
            self.verdicts
                .push(report.clone(), time_unix_ns, wire::now_ns());
        }
    }

    /// Hands over the windows whose names are settled by now.
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

    /// Hands over events, in order. One of a container without a name waits for that a while, and those
    /// behind it wait, too; `rename` looks for it.
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

    /// Hands over the events whose names are settled by now.
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

    /// What has become of everything so far.
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

    /// Sends the last figures, and waits until everything is sent, for a while.
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

/// Sends a request without items for each signal, if there is a receiver: what it answers.
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

/// A container has its names, and what is none needs none.
fn is_settled(owner: &Owner) -> bool {
    owner.container.is_none() || has_names(owner)
}

/// Where to, for who starts the agent.
pub(crate) fn announcement(config: &Config) -> Option<String> {
    let otlp = &config.otlp;
    let every = otlp.interval_seconds;
    otlp.is_on()
        .then(|| format!("otlp: {}, metrics each {every} s\n", otlp.endpoint))
}

/// What the thread owns.
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
            // It ends with the runtime.
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
                // Between two requests the workers have their turn.
                tokio::task::yield_now().await;
            }
            self.queues.iter().for_each(|queue| queue.close());
            for worker in workers {
                // It ends when its queue is empty.
                let _ = worker.await;
            }
        });
    }

    /// `seen_ns`: when the figures were taken that were packed last.
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

/// Reads the files of TLS again when they have changed: a certificate is renewed without a restart.
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
        // A file may be half written, or a key newer than its certificate: the next change is looked at.
        self.files = self.otlp.files();
        match self.otlp.tls() {
            Ok(tls) => {
                self.tls.replace(&tls);
                tracing::info!("otlp: the files of TLS were read again");
            }
            Err(error) => {
                tracing::warn!("{error}; what was read before stays in effect");
            }
        }
    }
}

/// Nanoseconds since 1970.
pub(crate) fn now_unix_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_nanos() as u64)
}
