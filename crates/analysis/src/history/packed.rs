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
    /// How long each of its waits was: bucket of [`noctule_model::Histogram`] and count. `None`: it waited, and the
    /// point had no room.
    pub lengths: Option<Box<[(u16, u32)]>>,
}

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
pub struct PackedRows(Box<[u8]>);

impl PackedRows {
    /// Packs them.
    pub fn new(rows: &PointRows) -> Self {
        let bytes = postcard::to_allocvec(rows).expect("memory is all that it needs");
        Self(bytes.into())
    }

    /// What was packed.
    pub fn unpack(&self) -> PointRows {
        if self.0.is_empty() {
            return PointRows::default();
        }
        postcard::from_bytes(&self.0).expect("nobody else has written it")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_packed_is_what_was_given() {
        let mut owners = vec![OwnerPoint::default(); 3];
        owners[1].id = OwnerId::MAX;
        owners[1].wait_us = [Micros::MAX; Cause::ALL.len()];
        owners[1].lengths = Some([(u16::MAX, u32::MAX), (0, 1)].into());
        owners[2].lengths = Some([].into());
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
        assert_eq!(PackedRows::new(&rows).unpack(), rows);
        assert_eq!(PackedRows::default().unpack(), PointRows::default());
    }
}
