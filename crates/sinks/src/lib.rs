//! Renders noctule's data for other programs and for people.
//!
//! The formats are the text and protobuf formats of `/metrics`, the JSON of the commands, Perfetto
//! traces, OTLP requests, and event lines.
//!
//! This crate uses no file, socket or clock: its output depends only on its arguments. All field
//! and label names that users see are defined here, except the names in the model's metric tables.

pub mod events;
pub mod json;
pub mod openmetrics;
pub mod otlp;
pub mod perfetto;
