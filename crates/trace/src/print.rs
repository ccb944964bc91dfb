//! An event's own text: its `print fmt`, applied to a record.

mod lex;
mod template;
mod value;
