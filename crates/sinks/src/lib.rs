//! What noctule writes for programs: the two text formats of `/metrics`, the JSON of the commands,
//! Perfetto's traces, requests of OTLP; and events, for programs and for people.
//!
//! Everything here is a function of what it is given: no file, no socket, no clock. Field and
//! label names that users see are defined here and nowhere else, apart from the names in the
//! metric table of the model.

pub mod events;
pub mod json;
pub mod openmetrics;
pub mod otlp;
pub mod perfetto;
