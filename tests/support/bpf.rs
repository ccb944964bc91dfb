//! Lists the loaded BPF programs and the processes that hold file descriptors for them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use libbpf_rs::query::{ProgInfoIter, ProgramInfo};

/// Names of noctule's programs, as the kernel shows them.
const OURS: &[&str] = &[
    "sched_switch",
    "sched_wakeup",
    "sched_wakeup_ne",
    "sched_migrate_t",
    "process_free",
    "cgroup_attach_t",
    "attach_task_old",
    "walk_tasks",
    "sample_listed",
    "list_waiting",
    "sample_tasks_ol",
    "process_fork",
    "process_exec",
    "process_exit",
    "mark_victim",
    "inet_sock_set_s",
    "set_state_again",
    "tcp_destroy_soc",
    "destroy_again",
    "retransmit_skb",
    "retransmit_syna",
    "v4_connect_ret",
    "v6_connect_ret",
    "csk_accept_ret",
    "survey_sockets",
    "look_at_storage",
    "look_at_table",
    "filp_open",
    "file_open",
    "cgroup_mkdir",
    "cgroup_rename",
    "cgroup_rmdir",
    "cgroup_release",
    "softirq_entry",
    "read_get_pages",
    "read_folio_acce",
    "read_page_acces",
    "write_folio",
    "write_page",
];

/// Returns the ids of the programs that a process holds, directly or through a link.
pub(crate) fn held_by(pid: u32) -> BTreeSet<u32> {
    let Ok(files) = fs::read_dir(format!("/proc/{pid}/fdinfo")) else {
        return BTreeSet::new();
    };
    let id = |line: &str| line.strip_prefix("prog_id:")?.trim().parse().ok();
    let ids = |text: String| text.lines().filter_map(id).collect::<Vec<u32>>();
    let read = |file: fs::DirEntry| fs::read_to_string(file.path()).ok();
    files.flatten().filter_map(read).flat_map(ids).collect()
}

/// Starts `noctule` with these arguments and waits until its programs are loaded. Returns their
/// ids.
pub(crate) fn start(args: &[&str]) -> (Child, BTreeSet<u32>) {
    let child = Command::new(super::NOCTULE)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary can be started");
    let mut ids = BTreeSet::new();
    // Once the number of programs is stable, all of them are loaded.
    super::wait_until("its programs are loaded", || {
        let before = std::mem::replace(&mut ids, held_by(child.id()));
        thread::sleep(Duration::from_millis(300));
        ids.len() >= 8 && ids == before
    });
    (child, ids)
}

/// Returns id and name of every loaded program.
fn loaded() -> Vec<(u32, String)> {
    let name = |info: &ProgramInfo| info.name.to_string_lossy().into_owned();
    let programs = ProgInfoIter::default();
    programs.map(|info| (info.id, name(&info))).collect()
}

/// Returns the number of instructions that the verifier processed, by the name of the program. The
/// kernel keeps 15 characters of a name.
#[track_caller]
pub(crate) fn verified(ids: &BTreeSet<u32>) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for info in ProgInfoIter::default().filter(|info| ids.contains(&info.id)) {
        let name = info.name.to_string_lossy().into_owned();
        let before = counts.insert(name.clone(), info.verified_insns);
        assert_eq!(before, None, "two programs are called {name}");
    }
    counts
}

/// Waits until none of these programs is loaded. The kernel frees a program shortly after its last
/// user closed it.
#[track_caller]
pub(crate) fn wait_until_unloaded(ids: &BTreeSet<u32>) {
    let ours = |(id, _): &(u32, String)| ids.contains(id);
    wait_for_none("programs are still loaded", || {
        loaded().into_iter().filter(ours).collect()
    });
}

/// Waits until every currently loaded program of noctule is freed or belongs to a process. This
/// shows that nothing is pinned, and that nothing stays attached by itself. Other agents on the
/// machine may continue or end. Programs loaded later are not checked.
#[track_caller]
pub(crate) fn assert_no_orphans() {
    let mut suspects = None;
    wait_for_none("programs that no process holds", || {
        // Programs are listed before processes, so that a program loaded between the two steps is
        // not an orphan.
        let programs = loaded();
        let processes = fs::read_dir("/proc").expect("/proc").flatten();
        let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let held: BTreeSet<u32> = pids.flat_map(held_by).collect();
        let orphan = |(id, name): &(u32, String)| !held.contains(id) && OURS.contains(&&**name);
        let orphans = programs.into_iter().filter(orphan);
        let old = |(id, _): &(u32, String)| {
            suspects
                .as_ref()
                .is_none_or(|old: &BTreeSet<u32>| old.contains(id))
        };
        let orphans: Vec<_> = orphans.filter(old).collect();
        suspects = Some(orphans.iter().map(|(id, _)| *id).collect());
        orphans
    });
}

#[track_caller]
fn wait_for_none(what: &str, mut find: impl FnMut() -> Vec<(u32, String)>) {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let found = find();
        if found.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "{what}: {found:?}");
        thread::sleep(Duration::from_millis(50));
    }
}
