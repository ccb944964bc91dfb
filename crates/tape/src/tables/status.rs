//! Features, losses, and the cost of the agent's BPF programs and maps.

use noctule_model::{Feature, FeatureId, FeatureState, Loss, MapFill, ProgramCost};

use super::kept::record_of;
use crate::column::{Word, record};

/// Declares a record identified by its position in a list, for rows of another record.
macro_rules! in_order {
    ($(#[$doc:meta])* $record:ident: $row:ident of $model:ident) => {
        $crate::column::record! {
            $(#[$doc])*
            pub(crate) struct $record {
                place: u32,
                row: $crate::tables::kept::Flat<$row>,
            }
        }

        impl $record {
            pub(crate) fn new(
                place: usize,
                row: &$model,
                to: &mut $crate::tables::kept::Writing<'_>,
            ) -> Self {
                Self {
                    place: place as u32,
                    row: $crate::tables::kept::Keeps::keep(row, to),
                }
            }

            pub(crate) fn row(&self, owners: &$crate::tables::Owners) -> $model {
                $crate::tables::kept::Keeps::value(&self.row, owners)
            }
        }

        $crate::tables::status::keyed_by_place!($record);
    };
}
pub(super) use in_order;

/// Implements [`Keyed`] for a record identified by its position in a list.
macro_rules! keyed_by_place {
    ($record:ident) => {
        impl $crate::tables::Keyed for $record {
            type Key = u32;

            fn key(&self) -> u32 {
                self.place
            }
        }
    };
}
pub(super) use keyed_by_place;

keyed_by_place!(FeatureRecord);

record! {
    /// The status of a feature.
    pub(crate) struct FeatureRecord {
        place: u32,
        name: Word,
        state: Word,
        reason: String,
        mend: String,
    }
}

impl FeatureRecord {
    pub(crate) fn new(place: usize, feature: &Feature) -> Self {
        let Feature {
            id,
            state,
            reason,
            mend,
        } = feature;
        Self {
            place: place as u32,
            name: Word(id.name()),
            state: Word(state.name()),
            reason: reason.clone(),
            mend: mend.clone(),
        }
    }

    /// Returns the feature, or `None` if this version does not know it.
    pub(crate) fn feature(&self) -> Option<Feature> {
        Some(Feature {
            id: FeatureId::named(self.name.0)?,
            state: FeatureState::named(self.state.0)?,
            reason: self.reason.clone(),
            mend: self.mend.clone(),
        })
    }
}

record_of! {
    /// A count of losses.
    pub(crate) struct CountRecord of Loss {
        kind: Word,
        /// Where the loss occurred.
        place as "at": Word,
        count: u64,
    }
}

in_order! {
    LossRecord: CountRecord of Loss
}

record_of! {
    /// The cost of a BPF program.
    pub(crate) struct CostRecord of ProgramCost {
        name: String,
        run_ns: u64,
        runs: u64,
        recursion_misses: u64,
    }
}

in_order! {
    /// The cost of one BPF program.
    ProgramRecord: CostRecord of ProgramCost
}

record_of! {
    /// How full a map is.
    pub(crate) struct FillRecord of MapFill {
        name: Word,
        entries: u64,
        capacity: u64,
    }
}

in_order! {
    /// How full a BPF map is.
    MapRecord: FillRecord of MapFill
}
