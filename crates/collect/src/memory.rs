//! Reads the memory limits of groups, and how often pages were evicted and read again.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::PathBuf;

use noctule_kernel::CgroupVersion;
use noctule_model::{Batch, BlockClass, CgroupId, CgroupRow, Counter, Loss, MemoryRow};

use crate::group_files::{GroupFiles, GroupFolder, value, with_ancestors};

/// On cgroup v1, a limit of this size or more means that there is no limit.
const NO_LIMIT: u64 = 1 << 62;

/// A group is read if its threads, since the last reading, waited for disks and memory for more
/// than 1/PART of the interval between two batches.
const PART: u64 = 100;

/// Maximum number of groups that are read for a batch, not counting their ancestors. Further groups
/// follow with the next batches.
const READS: usize = 256;

/// Maximum number of rows.
const ROWS: usize = 1024;

/// Time after which a group with a limit is read again even if it did not wait.
const OLD_NS: u64 = 60_000_000_000;

/// Maximum number of groups that are read for a batch because of `OLD_NS`.
const OLD_READS: usize = 16;

/// Number of batches after which removed groups are dropped.
const AGAIN: u64 = 32;

/// A mounted cgroup hierarchy.
#[derive(Clone, Debug)]
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

    /// Returns the resident memory of a group and its descendants, in bytes: anonymous pages and
    /// mapped pages of files. Returns `None` without the memory controller.
    pub(crate) fn resident_bytes(&self, path: &str) -> Option<u64> {
        let keys = match self.version {
            CgroupVersion::V2 => ["anon", "file_mapped"],
            CgroupVersion::V1 => ["total_rss", "total_mapped_file"],
        };
        let stat = self.groups.text(path, "memory.stat")?;
        let [anonymous, mapped] = keys.map(|key| value(&stat, key));
        Some(anonymous?.saturating_add(mapped?))
    }
}

/// Locations of the kernel's files.
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

/// Reads the memory figures of groups. Each group is read when it appears, so that later growth is
/// known, and again when its threads waited for a disk or for memory. A group can reach its limit
/// without a wait, so groups with a limit are also read every `OLD_NS`.
#[derive(Debug)]
pub struct Memory {
    files: MemoryFiles,
    /// The rows of cgroups, by path.
    rows: BTreeMap<String, MemoryRow>,
    /// Rows that were dropped because there were too many.
    dropped: u64,
    /// For each group, how long its threads had waited for disks and memory when it was last read,
    /// in nanoseconds.
    waited: HashMap<CgroupId, u64>,
    /// Time of the last batch.
    taken_ns: u64,
}

/// A group whose memory figures are due.
struct Due<'a> {
    row: &'a CgroupRow,
    path: &'a str,
    waited_ns: u64,
    /// `None` if the group was not read before.
    before_ns: Option<u64>,
}

impl Due<'_> {
    fn grown_ns(&self) -> u64 {
        self.waited_ns.saturating_sub(self.before_ns.unwrap_or(0))
    }
}

impl Memory {
    /// Creates a reader without rows.
    pub fn new(files: MemoryFiles) -> Self {
        Self {
            files,
            rows: BTreeMap::new(),
            dropped: 0,
            waited: HashMap::new(),
            taken_ns: 0,
        }
    }

    /// Returns the number of rows that were dropped because there were too many.
    pub fn loss(&self) -> Loss {
        Loss {
            kind: "memory_row",
            place: "memory",
            count: self.dropped,
        }
    }

    /// Sets the memory rows of a batch, in which groups must already have owners.
    pub fn read(&mut self, batch: &mut Batch) {
        let least = batch.taken_ns.saturating_sub(self.taken_ns) / PART;
        self.taken_ns = batch.taken_ns;
        let machine = &mut Machine::default();
        self.read_due(batch, least, machine);
        self.read_old(machine);
        if batch.sequence.is_multiple_of(AGAIN) {
            let groups = &self.files.memory.groups;
            let id = |path: &str| groups.open(path)?.id();
            self.rows.retain(|path, row| id(path) == Some(row.cgroup));
        }
        batch.memory = self.rows.values().cloned().collect();
    }

    /// Reads new groups and groups that waited, with their ancestors. Groups with the longest waits
    /// come first.
    fn read_due(&mut self, batch: &Batch, least: u64, machine: &mut Machine) {
        let before = std::mem::take(&mut self.waited);
        let mut due = Vec::new();
        for row in &batch.cgroups {
            let Some(owner) = row.owner.as_deref().filter(|it| it.path.len() > 1) else {
                continue;
            };
            let counters = row.counters_at(batch.taken_ns);
            let of = |class| counters[Counter::Blocked(class)];
            let group = Due {
                row,
                path: &owner.path,
                waited_ns: of(BlockClass::Disk).saturating_add(of(BlockClass::Memory)),
                before_ns: before.get(&row.id).copied(),
            };
            match group.before_ns {
                Some(before_ns) if group.grown_ns() <= least => {
                    self.waited.insert(row.id, before_ns);
                }
                _ => due.push(group),
            }
        }
        due.sort_by_key(|group| (Reverse(group.grown_ns()), group.row.id));
        let mut read = HashSet::new();
        for (place, group) in due.iter().enumerate() {
            if place < READS {
                let paths = with_ancestors(group.path).filter(|path| read.insert(*path));
                paths.for_each(|path| self.read_group(path, machine));
            }
            let known = (place < READS).then_some(group.waited_ns);
            if let Some(ns) = known.or(group.before_ns) {
                self.waited.insert(group.row.id, ns);
            }
        }
    }

