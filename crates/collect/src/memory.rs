//! Reads the memory limits of groups, and how often pages were evicted and read again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use noctule_model::{Batch, BlockClass, CgroupId, Counter, MemoryRow};

/// A larger limit of cgroup v1 means that there is none.
const NO_LIMIT: u64 = 1 << 62;

/// Where the kernel's files are.
#[derive(Clone, Debug)]
pub struct MemoryFiles {
    /// Mount point of the hierarchy with the memory controller.
    pub memory: PathBuf,
    /// Mount point of the hierarchy with the I/O controller, if that hierarchy is mounted.
    pub io: Option<PathBuf>,
    /// Mount point of procfs.
    pub proc: PathBuf,
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
        let has_limit = |path: &str| limit(&self.files.folder(path)).is_some();
        let limited: BTreeSet<&str> = paths
            .iter()
            .copied()
            .filter(|path| has_limit(path))
            .collect();
        for path in paths {
            if chain(path).any(|path| limited.contains(path)) {
                self.read_group(path);
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
                stale.extend(chain(&owner.path));
            }
            waited.insert(row.id, ns);
        }
        self.waited_ns = waited;
        stale.into_iter().for_each(|path| self.read_group(path));
        if batch.sequence.is_multiple_of(AGAIN) {
            let files = &self.files;
            self.rows.retain(|path, _| files.folder(path).exists());
        }
        batch.memory = self.rows.values().cloned().collect();
    }

    fn read_group(&mut self, path: &str) {
        match self.files.row(path) {
            Some(row) => self.rows.insert(path.to_owned(), row),
            None => self.rows.remove(path),
        };
    }
}

/// Number of batches after which removed groups are dropped.
const AGAIN: u64 = 32;

/// Yields the path of a group and its ancestors, except the root.
fn chain(path: &str) -> impl Iterator<Item = &str> {
    let ends = path.match_indices('/').map(|(at, _)| at);
    let ends = ends.filter(|at| *at > 0).chain([path.len()]);
    ends.map(|at| &path[..at])
}

impl MemoryFiles {
    fn folder(&self, path: &str) -> PathBuf {
        self.memory.join(path.trim_start_matches('/'))
    }

    fn row(&self, path: &str) -> Option<MemoryRow> {
        let folder = self.folder(path);
        let stat = fs::read_to_string(folder.join("memory.stat")).ok()?;
        let pages = rereads(&stat)?;
        let oom = fs::read_to_string(folder.join("memory.oom_control")).unwrap_or_default();
        Some(MemoryRow {
            cgroup: CgroupId(fs::metadata(&folder).ok()?.ino()),
            path: path.to_owned(),
            limit_bytes: limit(&folder),
            hits: hits(&folder).unwrap_or(0),
            reread_bytes: pages.saturating_mul(rustix::param::page_size() as u64),
            read_bytes: self.read_bytes(path).unwrap_or(0),
            under_oom: number(&oom, "under_oom") == Some(1),
        })
    }

    /// Returns what the group read from disks, or what the machine read if the group's own figure is missing.
    fn read_bytes(&self, path: &str) -> Option<u64> {
        let folder = self
            .io
            .as_ref()
            .map(|io| io.join(path.trim_start_matches('/')));
        let read = |file| fs::read_to_string(folder.as_ref()?.join(file)).ok();
        if let Some(text) = read("io.stat") {
            let words = text.split_whitespace();
            let bytes = words.filter_map(|word| word.strip_prefix("rbytes=")?.parse().ok());
            return Some(bytes.fold(0, u64::saturating_add));
        }
        if let Some(text) = read("blkio.throttle.io_service_bytes_recursive") {
            let bytes = text.lines().filter_map(|line| {
                let (_, rest) = line.split_once(" Read ")?;
                rest.trim().parse().ok()
            });
            return Some(bytes.fold(0, u64::saturating_add));
        }
        let text = fs::read_to_string(self.proc.join("vmstat")).ok()?;
        Some(number(&text, "pgpgin")?.saturating_mul(1024))
    }
}

