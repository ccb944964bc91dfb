//! Reads the memory limits of groups, and how often pages were evicted and read again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::PathBuf;

use noctule_kernel::CgroupVersion;
use noctule_model::{Batch, BlockClass, CgroupId, Counter, MemoryRow};

use crate::group_files::{GroupFiles, GroupFolder, value, with_ancestors};

/// A larger limit of cgroup v1 means that there is none.
const NO_LIMIT: u64 = 1 << 62;

/// Number of batches after which removed groups are dropped.
const AGAIN: u64 = 32;

/// A mounted hierarchy.
#[derive(Debug)]
pub struct Mounted {
    version: CgroupVersion,
    groups: GroupFiles,
}

impl Mounted {
    /// Creates access to the hierarchy with this mount point.
    pub fn new((version, mount): (CgroupVersion, PathBuf)) -> Self {
        let groups = GroupFiles::new(mount);
        Self { version, groups }
    }
}

/// Where the kernel's files are.
#[derive(Debug)]
pub struct MemoryFiles {
    /// The hierarchy with the memory controller.
    pub memory: Mounted,
    /// The hierarchy with the I/O controller, if it is mounted.
    pub io: Option<Mounted>,
    /// Mount point of procfs.
    pub proc: PathBuf,
    /// Mount point of sysfs.
    pub sys: PathBuf,
}

/// Reads the memory use of groups. At the start, reads each group that has a limit or is below a group with a limit.
/// Later, reads a group again when its threads waited for a disk or for memory. Other groups cannot have changed in a
/// way that matters.
#[derive(Debug)]
pub struct Memory {
    files: MemoryFiles,
    /// The rows, by path.
    rows: BTreeMap<String, MemoryRow>,
    /// The time for which groups had waited for disks and memory when they were read, in nanoseconds.
    waited_ns: HashMap<CgroupId, u64>,
}

impl Memory {
    /// Creates an empty list.
    pub fn new(files: MemoryFiles) -> Self {
        Self {
            files,
            rows: BTreeMap::new(),
            waited_ns: HashMap::new(),
        }
    }

    /// Reads each of these groups that has a limit, or is below a group with a limit.
    pub fn look<'a>(&mut self, paths: impl Iterator<Item = &'a str>) {
        let paths: BTreeSet<&str> = paths.filter(|path| path.starts_with('/')).collect();
        let memory = &self.files.memory;
        let has_limit = |path: &str| limit(memory.version, &memory.groups.open(path)?);
        let limited: BTreeSet<&str> = paths
            .iter()
            .copied()
            .filter(|path| has_limit(path).is_some())
            .collect();
        let machine = &mut Machine::default();
        for path in paths {
            if with_ancestors(path).any(|path| limited.contains(path)) {
                self.read_group(path, machine);
            }
        }
    }

    /// Sets the rows of a batch. Its groups must have owners.
    pub fn read(&mut self, batch: &mut Batch) {
        let mut waited = HashMap::new();
        let mut stale = BTreeSet::new();
        for row in &batch.cgroups {
            let Some(owner) = row.owner.as_deref().filter(|it| it.path.len() > 1) else {
                continue;
            };
            let counters = row.counters_at(batch.taken_ns);
            let of = |class| counters[Counter::Blocked(class)];
            let ns = of(BlockClass::Disk).saturating_add(of(BlockClass::Memory));
            let before = self.waited_ns.get(&row.id).copied().unwrap_or(0);
            if ns > before {
                stale.extend(with_ancestors(&owner.path));
            }
            waited.insert(row.id, ns);
        }
        self.waited_ns = waited;
        let machine = &mut Machine::default();
        stale
            .into_iter()
            .for_each(|path| self.read_group(path, machine));
        if batch.sequence.is_multiple_of(AGAIN) {
            let groups = &self.files.memory.groups;
            self.rows.retain(|path, _| groups.open(path).is_some());
        }
        batch.memory = self.rows.values().cloned().collect();
    }

    fn read_group(&mut self, path: &str, machine: &mut Machine) {
        match self.files.row(path, machine) {
            Some(row) => self.rows.insert(path.to_owned(), row),
            None => self.rows.remove(path),
        };
    }
}

