//! Keeps the latest events in bounded memory.

use std::collections::VecDeque;
use std::sync::Arc;

use noctule_model::{Event, ExitStatus, Origin, TcpChange, What};

/// Limits of an event log. The limits apply to rare and to ordinary events separately.
#[derive(Clone, Copy, Debug)]
pub struct EventLogLimits {
    /// Maximum number of events.
    pub events: usize,
    /// Maximum total size of the events in bytes, including paths and arguments.
    pub bytes: usize,
}

impl EventLogLimits {
    /// Limits of the agent.
    pub const RECENT: Self = Self {
        events: 4000,
        bytes: 2 << 20,
    };
}

impl Default for EventLogLimits {
    fn default() -> Self {
        Self::RECENT
    }
}

/// The latest events. Signs of trouble are kept in their own ring, so that a storm of short
/// processes does not push them out.
#[derive(Clone, Debug)]
pub struct EventLog {
    limits: EventLogLimits,
    rare: Ring,
    ordinary: Ring,
}

#[derive(Clone, Debug, Default)]
struct Ring {
    events: VecDeque<Arc<Event>>,
    bytes: usize,
    /// Number of dropped events, and the time of the latest one.
    forgotten: u64,
    forgotten_unix_ns: u64,
}

impl EventLog {
    /// Creates an empty log.
    pub fn new(limits: EventLogLimits) -> Self {
        Self {
            limits,
            rare: Ring::default(),
            ordinary: Ring::default(),
        }
    }

    /// Adds events, in order. Leaves out events about processes and sockets that existed before the
    /// agent started.
    pub fn add(&mut self, events: impl IntoIterator<Item = Event>) {
        let news = |event: &Event| event.origin != Origin::Existing;
        for event in events.into_iter().filter(news) {
            let ring = match is_trouble(&event.what) {
                true => &mut self.rare,
                false => &mut self.ordinary,
            };
            ring.add(event, &self.limits);
        }
    }

    /// Returns the events in a time range (nanoseconds since 1970), in order.
    pub fn within(&self, from_unix_ns: u64, to_unix_ns: u64) -> Vec<Arc<Event>> {
        let span = from_unix_ns..=to_unix_ns;
        let all = self.rare.events.iter().chain(&self.ordinary.events);
        let inside = all.filter(|event| span.contains(&event.time_unix_ns));
        let mut inside: Vec<Arc<Event>> = inside.cloned().collect();
        inside.sort_by_key(|event| event.time_unix_ns);
        inside
    }

    /// Returns the number of dropped events, ordinary and rare, and the time of the latest dropped
    /// event (nanoseconds since 1970).
    pub fn forgotten(&self) -> (u64, u64) {
        let rings = [&self.rare, &self.ordinary];
        let count = rings.iter().map(|ring| ring.forgotten).sum();
        let last = rings.iter().map(|ring| ring.forgotten_unix_ns).max();
        (count, last.unwrap_or(0))
    }
}

impl Ring {
    fn add(&mut self, event: Event, limits: &EventLogLimits) {
        self.bytes += bytes(&event);
        self.events.push_back(Arc::new(event));
        while self.events.len() > limits.events || self.bytes > limits.bytes {
            let Some(oldest) = self.events.pop_front() else {
                return;
            };
            self.bytes -= bytes(&oldest);
            self.forgotten += 1;
            self.forgotten_unix_ns = self.forgotten_unix_ns.max(oldest.time_unix_ns);
        }
    }
}

/// Keeps at most `most` of these events, which must be in order of time. Prefers signs of trouble,
/// and then the latest events. A storm of short processes thus does not push an OOM kill out of a
/// response.
pub fn at_most(mut events: Vec<Arc<Event>>, most: usize) -> Vec<Arc<Event>> {
    let rare = events
        .iter()
        .filter(|event| is_trouble(&event.what))
        .count();
    let ordinary = events.len() - rare;
    let mut skip_rare = rare.saturating_sub(most);
    let mut skip_ordinary = ordinary.saturating_sub(most - (rare - skip_rare));
    events.retain(|event| {
        let skip = match is_trouble(&event.what) {
            true => &mut skip_rare,
            false => &mut skip_ordinary,
        };
        let is_kept = *skip == 0;
        *skip = skip.saturating_sub(1);
        is_kept
    });
    events
}

/// Returns whether the event is a sign of trouble.
pub fn is_trouble(what: &What) -> bool {
    match what {
        What::OomKill { .. } | What::Gap { .. } => true,
        What::ProcessExit {
            status, oom_killed, ..
        } => *oom_killed || matches!(status, Some(ExitStatus::Signal(_))),
        What::Tcp { change, .. } => matches!(change, TcpChange::ConnectFailed { .. }),
        _ => false,
    }
}

fn bytes(event: &Event) -> usize {
    let text = match &event.what {
        What::ProcessExec {
            path,
            args,
            context,
            ..
        } => {
            let args = args.iter().map(|arg| arg.len() + 24).sum::<usize>();
            path.bytes.len() + args + context.bytes()
        }
        What::FileOpen { path, .. } | What::ProcessExecFailed { path, .. } => path.bytes.len(),
        What::FileChange { path, change, .. } => {
            path.bytes.len() + change.second().map_or(0, |path| path.bytes.len())
        }
        What::DnsQuery(query) => size_of_val(&**query) + query.question.name.len(),
        What::Gap { lost, .. } => lost.len() * 24,
        _ => 0,
    };
    size_of::<Event>() + 16 + text
}
