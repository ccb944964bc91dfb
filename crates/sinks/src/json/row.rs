//! One row of `noctule stat --json`.

use std::collections::BTreeMap;

use noctule_analysis::{Report, Row};
use noctule_model::{Command, Level, ProcessRow};
use noctule_schema::usage::{self, Usage};
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use super::energy::{ByKind, row_joules};
use super::events::EventsJson;
use super::owner::OwnerJson;
use super::value::ValueJson;

#[derive(Default, Serialize)]
pub(super) struct RowJson<'a> {
    #[serde(flatten)]
    process: Option<ProcessJson>,
    #[serde(flatten)]
    command: Option<CommandJson>,
    #[serde(flatten)]
    owner: OwnerJson<'a>,
    #[serde(flatten)]
    used: UsageJson,
    #[serde(flatten)]
    events: Option<EventsJson>,
    #[serde(rename = "energy.joules", skip_serializing_if = "Option::is_none")]
    joules: Option<ByKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exited: Option<bool>,
}

#[derive(Serialize)]
pub(super) struct ProcessJson {
    #[serde(rename = "process.pid")]
    pid: u32,
    #[serde(rename = "process.creation.time_unix_nano")]
    created: u64,
    #[serde(rename = "process.parent_pid")]
    parent: u32,
    #[serde(rename = "process.executable.name")]
    name: String,
}

/// The fields of [`noctule_schema::usage`]. Fields that are not measured are absent.
#[derive(Default)]
struct UsageJson(Usage);

impl Serialize for UsageJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in usage::values(&self.0) {
            map.serialize_entry(key, &ValueJson(&value))?;
        }
        map.end()
    }
}

impl<'a> RowJson<'a> {
    pub(super) fn new(report: &Report, row: &'a Row, level: Level) -> Self {
        let process = row.process.as_ref().filter(|_| level == Level::Process);
        Self {
            process: process.map(|process| ProcessJson::new(report, process)),
            command: row.command.map(CommandJson::new),
            owner: CommandJson::owner(row, level),
            used: UsageJson(Usage {
                counters: row.counters,
                measured: report.measured,
                nominal_hertz: report.node.nominal_hertz,
                package_ns: by_package(report, row),
            }),
            events: row
                .events
                .as_ref()
                .map(|events| EventsJson::new(events, report.measured)),
            joules: row_joules(report, row),
            exited: process.map(|process| process.exited),
        }
    }
}

/// The processes of one name in one group.
#[derive(Serialize)]
pub(super) struct CommandJson {
    #[serde(rename = "process.executable.name")]
    name: String,
    processes: u64,
    kernel_thread: bool,
}

impl CommandJson {
    pub(super) fn new(command: Command) -> Self {
        Self {
            name: command.comm.text(),
            processes: command.processes,
            kernel_thread: command.kernel_thread,
        }
    }

    /// Returns the owner of a row. The processes of a command can be in several cgroups of one
    /// container, so the row of a command has the owner's fields at the level of containers.
    pub(super) fn owner(row: &Row, level: Level) -> OwnerJson<'_> {
        match row.command {
            Some(_) => OwnerJson::named(&row.owner, Level::Container),
            None => OwnerJson::named(&row.owner, level),
        }
    }
}

impl ProcessJson {
    pub(super) fn new(report: &Report, process: &ProcessRow) -> Self {
        Self {
            pid: process.id.pid,
            created: report.boot_unix_ns.saturating_add(process.id.start_ns),
            parent: process.parent_pid,
            name: process.comm.text(),
        }
    }
}

/// Returns the row's CPU time on each package; empty if the machine has only one.
fn by_package(report: &Report, row: &Row) -> Vec<(i32, u64)> {
    let packages = report.packages.iter().enumerate();
    let parts = packages.map(|(place, package)| {
        let used = row.packages.of(place, &row.counters);
        (package.id, used.cpu_ns)
    });
    let parts: BTreeMap<i32, u64> = parts.filter(|_| report.packages.len() > 1).collect();
    parts.into_iter().collect()
}
