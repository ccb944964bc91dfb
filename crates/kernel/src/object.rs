//! Objects that are not ours.

mod dump;
mod said;
mod shape;
mod target;

pub use dump::{MapContents, MapEntry};
pub(crate) use said::hear;
pub use shape::{Member, Shape};
pub use target::{NoTarget, Places, SECTIONS, Target};