/// What was read about the machine while groups were read.
#[derive(Default)]
struct Machine {
    /// Bytes read from all disks; the inner option is `None` if the kernel does not say.
    read_bytes: Option<Option<u64>>,
    /// Whether a device passes its requests on to other devices, by its numbers.
    stacked: HashMap<String, bool>,
}

impl MemoryFiles {
    fn row(&self, path: &str, machine: &mut Machine) -> Option<MemoryRow> {
        let version = self.memory.version;
        let folder = self.memory.groups.open(path)?;
        let pages = rereads(version, &folder.text("memory.stat")?)?;
        let under_oom = || value(&folder.text("memory.oom_control")?, "under_oom");
        let group_reads = self.read_bytes(path, machine);
        Some(MemoryRow {
            cgroup: folder.id()?,
            path: path.to_owned(),
            limit_bytes: limit(version, &folder),
            hits: hits(version, &folder),
            reread_bytes: pages.saturating_mul(rustix::param::page_size() as u64),
            read_bytes: group_reads.or_else(|| self.read_bytes_of_all(machine)),
            under_oom: version == CgroupVersion::V1 && under_oom() == Some(1),
        })
    }

    /// Returns what the group read from disks. The kernel counts a request at each device that it passes, so stacked
    /// devices (LVM, dm-crypt, md) are left out: the disks below them count the same bytes.
    fn read_bytes(&self, path: &str, machine: &mut Machine) -> Option<u64> {
        let Mounted { version, groups } = self.io.as_ref()?;
        let (file, key) = match version {
            CgroupVersion::V2 => ("io.stat", "rbytes="),
            CgroupVersion::V1 => ("blkio.throttle.io_service_bytes_recursive", "Read "),
        };
        let text = groups.text(path, file)?;
        let mut sum = 0_u64;
        for line in text.lines() {
            let read = line.split_once(' ').and_then(|(device, rest)| {
                let (_, value) = rest.split_once(key)?;
                let bytes: u64 = value.split(' ').next()?.parse().ok()?;
                Some((device, bytes))
            });
            if let Some((device, bytes)) = read
                && !self.is_stacked(device, machine)
            {
                sum = sum.saturating_add(bytes);
            }
        }
        Some(sum)
    }

    fn is_stacked(&self, device: &str, machine: &mut Machine) -> bool {
        if let Some(known) = machine.stacked.get(device) {
            return *known;
        }
        let folder = self.sys.join("dev/block").join(device);
        let mut below = fs::read_dir(folder.join("slaves")).into_iter().flatten();
        // Multipath forwards requests in a way that its disks do not count.
        let uuid = fs::read_to_string(folder.join("dm/uuid")).unwrap_or_default();
        let stacked = below.next().is_some() && !uuid.starts_with("mpath-");
        machine.stacked.insert(device.to_owned(), stacked);
        stacked
    }

    /// Returns what the machine read from disks.
    fn read_bytes_of_all(&self, machine: &mut Machine) -> Option<u64> {
        let read = || {
            let text = fs::read_to_string(self.proc.join("vmstat")).ok()?;
            Some(value(&text, "pgpgin")?.saturating_mul(1024))
        };
        *machine.read_bytes.get_or_insert_with(read)
    }
}

/// Returns the lowest limit of a group; `None` without one.
fn limit(version: CgroupVersion, folder: &GroupFolder) -> Option<u64> {
    let files: &[&str] = match version {
        CgroupVersion::V2 => &["memory.max", "memory.high"],
        CgroupVersion::V1 => &["memory.limit_in_bytes"],
    };
    let limits = files.iter().filter_map(|file| folder.number(file));
    limits.filter(|bytes| *bytes < NO_LIMIT).min()
}

