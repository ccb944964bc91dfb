//! Files that processes open or fail to open, and changes of file names and modes.

use std::cell::RefCell;
use std::os::fd::BorrowedFd;
use std::rc::Rc;

use libbpf_rs::skel::{OpenSkel, Skel};
use libbpf_rs::{Link, RingBuffer, RingBufferBuilder};
use noctule_model::Feature;

use super::{RawEvent, SharedMaps, rows};
use crate::abi;
use crate::cost::ProgramHandle;
use crate::error::{Context, Error};
use crate::facts::{self, Facts};
use crate::plan::FILE_OPENS;
use crate::skel::files::{FilesSkel, types};
use crate::table;

mod options;
pub(super) mod record;
mod ways;

pub use options::FileOptions;
use ways::Target;

/// Opens by one cgroup that match the options. The counts never decrease, and are exact even if
/// records are dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileCounts {
    /// Read-only opens; 0 unless requested.
    pub reads: u64,
    /// Opens for writing, or for reading and writing.
    pub writes: u64,
    /// Failed opens; 0 unless requested.
    pub failures: u64,
}

/// The attached programs with their ring buffer and table. Dropping this value detaches the
/// programs.
pub struct FileEvents {
    // Links are declared first, because they must be dropped before their object.
    _links: Vec<Link>,
    ring: RingBuffer<'static>,
    records: Rc<RefCell<Vec<RawEvent>>>,
    skel: FilesSkel<'static>,
    programs: Vec<&'static str>,
    reads: bool,
    failures: bool,
}

impl FileEvents {
    /// Loads and attaches the best way that works, and returns the status with that way or with the
    /// reasons why none works. File changes are included if the kernel supports them and events are
    /// streamed, because changes are not counted. Without `shared` the filter tables are empty, so
    /// an enabled filter matches nothing.
    ///
    /// # Errors
    ///
    /// Fails if the options are invalid.
    pub fn load(
        facts: &Facts,
        options: &FileOptions<'_>,
        shared: Option<SharedMaps<'_>>,
    ) -> Result<(Option<Self>, Vec<Feature>), Error> {
        let prefix = options.prefix_bytes()?;
        if !facts.task_storage {
            return Ok((None, vec![ways::too_old()]));
        }
        let mut changes = match options.stream {
            true => ways::changes(facts).map_err(|error| ways::changes_missing(&error)),
            false => Err(ways::changes_not_kept()),
        };
        let mut problems = Vec::new();
        for way in &FILE_OPENS {
            let opens = match ways::targets(facts, way) {
                Ok(opens) => opens,
                Err(error) => {
                    problems.push((way, error));
                    continue;
                }
            };
            let load =
                |targets: &[Target]| Self::load_way(facts, options, &prefix, shared, targets);
            if let Ok(more) = &changes {
                match load(&[&opens[..], more].concat()) {
                    Ok(events) => {
                        let features = vec![way.works(ways::FEATURE), ways::changes_seen()];
                        return Ok((Some(events), features));
                    }
                    Err(error) => changes = Err(ways::changes_missing(&error)),
                }
            }
            match load(&opens) {
                Ok(events) => {
                    let features = std::iter::once(way.works(ways::FEATURE)).chain(changes.err());
                    return Ok((Some(events), features.collect()));
                }
                Err(error) => problems.push((way, error)),
            }
        }
        let features = std::iter::once(ways::none_works(facts, &problems)).chain(changes.err());
        Ok((None, features.collect()))
    }

