//! The JSON of a time span for charts: columns with one value per step.

use std::collections::HashMap;

use noctule_analysis::{
    CpuStep, CpuStrip, Hurt, JudgedWindow, OwnerId, OwnerSum, PairSum, Party, SpanStep, TimeSpan,
    TimeSpanQuery, TimelineView,
};
use noctule_model::{Cause, Counter, Histogram, Level, VerdictKind, Zone};
use noctule_schema::events::EVENTS;
use serde::Serialize;

use super::owner::OwnerJson;
use super::waits::Named;
use super::{seconds, to_string};

/// Sort order, limits and filter for the owners of a time span.
#[derive(Clone, Debug, Default)]
pub struct HistoryRows {
    /// The sort order of the owners.
    pub sort: HistorySort,
    /// The maximum number of owners.
    pub owners: usize,
    /// The maximum number of pairs.
    pub pairs: usize,
    /// Keeps only owners whose name, path or container id contains this string. Must be lower case.
    pub filter: String,
    /// The time of the verdicts, in nanoseconds since 1970; the end of the span by default.
    pub judged_unix_ns: Option<u64>,
}

/// The sort order of the owners.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HistorySort {
    /// By CPU time, largest first.
    #[default]
    Cpu,
    /// By wait time, largest first.
    Wait,
    /// By the wait time caused to others, largest first.
    Hurts,
    /// By power, largest first.
    Energy,
    /// By name.
    Name,
}

impl HistorySort {
    /// Every order, with its name in the API.
    pub const ALL: [(&'static str, Self); 5] = [
        ("cpu", Self::Cpu),
        ("wait", Self::Wait),
        ("hurts", Self::Hurts),
        ("energy", Self::Energy),
        ("name", Self::Name),
    ];
}

/// The range of the distributions: from 2^10 ns (1 µs) to 2^33 ns (9 s). Each bucket is twice as
/// wide as the previous one.
const POWERS: std::ops::RangeInclusive<u32> = 10..=33;

/// Returns the API's response to `history`. `zones` are the zones of the last batch.
pub fn history_json(
    view: &TimelineView,
    query: &TimeSpanQuery,
    rows: &HistoryRows,
    zones: &[Zone],
) -> String {
    let span = view.range(query);
    let has_waits = span.has_waits();
    let at = rows.judged_unix_ns.unwrap_or(query.to_unix_ns);
    let judged = view.judged_at(at).filter(|_| has_waits);
    let verdicts = judged.map(|window| window.verdicts());
    let end = |point: Option<&std::sync::Arc<noctule_analysis::TimePoint>>| {
        point.map(|point| point.time_unix_ns)
    };
    to_string(&HistoryJson {
        sequence: span.sequence,
        oldest: end(view.points.first()),
        newest: end(view.points.last()),
        from: span.from_unix_ns,
        to: query.to_unix_ns,
        step_seconds: seconds(span.step_ns),
        cpus: span.cpus,
        covered_seconds: each(&span, |step| Some(seconds(step.covered_ns))),
        node: NodeSteps::new(&span),
        waits: has_waits.then(|| WaitSteps::new(&span, query)),
        strips: span.strips.iter().map(StripJson::new).collect(),
        owners_total: span.owners.len(),
        crowded: span.crowded,
        crowded_pairs: has_waits.then_some(span.crowded_pairs),
        owners: owners(view, &span, rows, verdicts.as_ref()),
        pairs: has_waits.then(|| pairs(view, &span, rows.pairs)),
        pair: (query.pair.filter(|_| has_waits)).map(|(victim, culprit)| PairSteps {
            victim,
            culprit,
            wait: each(&span, |step| rate(step, step.pair_ns)),
        }),
        energy: energy(&span, zones),
        events: EventSteps::new(&span),
        losses: each(&span, |step| (step.covered_ns > 0).then_some(step.losses)),
        agent: each(&span, |step| rate(step, step.agent_ns)),
        now: judged.map(|window| NowJson::new(window)),
    })
}

/// Returns the API's response to `now`: the groups that were slowed down in the last judged window.
pub fn now_json(window: Option<&JudgedWindow>) -> String {
    #[derive(Serialize)]
    struct Answer<'a> {
        #[serde(skip_serializing_if = "Option::is_none")]
        now: Option<NowJson<'a>>,
    }
    to_string(&Answer {
        now: window.map(NowJson::new),
    })
}

