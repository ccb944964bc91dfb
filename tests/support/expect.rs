//! The features that a kernel must have, and those that it may lack. A virtual machine uses the
//! table of its kernel, `vm/expect/KERNEL.toml`. A machine whose kernel refuses programs attached
//! to functions uses `tests/support/restricted.toml`. On any other machine no feature may be
//! missing.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::os::fd::AsFd as _;
use std::sync::OnceLock;

use libbpf_rs::{Iter, MapCore as _, ObjectBuilder};
use noctule_fixtures as fixtures;
use serde::Deserialize;

/// The table of a kernel that refuses programs attached to functions.
const RESTRICTED: &str = include_str!("restricted.toml");

/// The features of a kernel, by their names in `noctule doctor`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expected {
    /// Working features.
    pub(crate) on: Vec<String>,
    /// Features that work with a limitation, each with the reason.
    #[serde(default)]
    pub(crate) degraded: BTreeMap<String, String>,
    /// Features that are degraded if the kernel refuses map iterators, and on otherwise.
    #[serde(default)]
    degraded_without_iterators: BTreeMap<String, String>,
    /// Features that are off, each with the reason.
    #[serde(default)]
    pub(crate) off: BTreeMap<String, String>,
    /// Kinds of losses that occur on this kernel, each with the reason.
    #[serde(default)]
    pub(crate) losses: BTreeMap<String, String>,
    /// The kernel release for which `verified` lists the counts, or `None` if the kernel of this
    /// table never changes. On other releases the counts may be up to twice as high.
    pub(crate) verified_of: Option<String>,
    /// Number of instructions that the verifier processes for each program.
    #[serde(default)]
    pub(crate) verified: BTreeMap<String, u32>,
}

impl Expected {
    /// Returns the state that `doctor` must report for a feature, or `None` if the table does not
    /// list the feature.
    pub(crate) fn state(&self, feature: &str) -> Option<&'static str> {
        if self.on.iter().any(|name| name == feature) {
            Some("on")
        } else if self.degraded.contains_key(feature) {
            Some("degraded")
        } else {
            self.off.contains_key(feature).then_some("off")
        }
    }

    /// Returns all listed features.
    pub(crate) fn features(&self) -> impl Iterator<Item = &String> {
        let others = self.degraded.keys().chain(self.off.keys());
        self.on.iter().chain(others)
    }
}

/// Returns the table of this kernel, if there is one.
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

/// Returns whether the kernel refuses a program attached to a function. The check uses a program
/// that does not belong to noctule.
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

/// Returns whether the kernel refuses to load, attach or read a map iterator.
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

/// Returns the state that a feature must have on this machine. Without a table, the state is "on".
pub(crate) fn state(feature: &str) -> &'static str {
    let table = expected();
    table.and_then(|table| table.state(feature)).unwrap_or("on")
}

/// Returns whether the table of this kernel lists this kind of loss.
pub(crate) fn loses(kind: &str) -> bool {
    expected().is_some_and(|expected| expected.losses.contains_key(kind))
}

/// Returns whether the kernel may lack the feature, and reports the skip to the runner. The test of
/// the environment checks that the kernel matches its table.
pub(crate) fn lacks(feature: &str) -> bool {
    skip(feature, |expected| absent(expected, feature))
}

/// Returns whether the kernel may lack the feature or have it only with a limitation.
pub(crate) fn lacks_part_of(feature: &str) -> bool {
    let reason = |expected: &Expected| {
        let limited = expected.degraded.get(feature);
        limited.cloned().or_else(|| absent(expected, feature))
    };
    skip(feature, reason)
}

/// Returns why the feature is missing. If CPU time is missing, every feature is missing.
fn absent(expected: &Expected, feature: &str) -> Option<String> {
    let off = &expected.off;
    off.get(feature).or_else(|| off.get("cpu_time")).cloned()
}

/// Returns whether the tests use the shared C library of the system, whose functions can be probed.
/// Tests in virtual machines are linked statically.
pub(crate) fn has_shared_libc() -> bool {
    let maps = fs::read_to_string("/proc/self/maps").expect("procfs");
    maps.contains("/libc.so.6")
}

/// Reports to the runner why a test is skipped for a reason other than a feature.
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

/// Returns whether this is the build machine and not a virtual one. If it is, reports to the runner
/// why the test is skipped.
pub(crate) fn is_not_virtual() -> bool {
    let real = env::var_os("NOCTULE_EXPECT").is_none();
    if let Some(file) = env::var_os("NOCTULE_SKIPPED").filter(|_| real) {
        fs::write(file, "they change a machine of their own").expect("it can be said");
    }
    real
}

/// Skips the rest of a test unless the machine is a virtual one that no other test uses.
macro_rules! needs_a_virtual_machine {
    () => {
        if $crate::support::expect::is_not_virtual() {
            return;
        }
    };
}

/// Skips the rest of a test if the kernel may lack one of these features.
macro_rules! needs {
    ($($feature:literal),+) => {
        if [$($feature),+].into_iter().any($crate::support::expect::lacks) {
            return;
        }
    };
}

/// Skips the rest of a test if the kernel may lack the feature or have it only with a limitation.
macro_rules! needs_all_of {
    ($feature:literal) => {
        if $crate::support::expect::lacks_part_of($feature) {
            return;
        }
    };
}
