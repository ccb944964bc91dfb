//! What happened: the events of a stream against what the tests do, and against the kernel's own
//! counters.

use super::support;

mod files;
mod filters;
mod loss;
mod oom;
mod processes;
mod tcp;
