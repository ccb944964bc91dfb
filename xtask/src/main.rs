//! Tasks of the project that cargo alone cannot do.

fn main() {}
