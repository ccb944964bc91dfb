//! Lines of text about block devices: who used each one, and how long requests waited.

use noctule_analysis::{DiskParty, DiskReport, WaitReport, WaitReportRow};
use noctule_model::{BlockClass, DiskUse, Level};
use noctule_text::{Tone, duration, escape, share};

use crate::print::Paint;

/// Number of devices and of users of each that are listed.
const DEVICES: usize = 4;
const USERS: usize = 3;
/// Minimum part of the window for which a device was busy, and minimum part of its time that a user
/// took, to be listed.
const BUSY: f64 = 0.01;
const WORTH_A_WORD: f64 = 0.01;
/// Classes of blocked time that a device can cause.
const CLASSES: [BlockClass; 3] = [
    BlockClass::Disk,
    BlockClass::Filesystem,
    BlockClass::Writeback,
];

/// Describes the devices that the group used, if its threads waited for a disk or a file system. If
/// it used none itself, describes those that were busy.
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
        .map(|disk| of_both(disk, row, (report, level)))
        .collect()
}

/// Describes the busy devices below the table of all groups.
pub(super) fn below_table(report: &WaitReport, level: Level, paint: Paint) -> String {
    let disks = report.disks.iter().flatten();
    let busy = disks.filter(|disk| is_busy(disk, report)).take(DEVICES);
    let line = |disk: &DiskReport| {
        let words = format!("disk {}", line(disk, report, users(disk, level, None)));
        paint.folded(Tone::Plain, &words, 2)
    };
    busy.map(line).collect()
}

fn is_busy(disk: &DiskReport, report: &WaitReport) -> bool {
    disk.busy_ns as f64 >= BUSY * report.window_ns as f64
}

/// Describes the use by others and by the group.
fn of_both(
    disk: &DiskReport,
    row: &WaitReportRow,
    (report, level): (&WaitReport, Level),
) -> String {
    let own = disk.of(&row.party, level);
    let words = line(disk, report, users(disk, level, Some(row)));
    if own == DiskUse::default() {
        return format!("{words}; this group had no requests");
    }
    let (queued, served) = (duration(own.queue_ns), duration(own.device_ns));
    format!(
        "{words}; requests of this group waited {queued} in the queue and {served} in the device"
    )
}

fn line(disk: &DiskReport, report: &WaitReport, users: Vec<String>) -> String {
    let busy = share(disk.busy_ns.min(report.window_ns), report.window_ns);
    format!("{}: busy {busy}; {}", escape(&disk.name), users.join(", "))
}

/// Lists the users that took most of the device's time. The group of `row` is always among them,
/// and is called so.
fn users(disk: &DiskReport, level: Level, row: Option<&WaitReportRow>) -> Vec<String> {
    let total = disk.total();
    let is_own = |user: &DiskParty| row.is_some_and(|row| user.is(&row.party, level));
    let part = |used: &DiskUse| used.device_ns as f64 / total.device_ns.max(1) as f64;
    let mut words = Vec::new();
    for (user, used) in &disk.users {
        let own = is_own(user);
        if !own && (words.len() >= USERS || part(used) < WORTH_A_WORD) {
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
