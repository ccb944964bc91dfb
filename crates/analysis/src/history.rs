//! The last minutes in memory, for the page and its API.

mod events;
#[cfg(test)]
mod tests;

pub use events::{EventLog, EventLogLimits};
