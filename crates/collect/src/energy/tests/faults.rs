//! Tests meters that fail: sums never decrease or jump, and other meters are not affected.

use noctule_model::{Energy, FeatureState, Unread};

use super::super::{Meters, NOTHING_COUNTED};
use super::machine::{Machine, read, reading};

const EIO: i32 = 5;
const EACCES: i32 = 13;
const ENODEV: i32 = 19;
const ENODATA: i32 = 61;

const PACKAGE: &str = "/class/powercap/intel-rapl:0/energy_uj";
const OTHER: &str = "/class/powercap/intel-rapl:1/energy_uj";

/// Creates two packages that have used 1,000 J each.
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
#[expect(clippy::too_many_lines, reason = "a table of faults")]
fn each_fault_degrades_only_its_zone() {
    // The fault of the first package in the third second, and the reported reason. Afterwards the
    // counter continues from its old value or from another. The last number is how much of the 4 x
    // 10 J is finally in the sum.
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
            let energy = read(&mut meters).expect("there are meters");
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
fn failed_read_keeps_the_last_good_times() {
    let machine = two_packages();
    let mut meters = machine.meters();
    machine.pass(1);
    let good = read(&mut meters).expect("there are meters");
    machine.pass(1);
    machine.fail(PACKAGE, Some(EIO));
    let failed = read(&mut meters).expect("there are meters");
    let moments = |energy| {
        let reading: &noctule_model::ZoneReading = reading(energy, "package-0");
        (reading.before_ns, reading.after_ns)
    };
    assert_eq!(moments(&failed), moments(&good));
}

#[test]
fn stalled_meter_is_reported_and_recovers() {
    let machine = two_packages();
    let mut meters = machine.meters();
    for second in 1..=12 {
        machine.pass(1);
        machine.write(OTHER, 1_000_000_000 + second);
        let energy = read(&mut meters).expect("there are meters");
        let stalled = reading(&energy, "package-0");
        let failed = second >= 10;
        assert_eq!(stalled.gaps, u64::from(failed), "second {second}");
        let failed_seconds = if failed { second } else { 0 };
        assert_eq!(stalled.failed_ns / 1_000_000_000, failed_seconds);
        assert_eq!(reading(&energy, "package-1").gaps, 0);
    }
    machine.pass(1);
    machine.write(PACKAGE, 1_000_000_000 + 77);
    let energy = read(&mut meters).expect("there are meters");
    let moved = reading(&energy, "package-0");
    assert_eq!((moved.energy_uj, moved.state), (77, FeatureState::On));
    assert_eq!(moved.failed_ns / 1_000_000_000, 13);
}

#[test]
fn late_meter_is_appended() {
    let machine = two_packages();
    machine.fail(PACKAGE, Some(EACCES));
    let mut meters = machine.meters();
    let energy = read(&mut meters).expect("the second package");
    assert_eq!(energy.zones.len(), 1);
    assert_eq!(meters.unread().len(), 1);
    machine.fail(PACKAGE, None);
    machine.write("/class/powercap/intel-rapl:2/name", "psys");
    machine.write("/class/powercap/intel-rapl:2/energy_uj", 5);
    machine.pass(9);
    assert_eq!(read(&mut meters).expect("as before").zones.len(), 1);
    machine.pass(1);
    let energy = read(&mut meters).expect("all");
    let names: Vec<_> = energy.zones.iter().map(|zone| zone.name.as_str()).collect();
    assert_eq!(names, ["package-1", "package-0", "psys"]);
    assert!(energy.zones[..2].iter().all(|zone| zone.parent == Some(2)));
    assert!(meters.unread().is_empty());
}

#[test]
fn counter_that_wraps_fast_is_read_between_batches() {
    let machine = two_packages();
    machine.write(
        "/class/powercap/intel-rapl:0/max_energy_range_uj",
        90_000_000 - 1,
    );
    let counted = |used_uj: u64| (30 + used_uj) % 90_000_000;
    machine.write(PACKAGE, counted(0));
    let mut meters = machine.meters();
    // At 30 W the counter wraps every 3 s, and batches are 30 s apart.
    let (mut used_uj, mut passed_ns) = (0, 0);
    while passed_ns < 30_000_000_000 {
        let step = meters.due_ns().expect("it wraps") - machine.now_ns();
        assert!(step > 0, "it is not read all the time");
        machine.pass_ns(step);
        passed_ns += step;
        used_uj += 30 * step / 1000;
        machine.write(PACKAGE, counted(used_uj));
        meters.poll();
    }
    let energy = read(&mut meters).expect("there are meters");
    let wrapped = reading(&energy, "package-0");
    assert_eq!((wrapped.energy_uj, wrapped.gaps), (used_uj, 0));
}

#[test]
fn counter_at_zero_is_no_meter_until_it_moves() {
    let machine = two_packages();
    machine.write(PACKAGE, 0);
    let mut meters = machine.meters();
    let names = |meters: &Meters| {
        let zones = meters.zones().iter();
        zones.map(|zone| zone.name.clone()).collect::<Vec<_>>()
    };
    let silent = |meters: &Meters| {
        let unread = meters.unread().iter();
        let words = unread.map(|it| (it.zone.name.clone(), it.why.clone()));
        words.collect::<Vec<_>>()
    };
    let why = Unread::Refused(NOTHING_COUNTED.to_owned());
    // The meter that counted nothing stays refused across a search for new meters.
    for _ in 0..3 {
        assert_eq!(names(&meters), ["package-1"]);
        assert_eq!(silent(&meters), [("package-0".to_owned(), why.clone())]);
        machine.pass(7);
        let energy = read(&mut meters).expect("there is a meter");
        assert_eq!(energy.readings.len(), 1);
    }
    meters.has_changed();
    // A failed read after suspension says nothing about the counter.
    machine.fail(PACKAGE, Some(EIO));
    machine.suspend(3600);
    read(&mut meters).expect("there is a meter");
    machine.fail(PACKAGE, None);
    assert_eq!(names(&meters), ["package-1"]);
    machine.pass(1);
    read(&mut meters).expect("there is a meter");
    machine.pass(1);
    machine.write(PACKAGE, 5_000_000);
    let energy = read(&mut meters).expect("there are meters");
    assert_eq!(names(&meters), ["package-1", "package-0"]);
    assert_eq!(silent(&meters), []);
    assert!(meters.has_changed());
    assert_eq!(reading(&energy, "package-0").energy_uj, 5_000_000);
}

#[test]
fn power_is_integrated_between_batches_despite_faults() {
    let machine = Machine::new(
        "/class/hwmon/hwmon0/name = ltc4245\n/class/hwmon/hwmon0/power1_input = 20000000\n\
         /class/hwmon/hwmon1/name = power_meter\n/class/hwmon/hwmon1/power1_average = 100000000\n\
         /class/hwmon/hwmon1/power1_average_interval = 1000",
    );
    let power = "/class/hwmon/hwmon0/power1_input";
    let mut meters = machine.meters();
    let run = |meters: &mut Meters, seconds: u64| {
        let until = machine.now_ns() + seconds * 1_000_000_000;
        while let Some(due) = meters.due_ns().filter(|due| *due <= until) {
            machine.pass_ns(due - machine.now_ns());
            meters.poll();
        }
        machine.pass_ns(until - machine.now_ns());
        read(meters).expect("there are meters")
    };
    let joules = |energy: &Energy, name: &str| reading(energy, name).energy_uj / 1_000_000;
    let (chip, whole) = ("ltc4245 power1", "power_meter power1");
    let energy = run(&mut meters, 10);
    assert_eq!((joules(&energy, chip), joules(&energy, whole)), (200, 1000));
    // Half a second without a response is interpolated. An implausible value does not add a spike.
    for (value, errno) in [
        ("20000000", Some(EIO)),
        ("99999999999999", None),
        ("-5", None),
    ] {
        let before = run(&mut meters, 1);
        machine.write(power, value);
        machine.fail(power, errno);
        let faulty = run(&mut meters, 1);
        assert_eq!(
            reading(&faulty, chip).state,
            FeatureState::Degraded,
            "{value}"
        );
        machine.write(power, 20_000_000);
        machine.fail(power, None);
        let after = run(&mut meters, 2);
        assert_eq!(joules(&after, chip) - joules(&before, chip), 60, "{value}");
        assert_eq!(
            joules(&after, whole) - joules(&before, whole),
            300,
            "{value}"
        );
        assert_eq!(reading(&after, chip).gaps, reading(&before, chip).gaps + 1);
        assert_eq!(reading(&after, whole).gaps, 0);
    }
    // The energy during a long silence is not estimated.
    let before = run(&mut meters, 1);
    machine.fail(power, Some(EIO));
    run(&mut meters, 60);
    machine.fail(power, None);
    let after = run(&mut meters, 10);
    let used = joules(&after, chip) - joules(&before, chip);
    assert!((195..=200).contains(&used), "{used} J");
}

#[test]
fn hanging_driver_does_not_block_other_meters() {
    let machine = two_packages();
    machine.write("/class/hwmon/hwmon0/name", "ltc4245");
    machine.write("/class/hwmon/hwmon0/power1_input", 20_000_000);
    let mut meters = machine.meters_by(true);
    let state = |energy: &Energy| reading(energy, "ltc4245 power1").state;
    let hang = machine.hang();
    // A sample may be in progress. No other sample follows it.
    let mut energy = read(&mut meters).expect("there are meters");
    while state(&energy) == FeatureState::On {
        meters.prepare();
        machine.pass(11);
        machine.write(PACKAGE, machine.now_ns() / 1000);
        energy = read(&mut meters).expect("there are meters");
    }
    let silent = reading(&energy, "ltc4245 power1");
    let reason = "the sensor's driver does not respond";
    assert_eq!(silent.reason.as_deref(), Some(reason));
    assert_eq!(silent.gaps, 1);
    assert_eq!(reading(&energy, "package-0").state, FeatureState::On);
    drop(hang);
    while state(&energy) != FeatureState::On {
        meters.prepare();
        energy = read(&mut meters).expect("there are meters");
    }
    assert!(reading(&energy, "ltc4245 power1").gaps >= 1);
}

#[test]
fn battery_counts_only_while_discharging() {
    // Files with the battery's state, and the joules used in 60 s.
    let cases: [(&[(&str, i64)], u64); 4] = [
        (&[("power_now", 9_000_000), ("energy_now", 40_000_000)], 540),
        // Some drivers report negative values while discharging.
        (
            &[("current_now", -750_000), ("voltage_now", 12_000_000)],
            540,
        ),
        // 0.15 Wh in 60 s.
        (&[("energy_now", 40_000_000)], 540),
        (
            &[("charge_now", 3_000_000), ("voltage_now", 12_000_000)],
            540,
        ),
    ];
    for (files, joules) in cases {
        let machine = Machine::new(
            "/class/power_supply/BAT0/type = Battery\n/class/power_supply/BAT0/status = Charging",
        );
        let write = |file: &str, value: i64| {
            machine.write(&format!("/class/power_supply/BAT0/{file}"), value);
        };
        for (file, value) in files {
            write(file, *value);
        }
        let mut meters = machine.meters();
        assert_eq!(read(&mut meters), None, "it is charged");
        machine.write("/class/power_supply/BAT0/status", "Discharging");
        machine.pass(10);
        assert_eq!(
            read(&mut meters).map(|it| it.readings[0].energy_uj),
            Some(0)
        );
        for second in 1..=60 {
            machine.pass(1);
            for (file, value) in files {
                let falls = match *file {
                    "energy_now" => 2500 * second,
                    "charge_now" => 2500 * second / 12,
                    _ => 0,
                };
                write(file, value - falls);
            }
            meters.poll();
        }
        let energy = read(&mut meters).expect("a battery");
        let used = energy.readings[0].energy_uj;
        let off = used.abs_diff(joules * 1_000_000);
        assert!(off < 100_000, "{files:?}: {used} uJ");
        assert_eq!(energy.readings[0].gaps, 0);
        machine.write("/class/power_supply/BAT0/status", "Full");
        machine.pass(20);
        let mains = read(&mut meters).expect("it stays");
        assert_eq!(mains.readings[0].energy_uj, used);
        assert_eq!(
            mains.readings[0].reason.as_deref(),
            Some("the battery is not being discharged")
        );
        assert_eq!(mains.readings[0].gaps, 1);
    }
}

#[test]
fn energy_used_during_suspend_is_charged_to_no_process() {
    // The counter after an hour of suspension: it continued, stopped or restarted.
    for after in [1_200_000_000_u64, 1_010_000_000, 3] {
        let machine = two_packages();
        machine.write("/class/hwmon/hwmon0/name", "ltc4245");
        machine.write("/class/hwmon/hwmon0/power1_input", 20_000_000);
        machine.write("/class/power_supply/BAT0/type", "Battery");
        machine.write("/class/power_supply/BAT0/status", "Discharging");
        machine.write("/class/power_supply/BAT0/energy_now", 40_000_000);
        let mut meters = machine.meters();
        let second = |meters: &mut Meters| {
            machine.pass(1);
            read(meters).expect("there are meters")
        };
        machine.write(PACKAGE, 1_010_000_000);
        let awake = second(&mut meters);
        machine.suspend(3600);
        machine.write(PACKAGE, after);
        machine.write("/class/power_supply/BAT0/energy_now", 30_000_000);
        let resumed = second(&mut meters);
        let names = ["package-0", "ltc4245 power1", "BAT0"];
        for name in names {
            let [before, now] = [&awake, &resumed].map(|it| reading(it, name).energy_uj);
            assert_eq!(before, now, "{name}, {after}");
            assert_eq!(reading(&resumed, name).gaps, 1, "{name}");
            let reason = reading(&resumed, name).reason.as_deref().expect("a reason");
            assert!(reason.starts_with("the machine was suspended"), "{reason}");
        }
        machine.write(PACKAGE, after + 7_000_000);
        let later = second(&mut meters);
        let used = |energy: &Energy, name| reading(energy, name).energy_uj;
        assert_eq!(used(&later, "package-0"), 17_000_000);
        assert_eq!(
            used(&later, names[1]) - used(&resumed, names[1]),
            20_000_000
        );
        for name in names {
            assert_eq!(reading(&later, name).state, FeatureState::On, "{name}");
        }
    }
}

#[test]
fn lost_energy_is_distinguished_from_late_energy() {
    const SENSOR: &str = "/class/hwmon/hwmon0/power1_input";
    const LEVEL: &str = "/class/power_supply/BAT0/energy_now";
    const STATUS: &str = "/class/power_supply/BAT0/status";
    // The meter, its fault, the duration of the fault in seconds, and how many milliseconds are
    // lost permanently. The sensor is sampled every 250 ms and the level every 10 s, and both again
    // after a failed read.
    type Change<'a> = &'a dyn Fn(&Machine);
    let eio = |file| move |machine: &Machine| machine.fail(file, Some(EIO));
    let works = |file| move |machine: &Machine| machine.fail(file, None);
    let write = |file, value: &'static str| move |machine: &Machine| machine.write(file, value);
    let sleep = |machine: &Machine| machine.suspend(3600);
    let nothing = |_: &Machine| {};
    let (package, sensor, level) = ("package-0", "ltc4245 power1", "BAT0");
    let cases: [(&str, u64, Change, Change, u64); 9] = [
        (package, 8, &eio(PACKAGE), &works(PACKAGE), 0),
        (package, 1, &sleep, &nothing, 1000),
        (sensor, 3, &eio(SENSOR), &works(SENSOR), 0),
        (sensor, 8, &eio(SENSOR), &works(SENSOR), 8250),
        (
            sensor,
            3,
            &write(SENSOR, "-5"),
            &write(SENSOR, "18000000"),
            0,
        ),
        (
            sensor,
            8,
            &write(SENSOR, "-5"),
            &write(SENSOR, "18000000"),
            8250,
        ),
        (sensor, 1, &sleep, &nothing, 250),
        (level, 20, &eio(LEVEL), &works(LEVEL), 21_000),
        (
            level,
            20,
            &write(STATUS, "Full"),
            &write(STATUS, "Discharging"),
            21_000,
        ),
    ];
    for (place, (name, seconds, begin, end, lost_ms)) in cases.into_iter().enumerate() {
        let machine = two_packages();
        machine.write("/class/hwmon/hwmon0/name", "ltc4245");
        machine.write(SENSOR, 18_000_000);
        machine.write("/class/power_supply/BAT0/type", "Battery");
        machine.write(STATUS, "Discharging");
        machine.write(LEVEL, 40_000_000);
        let mut meters = machine.meters();
        let start_ns = machine.now_ns();
        // The machine uses 18 W.
        let pass = |ns: u64| {
            machine.pass_ns(ns);
            let passed_ns = machine.now_ns() - start_ns;
            machine.write(PACKAGE, 1_000_000_000 + 18 * passed_ns / 1000);
            machine.write(LEVEL, 40_000_000 - passed_ns / 200_000);
        };
        let mut second = || {
            let until_ns = machine.now_ns() + 1_000_000_000;
            while let Some(due_ns) = meters.due_ns().filter(|due_ns| *due_ns < until_ns) {
                pass(due_ns - machine.now_ns());
                meters.poll();
            }
            pass(until_ns - machine.now_ns());
            let energy = read(&mut meters).expect("there are meters");
            reading(&energy, name).clone()
        };
        second();
        begin(&machine);
        let mut last = (0..seconds).map(|_| second()).last().expect("some");
        end(&machine);
        for _ in 0..2 {
            last = second();
        }
        assert_eq!(last.lost_ns, lost_ms * 1_000_000, "case {place}");
        let known_ns = last.before_ns - start_ns - last.lost_ns;
        assert_eq!(last.energy_uj, 18 * known_ns / 1000, "case {place}");
    }
}
