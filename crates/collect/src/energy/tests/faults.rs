//! Meters that fail: nothing is negative, nothing jumps, and the others go on.

use noctule_model::FeatureState;

use super::machine::{Machine, reading};

const EIO: i32 = 5;
const EACCES: i32 = 13;
const ENODEV: i32 = 19;
const ENODATA: i32 = 61;

const PACKAGE: &str = "/class/powercap/intel-rapl:0/energy_uj";
const OTHER: &str = "/class/powercap/intel-rapl:1/energy_uj";

/// Two packages that have used 1,000 J each.
fn two_packages() -> Machine {
    let machine = Machine::new("");
    for number in 0..2 {
        let folder = format!("/class/powercap/intel-rapl:{number}");
        machine.write(&format!("{folder}/name"), format!("package-{number}"));
        machine.write(&format!("{folder}/energy_uj"), 1_000_000_000);
        machine.write(
            &format!("{folder}/max_energy_range_uj"),
            262_143_328_850_u64,
        );
    }
    machine
}

#[test]
fn each_fault_degrades_its_zone_alone() {
    // What befalls the first package in the third second, and what is said. The meter counts on, or
    // has another value afterwards; so much of the 4 x 10 J is in the sum at the end.
    type Fault = fn(&Machine);
    let cases: [(&str, Fault, &str, u64); 7] = [
        (
            "EIO",
            |m| m.fail(PACKAGE, Some(EIO)),
            "Input/output error",
            40,
        ),
        (
            "EACCES",
            |m| m.fail(PACKAGE, Some(EACCES)),
            "Permission denied",
            40,
        ),
        (
            "ENODATA",
            |m| m.fail(PACKAGE, Some(ENODATA)),
            "No data available",
            40,
        ),
        (
            "disappears",
            |m| {
                m.remove("/class/powercap/intel-rapl:0");
                m.fail(PACKAGE, Some(ENODEV));
            },
            "No such device",
            10,
        ),
        (
            "jumps back",
            |m| m.write(PACKAGE, 5),
            "the counter jumped back",
            30,
        ),
        (
            "jumps ahead",
            |m| m.write(PACKAGE, 99_000_000_000_000_u64),
            "the counter jumped by more than the machine can use",
            30,
        ),
        (
            "writes words",
            |m| m.write(PACKAGE, "busy"),
            "not a whole number",
            40,
        ),
    ];
    for (name, fault, reason, joules) in cases {
        let machine = two_packages();
        let mut meters = machine.meters();
        let value = |second: u64| (1000 + 10 * second) * 1_000_000;
        let mut last_uj = 0;
        for second in 1..=4 {
            machine.pass(1);
            machine.write(OTHER, value(second));
            if second != 2 && !(second > 2 && name == "disappears") {
                let jumped = second > 2 && ["jumps back", "jumps ahead"].contains(&name);
                let base = match (jumped, name) {
                    (true, "jumps back") => 5,
                    (true, _) => 99_000_000_000_000,
                    _ => 0,
                };
                machine.write(
                    PACKAGE,
                    if jumped {
                        base + 10_000_000 * (second - 2)
                    } else {
                        value(second)
                    },
                );
                machine.fail(PACKAGE, None);
            }
            if second == 2 {
                fault(&machine);
            }
            let energy = meters.read().expect("there are meters");
            let (package, other) = (reading(&energy, "package-0"), reading(&energy, "package-1"));
            assert_eq!(
                other.energy_uj,
                second * 10_000_000,
                "{name}: the other goes on"
            );
            assert_eq!((other.state, other.gaps), (FeatureState::On, 0), "{name}");
            assert!(package.energy_uj >= last_uj, "{name}: it went down");
            assert!(package.energy_uj <= second * 10_000_000, "{name}: a spike");
            last_uj = package.energy_uj;
            let failed = second == 2 || (name == "disappears" && second > 2);
            let expected = failed.then_some(reason);
            assert_eq!(
                package.reason.as_deref(),
                expected,
                "{name}, second {second}"
            );
            assert_eq!(package.state == FeatureState::Degraded, failed, "{name}");
            assert_eq!(package.gaps, u64::from(second >= 2), "{name}: one gap");
        }
        assert_eq!(last_uj, joules * 1_000_000, "{name}");
    }
}

#[test]
fn a_failed_read_keeps_the_moments_of_the_last_good_one() {
    let machine = two_packages();
    let mut meters = machine.meters();
    machine.pass(1);
    let good = meters.read().expect("there are meters");
    machine.pass(1);
    machine.fail(PACKAGE, Some(EIO));
    let failed = meters.read().expect("there are meters");
    let moments = |energy| {
        let reading: &noctule_model::ZoneReading = reading(energy, "package-0");
        (reading.before_ns, reading.after_ns)
    };
    assert_eq!(moments(&failed), moments(&good));
}

#[test]
fn a_meter_that_stalls_is_told_and_goes_on() {
    let machine = two_packages();
    let mut meters = machine.meters();
    for second in 1..=12 {
        machine.pass(1);
        machine.write(OTHER, 1_000_000_000 + second);
        let energy = meters.read().expect("there are meters");
        let stalled = reading(&energy, "package-0");
        assert_eq!(stalled.gaps, u64::from(second >= 10), "second {second}");
        assert_eq!(reading(&energy, "package-1").gaps, 0);
    }
    machine.pass(1);
    machine.write(PACKAGE, 1_000_000_000 + 77);
    let energy = meters.read().expect("there are meters");
    let moved = reading(&energy, "package-0");
    assert_eq!((moved.energy_uj, moved.state), (77, FeatureState::On));
}

#[test]
fn a_meter_that_comes_late_is_appended() {
    let machine = two_packages();
    machine.fail(PACKAGE, Some(EACCES));
    let mut meters = machine.meters();
    let energy = meters.read().expect("the second package");
    assert_eq!(energy.zones.len(), 1);
    assert_eq!(meters.unread().len(), 1);
    machine.fail(PACKAGE, None);
    machine.write("/class/powercap/intel-rapl:2/name", "psys");
    machine.write("/class/powercap/intel-rapl:2/energy_uj", 5);
    machine.pass(9);
    assert_eq!(meters.read().expect("as before").zones.len(), 1);
    machine.pass(1);
    let energy = meters.read().expect("all");
    let names: Vec<_> = energy.zones.iter().map(|zone| zone.name.as_str()).collect();
    assert_eq!(names, ["package-1", "package-0", "psys"]);
    assert!(energy.zones[..2].iter().all(|zone| zone.parent == Some(2)));
    assert!(meters.unread().is_empty());
}

#[test]
fn a_counter_that_wraps_between_two_batches_is_read_meanwhile() {
    let machine = two_packages();
    machine.write(
        "/class/powercap/intel-rapl:0/max_energy_range_uj",
        90_000_000 - 1,
    );
    machine.write(PACKAGE, 0);
    let mut meters = machine.meters();
    // 30 W: it wraps every 3 s, and the batches are 30 s apart.
    let (mut used_uj, mut passed_ns) = (0, 0);
    while passed_ns < 30_000_000_000 {
        let step = meters.due_ns().expect("it wraps") - machine.now_ns();
        assert!(step > 0, "it is not read all the time");
        machine.pass_ns(step);
        passed_ns += step;
        used_uj += 30 * step / 1000;
        machine.write(PACKAGE, used_uj % 90_000_000);
        meters.poll();
    }
    let energy = meters.read().expect("there are meters");
    let wrapped = reading(&energy, "package-0");
    assert_eq!((wrapped.energy_uj, wrapped.gaps), (used_uj, 0));
}
