//! The parser from outside: golden cases, trees printed and read again, and mutated text.

mod dump;
mod golden;
mod random;
mod trees;
