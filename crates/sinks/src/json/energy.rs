//! The JSON of `noctule energy`, and the energy fields of `noctule stat --json`.

use std::collections::BTreeMap;

use noctule_analysis::{EnergyReport, IdleEnergy, Report, Row, ZoneReport};
use noctule_model::{FeatureState, Joules, Level};
use serde::Serialize;

use super::owner::OwnerJson;
use super::row::{CommandJson, ProcessJson};
use super::{FeatureJson, seconds, to_string};

/// Returns the JSON of `noctule energy --json`. `level` must be the level for which the report was
/// made. Without a power sensor there are no zones, and rows have no energy.
pub fn energy_json(report: &Report, level: Level, idle: IdleEnergy) -> String {
    let energy = report.energy.as_ref();
    to_string(&Answer {
        window_seconds: seconds(report.window_ns),
        from_unix_nano: report.from_unix_ns,
        to_unix_nano: report.time_unix_ns,
        cpus: report.node.cpus,
        idle: match idle {
            IdleEnergy::Node => "node",
            IdleEnergy::Proportional => "proportional",
        },
        energy: energy.map(|energy| EnergyJson::new(energy, report.window_ns, level)),
        rows: report
            .rows
            .iter()
            .map(|row| EnergyRow::new(report, row, level))
            .collect(),
        losses: report.losses.iter().map(|l| (l.kind, l.count)).collect(),
        features: report.features.iter().map(FeatureJson::short).collect(),
    })
}

#[derive(Serialize)]
struct Answer<'a> {
    window_seconds: f64,
    from_unix_nano: u64,
    to_unix_nano: u64,
    cpus: u32,
    idle: &'static str,
    #[serde(flatten)]
    energy: Option<EnergyJson<'a>>,
    rows: Vec<EnergyRow<'a>>,
    losses: BTreeMap<&'static str, u64>,
    features: Vec<FeatureJson<'a>>,
}

/// The zones, and the energy of processes that ended without a record.
#[derive(Serialize)]
pub(super) struct EnergyJson<'a> {
    zones: Vec<ZoneJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unrecorded_joules: Option<ByKind>,
}

/// One value for each kind of zone.
pub(super) type ByKind = BTreeMap<&'static str, f64>;

#[derive(Serialize)]
struct ZoneJson<'a> {
    zone: &'static str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    socket: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    die: Option<u32>,
    source: &'static str,
    path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    part_of: Option<usize>,
    in_total: bool,
    joules: f64,
    watts: f64,
    idle_joules: f64,
    active_joules: f64,
    interrupt_joules: f64,
    other_joules: f64,
    unattributed_joules: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    idle_watts: Option<f64>,
    shared_by: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    frequency_exponent: Option<f64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    sockets_mixed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_ratio: Option<f64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    still: bool,
    gaps: u64,
    gap_seconds: f64,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

#[derive(Serialize)]
struct EnergyRow<'a> {
    #[serde(flatten)]
    process: Option<ProcessJson>,
    #[serde(flatten)]
    command: Option<CommandJson>,
    #[serde(flatten)]
    owner: OwnerJson<'a>,
    #[serde(rename = "cpu.seconds", skip_serializing_if = "Option::is_none")]
    cpu: Option<f64>,
    #[serde(rename = "energy.joules", skip_serializing_if = "Option::is_none")]
    joules: Option<ByKind>,
    #[serde(rename = "energy.watts", skip_serializing_if = "Option::is_none")]
    watts: Option<ByKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exited: Option<bool>,
}

impl<'a> EnergyJson<'a> {
    pub(super) fn new(energy: &'a EnergyReport, window_ns: u64, level: Level) -> Self {
        let zones = energy.zones.iter();
        Self {
            zones: zones
                .map(|zone| ZoneJson {
                    in_total: energy.is_in_total(zone),
                    ..ZoneJson::new(zone, window_ns)
                })
                .collect(),
            unrecorded_joules: (level == Level::Process)
                .then(|| by_kind(energy, &energy.unrecorded, joules)),
        }
    }
}

impl<'a> ZoneJson<'a> {
    fn new(report: &'a ZoneReport, window_ns: u64) -> Self {
        let ZoneReport { zone, account, .. } = report;
        Self {
            zone: zone.kind.name(),
            name: &zone.name,
            socket: zone.socket,
            die: zone.die,
            source: zone.source.name(),
            path: &zone.path,
            part_of: zone.parent,
            in_total: false,
            joules: joules(account.total_uj),
            watts: watts(account.total_uj, window_ns),
            idle_joules: joules(account.idle_uj),
            active_joules: joules(account.active_uj),
            interrupt_joules: joules(account.interrupts_uj),
            other_joules: joules(account.other_uj),
            unattributed_joules: joules(account.unattributed_uj),
            idle_watts: account.idle_watts,
            shared_by: account.driver.name(),
            frequency_exponent: account.exponent,
            sockets_mixed: account.sockets_mixed,
            error_ratio: report.error_ratio.filter(|ratio| ratio.is_finite()),
            still: report.still,
            gaps: report.gaps,
            gap_seconds: seconds(report.failed_ns),
            state: FeatureState::name(report.state),
            reason: report.reason.as_deref(),
        }
    }
}

impl<'a> EnergyRow<'a> {
    fn new(report: &Report, row: &'a Row, level: Level) -> Self {
        let process = row.process.as_ref().filter(|_| level == Level::Process);
        let figures = |figure: &dyn Fn(u64) -> f64| {
            let energy = report.energy.as_ref()?;
            Some(by_kind(energy, &row.joules, figure))
        };
        Self {
            process: process.map(|process| ProcessJson::new(report, process)),
            command: row.command.map(CommandJson::new),
            owner: CommandJson::owner(row, level),
            cpu: report
                .measured
                .value(&row.counters, noctule_model::Counter::CpuTime)
                .map(seconds),
            joules: figures(&joules),
            watts: figures(&|uj| watts(uj, report.window_ns)),
            exited: process.map(|process| process.exited),
        }
    }
}

/// Returns the joules charged to a row, by kind of zone.
pub(super) fn row_joules(report: &Report, row: &Row) -> Option<ByKind> {
    let energy = report.energy.as_ref()?;
    Some(by_kind(energy, &row.joules, joules))
}

fn by_kind(energy: &EnergyReport, of: &Joules, figure: impl Fn(u64) -> f64) -> ByKind {
    let kinds = energy.kinds.iter();
    kinds
        .map(|it| (it.kind.name(), figure(of[it.kind])))
        .collect()
}

/// Converts microjoules to joules. The decimal form is exact to the microjoule.
fn joules(uj: u64) -> f64 {
    uj as f64 / 1e6
}

fn watts(uj: u64, window_ns: u64) -> f64 {
    uj as f64 * 1e3 / window_ns.max(1) as f64
}
