//! Idle power known before the first batch: learned in earlier runs, configured or published.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use noctule_analysis::{IdleKnowledge, LearnedIdle};

use crate::config::{Config, Host};

/// The agent's state directory, created by systemd (`StateDirectory=`), and its environment
/// variable. Other commands also read the directory, if they are permitted to.
const FOLDER: &str = "/var/lib/noctule";
const VARIABLE: &str = "STATE_DIRECTORY";
/// File name. The first line identifies the machine; each further line has seconds since 1970,
/// watts, half-width and path of a zone.
const FILE: &str = "idle-power";
/// Time between two writes.
const INTERVAL: Duration = Duration::from_secs(600);
/// Maximum size of the file. noctule writes no larger file.
const MOST_BYTES: u64 = 1 << 16;
/// Upper limit of any zone's power.
const MOST_WATTS: f64 = 50_000.0;

/// Returns the known idle power on this machine.
pub(crate) fn knowledge(config: &Config) -> IdleKnowledge {
    let folder = state_folder().unwrap_or_else(|| FOLDER.into());
    IdleKnowledge {
        learned: read(&folder.join(FILE), &machine(&config.host)).unwrap_or_default(),
        ..configured(config)
    }
}

/// Returns the configured idle power, without values learned on this machine.
pub(crate) fn configured(config: &Config) -> IdleKnowledge {
    let energy = &config.energy;
    let published = energy.wants_published_idle().then(|| {
        let text = fs::read_to_string(config.host.proc.join("cpuinfo")).unwrap_or_default();
        let share = published_share(&text);
        if share.is_none() {
            tracing::warn!(
                "energy.idle_power: no idle power is published for this processor; idle power is \
                 estimated within its bounds"
            );
        }
        share
    });
    IdleKnowledge {
        given: energy.given_idle(),
        published_share: published.flatten(),
        ..IdleKnowledge::default()
    }
}

/// Returns the agent's state directory, if it has one.
fn state_folder() -> Option<PathBuf> {
    let folders = std::env::var_os(VARIABLE)?;
    std::env::split_paths(&folders).next()
}

fn unix_seconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// Identifies the machine, to distinguish it from a machine with a copy of its disk. The result
/// consists of the system's id, the board's id (which virtual machines also have), and the
/// processor.
fn machine(host: &Host) -> String {
    let read = |path: PathBuf| fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read(host.proc.join("cpuinfo"));
    let parts = [
        read("/etc/machine-id".into()),
        read(host.sys.join("class/dmi/id/product_uuid")),
        field(&cpuinfo, "model name").unwrap_or_default().to_owned(),
    ];
    let known = parts.map(|part| match part.trim() {
        "" => "-".to_owned(),
        part => part.replace('\n', " "),
    });
    known.join(" ")
}

/// Reads the file; empty if another machine wrote it.
fn read(path: &Path, machine: &str) -> io::Result<Vec<LearnedIdle>> {
    if fs::metadata(path)?.len() > MOST_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let text = fs::read_to_string(path)?;
    let (of, learned) = text.split_once('\n').unwrap_or_default();
    if of != machine {
        tracing::info!(
            "learning idle power again, because {} is from another machine",
            path.display()
        );
        return Ok(Vec::new());
    }
    Ok(parse(learned, unix_seconds()))
}

/// Parses the lines, omitting invalid ones.
fn parse(text: &str, now: u64) -> Vec<LearnedIdle> {
    let line = |line: &str| {
        let mut words = line.splitn(4, ' ');
        let saved: u64 = words.next()?.parse().ok()?;
        let mut watts = || -> Option<f64> {
            let watts = words.next()?.parse().ok()?;
            (0.0..=MOST_WATTS).contains(&watts).then_some(watts)
        };
        let (watts, half_width) = (watts()?, watts()?);
        let path = words.next()?.to_owned();
        Some(LearnedIdle {
            path,
            watts,
            half_width,
            age_seconds: now.saturating_sub(saved),
        })
    };
    text.lines().filter_map(line).collect()
}

fn text(learned: &[LearnedIdle], now: u64) -> String {
    let lines = learned.iter().map(|it| {
        let saved = now.saturating_sub(it.age_seconds);
        format!("{saved} {:.3} {:.3} {}\n", it.watts, it.half_width, it.path)
    });
    lines.collect()
}

/// Replaces the file by renaming a new file, so that no reader sees a partial file.
fn write(folder: &Path, machine: &str, learned: &[LearnedIdle]) -> io::Result<()> {
    let new = folder.join(format!("{FILE}.new"));
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new();
    let mut file = file.write(true).create_new(true).mode(0o600).open(&new)?;
    let text = text(learned, unix_seconds());
    file.write_all(format!("{machine}\n{text}").as_bytes())?;
    fs::rename(&new, folder.join(FILE))
}

/// Saves learned idle power, if there is a state directory.
#[derive(Debug)]
pub(crate) struct IdleFile {
    folder: Option<PathBuf>,
    machine: String,
    written: Instant,
}

