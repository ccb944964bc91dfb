//! An event's own text: its `print fmt`, applied to a record.

mod build;
mod lex;
mod program;
mod template;
mod types;
mod value;
