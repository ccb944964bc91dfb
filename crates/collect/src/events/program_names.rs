//! Names of programs that were executed through a descriptor.
//!
//! The kernel names a process after the last component of the executed path. For `/proc/self/exe`
//! that component is `exe`, and for a descriptor it is the number (before Linux 6.14 also for
//! `execveat` with an empty path).

use std::collections::HashMap;

use noctule_kernel::RawEvent;
use noctule_model::{Comm, FilePath, ProcessId, What};

/// Maximum number of processes to remember. Exits may be lost, so there must be a limit.
const MOST: usize = 4096;

/// The name that the kernel gave a process, and the name of its program.
#[derive(Clone, Copy)]
struct Names {
    kernels: Comm,
    programs: Comm,
}

/// Processes that are named after a descriptor, until their name changes.
#[derive(Default)]
pub(super) struct ProgramNames {
    names: HashMap<ProcessId, Names>,
}

impl ProgramNames {
    /// Replaces the names of the event's process and of its parent or sender with the names of
    /// their programs. Events must come in order.
    pub(super) fn apply(&mut self, event: &mut RawEvent) {
        if let What::ProcessExec { path, args, .. } = &event.what
            && let Some(process) = &event.process
        {
            match name_of_program(process.comm, path, args) {
                Some(programs) => {
                    let kernels = process.comm;
                    self.insert(process.id, Names { kernels, programs });
                }
                None => {
                    self.names.remove(&process.id);
                }
            }
        }
        if self.names.is_empty() {
            return;
        }
        let starts = matches!(event.what, What::ProcessStart { .. });
        if let Some(parent) = super::parent(&mut event.what)
            && let Some(names) = self.names.get(&parent.id).copied()
            && names.kernels == parent.comm
        {
            parent.comm = names.programs;
            // A child has its parent's name until it executes a program.
            if let Some(child) = event.process.filter(|_| starts) {
                self.insert(child.id, names);
            }
        }
        let Some(process) = &mut event.process else {
            return;
        };
        let ends = matches!(event.what, What::ProcessExit { .. });
        let names = match ends {
            true => self.names.remove(&process.id),
            false => self.names.get(&process.id).copied(),
        };
        if let Some(names) = names.filter(|names| names.kernels == process.comm) {
            process.comm = names.programs;
        }
    }

    fn insert(&mut self, id: ProcessId, names: Names) {
        if self.names.len() >= MOST {
            self.names.clear();
        }
        self.names.insert(id, names);
    }
}

/// Returns the last component of the program's path if the kernel's name is only a descriptor
/// number or `exe`. If an argument of the interpreter is a script with that name, the kernel's name
/// is right.
fn name_of_program(kernels: Comm, path: &FilePath, args: &[Vec<u8>]) -> Option<Comm> {
    let text = kernels.text();
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number && text != "exe" {
        return None;
    }
    let base = |path: &[u8]| path.rsplit(|byte| *byte == b'/').next().map(Comm::new);
    let is_script = |arg: &Vec<u8>| !arg.starts_with(b"/dev/fd/") && base(arg) == Some(kernels);
    if args.iter().skip(1).any(is_script) {
        return None;
    }
    base(&path.bytes).filter(|name| *name != Comm::default() && *name != kernels)
}

#[cfg(test)]
mod tests {
    use noctule_kernel::RawProcess;
    use noctule_model::{CgroupId, ExecContext, Parent};

    use super::*;

    fn id(pid: u32) -> ProcessId {
        ProcessId { pid, start_ns: 7 }
    }

    fn event(pid: u32, comm: &str, what: What) -> RawEvent {
        RawEvent {
            time_ns: 0,
            process: Some(RawProcess {
                id: id(pid),
                comm: Comm::new(comm.as_bytes()),
                thread: None,
                cgroup: CgroupId(1),
            }),
            what,
        }
    }

    fn exec(path: &str, args: &[&str]) -> What {
        What::ProcessExec {
            path: FilePath {
                bytes: path.as_bytes().to_vec(),
                ..FilePath::default()
            },
            args: args.iter().map(|arg| arg.as_bytes().to_vec()).collect(),
            args_truncated: false,
            uid: 0,
            context: Box::<ExecContext>::default(),
        }
    }

    fn shown(names: &mut ProgramNames, mut event: RawEvent) -> String {
        names.apply(&mut event);
        event.process.expect("a process").comm.text()
    }

    #[test]
    fn program_run_by_descriptor_has_its_file_name() {
        let executor = "/usr/lib/systemd/systemd-executor";
        let cases: [(&str, &str, &[&str], &str); 8] = [
            ("9", executor, &[executor], "systemd-executo"),
            ("exe", "/bin/busybox", &["sleep", "0.5"], "busybox"),
            ("3", "/usr/bin/crun", &["crun", "init"], "crun"),
            ("sleep", "/bin/busybox", &["sleep"], "sleep"),
            // Scripts, one of which is executed through a descriptor.
            ("9", "/bin/sh", &["/bin/sh", "./9"], "9"),
            ("9", "/bin/sh", &["/bin/sh", "/dev/fd/9"], "sh"),
            ("exe", "/opt/exe", &["exe"], "exe"),
            ("9", "", &[], "9"),
        ];
        for (comm, path, args, expected) in cases {
            let event = event(1, comm, exec(path, args));
            assert_eq!(shown(&mut ProgramNames::default(), event), expected);
        }
    }

    #[test]
    fn program_name_applies_to_children_until_it_changes() {
        let mut names = ProgramNames::default();
        let start = || What::ProcessStart {
            parent_pid: 1,
            parent: Some(Parent {
                id: id(1),
                comm: Comm::new(b"exe"),
                start_unix_ns: 0,
            }),
        };
        let signal = || What::ProcessSignal {
            signal: 15,
            code: 0,
            sender: None,
        };
        let by_descriptor = event(1, "exe", exec("/bin/busybox", &["sh"]));
        assert_eq!(shown(&mut names, by_descriptor), "busybox");
        let mut child = event(2, "exe", start());
        names.apply(&mut child);
        let What::ProcessStart { parent, .. } = &child.what else {
            panic!("a start")
        };
        assert_eq!(parent.map(|it| it.comm.text()).as_deref(), Some("busybox"));
        assert_eq!(
            shown(&mut names, event(2, "exe", What::UNKNOWN_EXIT)),
            "busybox"
        );
        assert_eq!(shown(&mut names, event(1, "exe", signal())), "busybox");
        assert_eq!(shown(&mut names, event(1, "other", signal())), "other");
        let another = event(1, "true", exec("/bin/true", &["true"]));
        assert_eq!(shown(&mut names, another), "true");
        assert_eq!(
            shown(&mut names, event(1, "exe", What::UNKNOWN_EXIT)),
            "exe"
        );
        assert!(names.names.is_empty());
    }
}
