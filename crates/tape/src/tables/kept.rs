//! Columns and records that keep values of the model.

use std::net::SocketAddr;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::Field;
use noctule_model::{
    CgroupId, Comm, Counts, Driver, EnergySource, FeatureState, Measured, Owner, ZoneKind,
};

use super::{OwnerNumber, Owners};
use crate::column::{
    Column, ColumnResult, Columns, Count, Counted, Named, Record, Simple, Word, Words,
};

/// Context for writing a row: the owners of the segment, and the counters that the batch measures.
pub(crate) struct Writing<'a> {
    pub(crate) owners: &'a mut Owners,
    pub(crate) measured: Measured,
    /// Whether there is an energy meter.
    pub(crate) metered: bool,
}

/// A column that keeps values of the type `V`.
pub(crate) trait Keeps<V>: Column {
    fn keep(value: &V, to: &mut Writing<'_>) -> Self;
    fn value(&self, owners: &Owners) -> V;
}

/// A record that stores rows of the type `Row`.
pub(crate) trait RecordOf: Record {
    type Row;

    fn new(row: &Self::Row, to: &mut Writing<'_>) -> Self;
    fn row(&self, owners: &Owners) -> Self::Row;
}

/// Declares a record with the same fields as a type of the model, and implements [`RecordOf`].
macro_rules! record_of {
    ($(#[$doc:meta])* pub(crate) struct $name:ident of $model:ident {
        $($(#[$field_doc:meta])* $field:ident $(as $column:literal)?: $type:ty,)+
    }) => {
        $crate::column::record! {
            $(#[$doc])*
            pub(crate) struct $name {
                $($(#[$field_doc])* $field $(as $column)?: $type,)+
            }
        }

        impl $crate::tables::kept::RecordOf for $name {
            type Row = $model;

            fn new(row: &$model, to: &mut $crate::tables::kept::Writing<'_>) -> Self {
                let $model { $($field),+ } = row;
                Self {
                    $($field: $crate::tables::kept::Keeps::keep($field, to),)+
                }
            }

            fn row(&self, owners: &$crate::tables::Owners) -> $model {
                $model {
                    $($field: $crate::tables::kept::Keeps::value(&self.$field, owners),)+
                }
            }
        }
    };
}
pub(super) use record_of;

impl<C: Simple> Keeps<C> for C {
    fn keep(value: &C, _: &mut Writing<'_>) -> Self {
        value.clone()
    }

    fn value(&self, _: &Owners) -> C {
        self.clone()
    }
}

impl<C: Simple> Keeps<Option<C>> for Option<C> {
    fn keep(value: &Option<C>, _: &mut Writing<'_>) -> Self {
        value.clone()
    }

    fn value(&self, _: &Owners) -> Option<C> {
        self.clone()
    }
}

impl Keeps<Option<Arc<Owner>>> for OwnerNumber {
    fn keep(owner: &Option<Arc<Owner>>, to: &mut Writing<'_>) -> Self {
        to.owners.number(owner.as_ref())
    }

    fn value(&self, owners: &Owners) -> Option<Arc<Owner>> {
        owners.owner(*self)
    }
}

impl<K: Named, const N: usize> Keeps<Counts<K, N>> for Counted<K, N> {
    fn keep(counts: &Counts<K, N>, to: &mut Writing<'_>) -> Self {
        Self {
            counts: *counts,
            measured: K::measured(to.measured, to.metered),
        }
    }

    fn value(&self, _: &Owners) -> Counts<K, N> {
        self.counts
    }
}

/// Implements [`Keeps`] with two conversions.
macro_rules! keeps {
    ($($column:ty as $value:ty: $keep:expr, $value_of:expr;)+) => {$(
        impl Keeps<$value> for $column {
            fn keep(value: &$value, _: &mut Writing<'_>) -> Self {
                let keep: fn(&$value) -> Self = $keep;
                keep(value)
            }

            fn value(&self, _: &Owners) -> $value {
                let value: fn(&Self) -> $value = $value_of;
                value(self)
            }
        }
    )+};
}

keeps! {
    Count as u64: |value| Self(*value), |count| count.0;
    Option<Count> as Option<u64>: |value| value.map(Count), |count| count.map(|it| it.0);
    u64 as CgroupId: |id| id.0, |id| CgroupId(*id);
    Word as &'static str: |word| Self(word), |word| word.0;
    Words as Comm: Self::of, |name| Comm::new(&name.0);
    Option<u32> as Option<usize>: |value| value.map(|it| it as u32), |value| {
        value.map(|it| it as usize)
    };
    Option<String> as Option<Arc<str>>: |text| text.as_deref().map(str::to_owned), |text| {
        text.as_deref().map(Into::into)
    };
    Option<String> as Option<SocketAddr>: |address| address.map(|it| it.to_string()), |text| {
        text.as_deref()?.parse().ok()
    };
    Word as ZoneKind: |kind| Self(kind.name()), |name| {
        ZoneKind::named(name.0).unwrap_or(ZoneKind::Other)
    };
    // If this version does not know the meter, `Model` avoids the claim that its energy was
    // measured.
    Word as EnergySource: |source| Self(source.name()), |name| {
        EnergySource::named(name.0).unwrap_or(EnergySource::Model)
    };
    Word as FeatureState: |state| Self(state.name()), |name| {
        FeatureState::named(name.0).unwrap_or(FeatureState::Degraded)
    };
    Word as Driver: |driver| Self(driver.name()), |name| {
        Driver::named(name.0).unwrap_or(Driver::Nothing)
    };
}

impl<R: RecordOf> Keeps<R::Row> for Flat<R> {
    fn keep(row: &R::Row, to: &mut Writing<'_>) -> Self {
        Self(R::new(row, to))
    }

    fn value(&self, owners: &Owners) -> R::Row {
        self.0.row(owners)
    }
}

/// A record whose columns become columns of the record that contains it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Flat<R>(pub(crate) R);

impl<R: Record> Column for Flat<R> {
    fn fields(_: &str, out: &mut Vec<Field>) {
        R::fields(out);
    }

    fn arrays(values: &[&Self], out: &mut Vec<ArrayRef>) {
        let records: Vec<&R> = values.iter().map(|value| &value.0).collect();
        R::arrays(&records, out);
    }

    fn read(from: &Columns<'_>, _: &str) -> ColumnResult<Vec<Self>> {
        Ok(R::read(from)?.into_iter().map(Self).collect())
    }

    fn since(&self, earlier: &Self) -> Option<Self> {
        self.0.since(&earlier.0).map(Self)
    }

    fn add(&mut self, earlier: &Self) {
        self.0.add(&earlier.0);
    }
}
