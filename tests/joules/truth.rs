//! Tests of joules of processes and containers against a meter whose true values are known. A
//! kernel module (`vm/modules`) in some virtual machines uses a fixed power for each busy CPU.

use std::fs;
use std::io::{Write as _, stderr};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::super::support::cgroup::{Below, Group};
use super::super::support::load::Load;
use super::super::support::window::Window;
use super::super::support::{self, Part, container};

/// Idle time at the start of the window, in which idle power is learned.
const IDLE: Duration = Duration::from_secs(5);
/// Run time of the loads.
const RUN: Duration = Duration::from_secs(30);
/// Maximum error of the charges.
const BAR: f64 = 0.02;

/// Power of a busy CPU, in watts.
struct Power {
    package: [f64; 2],
    memory: f64,
}

impl Power {
    fn read() -> Self {
        let milliwatts = |name: &str| -> f64 {
            let path = format!("/sys/module/noctule_meter/parameters/{name}");
            let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
            text.trim().parse::<f64>().expect("a number") / 1e3
        };
        let first = milliwatts("busy_mw");
        Self {
            package: [first, first + milliwatts("more_mw")],
            memory: milliwatts("dram_busy_mw"),
        }
    }

    /// Returns the joules of package and memory for the given seconds on each CPU.
    fn joules(&self, used: &[(usize, f64)]) -> [f64; 2] {
        let package = used
            .iter()
            .map(|(cpu, seconds)| self.package[*cpu] * seconds);
        let memory = used.iter().map(|(_, seconds)| self.memory * seconds);
        [package.sum(), memory.sum()]
    }
}

/// A measured value and its true value.
struct Figure {
    what: String,
    charged: f64,
    truth: f64,
}

/// Prints all figures, and afterwards fails if one is wrong.
fn judge(figures: &[Figure]) {
    let mut wrong = Vec::new();
    for Figure {
        what,
        charged,
        truth,
    } in figures
    {
        let off = charged / truth - 1.0;
        let line = format!(
            "{what}: {charged:.3} J, truth {truth:.3} J, {:+.2}%",
            off * 100.0
        );
        // Bypasses the harness, which hides output of passing tests.
        writeln!(stderr(), "note: {line}").expect("standard error");
        if off.is_nan() || off.abs() > BAR {
            wrong.push(line);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Kinds of zones, in the order of [`Power::joules`].
const KINDS: [&str; 2] = ["package", "dram"];

fn compare(what: &str, row: &Value, truth: [f64; 2]) -> Vec<Figure> {
    let figure = |(kind, truth): (&str, f64)| Figure {
        what: format!("{what}, {kind}"),
        charged: row["energy.joules"][kind].as_f64().expect("joules"),
        truth,
    };
    KINDS.into_iter().zip(truth).map(figure).collect()
}

/// Prints the sums of each zone.
fn note_zones(answer: &Value) {
    for zone in answer["zones"].as_array().expect("zones") {
        let text = ["name", "socket", "joules", "idle_joules", "active_joules"]
            .into_iter()
            .chain(["interrupt_joules", "unattributed_joules", "idle_watts"])
            .chain(["error_ratio", "gaps", "shared_by"])
            .map(|key| format!("{key} {}", zone[key]))
            .collect::<Vec<_>>();
        writeln!(stderr(), "note: zone: {}", text.join(", ")).expect("standard error");
        super::assert_zone_closes(zone);
    }
}

/// Runs loads with these duty cycles in percent, each on a CPU. If `moves`, the first load moves to
/// the other CPU halfway.
fn processes(duties: &[(usize, u32)], moves: bool) -> Vec<Figure> {
    let power = Power::read();
    let group = Group::new("truth");
    let mut loads: Vec<Load> = duties
        .iter()
        .map(|(cpu, percent)| Load::own(&group, &format!("duty {cpu} {percent}")))
        .collect();
    let window = Window::of(&["energy", "--by", "process"]);
    thread::sleep(IDLE);
    let began = Instant::now();
    loads.iter_mut().for_each(|load| load.say("go"));
    if moves {
        thread::sleep(RUN / 2);
        loads[0].say(&(1 - duties[0].0).to_string());
    }
    thread::sleep(RUN.saturating_sub(began.elapsed()));
    let told: Vec<String> = loads.iter_mut().map(|load| load.ask("stop")).collect();
    thread::sleep(Duration::from_secs(1));
    let answer = window.close().answer;
    note_zones(&answer);
    let mut figures = Vec::new();
    for ((load, told), (_, percent)) in loads.iter().zip(told).zip(duties) {
        let part = |part: &str| {
            let (cpu, ns) = part.split_once(' ').expect("`CPU NANOSECONDS`");
            let ns: f64 = ns.parse().expect("a number");
            (cpu.parse().expect("a number"), ns / 1e9)
        };
        let used: Vec<(usize, f64)> = told.split(';').map(part).collect();
        let row = support::rows(&answer, |row| row["process.pid"] == load.pid());
        let what = format!("{} processes, {percent}%", duties.len());
        figures.extend(compare(&what, row[0], power.joules(&used)));
    }
    figures
}

#[test]
fn processes_are_charged_for_their_own_energy() {
    let _machine = support::shared();
    needs_a_virtual_machine!();
    needs!("energy");
    let mut figures = processes(&[(0, 50)], false);
    figures.extend(processes(&[(0, 20), (1, 70)], false));
    let five = [(0, 10), (0, 30), (1, 20), (1, 40), (0, 25)];
    figures.extend(processes(&five, true));
    judge(&figures);
}

#[test]
fn container_is_charged_for_its_short_processes() {
    let _machine = support::shared_but(&[Part::Groups]);
    needs_a_virtual_machine!();
    needs!("energy");
    let power = Power::read();
    let id = container::hex_id();
    let below = Below::new(&format!("docker/{id}"));
    let short = &below.group;
    let long = Group::new("truth");
    let mut brood = Load::own(short, "brood 1 2000 1");
    let mut other = Load::own(&long, "duty 1 30");
    let window = Window::of(&["energy", "--by", "container"]);
    thread::sleep(IDLE);
    let before = [short, &long].map(Group::usage_seconds);
    other.say("go");
    assert_eq!(brood.ask("go"), "done");
    other.ask("stop");
    let after = [short, &long].map(Group::usage_seconds);
    thread::sleep(Duration::from_secs(1));
    let answer = window.close().answer;
    note_zones(&answer);
    let mut figures = Vec::new();
    let groups = [
        ("2,000 processes of 2 ms", "container.id", id),
        ("beside them", "process.linux.cgroup", long.path()),
    ];
    for (place, (what, key, value)) in groups.into_iter().enumerate() {
        let row = support::rows(&answer, |row| row[key] == value.as_str());
        let truth = power.joules(&[(1, after[place] - before[place])]);
        figures.extend(compare(what, row[0], truth));
    }
    judge(&figures);
}