/// Returns the lowest limit of a group; `None` without one.
fn limit(folder: &Path) -> Option<u64> {
    let files = ["memory.max", "memory.high", "memory.limit_in_bytes"];
    let texts = files
        .iter()
        .filter_map(|file| fs::read_to_string(folder.join(file)).ok());
    let limits = texts.filter_map(|text| text.trim().parse::<u64>().ok());
    limits.filter(|bytes| *bytes < NO_LIMIT).min()
}

/// Returns how often a group was at its own limit.
fn hits(folder: &Path) -> Option<u64> {
    let read = |file| fs::read_to_string(folder.join(file)).ok();
    match read("memory.events.local").or_else(|| read("memory.events")) {
        Some(events) => {
            let of = |name| number(&events, name).unwrap_or(0);
            Some(of("max").saturating_add(of("high")))
        }
        None => read("memory.failcnt")?.trim().parse().ok(),
    }
}

/// Returns the number of pages that were evicted and read again. On cgroup v1, only the totals include descendants.
/// Before Linux 5.9 there is one figure for all pages.
fn rereads(stat: &str) -> Option<u64> {
    ["total_", ""].into_iter().find_map(|prefix| {
        let of = |kind: &str| number(stat, &format!("{prefix}workingset_refault{kind}"));
        let by_kind = of("_file").zip(of("_anon"));
        by_kind
            .map(|(file, anon)| file.saturating_add(anon))
            .or_else(|| of(""))
    })
}

/// Returns the number after a name, in lines of names and numbers.
fn number(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (found, value) = line.split_once(' ')?;
        (found == name).then(|| value.trim().parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use noctule_model::CgroupRow;

    use super::*;
    use crate::testing::{batch_of, hierarchy};

    fn memory(root: &Path, io: bool) -> Memory {
        Memory::new(MemoryFiles {
            memory: root.join("memory"),
            io: io.then(|| root.join("io")),
            proc: root.join("proc"),
        })
    }

    fn batch(path: &str, disk_ns: u64) -> Batch {
        batch_of(path, Counter::Blocked(BlockClass::Disk), disk_ns)
    }

    /// Path, limit, hits, pages read again, bytes read, and whether the group is under OOM.
    type Figures<'a> = (&'a str, Option<u64>, u64, u64, u64, bool);

    fn figures(batch: &Batch) -> Vec<Figures<'_>> {
        let page = rustix::param::page_size() as u64;
        let rows = batch.memory.iter();
        rows.map(|it| {
            let pages = it.reread_bytes / page;
            (
                it.path.as_str(),
                it.limit_bytes,
                it.hits,
                pages,
                it.read_bytes,
                it.under_oom,
            )
        })
        .collect()
    }

    #[test]
    fn the_files_of_both_versions_are_read() {
        let root = hierarchy(&[
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
            ("memory/b/memory.limit_in_bytes", "9223372036854771712\n"),
            ("memory/b/memory.failcnt", "4\n"),
            (
                "memory/b/memory.oom_control",
                "oom_kill_disable 1\nunder_oom 1\noom_kill 0\n",
            ),
            (
                "memory/b/memory.stat",
                "workingset_refault 3\ntotal_workingset_refault 5\n",
            ),
            (
                "io/b/blkio.throttle.io_service_bytes_recursive",
                "254:0 Read 70\n254:0 Write 9\n253:0 Read 1\nTotal 80\n",
            ),
            ("proc/vmstat", "pgpgin 3\npgpgout 4\n"),
        ]);
        let files = memory(root.path(), true);
        let mut both = batch("/a", 1);
        both.cgroups.push(CgroupRow {
            id: CgroupId(8),
            ..batch("/b", 1).cgroups.remove(0)
        });
        let mut memory = files;
        memory.read(&mut both);
        let expected = [
            ("/a", Some(64 << 20), 9, 31, 100, false),
            ("/b", None, 4, 5, 71, true),
        ];
        assert_eq!(figures(&both), expected);
        let mut without_io = self::memory(root.path(), false);
        let mut other = batch("/a", 1);
        without_io.read(&mut other);
        assert_eq!(figures(&other)[0].4, 3 * 1024);
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
        let mut memory = memory(root.path(), false);
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
