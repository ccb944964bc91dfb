//! The parser: source text to tree.
//!
//! Parsing never fails. It returns a tree, with [`ExprKind::Wrong`](crate::tree::ExprKind::Wrong) in
//! place of every part that is no expression, and the problems in the order of their places. The parser
//! checks everything that needs no knowledge of the event. Later steps check fields and types, the
//! placement of modifiers, the fields of `sort`, and constants such as a division by zero.
//!
//! [`operator`](crate::operator) documents the precedence. Time and memory are linear in the length of the text.

mod number;
mod split;
mod suggest;
