//! Lines of text about block devices: the users of each device, and how long requests waited.

use noctule_analysis::{DiskParty, DiskReport, WaitReport, WaitReportRow};
use noctule_model::{BlockClass, DiskUse, Level};
use noctule_text::{Tone, duration, escape, share};

use crate::print::Paint;

/// Maximum number of devices to list.
const DEVICES: usize = 4;
/// Maximum number of users to list for a device.
const USERS: usize = 3;

/// A device is listed if it was busy for at least this fraction of the window.
const BUSY: f64 = 0.01;
/// A user is listed if it took at least this share of the device's time.
const MIN_NOTABLE_SHARE: f64 = 0.01;
/// Classes of blocked time that a device can cause.
const CLASSES: [BlockClass; 3] = [
    BlockClass::Disk,
    BlockClass::Filesystem,
    BlockClass::Writeback,
];

/// Describes the devices that the group used, if its threads waited for a disk or a file system. If
/// the group used no device itself, describes the devices that were busy.
pub(super) fn of_group(report: &WaitReport, row: &WaitReportRow, level: Level) -> Vec<String> {
    let waited = CLASSES
        .iter()
        .any(|&class| row.blocked_ns[class as usize] > 0);
    let disks = report.disks.iter().flatten().filter(|_| waited);
    let own = |disk: &&DiskReport| disk.of(&row.party, level) != DiskUse::default();
    let used: Vec<&DiskReport> = disks.clone().filter(own).collect();
    let shown = match used.is_empty() {
        true => disks.filter(|disk| is_busy(disk, report)).collect(),
        false => used,
    };
    let shown = shown.into_iter().take(DEVICES);
    shown
        .map(|disk| describe_disk(disk, row, (report, level)))
        .collect()
}

/// Describes the busy devices below the table of all groups.
pub(super) fn below_table(report: &WaitReport, level: Level, paint: Paint) -> String {
    let disks = report.disks.iter().flatten();
    let busy = disks.filter(|disk| is_busy(disk, report)).take(DEVICES);
    let line = |disk: &DiskReport| {
        let words = format!("disk {}", line(disk, report, &users(disk, level, None)));
        paint.folded(Tone::Plain, &words, 2)
    };
    busy.map(line).collect()
}

fn is_busy(disk: &DiskReport, report: &WaitReport) -> bool {
    let enough = BUSY * report.window_ns as f64;
    disk.busy_ns.is_none_or(|ns| ns as f64 >= enough)
}

/// Describes the use of a device by all users and by the group.
fn describe_disk(
    disk: &DiskReport,
    row: &WaitReportRow,
    (report, level): (&WaitReport, Level),
) -> String {
    let own = disk.of(&row.party, level);
    let words = line(disk, report, &users(disk, level, Some(row)));
    if own == DiskUse::default() {
        return format!("{words}; this group completed no request");
    }
    let queued = own.known_queue_ns().map(duration);
    let queued = queued.map_or_else(String::new, |time| format!("{time} in the queue and "));
    let served = duration(own.device_ns);
    format!("{words}; requests of this group waited {queued}{served} in the device")
}

fn line(disk: &DiskReport, report: &WaitReport, users: &[String]) -> String {
    let window_ns = report.window_ns;
    let busy = disk.busy_ns.map(|ns| share(ns.min(window_ns), window_ns));
    let busy = busy.map(|share| format!("busy {share}"));
    let users = match disk.users.is_empty() {
        true => "no request completed".to_owned(),
        false => users.join(", "),
    };
    let words: Vec<String> = busy.into_iter().chain([users]).collect();
    format!("{}: {}", escape(&disk.name), words.join("; "))
}

