//! Columns for the types of the model.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::Field;
use noctule_model::{CgroupId, Driver, EnergySource, FeatureState, ZoneKind};

use super::{Column, ColumnResult, Columns, Count, Record, Word};

/// A column that keeps values of the type `V`.
pub(crate) trait Keeps<V>: Column {
    fn keep(value: &V) -> Self;
    fn value(&self) -> V;
}

impl<C: Column> Keeps<C> for C {
    fn keep(value: &C) -> Self {
        value.clone()
    }

    fn value(&self) -> C {
        self.clone()
    }
}

/// Implements [`Keeps`] with two conversions.
macro_rules! keeps {
    ($($column:ty as $value:ty: $keep:expr, $value_of:expr;)+) => {$(
        impl Keeps<$value> for $column {
            fn keep(value: &$value) -> Self {
                let keep: fn(&$value) -> Self = $keep;
                keep(value)
            }

            fn value(&self) -> $value {
                let value: fn(&Self) -> $value = $value_of;
                value(self)
            }
        }
    )+};
}

keeps! {
    Count as u64: |value| Self(*value), |count| count.0;
    u64 as CgroupId: |id| id.0, |id| CgroupId(*id);
    Word as &'static str: |word| Self(word), |word| word.0;
    Option<u32> as Option<usize>: |value| value.map(|it| it as u32), |value| {
        value.map(|it| it as usize)
    };
    Option<String> as Option<Arc<str>>: |text| text.as_deref().map(str::to_owned), |text| {
        text.as_deref().map(Into::into)
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

/// Adds the columns of a record to the columns of another record.
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
