//! Why a verdict is what it is.

use crate::VerdictKind;

/// The numbers behind a verdict that its words name. Parts are between 0 and 1; all but that of the
/// culprit are parts of the time that the group wanted the CPU: its threads ran or waited.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reason {
    /// The verdict.
    pub kind: VerdictKind,
    /// It waited, for whatever cause.
    pub waited: f64,
    /// It waited behind somebody.
    pub contended: f64,
    /// It was throttled by its CPU quota.
    pub throttled: f64,
    /// It waited while the host or interrupts had the CPU.
    pub taken: f64,
    /// Who caused most of what it waited for others, where that belongs to the verdict.
    pub culprit: Option<ReasonCulprit>,
    /// Its long waits against the usual ones, where they are much longer.
    pub unusual: Option<Unusual>,
}

/// The first of the culprits.
#[derive(Clone, Debug, PartialEq)]
pub struct ReasonCulprit {
    /// A name for people. Not escaped.
    pub name: String,
    /// Part of what the group waited for others.
    pub share: f64,
    /// It is to blame; otherwise nobody is alone.
    pub alone: bool,
}

/// Waits that are long for this group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unusual {
    /// 99th percentile of its waits, nanoseconds.
    pub p99_ns: u64,
    /// How many times the usual one that is.
    pub times: f64,
}