/// Lists the users that took most of the device's time. The list always includes the group of
/// `row`, as "this group".
fn users(disk: &DiskReport, level: Level, row: Option<&WaitReportRow>) -> Vec<String> {
    let total = disk.total();
    let is_own = |user: &DiskParty| row.is_some_and(|row| user.is(&row.party, level));
    let part = |used: &DiskUse| used.device_ns as f64 / total.device_ns.max(1) as f64;
    let mut words = Vec::new();
    for (user, used) in &disk.users {
        let own = is_own(user);
        if !own && (words.len() >= USERS || part(used) < MIN_NOTABLE_SHARE) {
            continue;
        }
        let name = match own {
            true => "this group".to_owned(),
            false => escape(&user.name(level)),
        };
        let (time, bytes) = (
            share(used.device_ns, total.device_ns),
            share(used.bytes(), total.bytes()),
        );
        words.push(match words.is_empty() {
            true => format!("{name} {time} of device time ({bytes} of bytes)"),
            false => format!("{name} {time} ({bytes})"),
        });
    }
    words
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use noctule_analysis::{ReportBuilder, Thresholds};
    use noctule_model::{Batch, CgroupId, CgroupRow, Counter, Disk, DiskUser, Owner};

    use super::*;

    const OWN: CgroupId = CgroupId(7);
    const OTHER: CgroupId = CgroupId(8);
    const MS: u64 = 1_000_000;

    /// Returns the lines for the group `/own`, whose threads were blocked on the disk for this
    /// long.
    fn lines(blocked_ns: u64, busy_ns: Option<u64>, users: &[(DiskUser, DiskUse)]) -> Vec<String> {
        let group = |id, path: &str, blocked_ns| {
            let mut row = CgroupRow {
                id,
                owner: Some(Arc::new(Owner {
                    path: path.to_owned(),
                    ..Owner::unknown(id)
                })),
                ..CgroupRow::default()
            };
            row.counters[Counter::CpuTime] = MS;
            row.counters[Counter::Blocked(BlockClass::Disk)] = blocked_ns;
            row
        };
        let first = Batch {
            disks: Some(Vec::new()),
            ..Batch::default()
        };
        let mut builder = ReportBuilder::new(first);
        builder.add(Batch {
            taken_ns: 1000 * MS,
            cgroups: vec![group(OWN, "/own", blocked_ns), group(OTHER, "/b", 0)],
            disks: Some(vec![Disk {
                number: (8, 0),
                name: "sda".into(),
                busy_ns,
                users: users.to_vec(),
            }]),
            ..Batch::default()
        });
        let report = builder.waits(Level::Cgroup, false, &Thresholds::default());
        let own = |row: &&WaitReportRow| row.party.name(Level::Cgroup) == "/own";
        let row = report.rows.iter().find(own).expect("it ran");
        of_group(&report, row, Level::Cgroup)
    }

    fn used(written_bytes: u64, device_ms: u64, queue_ms: u64) -> DiskUse {
        DiskUse {
            written_bytes,
            device_ns: device_ms * MS,
            queued: queue_ms.min(1),
            queue_ns: queue_ms * MS,
            ..DiskUse::default()
        }
    }

    #[test]
    fn waiting_group_lists_the_users_of_its_disk() {
        let users = [
            (DiskUser::Cgroup(OWN), used(400, 250, 2000)),
            (DiskUser::Cgroup(OTHER), used(600, 700, 0)),
            (DiskUser::WriteBack, used(0, 50, 0)),
        ];
        let expected = "sda: busy 50.0%; /b 70.0% of device time (60.0% of bytes), this group 25.0% (40.0%), \
                        write-back 5.0% (0.0%); requests of this group waited 2.00s in the queue and 250ms \
                        in the device";
        let half = Some(500 * MS);
        assert_eq!(lines(600 * MS, half, &users), [expected]);
        assert_eq!(
            lines(600 * MS, half, &users[1..2]),
            [
                "sda: busy 50.0%; /b 100.0% of device time (100.0% of bytes); this group completed no request"
            ]
        );
        assert!(lines(0, half, &users).is_empty());
    }

    #[test]
    fn unknown_figures_are_not_shown_as_zero() {
        let own = [(DiskUser::Cgroup(OWN), used(400, 250, 0))];
        assert_eq!(
            lines(600 * MS, None, &own),
            [
                "sda: this group 100.0% of device time (100.0% of bytes); requests of this group waited 250ms \
                 in the device"
            ]
        );
        assert_eq!(
            lines(600 * MS, Some(500 * MS), &[]),
            ["sda: busy 50.0%; no request completed; this group completed no request"]
        );
    }
}
