//! What a kernel must have, and what it may lack. A virtual machine has the table of its kernel,
//! `vm/expect/KERNEL.toml`. A machine whose kernel refuses a program of the tests' own at a function has
//! `tests/support/restricted.toml`. On any other machine nothing may be lacking.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::os::fd::AsFd as _;
use std::sync::OnceLock;

use libbpf_rs::{Iter, MapCore as _, ObjectBuilder};
use noctule_fixtures as fixtures;
use serde::Deserialize;

/// The table of a kernel that refuses programs at functions.
const RESTRICTED: &str = include_str!("restricted.toml");

/// What one kernel has, by the names of the features in `noctule doctor`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expected {
    /// These work.
    pub(crate) on: Vec<String>,
    /// These work with a limit, and why.
    #[serde(default)]
    pub(crate) degraded: BTreeMap<String, String>,
    /// These are degraded where the kernel refuses iterators over maps, and on where it does not.
    #[serde(default)]
    degraded_without_iterators: BTreeMap<String, String>,
    /// These are absent, and why.
    #[serde(default)]
    pub(crate) off: BTreeMap<String, String>,
    /// What is lost there all the same, and counted: kinds of losses, and why.
    #[serde(default)]
    pub(crate) losses: BTreeMap<String, String>,
    /// The release of which `verified` is, where the kernel is not always the same: counts of
    /// another are printed, and compared by whoever brings the table up to date.
    pub(crate) verified_of: Option<String>,
    /// How many instructions the verifier looks at in each program, by its name.
    #[serde(default)]
    pub(crate) verified: BTreeMap<String, u32>,
}

impl Expected {
    /// The state that a feature must have, as `doctor` words it; none when it is not listed.
    pub(crate) fn state(&self, feature: &str) -> Option<&'static str> {
        if self.on.iter().any(|name| name == feature) {
            Some("on")
        } else if self.degraded.contains_key(feature) {
            Some("degraded")
        } else {
            self.off.contains_key(feature).then_some("off")
        }
    }

    /// Every feature that is listed.
    pub(crate) fn features(&self) -> impl Iterator<Item = &String> {
        let others = self.degraded.keys().chain(self.off.keys());
        self.on.iter().chain(others)
    }
}

/// The table of this kernel, where there is one.
pub(crate) fn expected() -> Option<Expected> {
    let text = match env::var_os("NOCTULE_EXPECT") {
        Some(path) => fs::read_to_string(path).expect("the table of the kernel"),
        None if rustix::process::geteuid().is_root() && refuses_functions() => {
            RESTRICTED.to_owned()
        }
        None => return None,
    };
    let table: Result<Expected, _> = toml::from_str(&text);
    let mut table = table.unwrap_or_else(|e| panic!("the table of the kernel: {e}"));
    let iterated = std::mem::take(&mut table.degraded_without_iterators);
    if !iterated.is_empty() && refuses_iterators() {
        table.degraded.extend(iterated);
    } else {
        table.on.extend(iterated.into_keys());
    }
    Some(table)
}

/// Whether the kernel refuses a program at a function, by a program that has nothing to do with noctule.
fn refuses_functions() -> bool {
    static REFUSES: OnceLock<bool> = OnceLock::new();
    *REFUSES.get_or_init(|| {
        let object = ObjectBuilder::default().open_memory(fixtures::SECTIONS);
        let mut object = object.expect("an object of the tests");
        for mut program in object.progs_mut() {
            let wanted = program.name() == "on_fexit";
            program.set_autoload(wanted);
        }
        let loaded = object.load();
        loaded.is_err_and(|error| error.kind() == libbpf_rs::ErrorKind::PermissionDenied)
    })
}

/// Whether it refuses an iterator over a map: to load it, to attach it, or to read it.
fn refuses_iterators() -> bool {
    static REFUSES: OnceLock<bool> = OnceLock::new();
    *REFUSES.get_or_init(|| {
        walk().is_err_and(|error| error.kind() == libbpf_rs::ErrorKind::PermissionDenied)
    })
}

