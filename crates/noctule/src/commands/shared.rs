//! What several commands use: watching live, reading a recording, and drawing tables.

pub(crate) mod columns;
pub(crate) mod stat_table;
pub(crate) mod streaming;
pub(crate) mod watch;
pub(crate) mod window;
