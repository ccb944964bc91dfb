//! Latency distributions, and the matrix of victims and culprits.

use noctule_model::{Blame, BlameRow, CgroupId, Group, Histogram, WaitRow};

use super::Keyed;
use crate::column::{Count, Word, record};

/// The distribution to which a bucket belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Distribution {
    /// Run-queue latency.
    Waits,
    /// Duration of TCP connects, from the call to the end of the handshake.
    Connects,
}

impl Distribution {
    const fn name(self) -> &'static str {
        match self {
            Self::Waits => "cpu",
            Self::Connects => "connect",
        }
    }
}

/// Names of the [`Group`] kinds, and of all groups together.
const KINDS: [&str; 5] = ["cgroup", "kernel", "command", "unnamed", "all"];

pub(super) fn kind(group: Group) -> (Word, u64) {
    let (kind, id) = match group {
        Group::Cgroup(id) => (KINDS[0], id.0),
        Group::Kernel => (KINDS[1], 0),
        Group::Followed => (KINDS[2], 0),
        Group::Unnamed => (KINDS[3], 0),
    };
    (Word(kind), id)
}

pub(super) fn group(kind: Word, id: u64) -> Group {
    match place(kind) {
        0 => Group::Cgroup(CgroupId(id)),
        1 => Group::Kernel,
        2 => Group::Followed,
        _ => Group::Unnamed,
    }
}

fn place(kind: Word) -> usize {
    KINDS
        .iter()
        .position(|name| *name == kind.0)
        .unwrap_or(KINDS.len())
}

record! {
    /// One bucket of a distribution. An empty distribution has one bucket with the count 0.
    pub(crate) struct WaitRecord {
        /// `cpu` or `connect`.
        what: Word,
        victim_kind: Word,
        victim: u64,
        /// The lower bound of the bucket.
        from_ns: u64,
        count: Count,
    }
}

impl Keyed for WaitRecord {
    type Key = (bool, usize, u64, u64);
    const COLUMNS: &[&str] = &["what", "victim_kind", "victim", "from_ns"];

    fn key(&self) -> Self::Key {
        let connects = self.what.0 == Distribution::Connects.name();
        (connects, place(self.victim_kind), self.victim, self.from_ns)
    }
}

impl WaitRecord {
    /// Returns the buckets of a group's distribution.
    pub(crate) fn rows(what: Distribution, row: &WaitRow) -> Vec<Self> {
        let WaitRow { group, histogram } = row;
        let (victim_kind, victim) = kind(*group);
        Self::buckets(what, victim_kind, victim, histogram)
    }

    /// Returns the buckets of the distribution of all groups together.
    pub(crate) fn of_all(what: Distribution, histogram: &Histogram) -> Vec<Self> {
        Self::buckets(what, Word(KINDS[4]), 0, histogram)
    }

    fn buckets(
        what: Distribution,
        victim_kind: Word,
        victim: u64,
        histogram: &Histogram,
    ) -> Vec<Self> {
        let record = |(from_ns, count)| Self {
            what: Word(what.name()),
            victim_kind,
            victim,
            from_ns,
            count: Count(count),
        };
        match histogram.is_empty() {
            true => vec![record((0, 0))],
            false => histogram.buckets().map(record).collect(),
        }
    }

    /// Returns the distributions of the groups and of all groups, from buckets in key order.
    pub(crate) fn distributions<'a>(
        what: Distribution,
        records: impl Iterator<Item = &'a Self>,
    ) -> (Vec<WaitRow>, Histogram) {
        let records: Vec<&Self> = records
            .filter(|record| record.what.0 == what.name())
            .collect();
        let mut rows = Vec::new();
        let mut all = Histogram::default();
        for same in records.chunk_by(|a, b| (a.victim, a.victim_kind) == (b.victim, b.victim_kind))
        {
            let buckets = same.iter().map(|record| (record.from_ns, record.count.0));
            let histogram = Histogram::from_buckets(buckets);
            match same[0].victim_kind {
                Word("all") => all = histogram,
                kind => rows.push(WaitRow {
                    group: group(kind, same[0].victim),
                    histogram,
                }),
            }
        }
        (rows, all)
    }
}

record! {
    /// One cell of the matrix of victims and culprits.
    pub(crate) struct PairRecord {
        victim_kind: Word,
        victim: u64,
        culprit_kind: Word,
        culprit: u64,
        wait_ns: Count,
        preemptions: Count,
    }
}

impl Keyed for PairRecord {
    type Key = (usize, u64, usize, u64);
    const COLUMNS: &[&str] = &["victim_kind", "victim", "culprit_kind", "culprit"];

    fn key(&self) -> Self::Key {
        (
            place(self.victim_kind),
            self.victim,
            place(self.culprit_kind),
            self.culprit,
        )
    }
}

impl PairRecord {
    pub(crate) fn new(row: &BlameRow) -> Self {
        let BlameRow {
            victim,
            culprit,
            blame: Blame {
                wait_ns,
                preemptions,
            },
        } = *row;
        let ((victim_kind, victim), (culprit_kind, culprit)) = (kind(victim), kind(culprit));
        Self {
            victim_kind,
            victim,
            culprit_kind,
            culprit,
            wait_ns: Count(wait_ns),
            preemptions: Count(preemptions),
        }
    }

    pub(crate) fn row(&self) -> BlameRow {
        BlameRow {
            victim: group(self.victim_kind, self.victim),
            culprit: group(self.culprit_kind, self.culprit),
            blame: Blame {
                wait_ns: self.wait_ns.0,
                preemptions: self.preemptions.0,
            },
        }
    }
}