    fn load_way(
        facts: &Facts,
        options: &FileOptions<'_>,
        prefix: &[u8],
        shared: Option<SharedMaps<'_>>,
        targets: &[Target],
    ) -> Result<Self, Error> {
        let mut skel = options::open(facts, options, prefix, shared, targets)?
            .load()
            .context("loading the BPF object `files`")?;
        let records = Rc::new(RefCell::new(Vec::new()));
        let ring = ring(&skel, records.clone())?;
        let online = facts::online_cpus(&facts.roots.sys)
            .first()
            .copied()
            .unwrap_or(0);
        let mut links = Vec::new();
        for program in skel.object_mut().progs_mut() {
            let Some(target) = targets.iter().find(|t| program.name() == t.program) else {
                continue;
            };
            links.push(target.attach(&program, online)?);
        }
        Ok(Self {
            _links: links,
            ring,
            records,
            skel,
            programs: targets.iter().map(|t| t.program).collect(),
            reads: options.reads,
            failures: options.failures,
        })
    }

    /// Returns whether read-only opens are counted.
    pub fn counts_reads(&self) -> bool {
        self.reads
    }

    /// Returns whether failed opens are counted.
    pub fn counts_failures(&self) -> bool {
        self.failures
    }

    /// Returns the records since the last call, in the order of the ring buffer.
    pub fn drain(&self) -> Result<Vec<RawEvent>, Error> {
        self.ring
            .consume()
            .context("reading the ring buffer of file opens")?;
        Ok(self.records.take())
    }

    /// Returns a descriptor that becomes readable when there are records.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        abi::epoll_fd(&self.ring)
    }

    /// Returns the opens of each cgroup.
    pub fn rows(&self) -> Result<Vec<(u64, FileCounts)>, Error> {
        let rows = table::entries(&self.skel.maps.file_rows, "reading the table of file opens")?;
        let row = |(key, value): (&[u8], &[u8])| {
            let id = u64::from_ne_bytes(key.try_into().ok()?);
            let counts = abi::plain::<types::file_counts>(value)?;
            Some((id, FileCounts::from(&counts)))
        };
        Ok(rows.iter().filter_map(row).collect())
    }

    /// Returns the sum over the cgroups that did not fit into the table.
    pub fn overflow(&self) -> FileCounts {
        self.bss()
            .map_or_else(FileCounts::default, |bss| (&bss.file_overflow).into())
    }

    /// Removes the row of a cgroup that no longer exists, and returns its last counts.
    pub fn take(&self, cgroup: u64) -> Option<FileCounts> {
        let row =
            rows::take::<types::file_counts>(&self.skel.maps.file_rows, &cgroup.to_ne_bytes());
        row.as_ref().map(FileCounts::from)
    }

    /// Returns the number of dropped records of the event with this name.
    pub fn lost(&self, name: &str) -> u64 {
        let bss = self.skel.maps.bss_data.as_deref();
        super::record::lost(name, bss.map(|bss| bss.lost_events.as_slice()))
    }

    /// Returns the number of opens that were counted in the overflow row.
    pub fn lost_rows(&self) -> u64 {
        let kind = crate::skel::switch::types::loss::LOSS_EVENT_ROW.0 as usize;
        self.bss().map_or(0, |bss| bss.losses[kind])
    }

    /// Returns the programs, for measuring their cost.
    pub fn programs(&self) -> Vec<ProgramHandle> {
        ProgramHandle::all(self.skel.object(), &self.programs)
    }

    fn bss(&self) -> Option<&types::bss> {
        self.skel.maps.bss_data.as_deref()
    }
}

fn ring(
    skel: &FilesSkel<'static>,
    records: Rc<RefCell<Vec<RawEvent>>>,
) -> Result<RingBuffer<'static>, Error> {
    let mut builder = RingBufferBuilder::new();
    let take = move |record: &[u8]| {
        records.borrow_mut().extend(record::parse(record));
        0
    };
    builder
        .add(&skel.maps.bulk, take)
        .context("creating the ring buffer of file opens")?;
    builder
        .build()
        .context("creating the ring buffer of file opens")
}

impl From<&types::file_counts> for FileCounts {
    fn from(abi: &types::file_counts) -> Self {
        Self {
            reads: abi.reads,
            writes: abi.writes,
            failures: abi.failures,
        }
    }
}