impl IdleFile {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            folder: state_folder(),
            machine: machine(&config.host),
            written: Instant::now(),
        }
    }

    /// Saves the learned values if that is due.
    pub(crate) fn keep(&mut self, learned: impl FnOnce() -> Vec<LearnedIdle>) {
        if self.folder.is_some() && self.written.elapsed() >= INTERVAL {
            self.write(&learned());
        }
    }

    /// Saves the learned values.
    pub(crate) fn write(&mut self, learned: &[LearnedIdle]) {
        self.written = Instant::now();
        let Some(folder) = self.folder.take_if(|_| !learned.is_empty()) else {
            return;
        };
        match write(&folder, &self.machine, learned) {
            Ok(()) => self.folder = Some(folder),
            Err(error) => tracing::warn!(
                "cannot save idle power for the next start: {}: {error}",
                folder.display()
            ),
        }
    }
}

/// Idle power as a share of full power, by processor. The values are from SPECpower_ssj2008 as
/// collected by Cloud Carbon Footprint (minimum and maximum watts per thread). The values apply to
/// whole servers; a package alone can have a lower share.
const PUBLISHED: [(&str, u32, &[u32], f64); 9] = [
    ("GenuineIntel", 6, &[0x2a, 0x2d], 2.17 / 8.58),
    ("GenuineIntel", 6, &[0x3a, 0x3e], 3.04 / 8.25),
    ("GenuineIntel", 6, &[0x3c, 0x3f, 0x45, 0x46], 1.90 / 6.01),
    ("GenuineIntel", 6, &[0x3d, 0x47, 0x4f, 0x56], 0.71 / 3.69),
    // Cascade Lake has the model number of Skylake servers, and nearly the same share (0.64 of 3.97
    // W).
    ("GenuineIntel", 6, &[0x4e, 0x55, 0x5e], 0.64 / 4.19),
    ("GenuineIntel", 6, &[0x8e, 0x9e], 1.14 / 5.42),
    // First, second and third generation EPYC.
    ("AuthenticAMD", 0x17, &[0x01], 0.82 / 2.55),
    ("AuthenticAMD", 0x17, &[0x31], 0.47 / 1.69),
    ("AuthenticAMD", 0x19, &[0x01], 0.45 / 1.87),
];

/// Returns the published share of the processor in `/proc/cpuinfo`.
fn published_share(cpuinfo: &str) -> Option<f64> {
    let field = |name| field(cpuinfo, name);
    let vendor = field("vendor_id")?;
    let family: u32 = field("cpu family")?.parse().ok()?;
    let model: u32 = field("model")?.parse().ok()?;
    let mut rows = PUBLISHED.iter();
    let row = rows.find(|row| (row.0, row.1) == (vendor, family) && row.2.contains(&model))?;
    Some(row.3)
}

/// Returns the first value with this name in `/proc/cpuinfo`.
fn field<'a>(cpuinfo: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = lines.find(|(key, _)| key.trim() == name)?;
    Some(value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn learned_idle_power_is_saved_and_invalid_lines_are_ignored() {
        let learned = [LearnedIdle {
            path: "/sys/class/powercap/intel-rapl:0".into(),
            watts: 20.5,
            half_width: 0.25,
            age_seconds: 0,
        }];
        let folder = tempfile::tempdir().expect("a folder");
        write(folder.path(), "this one", &learned).expect("it is written");
        write(folder.path(), "this one", &learned).expect("it is written again");
        let file = folder.path().join(FILE);
        let again = read(&file, "this one").expect("it is read");
        assert!(again[0].age_seconds < 60, "{again:?}");
        assert_eq!(again[0].path, learned[0].path);
        assert_eq!((again[0].watts, again[0].half_width), (20.5, 0.25));
        let other = read(&file, "a copy").expect("it is read");
        assert!(other.is_empty(), "{other:?}");
        let odd = "x 1 1 /a\n5 -1 1 /b\n5 1 NaN /c\n5 1\n5 1 1 /d e\n";
        let odd = parse(odd, 105);
        assert_eq!((odd.len(), odd[0].age_seconds), (1, 100));
        assert_eq!(odd[0].path, "/d e");
        // The age is preserved when the value is written again.
        assert_eq!(text(&odd, 200), "100 1.000 1.000 /d e\n");
    }

    #[test]
    fn only_known_processors_have_a_published_share() {
        let cpuinfo = |vendor: &str, family: u32, model: u32| {
            format!(
                "processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\nmodel name\t: X\n"
            )
        };
        let share = |vendor, family, model| published_share(&cpuinfo(vendor, family, model));
        assert!(share("GenuineIntel", 6, 0x3f).is_some_and(|share| (share - 0.316).abs() < 0.01));
        assert!(share("AuthenticAMD", 0x17, 0x31).is_some_and(|share| share < 0.3));
        assert_eq!(share("GenuineIntel", 6, 0xcf), None);
        assert_eq!(published_share("Processor : ARMv8"), None);
    }
}
