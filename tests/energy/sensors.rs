//! Tests of power sensors with their real drivers. The test writes the power of an ACPI meter to a
//! port, and the registers of a chip on an I2C bus. One of the virtual machines has these devices.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use noctule_collect::Meters;
use noctule_model::{EnergySource, FeatureState, Node, ZoneKind, ZoneReading};

use super::super::support::expect::skip_because;
use super::super::support::{self, wait_for, wait_until};
use super::{moment, now_ns};

/// Port from which the ACPI meter reads its watts: `vm/sensors`.
const PORT: u64 = 0x82;
/// Address of the chip on its bus.
const CHIP: &str = "0x23";

/// Time over which the test integrates power.
const STRETCH: Duration = Duration::from_secs(3);

type Power = fn(i64, i64) -> i64;

/// Registers of the chip (voltage, current), and the conversion of their steps to microwatts. Volts
/// and ohms come from the data sheet, as in the driver.
const CHANNELS: [(u8, u8, Power); 4] = [
    (0x10, 0x11, |v, i| (v * 55) * (i * 250 / 50)),
    (0x13, 0x14, |v, i| (v * 22) * (i * 125 * 10 / 35)),
    (0x16, 0x17, |v, i| (v * 15) * (i * 125 * 10 / 25)),
    (0x19, 0x1a, |v, i| (v * 55) * (i * 250 / 100)),
];

/// Returns whether the machine has no sensors. The test is then reported as skipped.
fn lacks_sensors() -> bool {
    let lacks = !Path::new("/sys/bus/acpi/devices/ACPI000D:00").exists();
    if lacks {
        skip_because("the machine has no power sensors: `--kernel 6.1-full` does");
    }
    lacks
}

/// Returns the directory of a hardware monitor.
fn monitor(name: &str) -> Option<PathBuf> {
    let entries = fs::read_dir("/sys/class/hwmon").expect("hardware monitors");
    let mut folders = entries.flatten().map(|entry| entry.path());
    folders.find(|folder| {
        let names = [folder.join("name"), folder.join("device/name")];
        let mut names = names
            .iter()
            .filter_map(|file| fs::read_to_string(file).ok());
        names.next().is_some_and(|text| text.trim() == name)
    })
}

fn set_watts(watts: u8) {
    let port = File::options().write(true).open("/dev/port");
    let port = port.expect("the ports");
    port.write_all_at(&[watts], PORT).expect("it is written");
    let folder = monitor("power_meter").expect("the meter of ACPI");
    let uw = format!("{watts}000000\n");
    wait_until("the driver has it", || {
        let places = [folder.clone(), folder.join("device")];
        let shown = places.map(|it| fs::read_to_string(it.join("power1_average")));
        shown.into_iter().flatten().any(|text| text == uw)
    });
}

/// Returns the bus of the chip.
fn bus() -> String {
    let entries = fs::read_dir("/sys/bus/i2c/devices").expect("the buses");
    let mut names = entries.flatten().map(|entry| entry.path());
    let bus = names.find(|path| {
        let name = fs::read_to_string(path.join("name"));
        name.is_ok_and(|name| name.starts_with("SMBus stub"))
    });
    let bus = bus.expect("the bus of registers");
    bus.file_name().expect("a name").to_string_lossy().into()
}

/// Writes a register directly, bypassing the driver.
fn set_register(register: u8, value: u8) {
    let bus = bus();
    let number = bus.strip_prefix("i2c-").expect("its number");
    // busybox always reads a register number as hexadecimal. For a value, the prefix decides.
    let (register, value) = (format!("{register:#x}"), value.to_string());
    let args = ["-f", "-y", number, CHIP, &register, &value, "b"];
    let output = Command::new("i2cset").args(args).output();
    let output = output.expect("i2cset");
    assert!(output.status.success(), "{output:?}");
}

/// Adds the chip to its bus, or removes it.
fn set_chip(there: bool) {
    let bus = Path::new("/sys/bus/i2c/devices").join(bus());
    let (file, text) = match there {
        true => ("new_device", format!("ltc4245 {CHIP}")),
        false => ("delete_device", CHIP.to_owned()),
    };
    if there != monitor("ltc4245").is_some() {
        fs::write(bus.join(file), text).expect("the chip");
    }
}

/// Returns fresh readings of all zones.
fn fresh(meters: &mut Meters) -> Vec<ZoneReading> {
    let asked = now_ns();
    meters.prepare();
    wait_for("every sensor has a sample", || {
        let energy = meters.read(&Node::default(), now_ns()).expect("a meter");
        let new = |it: &ZoneReading| it.before_ns >= asked || it.state != FeatureState::On;
        energy.readings.iter().all(new).then_some(energy.readings)
    })
}

