//! Block devices in the JSON of `noctule waits` and `noctule why`.

use noctule_analysis::{DiskParty, DiskReport, WaitReport};
use noctule_model::{DiskUse, Level};
use serde::Serialize;

use super::owner::OwnerJson;
use super::seconds;

#[derive(Serialize)]
pub(super) struct DiskJson<'a> {
    device: &'a str,
    number: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    busy_seconds: Option<f64>,
    users: Vec<DiskUserJson<'a>>,
}

#[derive(Serialize)]
struct DiskUserJson<'a> {
    name: String,
    kind: &'static str,
    #[serde(flatten)]
    owner: Option<OwnerJson<'a>>,
    read_bytes: u64,
    written_bytes: u64,
    reads: u64,
    writes: u64,
    other_requests: u64,
    queued_requests: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_seconds: Option<f64>,
    device_seconds: f64,
}

/// Returns the devices of the report; `None` if disks are not measured.
pub(super) fn disks(report: &WaitReport, level: Level) -> Option<Vec<DiskJson<'_>>> {
    let disks = report.disks.as_ref()?.iter();
    Some(disks.map(|disk| DiskJson::new(disk, level)).collect())
}

impl<'a> DiskJson<'a> {
    fn new(disk: &'a DiskReport, level: Level) -> Self {
        let (major, minor) = disk.number;
        let users = disk.users.iter();
        Self {
            device: &disk.name,
            number: format!("{major}:{minor}"),
            busy_seconds: disk.busy_ns.map(seconds),
            users: users
                .map(|(user, used)| DiskUserJson::new(user, used, level))
                .collect(),
        }
    }
}

impl<'a> DiskUserJson<'a> {
    fn new(user: &'a DiskParty, used: &DiskUse, level: Level) -> Self {
        Self {
            name: user.name(level),
            kind: user.kind(),
            owner: match user {
                DiskParty::Party(party) => Some(OwnerJson::of_party(party, level)),
                DiskParty::Nobody(_) => None,
            },
            read_bytes: used.read_bytes,
            written_bytes: used.written_bytes,
            reads: used.reads,
            writes: used.writes,
            other_requests: used.others,
            queued_requests: used.queued,
            queue_seconds: used.known_queue_ns().map(seconds),
            device_seconds: seconds(used.device_ns),
        }
    }
}