    /// Reads groups with a limit whose rows are old, starting with the oldest.
    fn read_old(&mut self, machine: &mut Machine) {
        let is_old = |row: &&MemoryRow| {
            row.limit_bytes.is_some() && self.taken_ns.saturating_sub(row.taken_ns) >= OLD_NS
        };
        let mut old: Vec<_> = self.rows.values().filter(is_old).collect();
        old.sort_by_key(|row| row.taken_ns);
        let paths: Vec<String> = old
            .iter()
            .take(OLD_READS)
            .map(|row| row.path.clone())
            .collect();
        paths.iter().for_each(|path| self.read_group(path, machine));
    }

    fn read_group(&mut self, path: &str, machine: &mut Machine) {
        let Some(row) = self.files.row(path, self.taken_ns, machine) else {
            self.rows.remove(path);
            return;
        };
        self.rows.insert(path.to_owned(), row);
        if self.rows.len() > ROWS {
            let oldest = self.rows.values().min_by_key(|row| row.taken_ns);
            if let Some(path) = oldest.map(|row| row.path.clone()) {
                self.rows.remove(&path);
                self.dropped += 1;
            }
        }
    }
}

/// Values of the machine, each read at most once per batch.
#[derive(Default)]
struct Machine {
    /// Bytes read from all disks; the inner option is `None` if the kernel does not report them.
    read_bytes: Option<Option<u64>>,
    /// Whether a device passes its requests on to other devices, by major and minor number.
    stacked: HashMap<String, bool>,
}

impl MemoryFiles {
    fn row(&self, path: &str, taken_ns: u64, machine: &mut Machine) -> Option<MemoryRow> {
        let version = self.memory.version;
        let folder = self.memory.groups.open(path)?;
        let pages = rereads(version, &folder.text("memory.stat")?)?;
        let under_oom = || value(&folder.text("memory.oom_control")?, "under_oom");
        let group_reads = self.read_bytes(path, machine);
        Some(MemoryRow {
            cgroup: folder.id()?,
            path: path.to_owned(),
            taken_ns,
            limit_bytes: limit(version, &folder),
            hits: hits(version, &folder),
            reread_bytes: pages.saturating_mul(rustix::param::page_size() as u64),
            read_bytes: group_reads.or_else(|| self.read_bytes_of_all(machine)),
            under_oom: version == CgroupVersion::V1 && under_oom() == Some(1),
        })
    }

    /// Returns the bytes that the group read from disks. The kernel counts a request at each device
    /// that the request passes. Stacked devices (LVM, dm-crypt, md) are therefore left out, because
    /// the disks below them count the same bytes.
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
        // A multipath device is not left out, because the disks below it do not count its requests.
        let uuid = fs::read_to_string(folder.join("dm/uuid")).unwrap_or_default();
        let stacked = below.next().is_some() && !uuid.starts_with("mpath-");
        machine.stacked.insert(device.to_owned(), stacked);
        stacked
    }

    /// Returns the bytes that the machine read from disks.
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

/// Returns how often a group reached its own limit. Before Linux 5.2, the count includes the limits
/// of its descendants.
fn hits(version: CgroupVersion, folder: &GroupFolder) -> Option<u64> {
    if version == CgroupVersion::V1 {
        return folder.number("memory.failcnt");
    }
    let own = folder.text("memory.events.local");
    let events = own.or_else(|| folder.text("memory.events"))?;
    let [max, high] = ["max", "high"].map(|key| value(&events, key));
    Some(max?.saturating_add(high?))
}

