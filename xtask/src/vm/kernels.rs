//! The kernels of the matrix.

/// A kernel, and where Debian has it.
#[derive(Debug)]
pub(super) struct Kernel {
    /// As it is asked for; `vm/expect/NAME.toml` says what it must have.
    pub(super) name: &'static str,
    /// Debian's suite.
    pub(super) suite: &'static str,
    /// The package that depends on the newest of them.
    pub(super) package: &'static str,
    /// Debian's architecture.
    pub(super) architecture: &'static str,
}

const CLOUD: &str = "linux-image-cloud-amd64";

/// Oldest first.
pub(super) const KERNELS: &[Kernel] = &[
    amd64("5.10", "bullseye"),
    amd64("6.1", "bookworm"),
    amd64("6.12", "trixie"),
    amd64("newest", "sid"),
];

const fn amd64(name: &'static str, suite: &'static str) -> Kernel {
    Kernel {
        name,
        suite,
        package: CLOUD,
        architecture: "amd64",
    }
}

/// The names, for the help.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    KERNELS.iter().map(|kernel| kernel.name)
}

/// The kernels with these names; none means all.
pub(super) fn named(names: &[String]) -> Vec<&'static Kernel> {
    let wanted = |k: &&Kernel| names.is_empty() || names.iter().any(|name| name == k.name);
    KERNELS.iter().filter(wanted).collect()
}
