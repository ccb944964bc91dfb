//! The JSON of the commands: one compact object, with OpenTelemetry's attribute names where they
//! exist.
//!
//! The types here mirror the types of the model, so a key that users see changes only if it is
//! changed here. If a value is not measured, its key is missing; the value is never 0 or null.

mod disks;
mod energy;
mod episodes;
mod events;
mod group;
mod history;
mod meters;
mod owner;
mod released;
mod row;
mod settings;
mod value;
mod waits;
mod why;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use noctule_analysis::Report;
use noctule_model::{
    AgentCost, Counter, EventCounter, Events, Feature, FeatureState, Level, Loss, UnreadZone, Zone,
};
use noctule_text::is_unseen;
use serde::Serialize;

use energy::EnergyJson;
pub use energy::energy_json;
pub use episodes::{OomKill, episodes_json};
use events::EventsJson;
pub use group::{GroupFacts, GroupProcess, GroupSettings, group_json};
pub use history::{HistoryRows, HistorySort, history_json, now_json};
use meters::MeterJson;
pub(crate) use owner::OwnerJson;
use row::RowJson;
pub(crate) use value::ValueJson;
pub use waits::{pairs_json, waits_json};
pub use why::{asleep_json, why_json};

/// Returns the JSON of `noctule stat --json`, which is also the API's table of rows.
///
/// Rows keep the report's order. `level` must be the level for which the report was made, because
/// it determines the keys of a row. A row that covers several groups names the outermost one.
pub fn stat_json(report: &Report, level: Level) -> String {
    let node = &report.node;
    let events = Events {
        counters: node.events,
        sockets: report.sockets,
    };
    let charged = report.measured.has(Counter::CpuTime);
    let stat = Stat {
        window_seconds: seconds(report.window_ns),
        from_unix_nano: report.from_unix_ns,
        to_unix_nano: report.time_unix_ns,
        cpus: node.cpus,
        idle_seconds: seconds(node.idle_ns),
        node: EventCounter::all()
            .any(|counter| report.measured.has(counter))
            .then(|| EventsJson::new(&events, report.measured)),
        rows: report
            .rows
            .iter()
            .map(|row| RowJson::new(report, row, level))
            .collect(),
        remainder_seconds: charged.then(|| seconds(node.remainder_ns())),
        interrupt_seconds: node.interrupt_ns.map(seconds),
        steal_seconds: node.steal_ns.map(seconds),
        steal_included_seconds: node.steal_included_ns.map(seconds),
        unrecorded_seconds: (level == Level::Process).then(|| seconds(report.unrecorded_ns)),
        energy: report
            .energy
            .as_ref()
            .map(|energy| EnergyJson::new(energy, report.window_ns, level)),
        losses: report.losses.iter().map(|l| (l.kind, l.count)).collect(),
        features: report.features.iter().map(FeatureJson::short).collect(),
    };
    to_string(&stat)
}

/// Returns the JSON of `noctule doctor --json`: `{"features": [{"name", "state", "reason",
/// "mend"}]}`. `mend` describes how to improve the state. The key is absent if no action is
/// necessary.
///
/// `meters` lists the energy zones in the order of a batch, then the zones that exist but are not
/// read.
pub fn doctor_json(features: &[Feature], zones: &[Zone], unread: &[UnreadZone]) -> String {
    let read = zones.iter().map(MeterJson::read);
    let doctor = Doctor {
        features: features.iter().map(FeatureJson::full).collect(),
        meters: read.chain(unread.iter().map(MeterJson::unread)).collect(),
    };
    to_string(&doctor)
}

/// Returns the API's response to `node`: the machine's usage in the window, and the state of the
/// agent.
pub fn node_json(report: &Report, agent: &AgentFacts<'_>) -> String {
    let node = &report.node;
    let events = Events {
        counters: node.events,
        sockets: report.sockets,
    };
    to_string(&NodeAnswer {
        time_unix_nano: report.time_unix_ns,
        sequence: agent.sequence,
        stalled_since: agent.stalled_since,
        host: agent.host,
        version: agent.version,
        recorded: agent.recorded,
        verdict_window_seconds: agent.verdict_window_seconds,
        cgroups: agent.cgroups,
        window_seconds: seconds(report.window_ns),
        cpus: node.cpus,
        used_seconds: seconds(node.total[Counter::CpuTime]),
        idle_seconds: seconds(node.idle_ns),
        remainder_seconds: seconds(node.remainder_ns()),
        interrupt_seconds: node.interrupt_ns.map(seconds),
        steal_seconds: node.steal_ns.map(seconds),
        steal_included_seconds: node.steal_included_ns.map(seconds),
        node: EventsJson::new(&events, report.measured),
        agent: AgentJson {
            cpu_seconds: seconds(agent.cost.cpu_ns),
            resident_bytes: agent.cost.resident_bytes,
        },
        losses: agent.losses.iter().map(|l| (l.kind, l.count)).collect(),
    })
}

