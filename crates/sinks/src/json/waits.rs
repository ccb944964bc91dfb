//! The JSON of `noctule waits`.

use std::collections::BTreeMap;

use noctule_analysis::{Culprit, Party, WaitReport, WaitReportRow};
use noctule_model::{BlockClass, Cause, Counter, Level, Preemptor, VerdictKind};
use serde::{Serialize, Serializer};

use super::disks::{DiskJson, disks};
use super::owner::OwnerJson;
use super::released::ReleasedJson;
use super::{FeatureJson, seconds, to_string};

/// Returns the JSON of `noctule waits --json`.
///
/// Rows keep the report's order. `level` must be the level for which the report was made.
pub fn waits_json(report: &WaitReport, level: Level) -> String {
    let waits = Waits {
        window_seconds: seconds(report.window_ns),
        from_unix_nano: report.from_unix_ns,
        to_unix_nano: report.time_unix_ns,
        cpus: report.cpus,
        rows: report
            .rows
            .iter()
            .map(|row| RowJson::new(report, row, level))
            .collect(),
        disks: disks(report, level),
        losses: report.losses.iter().map(|l| (l.kind, l.count)).collect(),
        features: report.features.iter().map(FeatureJson::short).collect(),
    };
    to_string(&waits)
}

#[derive(Serialize)]
struct Waits<'a> {
    window_seconds: f64,
    from_unix_nano: u64,
    to_unix_nano: u64,
    cpus: u32,
    rows: Vec<RowJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    disks: Option<Vec<DiskJson<'a>>>,
    losses: BTreeMap<&'static str, u64>,
    features: Vec<FeatureJson<'a>>,
}

#[derive(Serialize)]
pub(super) struct RowJson<'a> {
    name: String,
    #[serde(flatten)]
    owner: OwnerJson<'a>,
    #[serde(rename = "cpu.seconds")]
    cpu: f64,
    wait: WaitJson,
    waiting: WaitingJson,
    causes: Named<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blocked: Option<Named<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    released: Option<Vec<ReleasedJson<'a>>>,
    culprits: Vec<CulpritJson<'a>>,
    hurts: HurtsJson,
    preemptions: Named<u64>,
    #[serde(rename = "switches.throttled", skip_serializing_if = "Option::is_none")]
    throttles: Option<u64>,
    verdict: VerdictJson,
}

#[derive(Serialize)]
struct WaitJson {
    count: u64,
    seconds: f64,
    #[serde(flatten)]
    distribution: Option<DistributionJson>,
}

/// Waits that are still in progress when the window ends.
#[derive(Serialize)]
struct WaitingJson {
    threads: u64,
    longest_seconds: f64,
}

#[derive(Serialize)]
struct DistributionJson {
    p50_seconds: f64,
    p90_seconds: f64,
    p99_seconds: f64,
    max_seconds: f64,
}

#[derive(Serialize)]
pub(super) struct CulpritJson<'a> {
    name: String,
    #[serde(flatten)]
    owner: OwnerJson<'a>,
    seconds: f64,
    share: f64,
}

/// The waits that the row causes to others.
#[derive(Serialize)]
struct HurtsJson {
    seconds: f64,
    seconds_per_second: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    most: Option<String>,
}

impl HurtsJson {
    fn new(report: &WaitReport, row: &WaitReportRow, level: Level) -> Self {
        let (ns, most) = (row.hurts.wait_ns, row.hurts.most.as_ref());
        Self {
            seconds: seconds(ns),
            seconds_per_second: ns as f64 / report.window_ns.max(1) as f64,
            most: most.map(|(party, _)| party.name(level)),
        }
    }
}

#[derive(Serialize)]
pub(super) struct VerdictJson {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    culprit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    culprit_kind: Option<&'static str>,
    reason: String,
    provisional: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_step: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quota: Option<QuotaJson>,
}

/// The CPU quota that throttled this row's threads the longest.
#[derive(Serialize)]
struct QuotaJson {
    cpus: f64,
    #[serde(
        rename = "process.linux.cgroup",
        skip_serializing_if = "Option::is_none"
    )]
    group: Option<String>,
    periods: u64,
    throttled_periods: u64,
    used: f64,
    gain: f64,
}

