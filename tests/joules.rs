//! Tests of energy attribution, with meters that the test controls in a fake sysfs tree.

mod agent;
mod truth;

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::support::burner::Burner;
use super::support::{self, NOCTULE, StopAtEnd, now, oracle};

/// A machine with one package and its memory, as powercap shows them.
struct Machine {
    folder: TempDir,
}

/// Directory of a zone below `class/powercap`, and its name.
const ZONES: [(&str, &str); 2] = [("intel-rapl:0", "package-0"), ("intel-rapl:0:0", "dram")];

impl Machine {
    fn new() -> Self {
        let machine = Self::without_meters();
        machine.add_meters();
        machine
    }

    fn add_meters(&self) {
        for (zone, name) in ZONES {
            let folder = self.zone(zone);
            fs::create_dir_all(&folder).expect("a folder");
            for (file, text) in [
                ("name", name),
                ("max_energy_range_uj", "262143328850"),
                ("energy_uj", "1000000"),
            ] {
                fs::write(folder.join(file), format!("{text}\n")).expect("a file");
            }
        }
    }

    /// Creates a machine with an empty `class` and without an energy PMU. The rest of its sysfs
    /// links to this machine.
    fn without_meters() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let machine = Self { folder };
        let link = |below: &str, all_but: &[&str]| {
            let place = machine.sys().join(below);
            fs::create_dir_all(&place).expect("a folder");
            for entry in fs::read_dir(Path::new("/sys").join(below))
                .expect("sysfs")
                .flatten()
            {
                if !all_but.iter().any(|it| entry.file_name() == *it) {
                    symlink(entry.path(), place.join(entry.file_name())).expect("a link");
                }
            }
        };
        link("", &["class", "bus"]);
        link("bus", &["event_source"]);
        link("bus/event_source", &["devices"]);
        link("bus/event_source/devices", &["power", "power_core"]);
        let text = format!("[host]\nsys = \"{}\"\n", machine.sys().display());
        fs::write(machine.config(), text).expect("a file");
        machine
    }

    fn sys(&self) -> PathBuf {
        self.folder.path().join("sys")
    }

    fn config(&self) -> PathBuf {
        self.folder.path().join("noctule.toml")
    }

    fn zone(&self, zone: &str) -> PathBuf {
        self.sys().join("class/powercap").join(zone)
    }

    /// Runs `noctule` with this machine's sysfs.
    fn noctule(&self, args: &[&str]) -> Output {
        with_config(&self.config(), args)
    }

    /// Returns the JSON that noctule prints.
    fn json(&self, args: &[&str]) -> Value {
        let output = self.noctule(args);
        assert!(output.status.success(), "{args:?}: {}", errors(&output));
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    /// Sets both counters to these microjoules, with one write each. The reader keeps the file
    /// open, and a number never gets shorter.
    fn turn(&self, energies: [u64; 2]) {
        for ((zone, _), uj) in ZONES.iter().zip(energies) {
            let file = self.zone(zone).join("energy_uj");
            let mut file = File::options().write(true).open(file).expect("a file");
            let text = format!("{uj}\n");
            file.write_all(text.as_bytes()).expect("it is written");
        }
    }

    /// Simulates the meters until `stop` is set. The power is 5 W, and 20 W more for each busy CPU.
    /// The memory uses a tenth of this power. If power did not depend on load, all of it would be
    /// idle power.
    fn run_meters(&self, stop: &AtomicBool) {
        let began = (now(), oracle::node_time().busy);
        while !stop.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(30));
            let (lasted, busy) = (now() - began.0, oracle::node_time().busy - began.1);
            let used = ((5.0 * lasted + 20.0 * busy) * 1e6) as u64;
            self.turn([1_000_000 + used, 1_000_000 + used / 10]);
        }
    }
}

/// Converts joules to microjoules.
fn uj(joules: &Value) -> u64 {
    (joules.as_f64().expect("joules") * 1e6).round() as u64
}

fn assert_zone_closes(zone: &Value) {
    let parts = ["idle", "active", "interrupt", "other", "unattributed"];
    let sum: u64 = parts
        .iter()
        .map(|part| uj(&zone[format!("{part}_joules")]))
        .sum();
    assert_eq!(sum, uj(&zone["joules"]), "{zone}");
}

fn zone<'a>(answer: &'a Value, name: &str) -> &'a Value {
    let mut zones = answer["zones"].as_array().expect("zones").iter();
    zones.find(|zone| zone["zone"] == name).expect("the zone")
}

