//! Features, losses, and the cost of the agent's BPF programs and maps.

use noctule_model::{Feature, FeatureId, FeatureState, Loss, MapFill, ProgramCost};

use super::Keyed;
use crate::column::{Word, record};
use crate::names::named;

pub(super) const STATES: [FeatureState; 3] =
    [FeatureState::On, FeatureState::Degraded, FeatureState::Off];

/// Implements [`Keyed`] for rows identified by their position in a list.
macro_rules! in_order {
    ($($record:ident,)+) => {$(
        impl Keyed for $record {
            type Key = u32;

            fn key(&self) -> u32 {
                self.place
            }
        }
    )+};
}

in_order! {
    FeatureRecord,
    LossRecord,
    ProgramRecord,
    MapRecord,
}

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
            id: named(FeatureId::ALL, FeatureId::name, self.name.0)?,
            state: named(&STATES, FeatureState::name, self.state.0)?,
            reason: self.reason.clone(),
            mend: self.mend.clone(),
        })
    }
}

record! {
    /// A loss counter.
    pub(crate) struct LossRecord {
        place: u32,
        kind: Word,
        /// Where the loss occurred.
        at: Word,
        count: u64,
    }
}

impl LossRecord {
    pub(crate) fn new(place: usize, loss: &Loss) -> Self {
        let Loss {
            kind,
            place: at,
            count,
        } = *loss;
        Self {
            place: place as u32,
            kind: Word(kind),
            at: Word(at),
            count,
        }
    }

    pub(crate) fn loss(&self) -> Loss {
        Loss {
            kind: self.kind.0,
            place: self.at.0,
            count: self.count,
        }
    }
}

record! {
    /// The cost of one BPF program.
    pub(crate) struct ProgramRecord {
        place: u32,
        name: String,
        run_ns: u64,
        runs: u64,
        recursion_misses: u64,
    }
}

impl ProgramRecord {
    pub(crate) fn new(place: usize, cost: &ProgramCost) -> Self {
        let ProgramCost {
            name,
            run_ns,
            runs,
            recursion_misses,
        } = cost;
        Self {
            place: place as u32,
            name: name.clone(),
            run_ns: *run_ns,
            runs: *runs,
            recursion_misses: *recursion_misses,
        }
    }

    pub(crate) fn cost(&self) -> ProgramCost {
        ProgramCost {
            name: self.name.clone(),
            run_ns: self.run_ns,
            runs: self.runs,
            recursion_misses: self.recursion_misses,
        }
    }
}

record! {
    /// How full a BPF map is.
    pub(crate) struct MapRecord {
        place: u32,
        name: Word,
        entries: u64,
        capacity: u64,
    }
}

impl MapRecord {
    pub(crate) fn new(place: usize, fill: &MapFill) -> Self {
        let MapFill {
            name,
            entries,
            capacity,
        } = *fill;
        Self {
            place: place as u32,
            name: Word(name),
            entries,
            capacity,
        }
    }

    pub(crate) fn fill(&self) -> MapFill {
        MapFill {
            name: self.name.0,
            entries: self.entries,
            capacity: self.capacity,
        }
    }
}