/// An object whose keys are names from the model.
pub(super) struct Named<T>(pub(super) Vec<(&'static str, T)>);

impl<T: Serialize> Serialize for Named<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'a> RowJson<'a> {
    pub(super) fn new(report: &WaitReport, row: &'a WaitReportRow, level: Level) -> Self {
        let measured = report.measured;
        let others = row.wait_on_others_ns();
        let causes = Cause::ALL
            .into_iter()
            // A cause that cannot be measured is left out, because 0 seconds would be wrong.
            .filter(|cause| measured.has(Counter::Wait(*cause)))
            .map(|cause| (cause.name(), seconds(row.wait_ns[cause as usize])));
        let preemptions =
            Preemptor::ALL.map(|preemptor| (preemptor.name(), row.preemptions[preemptor as usize]));
        Self {
            name: row.party.name(level),
            owner: OwnerJson::of_party(&row.party, level),
            cpu: seconds(row.cpu_ns),
            wait: WaitJson::new(row),
            waiting: WaitingJson {
                threads: row.waiting.threads,
                longest_seconds: seconds(row.waiting.longest_ns),
            },
            causes: Named(causes.collect()),
            blocked: measured.has_blocked().then(|| blocked(&row.blocked_ns)),
            released: row.released.as_ref().map(|all| {
                let all = all.iter();
                all.map(|it| ReleasedJson::new(it, level)).collect()
            }),
            culprits: row
                .culprits
                .iter()
                .map(|c| CulpritJson::new(c, others, level))
                .collect(),
            hurts: HurtsJson::new(report, row, level),
            preemptions: Named(preemptions.to_vec()),
            throttles: measured
                .has(Counter::SwitchesThrottled)
                .then_some(row.throttles),
            verdict: VerdictJson::new(report, row, level),
        }
    }
}

/// Returns blocked time by class, in seconds.
pub(super) fn blocked(ns: &[u64; BlockClass::COUNT]) -> Named<f64> {
    let part = |class: BlockClass| (class.name(), seconds(ns[class as usize]));
    Named(BlockClass::ALL.map(part).to_vec())
}

impl VerdictJson {
    pub(super) fn new(report: &WaitReport, row: &WaitReportRow, level: Level) -> Self {
        let reason = report.reason(row, level);
        let culprit = row.verdict.culprit.as_ref();
        Self {
            kind: VerdictKind::name(reason.kind),
            culprit: culprit.map(|party| party.name(level)),
            culprit_kind: culprit.map(Party::kind),
            reason: noctule_text::sentence(&reason),
            provisional: reason.provisional,
            next_step: noctule_text::advice(&reason),
            quota: reason.quota.map(|quota| QuotaJson {
                cpus: quota.cpus,
                group: quota.group,
                periods: quota.periods,
                throttled_periods: quota.throttled_periods,
                used: quota.used,
                gain: quota.gain,
            }),
        }
    }
}

impl WaitJson {
    fn new(row: &WaitReportRow) -> Self {
        let quantile = |q| row.histogram.quantile(q).map(seconds);
        let distribution = || {
            Some(DistributionJson {
                p50_seconds: quantile(0.5)?,
                p90_seconds: quantile(0.9)?,
                p99_seconds: quantile(0.99)?,
                max_seconds: row.histogram.max().map(seconds)?,
            })
        };
        Self {
            count: row.histogram.count(),
            seconds: seconds(row.total_ns()),
            distribution: distribution(),
        }
    }
}

impl<'a> CulpritJson<'a> {
    pub(super) fn new(culprit: &'a Culprit, wait_on_others_ns: u64, level: Level) -> Self {
        Self {
            name: culprit.party.name(level),
            owner: OwnerJson::of_party(&culprit.party, level),
            seconds: seconds(culprit.blame.wait_ns),
            share: culprit.blame.wait_ns as f64 / wait_on_others_ns.max(1) as f64,
        }
    }
}

/// Returns the API's response to `pairs`: victims, and the culprits that had the CPU while the
/// victims waited. The longest waits come first.
pub fn pairs_json(report: &WaitReport, level: Level) -> String {
    let pair = |row: &WaitReportRow, culprit: &Culprit| PairJson {
        victim: row.party.name(level),
        culprit: culprit.party.name(level),
        seconds: seconds(culprit.blame.wait_ns),
        preemptions: culprit.blame.preemptions,
    };
    let mut rows: Vec<PairJson> = report
        .rows
        .iter()
        .flat_map(|row| row.culprits.iter().map(move |culprit| pair(row, culprit)))
        .collect();
    rows.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    to_string(&Pairs {
        window_seconds: seconds(report.window_ns),
        rows,
    })
}

#[derive(Serialize)]
struct Pairs {
    window_seconds: f64,
    rows: Vec<PairJson>,
}

#[derive(Serialize)]
struct PairJson {
    victim: String,
    culprit: String,
    #[serde(rename = "wait.seconds")]
    seconds: f64,
    preemptions: u64,
}
