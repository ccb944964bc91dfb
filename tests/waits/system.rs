//! Tests of containers that wait for a systemd unit or for kernel threads.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, getpriority_process, setpriority_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::Value;

use super::parts::assert_adds_up;
use super::support::cgroup::{Below, Group};
use super::support::container::hex_id;
use super::support::load::Load;
use super::support::{self, affinity, oracle};
use super::{cause, number, waited};

/// Returns the row of the container in `noctule waits`.
fn row_of(id: &str, duration: &str) -> Value {
    let args = ["waits", "--json", "--by", "container", "--for", duration];
    let answer = support::json(&args);
    let rows = support::rows(&answer, |row| row["container.id"] == id);
    assert_eq!(rows.len(), 1, "{answer}");
    assert_adds_up(rows[0]);
    rows[0].clone()
}

#[test]
fn a_systemd_unit_is_named_as_a_neighbour() {
    let _machine = support::shared_but(&[support::Part::LastCpu, support::Part::Groups]);
    needs!("cpu_waits");
    let (id, unit) = (
        hex_id(),
        format!("noctule-test-{}.service", std::process::id()),
    );
    let container = Below::heavy(&format!("docker/{id}"));
    let service = Below::heavy(&format!("system.slice/{unit}"));
    let _loads = [&container, &service].map(|below| Load::own(&below.group, "spin 1"));
    let row = row_of(&id, "1s");
    assert_eq!(row["verdict"]["kind"], "hurt_by_neighbour", "{row}");
    assert_eq!(row["verdict"]["culprit"], unit.as_str(), "{row}");
    let culprit = &row["culprits"][0];
    assert_eq!(culprit["systemd.unit"], unit.as_str(), "{row}");
    // Other groups of the machine run on this CPU, too.
    assert!(number(&culprit["share"]) > 0.5, "{row}");
    assert!(cause(&row, "neighbour") > 0.9 * waited(&row), "{row}");
}

/// The kernel thread that merges identical pages. The thread is busy on one CPU and pauses only
/// briefly. Without these pauses, the kernel would wait forever for the thread to reach a quiescent
/// state. Dropping this value restores the settings.
struct Ksmd {
    pid: Pid,
    cpus: CpuSet,
    priority: i32,
    settings: Vec<(&'static str, String)>,
}

const KSM: &str = "/sys/kernel/mm/ksm";

impl Ksmd {
    fn start(cpu: usize) -> Self {
        let named = |pid: &u32| {
            let comm = fs::read_to_string(format!("/proc/{pid}/comm"));
            comm.is_ok_and(|comm| comm.trim() == "ksmd")
        };
        let pid = oracle::kernel_threads().into_iter().find(named);
        let pid = pid.expect("the kernel merges pages (CONFIG_KSM)");
        let pid = Pid::from_raw(pid.cast_signed());
        let read = |name| fs::read_to_string(Path::new(KSM).join(name)).expect("a setting");
        let names = ["sleep_millisecs", "pages_to_scan", "run"];
        let this = Self {
            pid: pid.expect("not 0"),
            cpus: sched_getaffinity(pid).expect("its CPUs"),
            priority: getpriority_process(pid).expect("its priority"),
            settings: names.map(|name| (name, read(name))).into(),
        };
        affinity::pin(pid, cpu);
        setpriority_process(pid, -20).expect("root may");
        for (name, value) in names.into_iter().zip(["1", "5000", "1"]) {
            set(name, value);
        }
        this
    }
}

fn set(name: &str, value: &str) {
    let file = Path::new(KSM).join(name);
    fs::write(&file, value).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
}

impl Drop for Ksmd {
    fn drop(&mut self) {
        for (name, value) in self.settings.iter().rev() {
            set(name, value.trim());
        }
        let _ = sched_setaffinity(Some(self.pid), &self.cpus);
        let _ = setpriority_process(Some(self.pid), self.priority);
    }
}

#[test]
fn kernel_threads_are_blamed_as_the_kernel() {
    let _machine = support::alone();
    needs!("cpu_waits");
    let id = hex_id();
    // The container has the default weight, because kernel threads are in the root group.
    let container = Below::new(&format!("docker/{id}"));
    let memory = Group::new("memory");
    let _memory = Load::own(&memory, "mergeable 64");
    let ksmd = Ksmd::start(oracle::cpus_online() - 1);
    let _load = Load::own(&container.group, "spin 1");
    let used = || oracle::schedstat_seconds(ksmd.pid.as_raw_nonzero().get().cast_unsigned());
    let before = used();
    let row = row_of(&id, "2s");
    let used = used() - before;
    let culprits = row["culprits"].as_array().expect("culprits");
    let kernel = culprits.iter().find(|c| c["name"] == "kernel threads");
    let kernel = number(&kernel.unwrap_or_else(|| panic!("{row}"))["seconds"]);
    println!("waited {kernel} s behind threads of the kernel; one of them ran {used} s");
    assert_eq!(row["verdict"]["kind"], "hurt_by_kernel", "{row}");
    assert_eq!(row["verdict"]["culprit"], "kernel threads", "{row}");
    assert!(kernel > 0.2, "{row}");
    assert!(cause(&row, "kernel") >= kernel, "{row}");
}
