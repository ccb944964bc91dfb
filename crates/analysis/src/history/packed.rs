//! The rows of a point, in little room. A history holds hundreds of points that hardly anybody looks at,
//! and most of their numbers are small or 0: in the variable-length integers of postcard they take a quarter.

use noctule_model::Cause;
use serde::{Deserialize, Serialize};

use super::OwnerId;
use super::cpu::CpuPoint;
use super::point::Micros;

/// One owner between two batches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OwnerPoint {
    /// Who.
    pub id: OwnerId,
    /// Time on a CPU, microseconds.
    pub cpu_us: Micros,
    /// What others waited while it had the CPU, microseconds.
    pub hurts_us: Micros,
    /// What it waited, by index of [`Cause`], microseconds.
    pub wait_us: [Micros; Cause::ALL.len()],
}

/// How long each wait was: buckets of [`noctule_model::Histogram`] and their counts.
pub(super) type Lengths = Box<[(u16, u32)]>;

/// How long each wait of an owner was.
pub type OwnerLengths = (OwnerId, Lengths);

/// Who made whom wait between two batches.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairPoint {
    /// Who waited.
    pub victim: OwnerId,
    /// Who had the CPU meanwhile.
    pub culprit: OwnerId,
    /// For how long, microseconds.
    pub wait_us: Micros,
}

/// What a point has rows of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PointRows {
    /// Those who used or wanted the CPU, most first.
    pub owners: Vec<OwnerPoint>,
    /// Who made whom wait, most first.
    pub pairs: Vec<PairPoint>,
    /// The CPUs that are online, in ascending order; 256 at most.
    pub cpus: Vec<CpuPoint>,
}

/// Rows, packed. The default has none.
#[derive(Clone, Debug, Default)]
pub struct PackedRows {
    rows: Box<[u8]>,
    /// Apart: they are asked for of one owner, and seldom.
    lengths: Box<[u8]>,
}

impl PackedRows {
    /// Packs them, and the lengths of the waits of those owners for which there was room.
    pub fn new(rows: &PointRows, lengths: &[OwnerLengths]) -> Self {
        Self {
            rows: pack(rows),
            lengths: pack(lengths),
        }
    }

    /// What was packed, but for the lengths.
    pub fn unpack(&self) -> PointRows {
        unpack(&self.rows)
    }

    /// How long the waits of an owner were. `None`: it is not in the point, or that had no room.
    pub fn lengths_of(&self, owner: OwnerId) -> Option<Lengths> {
        let all: Vec<OwnerLengths> = unpack(&self.lengths);
        let own = all.into_iter().find(|(id, _)| *id == owner);
        own.map(|(_, lengths)| lengths)
    }
}

fn pack(it: &(impl Serialize + ?Sized)) -> Box<[u8]> {
    let bytes = postcard::to_allocvec(it).expect("memory is all that it needs");
    bytes.into()
}

/// The default, where nothing was packed.
fn unpack<'a, T: Default + Deserialize<'a>>(bytes: &'a [u8]) -> T {
    if bytes.is_empty() {
        return T::default();
    }
    postcard::from_bytes(bytes).expect("nobody else has written it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_packed_is_what_was_given() {
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
