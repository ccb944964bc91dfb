//! Objects that are not ours.

mod target;

pub use target::{NoTarget, Places, SECTIONS, Target};
