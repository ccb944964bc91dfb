//! Reads the busy time of block devices from the kernel.
//!
//! The BPF programs miss the completions of some requests, so they cannot determine when a device
//! is idle.

use std::collections::HashMap;
use std::fs;

use noctule_model::{Cumulative as _, Disk};

use crate::roots::HostRoots;

/// Columns of /proc/diskstats: the name, and the time in milliseconds in which the device had
/// requests.
const NAME: usize = 2;
const BUSY: usize = 12;

const NS_PER_MS: u64 = 1_000_000;

/// Sums of busy time by the name of the device.
///
/// The device number is not a unique key: /proc/diskstats lists each path of a multipath NVMe
/// device as 0:0.
pub(super) struct BusyTimes {
    roots: HostRoots,
    /// The kernel's figures at the last read, in milliseconds; `None` before the first.
    last: Option<HashMap<String, u64>>,
    /// Sums since each device was first used, in milliseconds.
    sums: HashMap<String, u64>,
}

impl BusyTimes {
    pub(super) fn begin(roots: &HostRoots) -> Self {
        Self {
            roots: roots.clone(),
            last: times(roots),
            sums: HashMap::new(),
        }
    }

    /// Sets the busy time of each device, or leaves it `None` if the kernel does not count it.
    pub(super) fn read<'a>(&mut self, disks: impl Iterator<Item = &'a mut Disk>) {
        let Some(now) = times(&self.roots) else {
            return;
        };
        if let Some(last) = &self.last {
            for disk in disks {
                let Some(busy_ms) = now.get(&disk.name) else {
                    continue;
                };
                let sum = self.sums.entry(disk.name.clone()).or_default();
                *sum += grown(last.get(&disk.name), *busy_ms);
                disk.busy_ns = is_counted(&self.roots, &disk.name).then(|| *sum * NS_PER_MS);
            }
        }
        self.last = Some(now);
    }
}

/// Returns the growth of a value. The value of a device that was removed and added again restarts
/// from 0.
fn grown(before: Option<&u64>, now: u64) -> u64 {
    match before {
        Some(before) if !now.restarted_since(before) => now - before,
        _ => now,
    }
}

/// Returns the kernel's figures by name; `None` if they cannot be read.
fn times(roots: &HostRoots) -> Option<HashMap<String, u64>> {
    let text = fs::read_to_string(roots.proc.join("diskstats")).ok()?;
    let of_line = |line: &str| {
        let mut fields = line.split_ascii_whitespace().skip(NAME);
        let name = fields.next()?;
        let busy = fields.nth(BUSY - NAME - 1)?.parse().ok()?;
        Some((name.to_owned(), busy))
    };
    Some(text.lines().filter_map(of_line).collect())
}

/// Returns whether the kernel's statistics of the device are enabled.
fn is_counted(roots: &HostRoots, name: &str) -> bool {
    // sysfs replaces the slashes of names such as cciss/c0d0.
    let queue = roots.sys.join("block").join(name.replace('/', "!"));
    let switch = fs::read_to_string(queue.join("queue/iostats"));
    switch.is_ok_and(|switch| switch.trim() != "0")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Writes the busy time of sda, and whether its statistics are enabled.
    fn write(root: &Path, busy_ms: u64, counted: u8) {
        let line = format!("   8       0 sda 5 0 40 3 6 0 48 9 0 {busy_ms} 12 0 0 0 0 0 0\n");
        let part = "   8       1 sda1 5 0 40 3 6 0 48 9 0 1 12 0 0 0 0 0 0\n";
        let queue = root.join("sys/block/sda/queue");
        fs::create_dir_all(&queue).expect("a folder of our own");
        fs::create_dir_all(root.join("proc")).expect("a folder of our own");
        fs::write(root.join("proc/diskstats"), line + part).expect("our file");
        fs::write(queue.join("iostats"), format!("{counted}\n")).expect("our file");
    }

    #[test]
    fn busy_time_starts_at_first_use_and_survives_replacement() {
        let root = tempfile::tempdir().expect("a folder");
        let read = |times: Option<&mut BusyTimes>, busy_ms, counted, name: &str| {
            write(root.path(), busy_ms, counted);
            let mut disk = Disk {
                name: name.to_owned(),
                ..Disk::default()
            };
            if let Some(times) = times {
                times.read(std::iter::once(&mut disk));
            }
            disk.busy_ns.map(|ns| ns / NS_PER_MS)
        };
        read(None, 1000, 1, "sda");
        let mut times = BusyTimes::begin(&HostRoots::below(root.path()));
        assert_eq!(read(Some(&mut times), 1200, 1, "other"), None);
        assert_eq!(read(Some(&mut times), 1250, 1, "sda"), Some(50));
        assert_eq!(read(Some(&mut times), 1270, 1, "sda"), Some(70));
        assert_eq!(read(Some(&mut times), 5, 1, "sda"), Some(75));
        assert_eq!(read(Some(&mut times), 5, 0, "sda"), None);
    }
}
