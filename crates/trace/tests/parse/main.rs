//! The parser from outside: golden cases, trees printed and read again, and mutated text.

mod dump;
mod fuzz;
mod golden;
mod places;
mod random;
mod trees;
