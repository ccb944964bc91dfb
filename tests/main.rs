//! Black-box tests of the binary on this machine's kernel, as root.
//!
//! The tests share the machine (cgroups, CPUs, BPF programs). Each one first declares which parts
//! of the machine it needs ([`support::machine`]).

#[macro_use]
mod support;

mod accounting;
mod api;
mod bad_input;
mod containers;
mod cookbook;
mod counters;
mod deploy;
mod diff;
mod documented;
mod energy;
mod environment;
mod events;
mod export;
mod exposition;
mod functions;
mod hardware;
mod hist;
mod joules;
mod load;
mod otlp;
mod packets;
mod page;
mod perf_probes;
mod probes;
mod queries;
mod selected;
mod tape;
mod top;
mod trace;
mod trigger;
mod waits;
