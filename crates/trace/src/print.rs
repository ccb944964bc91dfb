//! An event's own text: its `print fmt`, applied to a record.

mod value;
