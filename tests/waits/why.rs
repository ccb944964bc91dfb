//! Tests of `noctule why`, and of the sentences above the table of `noctule waits`.

use std::process::Command;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::support::cgroup::{Below, Group};
use super::support::load::Load;
use super::support::{self, affinity};
use super::{number, row_of, waits};

/// Runs noctule and returns its output.
#[track_caller]
fn printed(args: &[&str]) -> String {
    let output = affinity::without_cpu(affinity::last_cpu(), || support::noctule(args));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {errors}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The first line names the victim, the culprit and what to try. `why` also lists the culprit's
/// processes.
#[test]
fn a_neighbour_is_named_first_with_a_next_step() {
    let _machine = support::shared_but(&[support::Part::LastCpu]);
    needs!("cpu_waits");
    let (group, hog) = (Group::new("victim").heavy(), Group::new("hog").heavy());
    let (load, other) = (Load::own(&group, "spin 1"), Load::own(&hog, "spin 1"));
    let (victim, hog) = (group.path(), hog.path());
    let begin = format!("{victim}: hurt by {hog}: runnable but not running ");
    let (name, weight) = group.weight();
    let weight = format!("Try: raise the CPU {name} of {victim} ({weight}; {hog}: {weight})");
    // If another CPU was idle, the advice names that CPU instead.
    let advice = |line: &str| line.contains(&weight) || line.contains(". Try: let it run on CPU ");
    let text = printed(&["waits", "--by", "cgroup", "--for", "1s", "--top", "1000"]);
    let lines: Vec<&str> = text.lines().collect();
    let first = lines.iter().find(|line| line.starts_with(&begin));
    let first = first.unwrap_or_else(|| panic!("{begin}: {text}"));
    let table = lines.iter().position(|line| line.starts_with("cgroup"));
    let at = lines.iter().position(|line| line == first);
    assert!(at < table, "the answers come first: {text}");
    assert!(
        first.contains("may run on CPU ") && advice(first),
        "{first}"
    );
    let pid = load.pid().to_string();
    for name in [victim.as_str(), &pid] {
        let text = printed(&["why", name, "--for", "1s"]);
        let of_process = text.starts_with(&format!("{pid} ("));
        assert_eq!(of_process, name == pid, "{text}");
        let first = text.lines().nth(of_process.into()).expect("a line");
        assert!(first.starts_with(&begin) && advice(first), "{name}: {text}");
        let process = format!("{} ", other.pid());
        let behind = text.lines().skip_while(|line| !line.starts_with("behind"));
        let behind: Vec<&str> = behind.take(2).collect();
        assert!(behind[0].contains(&hog), "{text}");
        assert!(behind[1].contains(&process), "{text}");
    }
    let answer = support::json(&["why", &victim, "--json", "--for", "1s"]);
    assert_eq!(answer["verdict"]["kind"], "hurt_by_neighbour", "{answer}");
    assert_eq!(answer["verdict"]["culprit"], hog.as_str(), "{answer}");
    let (name, weight) = group.weight();
    assert_eq!(answer[format!("cpu.{name}")], weight, "{answer}");
    assert_eq!(answer["cpu.allowed"][0], affinity::last_cpu(), "{answer}");
    assert_eq!(
        answer["processes"][0]["process.pid"],
        load.pid(),
        "{answer}"
    );
    let culprit = &answer["behind"][0];
    let process = &culprit["processes"][0];
    assert_eq!(process["process.pid"], other.pid(), "{answer}");
    assert!(process["process.command_line"].is_string(), "{answer}");
    assert!(number(&process["cpu.seconds"]) > 0.0, "{answer}");
}

/// From a recording, `why` prints the same as on the live node, except for values that only the
/// kernel's files contain. `why` also names the group that had the CPU.
#[test]
fn recorded_why_names_the_cpu_holders() {
    let _machine = support::shared_but(&[support::Part::LastCpu]);
    needs!("cpu_waits");
    let (group, hog) = (Group::new("victim").heavy(), Group::new("hog").heavy());
    let (load, _other) = (Load::own(&group, "spin 1"), Load::own(&hog, "spin 1"));
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().to_str().expect("UTF-8");
    let live = support::json(&[
        "waits", "--json", "--by", "cgroup", "--for", "3s", "--tape", folder,
    ]);
    let used = |group: &Group| number(&row_of(&live, group)["cpu.seconds"]);
    for name in [group.path(), load.pid().to_string()] {
        let text = printed(&["why", &name, "--from", folder]);
        let begin = format!(
            "{}: hurt by {}: runnable but not running ",
            group.path(),
            hog.path()
        );
        assert!(text.lines().any(|line| line.starts_with(&begin)), "{text}");
        assert!(
            !text.contains("\nallowed") && !text.contains("\npressure"),
            "{text}"
        );
    }
    let output = support::noctule(&["why", "4194304", "--from", folder]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(
        errors.contains("no such process was recorded then"),
        "{errors}"
    );
    let answer = support::json(&["why", &group.path(), "--json", "--from", folder]);
    let cpus = answer["time_of_cpus"].as_array().expect("CPUs");
    let cpu = |cpu: &&Value| cpu["cpu"] == affinity::last_cpu();
    let cpu = cpus.iter().find(cpu).unwrap_or_else(|| panic!("{answer}"));
    let window = number(&answer["window_seconds"]);
    let close = |a: f64, b: f64| (a - b).abs() < 0.05 * window;
    assert!(close(number(&cpu["seconds"]), window), "{cpu}");
    let holders = cpu["holders"].as_array().expect("holders");
    let mut held = 0.0;
    for group in [&group, &hog] {
        let holder = holders
            .iter()
            .find(|it| it["name"] == group.path().as_str());
        let holder = holder.unwrap_or_else(|| panic!("{}: {cpu}", group.path()));
        let (had, used) = (number(&holder["seconds"]), used(group));
        assert!(close(had, used), "{}: {had} of {used}: {cpu}", group.path());
        held += had;
    }
    let busy = number(&cpu["seconds"]) - number(&cpu["idle_seconds"]);
    assert!(held <= busy + 0.05 * window, "{cpu}");
}

#[test]
fn an_unknown_name_suggests_the_closest() {
    let _machine = support::shared();
    let group = Group::new("present");
    let _load = Load::own(&group, "asleep 1");
    let misspelt = group.path().replace("present", "presnt");
    let output = support::noctule(&["why", &misspelt]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    let words = format!(
        "nothing is named {misspelt}; the closest name is {}",
        group.path()
    );
    assert!(errors.contains(&words), "{errors}");
    let output = support::noctule(&["why", "4194304"]);
    assert_eq!(output.status.code(), Some(2));
}

/// For a group in which nothing runs, `why` prints the state of its threads.
#[test]
fn a_sleeping_group_is_idle_and_a_stopped_one_stopped() {
    let _machine = support::shared();
    needs!("cpu_waits");
    let group = Group::new("asleep");
    let load = Load::own(&group, "asleep 1");
    let path = group.path();
    let text = printed(&["why", &path, "--for", "500ms"]);
    assert!(
        text.starts_with(&format!("{path}: idle: none of its ")),
        "{text}"
    );
    let pid = Pid::from_raw(load.pid().cast_signed()).expect("a process");
    kill_process(pid, Signal::STOP).expect("it is ours");
    support::wait_until("it is stopped", || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", load.pid()));
        stat.is_ok_and(|stat| stat.contains(") T "))
    });
    let answer = support::json(&["why", &path, "--json", "--for", "500ms"]);
    assert_eq!(answer["asleep"][0]["kind"], "stopped", "{answer}");
    assert_eq!(answer["asleep"][0]["process.pid"], load.pid(), "{answer}");
    // The file depends on the kernel's configuration.
    let is_known = std::fs::exists("/proc/self/sched").expect("procfs");
    let since = &answer["asleep"][0]["since_run_seconds"];
    assert_eq!(since.is_number(), is_known, "{answer}");
    let begin = format!("{path}: stopped: none of its ");
    let words = answer["answer"].as_str().expect("words");
    assert!(
        words.starts_with(&begin) && words.contains("kill -CONT "),
        "{answer}"
    );
    // An active group below the stopped group does not change the output.
    let below = Below::new(&format!("{}/active", &path[1..]));
    let _active = Load::shell(&below.group, "while sleep 0.05; do :; done");
    let text = printed(&["why", &path, "--for", "500ms"]);
    let begin = format!("{path}: stopped: its threads were stopped ");
    assert!(text.starts_with(&begin), "{text}");
}

/// Returns the number to which a shell on this machine counts in about 40 ms.
fn counts() -> u32 {
    const TRIED: u32 = 20_000;
    let words = format!("j=0; while [ $j -lt {TRIED} ]; do j=$((j + 1)); done");
    let began = Instant::now();
    let ended = Command::new("sh").args(["-c", &words]).status();
    assert!(ended.is_ok_and(|status| status.success()));
    (f64::from(TRIED) * 0.04 / began.elapsed().as_secs_f64()).ceil() as u32
}

/// Many short-lived processes, each in its own group, are reported as one culprit: the group above
/// them.
#[test]
fn many_short_groups_are_one_culprit() {
    let _machine = support::shared_but(&[support::Part::LastCpu]);
    needs!("cpu_waits");
    let victim = Group::new("victim").heavy();
    let ci = Group::new("ci").heavy();
    let counts = counts();
    let job = |enter: &str| {
        format!(
            "read go; cd '{}'; n=0; while :; do n=$((n + 1)); mkdir -p job-$n; \
             ( {enter}; j=0; while [ $j -lt {counts} ]; do j=$((j + 1)); done ); rmdir job-$n; done",
            ci.folder().display()
        )
    };
    let _load = Load::own(&victim, "spin 1");
    let scenes = [
        (
            "echo 0 > job-$n/cgroup.procs",
            format!("{}/*: ", &ci.path()[1..]),
        ),
        (":", ci.path()),
    ];
    for (enter, culprit) in scenes {
        let mut maker = Load::shell(&ci, &job(enter));
        let pid = Pid::from_raw(maker.pid().cast_signed());
        affinity::pin(pid, affinity::last_cpu());
        maker.say("go");
        let answer = affinity::without_cpu(affinity::last_cpu(), || waits("2s"));
        let row: &Value = row_of(&answer, &victim);
        let named = row["verdict"]["culprit"].as_str().unwrap_or_default();
        assert!(named.starts_with(&culprit), "{culprit}: {row}");
        assert_eq!(row["verdict"]["kind"], "hurt_by_neighbour", "{row}");
        drop(maker);
        // A job can outlive its killed parent.
        for entry in std::fs::read_dir(ci.folder())
            .into_iter()
            .flatten()
            .flatten()
        {
            let folder = entry.path();
            if folder.is_dir() {
                support::wait_until("the last job ends", || std::fs::remove_dir(&folder).is_ok());
            }
        }
    }
}