/// Returns how often a group was at its own limit. Before Linux 5.2, only the sum with its descendants is known.
fn hits(version: CgroupVersion, folder: &GroupFolder) -> Option<u64> {
    if version == CgroupVersion::V1 {
        return folder.number("memory.failcnt");
    }
    let own = folder.text("memory.events.local");
    let events = own.or_else(|| folder.text("memory.events"))?;
    let [max, high] = ["max", "high"].map(|key| value(&events, key));
    Some(max?.saturating_add(high?))
}

/// Returns the number of pages that were evicted and read again. On cgroup v1, only the totals include descendants.
/// Before Linux 5.9 there is one figure for all pages.
fn rereads(version: CgroupVersion, stat: &str) -> Option<u64> {
    let key = match version {
        CgroupVersion::V2 => "workingset_refault",
        CgroupVersion::V1 => "total_workingset_refault",
    };
    let of = |kind: &str| value(stat, &format!("{key}{kind}"));
    let by_kind = of("_file").zip(of("_anon"));
    by_kind
        .map(|(file, anon)| file.saturating_add(anon))
        .or_else(|| of(""))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::testing::{batch_of, hierarchy};

    fn memory(root: &Path, version: CgroupVersion, io: bool) -> Memory {
        let mounted = |name| Mounted::new((version, root.join(name)));
        Memory::new(MemoryFiles {
            memory: mounted("memory"),
            io: io.then(|| mounted("io")),
            proc: root.join("proc"),
            sys: root.join("sys"),
        })
    }

    fn batch(path: &str, disk_ns: u64) -> Batch {
        batch_of(path, Counter::Blocked(BlockClass::Disk), disk_ns)
    }

    fn read(root: &Path, version: CgroupVersion, io: bool) -> MemoryRow {
        let mut batch = batch("/a", 1);
        memory(root, version, io).read(&mut batch);
        let [row] = &batch.memory[..] else {
            panic!("{:?}", batch.memory);
        };
        row.clone()
    }

    #[test]
    fn the_files_of_both_versions_are_read() {
        let page = rustix::param::page_size() as u64;
        let row = |row: &MemoryRow| MemoryRow {
            path: "/a".to_owned(),
            under_oom: false,
            ..row.clone()
        };
        let v2 = hierarchy(&[
            ("memory/a/memory.max", "67108864\n"),
            ("memory/a/memory.high", "max\n"),
            ("memory/a/memory.events", "low 0\nhigh 0\nmax 90\noom 0\n"),
            (
                "memory/a/memory.events.local",
                "low 0\nhigh 2\nmax 7\noom 0\n",
            ),
            (
                "memory/a/memory.stat",
                "file 1\nworkingset_refault_anon 1\nworkingset_refault_file 30\n",
            ),
            (
                "io/a/io.stat",
                "8:0 rbytes=90 wbytes=1\n8:16 rbytes=10 wbytes=1\n",
            ),
        ]);
        let read_v2 = read(v2.path(), CgroupVersion::V2, true);
        let expected = MemoryRow {
            limit_bytes: Some(64 << 20),
            hits: Some(9),
            reread_bytes: 31 * page,
            read_bytes: Some(100),
            ..row(&read_v2)
        };
        assert_eq!(read_v2, expected);
        let v1 = hierarchy(&[
            ("memory/a/memory.limit_in_bytes", "9223372036854771712\n"),
            ("memory/a/memory.failcnt", "4\n"),
            (
                "memory/a/memory.oom_control",
                "oom_kill_disable 1\nunder_oom 1\noom_kill 0\n",
            ),
            (
                "memory/a/memory.stat",
                "workingset_refault 3\ntotal_workingset_refault 5\n",
            ),
            (
                "io/a/blkio.throttle.io_service_bytes_recursive",
                "254:0 Read 70\n254:0 Write 9\n253:0 Read 1\nTotal 80\n",
            ),
        ]);
        let read_v1 = read(v1.path(), CgroupVersion::V1, true);
        let expected = MemoryRow {
            limit_bytes: None,
            hits: Some(4),
            reread_bytes: 5 * page,
            read_bytes: Some(71),
            under_oom: true,
            ..row(&read_v1)
        };
        assert_eq!(read_v1, expected);
    }

    #[test]
    fn a_figure_that_no_file_has_is_unknown() {
        let stat = ("memory/a/memory.stat", "workingset_refault 3\n");
        let bare = hierarchy(&[stat]);
        let row = read(bare.path(), CgroupVersion::V2, true);
        assert_eq!((row.hits, row.read_bytes), (None, None));
        let machine = hierarchy(&[stat, ("proc/vmstat", "pgpgin 3\npgpgout 4\n")]);
        let row = read(machine.path(), CgroupVersion::V2, false);
        assert_eq!(row.read_bytes, Some(3 * 1024));
    }

    #[test]
    fn bytes_that_pass_several_devices_count_once() {
        // A volume (254:0) on two disks, multipath (254:1) on a third one, and a disk of its own.
        let root = hierarchy(&[
            ("memory/a/memory.stat", "workingset_refault 3\n"),
            (
                "io/a/io.stat",
                "254:0 rbytes=50 wbytes=1\n8:0 rbytes=30 wbytes=1\n8:16 rbytes=20 wbytes=1\n\
                 254:1 rbytes=400 wbytes=0\n7:0 rbytes=8000 wbytes=0\n",
            ),
            ("sys/dev/block/254:0/slaves/sda1", ""),
            ("sys/dev/block/254:0/slaves/sdb", ""),
            ("sys/dev/block/254:0/dm/uuid", "LVM-x\n"),
            ("sys/dev/block/254:1/slaves/sdc", ""),
            ("sys/dev/block/254:1/dm/uuid", "mpath-x\n"),
            ("sys/dev/block/8:0/holders/dm-0", ""),
        ]);
        let row = read(root.path(), CgroupVersion::V2, true);
        assert_eq!(row.read_bytes, Some(8450));
    }

    #[test]
    fn a_group_is_read_again_only_after_it_waited() {
        let stat =
            |pages: u64| format!("workingset_refault_anon 0\nworkingset_refault_file {pages}\n");
        let root = hierarchy(&[
            ("memory/a/memory.max", "4096\n"),
            ("memory/a/memory.stat", &stat(1)),
            ("memory/a/b/memory.max", "max\n"),
            ("memory/a/b/memory.stat", &stat(1)),
            ("memory/c/memory.stat", &stat(1)),
        ]);
        let mut memory = memory(root.path(), CgroupVersion::V2, false);
        memory.look(["/a", "/a/b", "/c", "#9"].into_iter());
        let set = |path: &str, pages| {
            let file = root.path().join("memory").join(path).join("memory.stat");
            fs::write(file, stat(pages)).expect("it can be written");
        };
        let mut read = |disk_ns| {
            let mut batch = batch("/a/b", disk_ns);
            memory.read(&mut batch);
            let rows = batch.memory.iter();
            let page = rustix::param::page_size() as u64;
            rows.map(|it| (it.path.clone(), it.reread_bytes / page))
                .collect::<Vec<_>>()
        };
        let rows = |a, b| [("/a".to_owned(), a), ("/a/b".to_owned(), b)];
        assert_eq!(read(0), rows(1, 1));
        set("a", 5);
        set("a/b", 4);
        assert_eq!(read(0), rows(1, 1));
        assert_eq!(read(7), rows(5, 4));
        set("a/b", 9);
        assert_eq!(read(7), rows(5, 4));
        fs::remove_dir_all(root.path().join("memory/a/b")).expect("it can be removed");
        assert_eq!(read(8), rows(5, 4)[..1]);
    }
}
