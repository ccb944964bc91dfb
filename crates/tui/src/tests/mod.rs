//! Tests of the whole view on simulated batches: states, screens and the main loop.

mod energy;
mod fixture;
mod model;
mod run;
mod screens;
mod states;
mod travel;
mod trees;
mod waits;