/// One value for each step; `null` marks a gap.
type Steps<T> = Vec<Option<T>>;

#[derive(Serialize)]
struct HistoryJson<'a> {
    sequence: u64,
    #[serde(rename = "oldest_unix_nano", skip_serializing_if = "Option::is_none")]
    oldest: Option<u64>,
    #[serde(rename = "newest_unix_nano", skip_serializing_if = "Option::is_none")]
    newest: Option<u64>,
    #[serde(rename = "from_unix_nano")]
    from: u64,
    #[serde(rename = "to_unix_nano")]
    to: u64,
    step_seconds: f64,
    cpus: u32,
    covered_seconds: Steps<f64>,
    node: NodeSteps,
    #[serde(skip_serializing_if = "Option::is_none")]
    waits: Option<WaitSteps>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    strips: Vec<StripJson>,
    owners_total: usize,
    crowded: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    crowded_pairs: Option<usize>,
    owners: Vec<OwnerRow<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pairs: Option<Vec<PairRow>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pair: Option<PairSteps>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    energy: Vec<ZoneSteps<'a>>,
    events: EventSteps,
    losses: Steps<u64>,
    agent: Steps<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    now: Option<NowJson<'a>>,
}

/// Time summed over all CPUs, as a number of CPUs.
#[derive(Serialize)]
struct NodeSteps {
    used: Steps<f64>,
    idle: Steps<f64>,
    remainder: Steps<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interrupt: Option<Steps<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    steal: Option<Steps<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    steal_included: Option<Steps<f64>>,
}

/// One CPU's usage over the span, as fractions of its time.
#[derive(Serialize)]
struct StripJson {
    cpu: u32,
    busy: Steps<f64>,
    taken: Steps<f64>,
    holder: Steps<OwnerId>,
    held: Steps<f64>,
}

#[derive(Serialize)]
struct WaitSteps {
    #[serde(skip_serializing_if = "Option::is_none")]
    of: Option<OwnerId>,
    causes: Named<Steps<f64>>,
    p50_seconds: Steps<f64>,
    p90_seconds: Steps<f64>,
    p99_seconds: Steps<f64>,
    max_seconds: Steps<f64>,
    bounds_seconds: Vec<f64>,
    lengths: Vec<Vec<u64>>,
    missing: usize,
}

#[derive(Serialize)]
struct OwnerRow<'a> {
    id: OwnerId,
    name: String,
    #[serde(flatten)]
    owner: OwnerJson<'a>,
    #[serde(rename = "cpu.seconds")]
    cpu: f64,
    #[serde(rename = "wait.seconds", skip_serializing_if = "Option::is_none")]
    wait: Option<f64>,
    #[serde(rename = "hurts.seconds", skip_serializing_if = "Option::is_none")]
    hurts: Option<f64>,
    #[serde(rename = "energy.watts", skip_serializing_if = "Option::is_none")]
    watts: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    causes: Option<Named<f64>>,
    cpus: Steps<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict: Option<OwnerVerdict>,
}

/// The verdict on an owner in the last judged window.
#[derive(Serialize)]
pub(super) struct OwnerVerdict {
    kind: &'static str,
}

impl OwnerVerdict {
    /// Returns the verdict on an owner; owners that are not in `verdicts` were quiet.
    pub(super) fn of(id: OwnerId, verdicts: &HashMap<OwnerId, VerdictKind>) -> Self {
        let kind = verdicts.get(&id).copied().unwrap_or_default();
        Self { kind: kind.name() }
    }
}

#[derive(Serialize)]
struct PairRow {
    victim: OwnerId,
    #[serde(rename = "victim.name")]
    victim_name: String,
    culprit: OwnerId,
    #[serde(rename = "culprit.name")]
    culprit_name: String,
    #[serde(rename = "wait.seconds")]
    wait: f64,
}

