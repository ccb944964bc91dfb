//! Code shared by several commands: live windows, recordings and tables.

pub(crate) mod columns;
pub(crate) mod stat_table;
pub(crate) mod streaming;
pub(crate) mod watch;
pub(crate) mod window;
