//! Reads the energy counters of the machine's PMUs.

use std::io;
use std::path::Path;

use perf_event::events::Dynamic;
use perf_event::{Builder, Counter};

/// An energy event, opened on one CPU of a package or core.
#[derive(Debug)]
pub struct EnergyEvent {
    counter: Counter,
    microjoules: f64,
}

impl EnergyEvent {
    /// Opens an event of the PMU with this directory in sysfs. The event starts to count
    /// immediately.
    pub fn open(pmu: &Path, event: &str, cpu: u32) -> io::Result<Self> {
        let mut dynamic = Dynamic::builder(pmu)?;
        dynamic.event(event)?;
        let unit = dynamic.unit()?;
        if unit.as_deref() != Some("Joules") {
            return Err(invalid(&format!("counts {}", unit.unwrap_or_default())));
        }
        let scale = dynamic.scale()?.ok_or_else(|| invalid("has no scale"))?;
        let event = dynamic
            .build()
            .map_err(|error| invalid(&error.to_string()))?;
        let mut counter = Builder::new(event)
            .any_pid()
            .one_cpu(cpu as usize)
            // An energy PMU cannot exclude the kernel or the hypervisor from a count.
            .include_kernel()
            .include_hv()
            .build()?;
        counter.enable()?;
        Ok(Self {
            counter,
            microjoules: scale * 1e6,
        })
    }

    /// Returns the microjoules since the event was opened.
    pub fn microjoules(&mut self) -> io::Result<u64> {
        Ok((self.counter.read()? as f64 * self.microjoules) as u64)
    }
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the event {why}"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// The CPU clock replaces a meter in this test: a nanosecond counts as a nanojoule.
    #[test]
    fn an_event_is_found_by_its_files_and_counts_microjoules() {
        let folder = tempfile::tempdir().expect("a folder");
        let pmu = folder.path();
        for (file, text) in [
            ("type", "1\n"),
            ("format/event", "config:0-7\n"),
            ("events/energy-pkg", "event=0x00\n"),
            ("events/energy-pkg.scale", "1e-9\n"),
            ("events/energy-pkg.unit", "Joules\n"),
            ("events/energy-odd", "event=0x00\n"),
            ("events/energy-odd.scale", "1\n"),
            ("events/energy-odd.unit", "Celsius\n"),
        ] {
            let path = pmu.join(file);
            fs::create_dir_all(path.parent().expect("it has one")).expect("a folder");
            fs::write(path, text).expect("written");
        }
        let odd = EnergyEvent::open(pmu, "energy-odd", 0).expect_err("no energy");
        assert_eq!(odd.to_string(), "the event counts Celsius");
        assert!(EnergyEvent::open(pmu, "energy-none", 0).is_err());
        // Without the privilege to count all processes, further checks are not possible.
        if let Ok(mut event) = EnergyEvent::open(pmu, "energy-pkg", 0) {
            let first = event.microjoules().expect("read");
            let mut now = first;
            while now < first + 1000 {
                now = event.microjoules().expect("read");
            }
        }
    }
}
