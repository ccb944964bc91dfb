//! Compact rows of a point.
//!
//! A history holds hundreds of points that are rarely read, and most of their numbers are small or
//! zero. The variable-length integers of postcard take a quarter of the space.

use noctule_model::Cause;
use serde::{Deserialize, Serialize};

use super::OwnerId;
use super::cpu::CpuPoint;
use super::point::Micros;

/// One owner between two batches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OwnerPoint {
    pub id: OwnerId,
    /// Time on a CPU, in microseconds.
    pub cpu_us: Micros,
    /// Waits of other owners while this owner had the CPU, in microseconds.
    pub hurts_us: Micros,
    /// Waits of this owner by index of [`Cause`], in microseconds.
    pub wait_us: [Micros; Cause::ALL.len()],
    /// Active energy charged to this owner, in microjoules.
    pub energy_uj: u64,
}

/// Lengths of waits: buckets of [`noctule_model::Histogram`] and their counts.
pub(super) type Lengths = Box<[(u16, u32)]>;

/// An owner and the lengths of its waits.
pub type OwnerLengths = (OwnerId, Lengths);

/// The wait of one owner for another between two batches.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairPoint {
    /// The owner that waited.
    pub victim: OwnerId,
    /// The owner that had the CPU during the wait.
    pub culprit: OwnerId,
    pub wait_us: Micros,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PointRows {
    /// Owners that ran or waited for a CPU, the busiest first.
    pub owners: Vec<OwnerPoint>,
    /// Victim-culprit pairs, in descending order of wait.
    pub pairs: Vec<PairPoint>,
    /// The CPUs that were online, in ascending order; at most 256.
    pub cpus: Vec<CpuPoint>,
}

/// Packed rows. The default is empty.
#[derive(Clone, Debug, Default)]
pub struct PackedRows {
    rows: Box<[u8]>,
    /// Lengths of waits. The lengths are packed separately, because few queries need them, and only
    /// for one owner.
    lengths: Box<[u8]>,
}

impl PackedRows {
    /// Packs rows, and the lengths of waits of some owners.
    pub fn new(rows: &PointRows, lengths: &[OwnerLengths]) -> Self {
        Self {
            rows: pack(rows),
            lengths: pack(lengths),
        }
    }

    /// Unpacks the rows, without the lengths of waits.
    pub fn unpack(&self) -> PointRows {
        unpack(&self.rows)
    }

    /// Returns the lengths of an owner's waits; `None` if the point does not contain them.
    pub fn lengths_of(&self, owner: OwnerId) -> Option<Lengths> {
        let all: Vec<OwnerLengths> = unpack(&self.lengths);
        let own = all.into_iter().find(|(id, _)| *id == owner);
        own.map(|(_, lengths)| lengths)
    }
}

pub(super) fn pack(it: &(impl Serialize + ?Sized)) -> Box<[u8]> {
    let bytes = postcard::to_allocvec(it).expect("serializing to memory cannot fail");
    bytes.into()
}

/// Unpacks a value; returns the default if nothing was packed.
pub(super) fn unpack<'a, T: Default + Deserialize<'a>>(bytes: &'a [u8]) -> T {
    if bytes.is_empty() {
        return T::default();
    }
    postcard::from_bytes(bytes).expect("the bytes were written by `pack`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_rows_unpack_unchanged() {
        let mut owners = vec![OwnerPoint::default(); 3];
        owners[1].id = OwnerId::MAX;
        owners[1].wait_us = [Micros::MAX; Cause::ALL.len()];
        let lengths: [OwnerLengths; 2] = [
            (1, [].into()),
            (OwnerId::MAX, [(u16::MAX, u32::MAX), (0, 1)].into()),
        ];
        let rows = PointRows {
            owners,
            pairs: vec![PairPoint {
                victim: 1,
                culprit: 300,
                wait_us: 70_000,
            }],
            cpus: vec![CpuPoint {
                cpu: 7,
                taken_us: Some(0),
                holders: [(1, 2), (0, 0), (3, Micros::MAX)],
                ..CpuPoint::default()
            }],
        };
        let packed = PackedRows::new(&rows, &lengths);
        assert_eq!(packed.unpack(), rows);
        for (owner, own) in lengths {
            assert_eq!(packed.lengths_of(owner), Some(own));
        }
        assert_eq!(packed.lengths_of(2), None);
        let none = PackedRows::default();
        assert_eq!(
            (none.unpack(), none.lengths_of(1)),
            (PointRows::default(), None)
        );
    }
}
