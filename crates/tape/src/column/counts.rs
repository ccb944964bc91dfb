//! Counters. Each has one column, which is null if the counter is not measured.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::UInt64Builder;
use arrow_schema::{DataType, Field};
use noctule_model::{
    Cause, Countable, Counter, Counts, DestinationCounter, EventCounter, Measured, Preemptor,
    ZoneKind,
};
use noctule_schema::{events, usage};

use super::{Column, ColumnResult, Columns};

/// A counter that has a column.
pub(crate) trait Named: Countable + PartialEq {
    /// Returns all counters, in the order of their position.
    fn all() -> impl Iterator<Item = Self>;
    /// Returns the name of the counter's column.
    fn column(self) -> String;
    /// Returns the column's name in early recordings, if it was different.
    fn former_column(self) -> Option<&'static str> {
        None
    }
    /// Returns what is measured in a batch that measures these counters. `metered` is set if there
    /// is an energy meter.
    fn measured(counters: Measured, _metered: bool) -> Measured {
        counters
    }
    /// Returns whether the counter is measured.
    fn is_measured(self, measured: Measured) -> bool;
    /// Adds the counter to a set of measured counters. Does nothing if the set cannot represent it.
    fn note(self, measured: &mut Measured);
}

/// Counters, with the set of counters that are measured.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Counted<K, const N: usize> {
    pub(crate) counts: Counts<K, N>,
    pub(crate) measured: Measured,
}

impl<K, const N: usize> Default for Counted<K, N> {
    fn default() -> Self {
        Self {
            counts: Counts::default(),
            measured: Measured::NONE,
        }
    }
}

impl<K: Named, const N: usize> Column for Counted<K, N> {
    fn fields(_: &str, out: &mut Vec<Field>) {
        out.extend(K::all().map(|counter| Field::new(counter.column(), DataType::UInt64, true)));
    }

    fn arrays(values: &[&Self], out: &mut Vec<ArrayRef>) {
        for counter in K::all() {
            let mut builder = UInt64Builder::with_capacity(values.len());
            for value in values {
                let measured = counter.is_measured(value.measured);
                builder.append_option(measured.then(|| value.counts[counter]));
            }
            out.push(Arc::new(builder.finish()));
        }
    }

    fn read(from: &Columns<'_>, _: &str) -> ColumnResult<Vec<Self>> {
        let mut rows = vec![Self::default(); from.rows()];
        for counter in K::all() {
            let mut name = counter.column();
            if let Some(former) = counter.former_column()
                && from.array(&name).is_none()
            {
                former.clone_into(&mut name);
            }
            let column = from.counts(&name)?.unwrap_or_default();
            for (row, value) in rows.iter_mut().zip(column) {
                if let Some(value) = value {
                    row.counts[counter] = value;
                    counter.note(&mut row.measured);
                }
            }
        }
        Ok(rows)
    }

    fn since(&self, earlier: &Self) -> Option<Self> {
        if self.measured != earlier.measured {
            return None;
        }
        let mut since = self.clone();
        for counter in K::all() {
            since.counts[counter] = self.counts[counter].checked_sub(earlier.counts[counter])?;
        }
        Some(since)
    }

    fn add(&mut self, earlier: &Self) {
        for counter in K::all() {
            self.counts[counter] = self.counts[counter].wrapping_add(earlier.counts[counter]);
        }
    }
}

impl Named for Counter {
    fn all() -> impl Iterator<Item = Self> {
        Self::all()
    }

    fn column(self) -> String {
        usage::column(self)
    }

    fn former_column(self) -> Option<&'static str> {
        match self {
            Self::Wait(Cause::Kernel) => Some("wait_system_ns"),
            Self::PreemptedBy(Preemptor::Kernel) => Some("preempted_by_system"),
            _ => None,
        }
    }

    fn is_measured(self, measured: Measured) -> bool {
        measured.has(self)
    }

    fn note(self, measured: &mut Measured) {
        *measured = measured.with(self);
    }
}

impl Named for EventCounter {
    fn all() -> impl Iterator<Item = Self> {
        Self::all()
    }

    fn column(self) -> String {
        events::column(self)
    }

    fn is_measured(self, measured: Measured) -> bool {
        measured.has(self)
    }

    fn note(self, measured: &mut Measured) {
        *measured = measured.with(self);
    }
}

impl Named for DestinationCounter {
    fn all() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter()
    }

    fn column(self) -> String {
        let plain = match self {
            Self::Connects => "connects",
            Self::Failures => "failures",
            Self::ConnectNs => "connect_ns",
            Self::Retransmits => "retransmits",
            Self::BytesSent => "bytes_sent",
            Self::BytesReceived => "bytes_received",
        };
        plain.to_owned()
    }

    fn is_measured(self, measured: Measured) -> bool {
        measured.has(self.whole())
    }

    fn note(self, _: &mut Measured) {}
}

/// `Measured` has no bit for energy. Energy counts as measured if anything is measured: here, a
/// batch without a meter has `Measured::NONE`.
impl Named for ZoneKind {
    fn all() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter()
    }

    fn measured(_: Measured, metered: bool) -> Measured {
        match metered {
            true => Measured::NONE.with(Counter::CpuTime),
            false => Measured::NONE,
        }
    }

    fn column(self) -> String {
        format!("energy_{}_uj", self.name())
    }

    fn is_measured(self, measured: Measured) -> bool {
        measured != Measured::NONE
    }

    fn note(self, _: &mut Measured) {}
}
