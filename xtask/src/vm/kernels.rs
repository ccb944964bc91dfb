//! The kernels that are tested in virtual machines.

use super::architecture::{AMD64, ARM64, Architecture};

/// A kernel and its Debian package.
#[derive(Debug)]
pub(super) struct Kernel {
    /// Name for `--kernel`; `vm/expect/NAME.toml` has the expectations.
    pub(super) name: &'static str,
    /// Debian suite.
    pub(super) suite: &'static str,
    /// Metapackage that depends on the newest version.
    pub(super) package: &'static str,
    /// Whether the virtual machine loads the modules of `vm/modules`.
    pub(super) has_own_modules: bool,
    /// Whether the virtual machine has power sensors (`sensors.rs`). Such a kernel runs only if
    /// requested by name.
    pub(super) has_sensors: bool,
    /// Architecture of the virtual machine.
    pub(super) architecture: &'static Architecture,
    /// The emulator's option for the machine's two CPUs.
    pub(super) cpus: &'static str,
    /// Words in the names of the tests that `make test` runs on the kernel, in addition to the
    /// tests of the environment.
    pub(super) usual_tests: &'static [&'static str],
}

/// Short tests of the features that depend most on the kernel.
const USUAL_TESTS: &[&str] = &[
    "accounting::clock",
    "accounting::moves::a_process",
    "accounting::moves::a_running",
    "energy::sums",
    "events::changes::changes",
    "events::connect",
    "events::files::o",
    "events::files::reads",
    "events::listen",
    "events::oom",
    "events::processes::a_signal",
    "events::processes::cpu_time",
    "events::scenarios::the_whole",
    "events::story",
    "events::udp::a_flow",
    "events::udp::dns_events",
    "hist::snapshot",
    "hist::switched",
    "lockdown",
    "rights::memory_that",
    "trigger::counts",
    "types::page",
    "waits::blocked::a_stopped",
    "waits::blocked::threads",
    "waits::host::steal",
    "waits::throttle::throttled",
];

/// The emulator counts each instruction of arm64, which makes it many times slower. Only tests that
/// depend on the architecture run.
const USUAL_TESTS_ARM64: &[&str] = &[
    "accounting::clock",
    "accounting::moves::a_process",
    "events::connect::connections",
    "events::files::opens_have",
    "events::processes::cpu_time",
    "hardware",
    "hist::switched::a_table",
    "waits::blocked::threads",
    "waits::throttle::throttled",
];

/// Two cores in one package, each with one hardware thread.
const CORES: &str = "2,sockets=1,cores=2";
/// Two packages.
const PACKAGES: &str = "2,sockets=2";
/// Two hardware threads of one core.
const THREADS: &str = "2,sockets=1,cores=1,threads=2";

/// The kernels, oldest first.
pub(super) const KERNELS: &[Kernel] = &[
    amd64("5.10", "bullseye", CORES),
    with_own_modules(&amd64("6.1", "bookworm", PACKAGES)),
    with_own_modules(&amd64("6.12", "trixie", PACKAGES)),
    amd64("newest", "sid", THREADS),
    // The only emulated kernel with hardware counters.
    Kernel {
        name: "6.12-arm64",
        suite: "trixie",
        package: "linux-image-cloud-arm64",
        has_own_modules: false,
        has_sensors: false,
        architecture: &ARM64,
        cpus: CORES,
        usual_tests: USUAL_TESTS_ARM64,
    },
    // The other kernels are cloud kernels, which are built without hardware monitoring.
    Kernel {
        package: "linux-image-amd64",
        has_sensors: true,
        ..amd64("6.1-full", "bookworm", PACKAGES)
    },
];

const fn amd64(name: &'static str, suite: &'static str, cpus: &'static str) -> Kernel {
    Kernel {
        name,
        suite,
        package: "linux-image-cloud-amd64",
        has_own_modules: false,
        has_sensors: false,
        architecture: &AMD64,
        cpus,
        usual_tests: USUAL_TESTS,
    }
}

const fn with_own_modules(kernel: &Kernel) -> Kernel {
    Kernel {
        has_own_modules: true,
        ..*kernel
    }
}

/// Returns all names, for the help.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    KERNELS.iter().map(|kernel| kernel.name)
}

/// Returns the names of the kernels that run by default.
pub(crate) fn default_names() -> impl Iterator<Item = &'static str> {
    named(&[]).into_iter().map(|kernel| kernel.name)
}

/// Returns the kernels with these names, or the default ones if no name is given.
pub(super) fn named(names: &[String]) -> Vec<&'static Kernel> {
    let wanted = |kernel: &&Kernel| match names {
        [] => !kernel.has_sensors,
        names => names.iter().any(|name| name == kernel.name),
    };
    KERNELS.iter().filter(wanted).collect()
}