/// Checks the power between two readings exactly, at the moments of those readings.
fn assert_power(what: &str, one: &ZoneReading, two: &ZoneReading, power_uw: i64) {
    let middle = |it: &ZoneReading| it.before_ns.midpoint(it.after_ns);
    let lasted = i128::from(middle(two) - middle(one));
    let truth = i128::from(power_uw) * lasted / 1_000_000_000;
    let counted = i128::from(two.energy_uj - one.energy_uj);
    assert!(
        (counted - truth).abs() <= 1,
        "{what}: {counted} uJ, but {truth} were used"
    );
    assert_eq!(two.gaps, one.gaps, "{what}: {:?}", two.reason);
}

#[test]
fn an_acpi_meter_shows_the_set_power() {
    let _machine = support::shared();
    needs_a_virtual_machine!();
    if lacks_sensors() {
        return;
    }
    set_watts(120);
    let mut meters = Meters::probe(Path::new("/sys"), Arc::new(moment), None);
    let acpi = |it: &noctule_model::Zone| it.source == EnergySource::AcpiPower;
    let zones = meters.zones().to_vec();
    let at = zones.iter().position(acpi).expect("its zone");
    assert_eq!(zones[at].kind, ZoneKind::Platform);
    // The averaging interval of the meter.
    assert_eq!(zones[at].update_ns, 1_000_000_000);
    let mut last = fresh(&mut meters)[at].clone();
    for watts in [120, 255, 1] {
        set_watts(watts);
        let one = fresh(&mut meters)[at].clone();
        assert!(one.energy_uj >= last.energy_uj);
        thread::sleep(STRETCH);
        let two = fresh(&mut meters)[at].clone();
        assert_power(
            &format!("{watts} W"),
            &one,
            &two,
            i64::from(watts) * 1_000_000,
        );
        last = two;
    }
}

#[test]
fn noctule_energy_reports_the_joules_of_an_acpi_meter() {
    let _machine = support::shared();
    needs_a_virtual_machine!();
    if lacks_sensors() {
        return;
    }
    set_watts(77);
    let answer = support::json(&["energy", "--json", "--for", "5s"]);
    let mut zones = answer["zones"].as_array().expect("zones").iter();
    let zone = zones.find(|it| it["source"] == "acpi_integrated");
    let zone = zone.expect("its zone");
    let joules = zone["joules"].as_f64().expect("joules");
    let seconds = answer["window_seconds"].as_f64().expect("seconds");
    let watts = joules / seconds;
    assert!((watts / 77.0 - 1.0).abs() < 0.01, "{watts} W: {answer}");
    let said = support::noctule(&["doctor"]).stdout;
    let said = String::from_utf8_lossy(&said);
    let line = said.lines().find(|line| line.contains("by acpi"));
    let line = line.expect("doctor lists it");
    assert!(line.contains("power_meter power1 (platform)"), "{line}");
}

#[test]
fn a_sensor_on_a_bus_may_appear_and_disappear() {
    let _machine = support::shared();
    needs_a_virtual_machine!();
    if lacks_sensors() {
        return;
    }
    for (at, (voltage, current, _)) in CHANNELS.iter().enumerate() {
        set_register(*voltage, 200 + at as u8);
        set_register(*current, 30 * (at as u8 + 1));
    }
    set_chip(true);
    let mut meters = Meters::probe(Path::new("/sys"), Arc::new(moment), None);
    let zones = meters.zones().to_vec();
    let at = |name: &str| zones.iter().position(|zone| zone.name == name);
    let places: Vec<usize> = (1..=4)
        .map(|number| at(&format!("ltc4245 power{number}")).expect("a zone"))
        .collect();
    for place in &places {
        assert_eq!(zones[*place].source, EnergySource::HwmonPower);
        assert_eq!(zones[*place].kind, ZoneKind::Other);
    }
    let one = fresh(&mut meters);
    thread::sleep(STRETCH);
    let two = fresh(&mut meters);
    for (number, place) in places.iter().enumerate() {
        let (_, _, power) = CHANNELS[number];
        let power_uw = power(200 + number as i64, 30 * (number as i64 + 1));
        assert!(power_uw > 1_000_000, "{power_uw}");
        let what = &zones[*place].name;
        assert_power(what, &one[*place], &two[*place], power_uw);
    }

    set_chip(false);
    let gone = wait_for("the chip is missed", || {
        let now = fresh(&mut meters);
        let missed = |place: &usize| now[*place].state == FeatureState::Degraded;
        places.iter().all(missed).then_some(now)
    });
    let acpi = at("power_meter power1").expect("the meter of ACPI");
    assert_eq!(gone[acpi].state, FeatureState::On);
    set_chip(true);
    let back = wait_for("the chip is read again", || {
        let now = fresh(&mut meters);
        let on = |place: &usize| now[*place].state == FeatureState::On;
        places.iter().all(on).then_some(now)
    });
    for place in places {
        assert_eq!(gone[place].gaps, two[place].gaps + 1);
        assert_eq!(back[place].gaps, gone[place].gaps);
        assert!(back[place].energy_uj >= gone[place].energy_uj);
    }
}