#[derive(Serialize)]
struct PairSteps {
    victim: OwnerId,
    culprit: OwnerId,
    wait: Steps<f64>,
}

#[derive(Serialize)]
struct ZoneSteps<'a> {
    zone: &'static str,
    name: &'a str,
    label: String,
    source: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    part_of: Option<usize>,
    watts: Steps<f64>,
}

/// Number of events in each step. Kinds that are not counted have no key.
#[derive(Serialize)]
struct EventSteps {
    #[serde(flatten)]
    counts: Named<Steps<u64>>,
}

#[derive(Serialize)]
struct NowJson<'a> {
    time_unix_nano: u64,
    window_seconds: f64,
    rows: Vec<HurtJson<'a>>,
    more: usize,
}

#[derive(Serialize)]
pub(super) struct HurtJson<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<OwnerId>,
    name: String,
    #[serde(flatten)]
    owner: OwnerJson<'a>,
    verdict: HurtVerdict<'a>,
    #[serde(rename = "wait.seconds")]
    wait: f64,
    #[serde(rename = "hurt.seconds")]
    hurt: f64,
    behind: Vec<PartyJson<'a>>,
    since_unix_nano: u64,
}

#[derive(Serialize)]
struct HurtVerdict<'a> {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    culprit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    culprit_id: Option<OwnerId>,
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_step: Option<String>,
    /// The busiest commands of the root group, if it is a culprit.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    root_commands: &'a [String],
    /// Average number of threads that ran or waited.
    threads: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    quota: Option<LimitJson<'a>>,
}

/// The quota that throttled a group most.
#[derive(Serialize)]
struct LimitJson<'a> {
    cpus: f64,
    #[serde(
        rename = "process.linux.cgroup",
        skip_serializing_if = "Option::is_none"
    )]
    group: Option<&'a str>,
}

/// A party and a wait: the wait of the party, or the wait that the party caused.
#[derive(Serialize)]
pub(super) struct PartyJson<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<OwnerId>,
    name: String,
    #[serde(flatten)]
    owner: OwnerJson<'a>,
    #[serde(rename = "wait.seconds")]
    wait: f64,
}

fn each<T>(span: &TimeSpan, of: impl Fn(&SpanStep) -> Option<T>) -> Steps<T> {
    span.buckets.iter().map(of).collect()
}

/// Returns a time as seconds per second, rounded to four decimals; `None` in a gap.
fn rate(step: &SpanStep, ns: u64) -> Option<f64> {
    part_of(step.covered_ns, ns)
}

/// Like [`rate`], but the covered time is an argument.
fn part_of(covered_ns: u64, ns: u64) -> Option<f64> {
    (covered_ns > 0).then(|| (ns as f64 / covered_ns as f64 * 1e4).round() / 1e4)
}

/// Like [`rate`] for every step; `None` if no step has a measured value.
fn known(span: &TimeSpan, of: impl Fn(&SpanStep) -> Option<u64>) -> Option<Steps<f64>> {
    let steps = each(span, |step| rate(step, of(step)?));
    steps.iter().any(Option::is_some).then_some(steps)
}

impl NodeSteps {
    fn new(span: &TimeSpan) -> Self {
        Self {
            used: each(span, |step| rate(step, step.used_ns)),
            idle: each(span, |step| rate(step, step.idle_ns)),
            remainder: each(span, |step| {
                let rest = step.elapsed_ns.saturating_sub(step.idle_ns);
                rate(step, rest.saturating_sub(step.used_ns))
            }),
            interrupt: known(span, |step| step.interrupt_ns),
            steal: known(span, |step| step.steal_ns),
            steal_included: known(span, |step| step.steal_included_ns),
        }
    }
}

impl StripJson {
    fn new(strip: &CpuStrip) -> Self {
        fn column<T>(strip: &CpuStrip, of: fn(&CpuStep) -> Option<T>) -> Steps<T> {
            strip.steps.iter().map(of).collect()
        }
        fn percent(part: f64) -> f64 {
            (part * 100.0).round() / 100.0
        }
        Self {
            cpu: strip.cpu,
            busy: column(strip, |step| step.busy.map(percent)),
            taken: column(strip, |step| step.taken.map(percent)),
            holder: column(strip, |step| step.holder.map(|(owner, _)| owner)),
            held: column(strip, |step| step.holder.map(|(_, part)| percent(part))),
        }
    }
}

