//! Tests the parser's public API: golden cases, round trips of trees, and mutated text.

mod dump;
mod fuzz;
mod golden;
mod places;
mod random;
mod trees;
