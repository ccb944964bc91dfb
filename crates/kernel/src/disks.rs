//! Loads the BPF object `disk`, and reads how much each group used each block device.

use libbpf_rs::skel::{OpenSkel as _, Skel as _};
use libbpf_rs::{Link, MapCore as _};
use noctule_model::{CgroupId, Disk, DiskUse, DiskUser, IdMap, IdSet, Loss};

use self::busy::BusyTimes;
use crate::abi::{self, Plain};
use crate::cost::ProgramHandle;
use crate::error::{Context, Error, ErrorKind, not_loaded};
use crate::facts::Facts;
use crate::kernel_types;
use crate::settings::configure;
use crate::skel::disk::{DiskSkel, DiskSkelBuilder, types};
use crate::table;

mod busy;

/// Names of the tracepoints. The programs have the same names.
const HOOKS: [&str; 6] = [
    "block_bio_queue",
    "block_bio_complete",
    "block_split",
    "block_rq_issue",
    "block_rq_requeue",
    "block_rq_complete",
];

/// Number of bits of the minor number in the kernel's device numbers.
const MINOR_BITS: u32 = 20;

// SAFETY: integers only; the assertions in disk/abi.h rule out padding.
#[allow(unsafe_code, reason = "a promise about layout")]
unsafe impl Plain for types::disk_key {}
// SAFETY: as above.
#[allow(unsafe_code, reason = "a promise about layout")]
unsafe impl Plain for types::disk_use {}
// SAFETY: as above.
#[allow(unsafe_code, reason = "a promise about layout")]
unsafe impl Plain for types::disk_device {}

/// The attached programs and their tables. Dropping it detaches them.
pub struct Disks {
    // Links are declared first, because they must be dropped before their object.
    _links: Vec<Link>,
    skel: DiskSkel<'static>,
    busy: BusyTimes,
}

impl Disks {
    /// Loads and attaches the programs, with room for this number of pairs of device and group.
    /// `now_ns` returns the time of `CLOCK_MONOTONIC`.
    pub fn load(facts: &Facts, rows: u32, now_ns: fn() -> u64) -> Result<Self, Error> {
        let missing = HOOKS.iter().find(|hook| !facts.hooks.contains(**hook));
        if let Some(hook) = missing {
            let words = format!("the kernel has no tracepoint {hook}");
            return Err(Error::new(ErrorKind::Kernel, words));
        }
        let mut open = kernel_types::open::<DiskSkelBuilder>(&facts.kernel_types)
            .context("opening the BPF object disk")?;
        configure!(open, facts).context("preparing the BPF object disk")?;
        let uses = &mut open.maps.uses;
        uses.set_max_entries(rows.max(1))
            .context("sizing the table of disk use")?;
        let mut skel = open.load().map_err(not_loaded("disk", facts))?;
        let programs = skel.object_mut().progs_mut();
        let links = programs.map(|program| program.attach());
        let links = links.collect::<Result<_, _>>();
        let links = links.context("attaching to the tracepoints of block I/O")?;
        if let Some(data) = skel.maps.data_data.as_deref_mut() {
            data.started_at = now_ns();
        }
        Ok(Self {
            _links: links,
            skel,
            busy: BusyTimes::begin(&facts.roots),
        })
    }

    /// Returns the use of each device. The programs count a request when it completes. Deletes the
    /// rows of `released` cgroups, which no longer exist, after reading them.
    pub fn read(&mut self, released: &[CgroupId]) -> Result<Vec<Disk>, Error> {
        let maps = &self.skel.maps;
        let devices = table::entries(&maps.devices, "the table of disks")?;
        let uses = table::entries(&maps.uses, "the table of disk use")?;
        let released: IdSet<CgroupId> = released.iter().copied().collect();
        let mut disks: IdMap<u32, Disk> = IdMap::default();
        for (number, device) in devices.iter() {
            let number = number.try_into().map(u32::from_ne_bytes);
            if let (Ok(number), Some(device)) = (number, abi::plain(device)) {
                disks.insert(number, disk(number, &device));
            }
        }
        self.busy.read(disks.values_mut());
        for (key, used) in uses.iter() {
            let Some((number, user)) = abi::plain(key).and_then(user) else {
                continue;
            };
            if let Some((disk, used)) = disks.get_mut(&number).zip(abi::plain(used)) {
                disk.users.push((user, completed(&used)));
            }
            if matches!(user, DiskUser::Cgroup(id) if released.contains(&id)) {
                let _ = maps.uses.delete(key);
            }
        }
        Ok(disks.into_values().collect())
    }

    /// Returns the losses so far, with every kind listed.
    pub fn losses(&self) -> [Loss; 3] {
        let bss = self.skel.maps.bss_data.as_deref();
        let loss = |kind, place, count| Loss { kind, place, count };
        [
            loss("disk_row", "uses", bss.map_or(0, |bss| bss.lost_rows)),
            loss(
                "disk_request",
                "requests",
                bss.map_or(0, |bss| bss.lost_requests),
            ),
            loss("disk_owner", "bios", bss.map_or(0, |bss| bss.lost_bios)),
        ]
    }

    /// Returns the programs, for measuring their cost.
    pub fn programs(&self) -> Vec<ProgramHandle> {
        ProgramHandle::all(self.skel.object(), &HOOKS)
    }
}

fn disk(number: u32, device: &types::disk_device) -> Disk {
    let name: Vec<u8> = device.name.iter().map(|byte| *byte as u8).collect();
    let end = name.iter().position(|byte| *byte == 0);
    Disk {
        number: (number >> MINOR_BITS, number & ((1 << MINOR_BITS) - 1)),
        name: String::from_utf8_lossy(&name[..end.unwrap_or(name.len())]).into_owned(),
        busy_ns: None,
        users: Vec::new(),
    }
}

/// Returns the device and the user of a key; `None` for an unknown user.
fn user(key: types::disk_key) -> Option<(u32, DiskUser)> {
    use types::disk_user as abi;
    let user = match abi(key.user) {
        abi::DISK_USER_CGROUP => DiskUser::Cgroup(CgroupId(key.cgroup)),
        abi::DISK_USER_WRITEBACK => DiskUser::WriteBack,
        abi::DISK_USER_JOURNAL => DiskUser::Journal,
        abi::DISK_USER_FLUSH => DiskUser::Flush,
        abi::DISK_USER_KERNEL => DiskUser::Kernel,
        abi::DISK_USER_UNKNOWN => DiskUser::Unknown,
        _ => return None,
    };
    Some((key.device, user))
}

fn completed(used: &types::disk_use) -> DiskUse {
    DiskUse {
        read_bytes: used.read_bytes,
        written_bytes: used.written_bytes,
        reads: used.reads,
        writes: used.writes,
        others: used.others,
        queued: used.queued,
        queue_ns: used.queue_ns,
        device_ns: used.device_ns,
    }
}