fn walk() -> libbpf_rs::Result<()> {
    let object = ObjectBuilder::default().open_memory(fixtures::WALK)?;
    let object = object.load()?;
    let mut maps = object.maps();
    let elements = maps.find(|map| map.name() == "elements");
    let elements = elements.expect("the object has a map");
    let mut programs = object.progs_mut();
    let walk = programs.next().expect("the object has a program");
    let link = walk.attach_iter(elements.as_fd())?;
    Iter::new(&link).map(drop)
}

/// The state that a feature must have here, which is on where nothing may be lacking.
pub(crate) fn state(feature: &str) -> &'static str {
    let table = expected();
    table.and_then(|table| table.state(feature)).unwrap_or("on")
}

/// Whether the table of this kernel has this kind of loss: then it is no fault.
pub(crate) fn loses(kind: &str) -> bool {
    expected().is_some_and(|expected| expected.losses.contains_key(kind))
}

/// Whether the kernel may lack the feature; then the runner is told why the test does nothing. That
/// the kernel is as its table says is what the test of the environment proves.
pub(crate) fn lacks(feature: &str) -> bool {
    skip(feature, |expected| absent(expected, feature))
}

/// Whether the kernel may lack the feature, or have it only with a limit.
pub(crate) fn lacks_part_of(feature: &str) -> bool {
    let reason = |expected: &Expected| {
        let limited = expected.degraded.get(feature);
        limited.cloned().or_else(|| absent(expected, feature))
    };
    skip(feature, reason)
}

/// Why the feature is absent; without CPU time everything is.
fn absent(expected: &Expected, feature: &str) -> Option<String> {
    let off = &expected.off;
    off.get(feature).or_else(|| off.get("cpu_time")).cloned()
}

/// Whether the tests use the C library of the system, whose functions can then be probed: those of the
/// virtual machines have one in them.
pub(crate) fn has_shared_libc() -> bool {
    let maps = fs::read_to_string("/proc/self/maps").expect("procfs");
    maps.contains("/libc.so.6")
}

/// Tells the runner why a test does nothing, where what it is about is no feature of ours.
pub(crate) fn skip_because(reason: &str) {
    let file = env::var_os("NOCTULE_SKIPPED").expect("where to say that a test is skipped");
    fs::write(file, reason).expect("it can be said");
}

fn skip(feature: &str, reason: impl Fn(&Expected) -> Option<String>) -> bool {
    let Some(reason) = expected().and_then(|expected| reason(&expected)) else {
        return false;
    };
    let file = env::var_os("NOCTULE_SKIPPED").expect("where to say that a test is skipped");
    fs::write(file, format!("{feature}: {reason}")).expect("it can be said");
    true
}

/// Whether this is the machine that builds and no virtual one. Then the reason why the test does nothing is
/// written for the runner, if there is one.
pub(crate) fn is_not_virtual() -> bool {
    let real = env::var_os("NOCTULE_EXPECT").is_none();
    if let Some(file) = env::var_os("NOCTULE_SKIPPED").filter(|_| real) {
        fs::write(file, "they change a machine of their own").expect("it can be said");
    }
    real
}

/// Ends a test here where the machine is not a virtual one, which it has for itself.
macro_rules! needs_a_virtual_machine {
    () => {
        if $crate::support::expect::is_not_virtual() {
            return;
        }
    };
}

/// Ends a test here when the kernel may lack one of these features.
macro_rules! needs {
    ($($feature:literal),+) => {
        if [$($feature),+].into_iter().any($crate::support::expect::lacks) {
            return;
        }
    };
}

/// Ends a test here when the kernel may lack the feature, or have it only with a limit.
macro_rules! needs_all_of {
    ($feature:literal) => {
        if $crate::support::expect::lacks_part_of($feature) {
            return;
        }
    };
}