impl WaitSteps {
    fn new(span: &TimeSpan, query: &TimeSpanQuery) -> Self {
        let measured = |cause: &Cause| span.measured.has(Counter::Wait(*cause));
        let causes = Cause::ALL.into_iter().filter(measured).map(|cause| {
            let steps = each(span, |step| rate(step, step.wait_ns[cause as usize]));
            (cause.name(), steps)
        });
        let quantile = |q| each(span, |step| step.lengths.quantile(q).map(seconds));
        Self {
            of: query.waits_of,
            causes: Named(causes.collect()),
            p50_seconds: quantile(0.5),
            p90_seconds: quantile(0.9),
            p99_seconds: quantile(0.99),
            max_seconds: each(span, |step| step.lengths.max().map(seconds)),
            bounds_seconds: POWERS.map(|power| seconds(1 << power)).collect(),
            lengths: span.buckets.iter().map(|s| lengths(&s.lengths)).collect(),
            missing: span.buckets.iter().map(|step| step.lengths_missing).sum(),
        }
    }
}

/// Returns the number of waits in each bucket; the last bucket holds all longer waits. Empty if
/// there were no waits.
fn lengths(waits: &Histogram) -> Vec<u64> {
    if waits.is_empty() {
        return Vec::new();
    }
    let mut before = 0;
    let mut counts: Vec<u64> = POWERS
        .map(|power| {
            let below = waits.count_below_power(power);
            let count = below - before;
            before = below;
            count
        })
        .collect();
    counts.push(waits.count() - before);
    counts
}

pub(super) fn name(party: &Party) -> String {
    party.name(Level::Container)
}

fn owners<'a, 'b>(
    view: &'a TimelineView,
    span: &'b TimeSpan,
    rows: &HistoryRows,
    verdicts: Option<&HashMap<OwnerId, VerdictKind>>,
) -> Vec<OwnerRow<'a>> {
    let with_party = |owner: &'b OwnerSum| Some((view.parties.get(&owner.id)?, owner));
    let mut listed: Vec<(&Party, &OwnerSum)> = span
        .owners
        .iter()
        .filter_map(with_party)
        .filter(|(party, _)| matches(party, &rows.filter))
        .collect();
    match rows.sort {
        HistorySort::Cpu => {}
        HistorySort::Wait => listed.sort_by_key(|(_, o)| std::cmp::Reverse(o.waited_ns())),
        HistorySort::Hurts => listed.sort_by_key(|(_, o)| std::cmp::Reverse(o.hurts_ns)),
        HistorySort::Energy => listed.sort_by_key(|(_, o)| std::cmp::Reverse(o.energy_uj)),
        HistorySort::Name => listed.sort_by_cached_key(|(party, _)| name(party)),
    }
    listed.truncate(rows.owners);
    let has_waits = span.has_waits();
    let row = |(party, owner): (&'a Party, &OwnerSum)| {
        let steps = span.buckets.iter().zip(&owner.steps);
        let causes = Cause::ALL
            .into_iter()
            .filter(|cause| span.measured.has(Counter::Wait(*cause)))
            .map(|cause| (cause.name(), seconds(owner.wait_ns[cause as usize])));
        OwnerRow {
            id: owner.id,
            name: name(party),
            owner: OwnerJson::of_party(party, Level::Container),
            cpu: seconds(owner.cpu_ns),
            wait: has_waits.then(|| seconds(owner.waited_ns())),
            hurts: has_waits.then(|| seconds(owner.hurts_ns)),
            watts: span.watts(owner),
            causes: has_waits.then(|| Named(causes.collect())),
            cpus: steps.map(|(step, ns)| rate(step, *ns)).collect(),
            verdict: verdicts.map(|all| OwnerVerdict::of(owner.id, all)),
        }
    };
    listed.into_iter().map(row).collect()
}