/// The agent's state, as the API reports it.
#[derive(Clone, Copy, Debug)]
pub struct AgentFacts<'a> {
    /// Number of the last batch.
    pub sequence: u64,
    /// If the next batch is overdue, the time of the last batch in nanoseconds since 1970. `None`
    /// if the next batch is not due yet, or if no more batches are expected.
    pub stalled_since: Option<u64>,
    /// Name of the machine.
    pub host: &'a str,
    /// Version of the agent.
    pub version: &'a str,
    /// The time span of the recording, if the agent serves a recording instead of the live node.
    pub recorded: Option<Recorded>,
    /// Length of the window for verdicts, in seconds.
    pub verdict_window_seconds: f64,
    /// Where the counted cgroups are mounted; `None` for a recording.
    pub cgroups: Option<&'a CgroupMount>,
    /// The agent's cost since its start.
    pub cost: &'a AgentCost,
    /// Losses since the agent's start.
    pub losses: &'a [Loss],
}

/// The mounted hierarchy of cgroups that is counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CgroupMount {
    /// The mount point on the host.
    pub mount: String,
    /// Whether the hierarchy is cgroup v2. Otherwise it is the hierarchy of the cpu controller in
    /// v1.
    pub unified: bool,
}

/// Properties of a process that are not measurements.
#[derive(Clone, Debug, Serialize)]
pub struct LookedAtProcess<'a> {
    /// The process id.
    #[serde(rename = "process.pid")]
    pub pid: u32,
    /// Start time in nanoseconds since 1970; `None` if the last batch does not contain the process.
    #[serde(
        rename = "process.creation.time_unix_nano",
        skip_serializing_if = "Option::is_none"
    )]
    pub created: Option<u64>,
    /// Name of the user that owns the process.
    #[serde(rename = "process.owner", skip_serializing_if = "Option::is_none")]
    pub owner: Option<&'a str>,
    /// The command line.
    #[serde(
        rename = "process.command_line",
        skip_serializing_if = "Option::is_none"
    )]
    pub command_line: Option<&'a str>,
}

/// Returns the API's response for one process.
pub fn process_json(process: &LookedAtProcess<'_>) -> String {
    to_string(process)
}

/// The time span of a recording.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Recorded {
    /// Start, nanoseconds since 1970.
    pub from_unix_nano: u64,
    /// End, nanoseconds since 1970.
    pub to_unix_nano: u64,
}

#[derive(Serialize)]
struct NodeAnswer<'a> {
    time_unix_nano: u64,
    sequence: u64,
    #[serde(
        rename = "stalled_since_unix_nano",
        skip_serializing_if = "Option::is_none"
    )]
    stalled_since: Option<u64>,
    #[serde(rename = "host.name")]
    host: &'a str,
    #[serde(rename = "noctule.version")]
    version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    recorded: Option<Recorded>,
    verdict_window_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cgroups: Option<&'a CgroupMount>,
    window_seconds: f64,
    cpus: u32,
    used_seconds: f64,
    idle_seconds: f64,
    remainder_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    interrupt_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    steal_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    steal_included_seconds: Option<f64>,
    node: EventsJson,
    agent: AgentJson,
    losses: BTreeMap<&'static str, u64>,
}

#[derive(Serialize)]
struct AgentJson {
    #[serde(rename = "cpu.seconds")]
    cpu_seconds: f64,
    #[serde(rename = "memory.rss_bytes")]
    resident_bytes: u64,
}

#[derive(Serialize)]
struct Stat<'a> {
    window_seconds: f64,
    from_unix_nano: u64,
    to_unix_nano: u64,
    cpus: u32,
    idle_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<EventsJson>,
    rows: Vec<RowJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remainder_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interrupt_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    steal_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    steal_included_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unrecorded_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    energy: Option<EnergyJson<'a>>,
    losses: BTreeMap<&'static str, u64>,
    features: Vec<FeatureJson<'a>>,
}

#[derive(Serialize)]
struct Doctor<'a> {
    features: Vec<FeatureJson<'a>>,
    meters: Vec<MeterJson<'a>>,
}

#[derive(Serialize)]
struct FeatureJson<'a> {
    name: &'a str,
    state: &'static str,
    reason: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    mend: &'a str,
}

impl<'a> FeatureJson<'a> {
    fn full(feature: &'a Feature) -> Self {
        Self {
            name: feature.id.name(),
            state: FeatureState::name(feature.state),
            reason: &feature.reason,
            mend: &feature.mend,
        }
    }

    /// Returns the feature without its remedy, which only `doctor` shows.
    fn short(feature: &'a Feature) -> Self {
        Self {
            mend: "",
            ..Self::full(feature)
        }
    }
}

pub(crate) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Serializes `value`. Serialization cannot fail, because all maps have string keys and no
/// `Serialize` implementation here returns an error. If serialization did fail, readers would
/// reject the empty text.
pub(crate) fn to_string(value: &impl Serialize) -> String {
    escape_unseen(serde_json::to_string(value).unwrap_or_default())
}

/// Escapes control characters above U+007E and characters that change the text direction.
///
/// JSON requires escapes only below U+0020, but terminals interpret the other characters, too.
/// These characters occur only inside strings, where an escape has the same meaning.
fn escape_unseen(json: String) -> String {
    let escapes = |c: char| c >= '\u{7f}' && is_unseen(c);
    if !json.contains(escapes) {
        return json;
    }
    let mut out = String::with_capacity(json.len() + 64);
    for c in json.chars() {
        if escapes(c) {
            // Writing to a string cannot fail. None of the escaped characters needs a surrogate
            // pair.
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}