/// Returns the number of pages that were evicted and read again. On cgroup v1, only the keys with
/// the prefix `total_` include descendants. Before Linux 5.9 the kernel has one count for all
/// pages.
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

    use tempfile::TempDir;

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
    fn memory_files_of_both_cgroup_versions_are_read() {
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
    fn missing_figures_are_unknown() {
        let stat = ("memory/a/memory.stat", "workingset_refault 3\n");
        let bare = hierarchy(&[stat]);
        let row = read(bare.path(), CgroupVersion::V2, true);
        assert_eq!((row.hits, row.read_bytes), (None, None));
        let machine = hierarchy(&[stat, ("proc/vmstat", "pgpgin 3\npgpgout 4\n")]);
        let row = read(machine.path(), CgroupVersion::V2, false);
        assert_eq!(row.read_bytes, Some(3 * 1024));
    }

    #[test]
    fn bytes_passing_several_devices_count_once() {
        // A volume (254:0) on two disks, multipath (254:1) on a third disk, and a separate disk.
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

    /// A cgroup v2 hierarchy in which a test changes figures, and the time of the last batch.
    struct Scene {
        root: TempDir,
        memory: Memory,
        taken_ns: u64,
    }

    const SECOND: u64 = 1_000_000_000;

    impl Scene {
        fn new(groups: &[(&str, &str)]) -> Self {
            let root = hierarchy(&[]);
            let memory = memory(root.path(), CgroupVersion::V2, false);
            let this = Self {
                root,
                memory,
                taken_ns: 0,
            };
            for (path, max) in groups {
                this.make(path, max);
            }
            this
        }

        fn make(&self, path: &str, max: &str) {
            let folder = self.root.path().join("memory").join(path);
            fs::create_dir_all(&folder).expect("it can be made");
            fs::write(folder.join("memory.max"), max).expect("it can be written");
            self.set(path, 1);
        }

        fn set(&self, path: &str, pages: u64) {
            let folder = self.root.path().join("memory").join(path);
            let stat = format!("workingset_refault_anon 0\nworkingset_refault_file {pages}\n");
            fs::write(folder.join("memory.stat"), stat).expect("it can be written");
        }

        /// Returns the rows of a batch that is taken `seconds` later. `groups` has each group and
        /// how long it waited for its disk since the start.
        fn batch(&mut self, seconds: u64, groups: &[(&str, u64)]) -> Vec<MemoryRow> {
            self.taken_ns += seconds * SECOND;
            let rows = (1..).zip(groups).map(|(id, (path, ns))| CgroupRow {
                id: CgroupId(id),
                ..batch(path, *ns).cgroups.remove(0)
            });
            let mut batch = Batch {
                sequence: 1,
                taken_ns: self.taken_ns,
                cgroups: rows.collect(),
                ..Batch::default()
            };
            self.memory.read(&mut batch);
            batch.memory
        }
    }

    /// Returns the path, the pages read again, and the age in seconds of each row.
    fn figures(rows: &[MemoryRow], now_ns: u64) -> Vec<(&str, u64, u64)> {
        let page = rustix::param::page_size() as u64;
        let age = |row: &MemoryRow| (now_ns - row.taken_ns) / SECOND;
        rows.iter()
            .map(|row| (&*row.path, row.reread_bytes / page, age(row)))
            .collect()
    }

    #[test]
    fn group_is_read_first_and_again_after_waits() {
        let mut scene = Scene::new(&[("a", "4096"), ("a/b", "max"), ("c", "max")]);
        let mut check = |seconds, disk_ns, expected: &[(&str, u64, u64)]| {
            let rows = scene.batch(seconds, &[("/a/b", disk_ns), ("/c", 0), ("#9", 0)]);
            assert_eq!(figures(&rows, scene.taken_ns), expected);
            for (path, pages) in [("a", 5), ("a/b", 4), ("c", 9)] {
                scene.set(path, pages);
            }
        };
        check(1, 0, &[("/a", 1, 0), ("/a/b", 1, 0), ("/c", 1, 0)]);
        check(
            1,
            SECOND / 200,
            &[("/a", 1, 1), ("/a/b", 1, 1), ("/c", 1, 1)],
        );
        check(
            1,
            SECOND / 50,
            &[("/a", 5, 0), ("/a/b", 4, 0), ("/c", 1, 2)],
        );
        // Only the group with a limit is read again without a wait.
        check(
            60,
            SECOND / 50,
            &[("/a", 5, 0), ("/a/b", 4, 60), ("/c", 1, 62)],
        );
    }

    #[test]
    fn recreated_group_is_another_group() {
        let mut scene = Scene::new(&[("a", "4096"), ("b", "4096")]);
        let first = scene.batch(1, &[("/a", 0), ("/b", 0)]);
        let root = scene.root.path().join("memory");
        fs::rename(root.join("a"), root.join("old")).expect("it can be renamed");
        fs::remove_dir_all(root.join("b")).expect("it can be removed");
        scene.make("a", "4096");
        let again = scene.batch(1, &[("/a", SECOND), ("/b", SECOND)]);
        assert_eq!(again.len(), 1, "{again:?}");
        assert_ne!(again[0].cgroup, first[0].cgroup);
    }

    #[test]
    fn rows_beyond_the_limit_are_dropped_and_counted() {
        const MANY: usize = ROWS + 7;
        let paths: Vec<String> = (0..MANY).map(|number| format!("g{number}")).collect();
        let groups: Vec<(&str, &str)> = paths.iter().map(|path| (&**path, "max")).collect();
        let mut scene = Scene::new(&groups);
        let paths: Vec<String> = paths.iter().map(|path| format!("/{path}")).collect();
        let groups: Vec<(&str, u64)> = paths.iter().map(|path| (&**path, 0)).collect();
        assert_eq!(scene.batch(1, &groups).len(), READS);
        let rows = (1..MANY.div_ceil(READS)).map(|_| scene.batch(1, &groups).len());
        assert_eq!(rows.last(), Some(ROWS));
        assert_eq!(scene.memory.loss().count, 7);
    }
}