fn matches(party: &Party, filter: &str) -> bool {
    let contains = |text: &str| text.to_lowercase().contains(filter);
    let of_owner = || match party {
        Party::Group(owner) => {
            let container = owner.container.as_ref();
            contains(&owner.path) || container.is_some_and(|it| contains(&it.id))
        }
        Party::Kernel | Party::Command | Party::Below { .. } | Party::Unnamed => false,
    };
    filter.is_empty() || contains(&name(party)) || of_owner()
}

fn pairs(view: &TimelineView, span: &TimeSpan, most: usize) -> Vec<PairRow> {
    let row = |pair: &PairSum| {
        Some(PairRow {
            victim: pair.victim,
            victim_name: name(view.parties.get(&pair.victim)?),
            culprit: pair.culprit,
            culprit_name: name(view.parties.get(&pair.culprit)?),
            wait: seconds(pair.wait_ns),
        })
    };
    span.pairs.iter().filter_map(row).take(most).collect()
}

fn energy<'a>(span: &TimeSpan, zones: &'a [Zone]) -> Vec<ZoneSteps<'a>> {
    let steps = |at: usize| {
        each(span, move |step| {
            let zone = step.zones.get(at)?;
            part_of(zone.covered_ns, zone.energy_uj.saturating_mul(1000))
        })
    };
    let zones = zones.iter().enumerate().map(|(at, zone)| ZoneSteps {
        zone: zone.kind.name(),
        name: &zone.name,
        label: noctule_text::zone_name(zone),
        source: zone.source.name(),
        part_of: zone.parent,
        watts: steps(at),
    });
    zones.collect()
}

/// The counts of events that have a column.
const EVENT_STEPS: [&str; 6] = [
    "process.starts",
    "process.exits",
    "oom.kills",
    "tcp.connects",
    "tcp.connect_failures",
    "tcp.retransmits",
];

impl EventSteps {
    fn new(span: &TimeSpan) -> Self {
        let shown = EVENTS
            .iter()
            .filter(|field| EVENT_STEPS.contains(&field.key));
        let measured =
            shown.filter(|field| field.counters().iter().all(|it| span.measured.has(*it)));
        let counts = measured.map(|field| {
            let sum = |step: &SpanStep| field.counters().iter().map(|it| step.events[*it]).sum();
            let steps = each(span, |step| (step.covered_ns > 0).then(|| sum(step)));
            (field.key, steps)
        });
        Self {
            counts: Named(counts.collect()),
        }
    }
}

impl<'a> NowJson<'a> {
    fn new(window: &'a JudgedWindow) -> Self {
        Self {
            time_unix_nano: window.time_unix_ns,
            window_seconds: seconds(window.window_ns),
            rows: window.findings.iter().map(HurtJson::new).collect(),
            more: window.more,
        }
    }
}

impl<'a> HurtJson<'a> {
    pub(super) fn new(hurt: &'a Hurt) -> Self {
        Self {
            id: hurt.id,
            name: name(&hurt.party),
            owner: OwnerJson::of_party(&hurt.party, Level::Container),
            verdict: HurtVerdict {
                kind: VerdictKind::name(hurt.kind),
                culprit: hurt.culprit.as_ref().map(name),
                culprit_id: hurt.culprit_id,
                reason: noctule_text::sentence(&hurt.reason),
                next_step: noctule_text::advice(&hurt.reason),
                root_commands: &hurt.reason.settings.root_commands,
                threads: hurt.reason.threads,
                quota: hurt.reason.quota.as_ref().map(|quota| LimitJson {
                    cpus: quota.cpus,
                    group: quota.group.as_deref(),
                }),
            },
            wait: seconds(hurt.wait_ns),
            hurt: seconds(hurt.hurt_ns),
            behind: (hurt.behind.iter())
                .map(|it| PartyJson::new(it.id, &it.party, it.wait_ns))
                .collect(),
            since_unix_nano: hurt.since_unix_ns,
        }
    }
}

impl<'a> PartyJson<'a> {
    pub(super) fn new(id: Option<OwnerId>, party: &'a Party, wait_ns: u64) -> Self {
        Self {
            id,
            name: name(party),
            owner: OwnerJson::of_party(party, Level::Container),
            wait: seconds(wait_ns),
        }
    }
}
