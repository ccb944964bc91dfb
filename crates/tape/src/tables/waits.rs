//! Latency distributions, and the matrix of victims and culprits.

use arrow_array::ArrayRef;
use arrow_schema::Field;
use noctule_model::{Blame, BlameRow, CgroupId, Group, Histogram, WaitRow};

use super::kept::{Flat, Keeps, Writing, record_of};
use super::{Keyed, Owners};
use crate::column::{Column, ColumnResult, Columns, Count, Word, record};

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

/// A group. It fills two columns: the kind, and the number of a cgroup.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Place {
    kind: Word,
    id: u64,
}

impl Place {
    /// All groups together.
    const ALL: Self = Self {
        kind: Word(KINDS[4]),
        id: 0,
    };

    fn key(self) -> (usize, u64) {
        let place = KINDS.iter().position(|name| *name == self.kind.0);
        (place.unwrap_or(KINDS.len()), self.id)
    }
}

impl Keeps<Group> for Place {
    fn keep(group: &Group, _: &mut Writing<'_>) -> Self {
        let (place, id) = match group {
            Group::Cgroup(id) => (0, id.0),
            Group::Kernel => (1, 0),
            Group::Followed => (2, 0),
            Group::Unnamed => (3, 0),
        };
        let kind = Word(KINDS[place]);
        Self { kind, id }
    }

    fn value(&self, _: &Owners) -> Group {
        match self.key() {
            (0, id) => Group::Cgroup(CgroupId(id)),
            (1, _) => Group::Kernel,
            (2, _) => Group::Followed,
            _ => Group::Unnamed,
        }
    }
}

impl Column for Place {
    fn fields(name: &str, out: &mut Vec<Field>) {
        Word::fields(&format!("{name}_kind"), out);
        u64::fields(name, out);
    }

    fn arrays(values: &[&Self], out: &mut Vec<ArrayRef>) {
        Word::arrays(&values.iter().map(|it| &it.kind).collect::<Vec<_>>(), out);
        u64::arrays(&values.iter().map(|it| &it.id).collect::<Vec<_>>(), out);
    }

    fn read(from: &Columns<'_>, name: &str) -> ColumnResult<Vec<Self>> {
        let kinds = Word::read(from, &format!("{name}_kind"))?.into_iter();
        let ids = u64::read(from, name)?;
        Ok(kinds.zip(ids).map(|(kind, id)| Self { kind, id }).collect())
    }
}

record! {
    /// One bucket of a distribution. An empty distribution has one bucket with the count 0.
    pub(crate) struct WaitRecord {
        /// `cpu` or `connect`.
        what: Word,
        victim: Place,
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
        let (kind, id) = self.victim.key();
        (connects, kind, id, self.from_ns)
    }
}

impl WaitRecord {
    /// Returns the buckets of each group's distribution, and of that of all groups together.
    pub(crate) fn of_groups(
        what: Distribution,
        groups: &[WaitRow],
        all: &Histogram,
        to: &mut Writing<'_>,
    ) -> Vec<Self> {
        let of_group = |row: &WaitRow| {
            let WaitRow { group, histogram } = row;
            Self::buckets(what, Place::keep(group, to), histogram)
        };
        let mut rows: Vec<_> = groups.iter().flat_map(of_group).collect();
        rows.extend(Self::buckets(what, Place::ALL, all));
        rows
    }

    fn buckets(what: Distribution, victim: Place, histogram: &Histogram) -> Vec<Self> {
        let record = |(from_ns, count)| Self {
            what: Word(what.name()),
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
        owners: &Owners,
    ) -> (Vec<WaitRow>, Histogram) {
        let records: Vec<&Self> = records
            .filter(|record| record.what.0 == what.name())
            .collect();
        let mut rows = Vec::new();
        let mut all = Histogram::default();
        for same in records.chunk_by(|a, b| a.victim == b.victim) {
            let buckets = same.iter().map(|record| (record.from_ns, record.count.0));
            let histogram = Histogram::from_buckets(buckets);
            match same[0].victim {
                Place { kind, .. } if kind == Place::ALL.kind => all = histogram,
                victim => rows.push(WaitRow {
                    group: victim.value(owners),
                    histogram,
                }),
            }
        }
        (rows, all)
    }
}

record_of! {
    /// The waits of a victim behind a culprit.
    pub(crate) struct BlameRecord of Blame {
        wait_ns: Count,
        preemptions: Count,
    }
}

record_of! {
    /// One cell of the matrix of victims and culprits.
    pub(crate) struct PairRecord of BlameRow {
        victim: Place,
        culprit: Place,
        blame: Flat<BlameRecord>,
    }
}

impl Keyed for PairRecord {
    type Key = (usize, u64, usize, u64);
    const COLUMNS: &[&str] = &["victim_kind", "victim", "culprit_kind", "culprit"];

    fn key(&self) -> Self::Key {
        let ((kind, victim), (culprit_kind, culprit)) = (self.victim.key(), self.culprit.key());
        (kind, victim, culprit_kind, culprit)
    }
}
