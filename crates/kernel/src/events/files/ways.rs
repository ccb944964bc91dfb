//! The ways to trace file opens: the hooks of each, and its status.

use libbpf_rs::{Link, ProgramMut};
use noctule_model::{Feature, FeatureId};

use crate::error::{Context, Error, ErrorKind};
use crate::facts::Facts;
use crate::plan::Way;
use crate::tracefs::{self, Tracefs};

pub(super) const FEATURE: FeatureId = FeatureId::FileOpens;

/// Kernel functions at which changes of names and modes are traced, with their programs. Two
/// consecutive entries handle one operation: the first function has the mount, and the second has
/// the result.
const CHANGES: [(&str, &str); 12] = [
    ("path_unlink", "security_path_unlink()"),
    ("unlink_file", "vfs_unlink()"),
    ("path_rmdir", "security_path_rmdir()"),
    ("rmdir_file", "vfs_rmdir()"),
    ("path_rename", "security_path_rename()"),
    ("rename_file", "vfs_rename()"),
    ("path_link", "security_path_link()"),
    ("link_file", "vfs_link()"),
    ("path_symlink", "security_path_symlink()"),
    ("symlink_file", "vfs_symlink()"),
    ("path_chmod", "security_path_chmod()"),
    ("chmod_file", "notify_change()"),
];

/// Returns the programs and hooks for changes.
///
/// # Errors
///
/// Fails if the kernel lacks one of the functions.
pub(super) fn changes(facts: &Facts) -> Result<Vec<Target>, Error> {
    if let Some((_, missing)) = CHANGES.iter().find(|(_, hook)| !facts.hooks.contains(hook)) {
        let words = format!("this kernel does not have {missing} (CONFIG_SECURITY_PATH)");
        return Err(Error::new(ErrorKind::Kernel, words));
    }
    let target = |(program, _): &(&'static str, _)| Target {
        program,
        tracepoint: None,
    };
    Ok(CHANGES.iter().map(target).collect())
}

/// Returns the status of the feature if file changes are traced.
pub(super) fn changes_seen() -> Feature {
    Feature::on(
        FeatureId::FileChanges,
        "fexit of security_path_*() and vfs_*()",
    )
}

/// Returns the status of the feature if file changes cannot be traced.
pub(super) fn changes_missing(error: &Error) -> Feature {
    Feature::off(FeatureId::FileChanges, full_message(error))
}

/// Returns the status of the feature if no reader would receive the file changes.
pub(super) fn changes_not_kept() -> Feature {
    Feature::off(
        FeatureId::FileChanges,
        "nothing records file events; opens are only counted",
    )
    .with_fix("record events to a file or a tape, or watch them with noctule events --kind file")
}

/// A program, and its tracepoint unless the section names the hook.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) program: &'static str,
    tracepoint: Option<u64>,
}

impl Target {
    pub(super) fn attach(&self, program: &ProgramMut<'_>, online: u32) -> Result<Link, Error> {
        match self.tracepoint {
            Some(id) => tracefs::attach(program, id, online),
            None => program
                .attach()
                .context(format!("attaching {}", self.program)),
        }
    }
}

/// System calls that open files. arm64 has only the first two. Linux before 5.6 lacks openat2.
const SYSTEM_CALLS: [(&str, &str); 4] = [
    ("openat_exit", "sys_exit_openat"),
    ("openat2_exit", "sys_exit_openat2"),
    ("open_exit", "sys_exit_open"),
    ("creat_exit", "sys_exit_creat"),
];

/// Returns the programs and hooks of a way on this kernel.
///
/// # Errors
///
/// Fails if the kernel lacks the function or the tracepoints.
pub(super) fn targets(facts: &Facts, way: &Way) -> Result<Vec<Target>, Error> {
    if way.hook.ends_with("()") {
        if !facts.hooks.contains(way.hook) {
            return Err(Error::new(ErrorKind::Kernel, "not in this kernel"));
        }
        return Ok(vec![Target {
            program: way.program,
            tracepoint: None,
        }]);
    }
    let tracefs = Tracefs::open(facts.tracefs.as_deref())?;
    let mut targets = Vec::new();
    for (program, name) in SYSTEM_CALLS {
        match tracefs.id("syscalls", name)? {
            Some(id) => targets.push(Target {
                program,
                tracepoint: Some(id),
            }),
            None if name == way.hook => {
                let words = "this kernel has no system call tracepoints (CONFIG_FTRACE_SYSCALLS)";
                return Err(Error::new(ErrorKind::Kernel, words));
            }
            None => (),
        }
    }
    Ok(targets)
}

/// Returns the status if no way works.
pub(super) fn none_works(facts: &Facts, problems: &[(&Way, Error)]) -> Feature {
    let problems: Vec<String> = problems.iter().map(|(way, e)| described(way, e)).collect();
    let mend = match facts.tracefs {
        Some(_) => "",
        None => Tracefs::MEND,
    };
    Feature::off(
        FEATURE,
        format!("could not be attached: {}", problems.join("; ")),
    )
    .with_fix(mend)
}

/// Returns the status for kernels before 5.11, which lack bpf_get_current_task_btf(), and for
/// kernels before 5.13, which lack task storage for tracing programs.
pub(super) fn too_old() -> Feature {
    Feature::off(
        FEATURE,
        "before Linux 5.13, tracing programs cannot store data with threads (task local storage)",
    )
}

fn described(way: &Way, error: &Error) -> String {
    format!("{}: {}", way.hook, full_message(error))
}

fn full_message(error: &Error) -> String {
    use std::error::Error as _;
    match error.source() {
        Some(source) => format!("{error}: {source:#}"),
        None => error.to_string(),
    }
}
