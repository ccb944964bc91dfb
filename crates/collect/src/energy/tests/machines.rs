//! Tests which zones are found on machines, according to public descriptions of these machines.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use noctule_model::{EnergySource, FeatureState, Node, Unread, Zone};

use super::super::{CpuWatts, Meters};
use super::machine::{Machine, read};

#[test]
fn zones_match_each_recorded_machine() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("machines");
    let mut machines = 0;
    for file in fs::read_dir(folder).expect("the folder").flatten() {
        let text = fs::read_to_string(file.path()).expect("a machine");
        let machine = Machine::new(&text);
        let described = describe(&machine, machine.meters());
        let expected: String = text
            .lines()
            .filter(|line| !line.starts_with(['/', '#']))
            .map(|line| format!("{line}\n"))
            .collect();
        assert_eq!(described, expected, "{}", file.path().display());
        machines += 1;
    }
    assert!(machines >= 5, "{machines} machines");
}

#[test]
fn without_a_meter_there_is_no_energy() {
    let machine = Machine::new("/class/powercap/intel-rapl/enabled = 1");
    assert_eq!(read(&mut machine.meters()), None);
}

fn describe(machine: &Machine, mut meters: Meters) -> String {
    let mut out = String::new();
    if let Some(energy) = read(&mut meters) {
        for zone in energy.zones.iter() {
            writeln!(out, "{}", describe_zone(zone, &energy.zones)).expect("a string");
        }
    }
    for unread in meters.unread() {
        let name = &unread.zone.name;
        match &unread.why {
            Unread::Covered(by) => writeln!(out, "covered {name} by {}", machine.inside(by)),
            Unread::Refused(why) => writeln!(out, "refused {name}: {why}"),
        }
        .expect("a string");
    }
    out
}

fn describe_zone(zone: &Zone, all: &[Zone]) -> String {
    let mut out = format!("zone {} {}", zone.name, zone.kind.name());
    for (word, number) in [("socket", zone.socket), ("die", zone.die)] {
        if let Some(number) = number {
            write!(out, " {word} {number}").expect("a string");
        }
    }
    if let Some(parent) = zone.parent {
        write!(out, " in {}", all[parent].name).expect("a string");
    }
    write!(out, ": {}", zone.source.name()).expect("a string");
    out
}

#[test]
fn power_model_counts_only_without_a_meter() {
    let machine = Machine::new("/class/powercap/intel-rapl/enabled = 1");
    machine.model.set(Some(CpuWatts {
        idle: 1.5,
        busy: 10.0,
    }));
    let mut meters = machine.meters();
    // Two CPUs for a minute, busy for a quarter of the time: 30 s x 10 W + 90 s x 1.5 W.
    let node = Node {
        elapsed_ns: 120_000_000_000,
        idle_ns: 90_000_000_000,
        ..Node::default()
    };
    let energy = meters.read(&node, 77).expect("a model");
    assert_eq!(energy.zones[0].source, EnergySource::Model);
    let reading = &energy.readings[0];
    assert_eq!((reading.energy_uj, reading.before_ns), (435_000_000, 77));
    machine.write("/class/powercap/intel-rapl:0/name", "package-0");
    machine.write("/class/powercap/intel-rapl:0/energy_uj", 5);
    machine.write("/class/powercap/intel-rapl:0:0/name", "core");
    machine.write("/class/powercap/intel-rapl:0:0/energy_uj", 5);
    machine.pass(10);
    let more = Node {
        elapsed_ns: 2 * node.elapsed_ns,
        ..node
    };
    let energy = meters.read(&more, 88).expect("a meter");
    let sources: Vec<_> = energy.zones.iter().map(|it| it.source.name()).collect();
    assert_eq!(sources, ["model", "powercap", "powercap"]);
    assert_eq!(energy.zones[2].parent, Some(1), "the meter's own package");
    assert_eq!(energy.readings[0].energy_uj, 435_000_000);
    assert_eq!(energy.readings[0].state, FeatureState::Degraded);
    // If there was a meter from the start, the model is not a zone.
    let energy = machine.meters().read(&node, 99).expect("a meter");
    assert!(energy.zones.iter().all(Zone::is_measured));
}
