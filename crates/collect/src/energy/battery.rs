//! Batteries. A discharging battery supplies the whole machine.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use noctule_model::{EnergySource, ZoneKind};

use super::found::{Found, How, Input, Rank};
use super::source::{Attribute, Meter, Open, Value, line, number};

/// Why a battery that is charging or full measures nothing. This is not a fault.
pub const NOT_DISCHARGED: &str = "the battery is not being discharged";

/// Firmware updates a battery at most once per second.
const INTERVAL_MS: u64 = 1000;
/// An energy level falls by one step every few minutes.
const LEVEL_INTERVAL_MS: u64 = 10_000;

/// Finds the batteries of the machine, excluding those of devices such as mice.
pub(super) fn find(sys: &Path) -> Vec<Found> {
    let mut supplies: Vec<PathBuf> = fs::read_dir(sys.join("class/power_supply"))
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    supplies.sort();
    supplies.iter().filter_map(|it| battery(it)).collect()
}

fn battery(folder: &Path) -> Option<Found> {
    let says = |file: &str, word: &str| line(&folder.join(file)).is_some_and(|it| it == word);
    if !says("type", "Battery") || says("scope", "Device") {
        return None;
    }
    let has = |how: &How| how.files().iter().all(|file| folder.join(file).exists());
    let how = How::ALL.into_iter().find(has)?;
    let (interval_ms, resolution_uj) = match how {
        How::Power | How::Current => (INTERVAL_MS, INTERVAL_MS),
        // Firmware counts in tens of milliwatt-hours.
        How::Energy | How::Charge => (LEVEL_INTERVAL_MS, 36_000_000),
    };
    Some(Found {
        name: folder.file_name()?.to_string_lossy().into_owned(),
        kind: ZoneKind::Platform,
        socket: None,
        die: None,
        source: EnergySource::Battery,
        rank: Rank::BATTERY,
        resolution_uj,
        device: folder.to_owned(),
        input: Input::Battery { how, interval_ms },
    })
}

pub(super) struct Battery {
    status: Box<dyn Attribute>,
    how: How,
    files: Vec<Box<dyn Attribute>>,
    last: Option<Vec<i64>>,
}

impl Battery {
    pub(super) fn open(folder: &Path, how: How, files: &dyn Open) -> io::Result<Self> {
        let open = |file: &&str| files.open(&folder.join(file));
        Ok(Self {
            status: open(&"status")?,
            how,
            files: how.files().iter().map(open).collect::<io::Result<_>>()?,
            last: None,
        })
    }

    fn is_discharged(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 32];
        let length = self.status.text(&mut buffer)?;
        Ok(buffer[..length].starts_with(b"Discharging"))
    }
}

impl Meter for Battery {
    fn read(&mut self) -> io::Result<Value> {
        if !self.is_discharged()? {
            self.last = None;
            return Ok(Value::Idle(NOT_DISCHARGED));
        }
        let values = self.files.iter_mut().map(|file| number(file.as_mut()));
        let now = values.collect::<io::Result<Vec<_>>>()?;
        let last = self.last.replace(now.clone());
        Ok(match self.how {
            How::Power => Value::Power(now[0].abs()),
            // Some drivers report a negative current while the battery discharges.
            How::Current => Value::Power(product(now[0].abs(), now[1], 1_000_000)),
            // One microwatt-hour is 3,600 microjoules.
            How::Energy => {
                Value::Used(last.map(|last| product((last[0] - now[0]).max(0), 3600, 1)))
            }
            // One microampere-hour at one microvolt is 3.6 nanojoules.
            How::Charge => Value::Used(last.map(|last| {
                let charge = (last[0] - now[0]).max(0);
                product(36 * charge, last[1].midpoint(now[1]), 10_000)
            })),
        })
    }
}

fn product(one: i64, two: i64, divisor: i128) -> i64 {
    (i128::from(one) * i128::from(two) / divisor) as i64
}
