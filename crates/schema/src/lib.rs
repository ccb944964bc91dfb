//! Describes each field once: its key, type and meaning, and how to get its value.

pub mod names;
