//! The contents of the table: rows, their order, and the columns that fit.

pub(crate) mod arrange;
mod below;
mod column;
pub(crate) mod columns;
pub(crate) mod figures;
pub(crate) mod fit;
pub(crate) mod headline;
pub(crate) mod lines;
pub(crate) mod tree;

pub use column::View;
pub(crate) use column::{Cell, Charged, Column, Facts, Item, SortKey};
