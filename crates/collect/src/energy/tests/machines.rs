//! Which zones are found on machines as they are publicly described.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use noctule_model::Zone;

use super::super::{Meters, Why};
use super::machine::Machine;

#[test]
fn zones_of_each_machine() {
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
    assert_eq!(machine.meters().read(), None);
}

fn describe(machine: &Machine, mut meters: Meters) -> String {
    let mut out = String::new();
    if let Some(energy) = meters.read() {
        for zone in energy.zones.iter() {
            writeln!(out, "{}", describe_zone(zone, &energy.zones)).expect("a string");
        }
    }
    for unread in meters.unread() {
        let name = &unread.zone.name;
        match &unread.why {
            Why::Covered(by) => writeln!(out, "covered {name} by {}", machine.inside(by)),
            Why::Refused(why) => writeln!(out, "refused {name}: {why}"),
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