#[test]
fn rows_add_up_to_the_meter_at_every_level() {
    // If other tests kept both CPUs busy, no window could separate idle power from work.
    let _machine = support::alone();
    let machine = Machine::new();
    let stop = AtomicBool::new(false);
    let _busy = Burner::named(b"burner");
    thread::scope(|scope| {
        let _stop = StopAtEnd(&stop);
        scope.spawn(|| machine.run_meters(&stop));
        for level in ["process", "container", "pod", "unit", "cgroup"] {
            let answer = machine.json(&["energy", "--json", "--by", level, "--for", "3s"]);
            for kind in ["package", "dram"] {
                let zone = zone(&answer, kind);
                assert_zone_closes(zone);
                assert!(uj(&zone["joules"]) > 1_000_000, "{zone}");
                let rows = answer["rows"].as_array().expect("rows").iter();
                let rows = rows.map(|row| uj(&row["energy.joules"][kind]));
                let unrecorded = answer.get("unrecorded_joules");
                let unrecorded = unrecorded.map_or(0, |of| uj(&of[kind]));
                let sum = rows.sum::<u64>() + unrecorded;
                assert_eq!(sum, uj(&zone["active_joules"]), "{level}: {answer}");
                assert!(sum > 0, "{level}: {answer}");
            }
        }
    });
}

#[test]
fn the_meter_of_a_command_is_exact() {
    let _machine = support::shared();
    let machine = Machine::new();
    let folder = machine.zone("intel-rapl:0");
    let folder = folder.to_str().expect("text");
    // The last value stays long enough that a tick before the last one reads it.
    let script = format!(
        "cd {folder}; i=0; while [ $i -lt 40000 ]; do i=$((i+1)); done; echo 8654321 1<> energy_uj; \
         sleep 2.5"
    );
    let file = tempfile::NamedTempFile::new().expect("a file");
    let path = file.path().to_str().expect("text");
    let output = machine.noctule(&["energy", "--json", "-o", path, "--", "sh", "-c", &script]);
    assert!(output.status.success(), "{}", errors(&output));
    let text = fs::read_to_string(path).expect("an answer");
    let answer: Value = serde_json::from_str(&text).expect("JSON");
    let package = zone(&answer, "package");
    assert_zone_closes(package);
    assert_eq!(uj(&package["joules"]), 7_654_321, "{answer}");
    assert_eq!(uj(&zone(&answer, "dram")["joules"]), 0, "it did not move");
    let names = answer["rows"].as_array().expect("rows").iter();
    let mut names = names.map(|row| row["process.executable.name"].as_str().expect("a name"));
    assert!(names.any(|name| name == "sh"), "{answer}");
}

#[test]
fn a_recording_divides_energy_as_the_live_answer_does() {
    let _machine = support::shared();
    let machine = Machine::new();
    let tape = tempfile::tempdir().expect("a folder");
    let tape = tape.path().to_str().expect("text");
    let args = ["energy", "--by", "process", "--json"];
    let stop = AtomicBool::new(false);
    let _busy = Burner::named(b"burner");
    let live = thread::scope(|scope| {
        let _stop = StopAtEnd(&stop);
        scope.spawn(|| machine.run_meters(&stop));
        machine.json(&[&args[..], &["--for", "4s", "--tape", tape]].concat())
    });
    let recorded = machine.json(&[&args[..], &["--from", tape]].concat());
    let sorted = |mut answer: Value| {
        let rows = answer["rows"].as_array_mut().expect("rows");
        rows.sort_by_key(Value::to_string);
        answer
    };
    assert_eq!(sorted(recorded), sorted(live));
}

#[test]
fn without_a_meter_there_is_no_energy_anywhere() {
    let _machine = support::shared();
    let machine = Machine::without_meters();
    let output = machine.noctule(&["energy", "--", "true"]);
    assert_eq!(output.status.code(), Some(3), "{}", errors(&output));
    let said = errors(&output);
    assert!(said.contains("no readable energy meter"), "{said}");
    let stat = machine.json(&["stat", "--json", "--for", "100ms"]);
    assert!(stat.get("energy").is_none(), "{stat}");
    let rows = stat["rows"].as_array().expect("rows");
    assert!(
        rows.iter().all(|row| row.get("energy.joules").is_none()),
        "{stat}"
    );
}

#[test]
fn folder_that_is_not_a_sysfs_is_an_error() {
    let _machine = support::shared();
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("noctule.toml");
    for (name, file) in [
        ("sys", "devices/system/cpu/online"),
        ("proc", "self/mountinfo"),
    ] {
        let text = format!("[host]\n{name} = \"{}\"\n", folder.path().display());
        fs::write(&config, text).expect("a file");
        let output = with_config(&config, &["doctor"]);
        assert_eq!(output.status.code(), Some(2), "{name}");
        let said = errors(&output);
        assert!(said.contains(&format!("host.{name} is ")), "{said}");
        assert!(said.contains(file), "{said}");
    }
}

fn with_config(config: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(NOCTULE);
    command.arg("--config").arg(config).args(args);
    let output = command.stdin(Stdio::null()).output();
    output.expect("the binary can be started")
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
