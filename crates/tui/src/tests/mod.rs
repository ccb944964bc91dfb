//! The view as a whole: states, screens and the loop, on made-up batches.

mod energy;
mod fixture;
mod model;
mod run;
mod screens;
mod states;
mod travel;
mod trees;
mod waits;
