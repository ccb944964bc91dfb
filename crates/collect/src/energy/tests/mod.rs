//! File trees of machines, and meters that fail.

mod faults;
mod machine;
mod machines;
