//! The effective configuration: the file, overridden by the command line.

mod energy;
mod events;
mod metrics;
mod otlp;
mod rings;
mod tape;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use noctule_analysis::{JudgeOptions, Thresholds};
use noctule_model::Level;
use serde::Deserialize;

use crate::args::{self, RunArgs};
use crate::bounded;
use crate::exit::Usage;
use energy::EnergyConfig;
pub(crate) use energy::Host;
pub(crate) use events::Arguments;
use events::Events;
use metrics::Metrics;
pub(crate) use otlp::{Otlp, OtlpEvents};
pub(crate) use rings::RingSize;
use tape::Tape;

/// All settings. `deploy/noctule.toml` lists each option with its default.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    pub(crate) host: Host,
    pub(crate) collect: Collect,
    pub(crate) energy: EnergyConfig,
    pub(crate) events: Events,
    pub(crate) metrics: Metrics,
    pub(crate) otlp: Otlp,
    pub(crate) tape: Tape,
    pub(crate) verdicts: Verdicts,
    pub(crate) web: Web,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Collect {
    pub(crate) interval_seconds: f64,
    pub(crate) unwatched_interval_seconds: f64,
    pub(crate) hardware_counters: bool,
    pub(crate) page_cache: bool,
    pub(crate) softirqs: bool,
    pub(crate) waits: bool,
    pub(crate) disks: bool,
    pub(crate) blame_rows: u32,
    pub(crate) cgroup_rows: u32,
    pub(crate) process_rows: u32,
    pub(crate) ring_bytes: u32,
    pub(crate) dead_cgroup_memory_seconds: f64,
    pub(crate) program_cost: ProgramCost,
}

impl Default for Collect {
    fn default() -> Self {
        Self {
            interval_seconds: 1.0,
            unwatched_interval_seconds: 1.0,
            hardware_counters: true,
            page_cache: true,
            softirqs: true,
            waits: true,
            disks: false,
            blame_rows: 16_384,
            cgroup_rows: 4096,
            process_rows: 16_384,
            ring_bytes: 0,
            dead_cgroup_memory_seconds: 300.0,
            program_cost: ProgramCost::Auto,
        }
    }
}

/// Whether the cost of the BPF programs is measured.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ProgramCost {
    /// Measured unless a CPU is isolated.
    Auto,
    On,
    Off,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Verdicts {
    pub(crate) wait_share: f64,
    pub(crate) wait_seconds_per_second: f64,
    pub(crate) culprit_share: f64,
    pub(crate) baseline_factor: f64,
    pub(crate) window_seconds: f64,
    pub(crate) baseline_seconds: f64,
}

impl Default for Verdicts {
    fn default() -> Self {
        let Thresholds {
            wait_share,
            wait_seconds_per_second,
            culprit_share,
            baseline_factor,
        } = Thresholds::default();
        Self {
            wait_share,
            wait_seconds_per_second,
            culprit_share,
            baseline_factor,
            window_seconds: 10.0,
            baseline_seconds: 300.0,
        }
    }
}

impl Verdicts {
    /// Returns the options for continuous verdicts.
    pub(crate) fn judge(&self) -> JudgeOptions {
        JudgeOptions {
            level: Level::Container,
            window_ns: (self.window_seconds * 1e9) as u64,
            baseline_ns: (self.baseline_seconds * 1e9) as u64,
            thresholds: self.thresholds(),
        }
    }

    pub(crate) fn thresholds(&self) -> Thresholds {
        Thresholds {
            wait_share: self.wait_share,
            wait_seconds_per_second: self.wait_seconds_per_second,
            culprit_share: self.culprit_share,
            baseline_factor: self.baseline_factor,
        }
    }
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Web {
    #[serde(deserialize_with = "address")]
    pub(crate) listen: SocketAddr,
    pub(crate) plain_http: bool,
    pub(crate) config: PathBuf,
    pub(crate) hosts: Vec<String>,
    pub(crate) events: bool,
    pub(crate) processes: ShownProcesses,
}

/// Whether clients of the port can see processes: their names, command lines and events.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ShownProcesses {
    /// Like /proc: hidden if /proc hides processes from other users.
    #[default]
    Auto,
    Show,
    Hide,
}

impl ShownProcesses {
    /// Returns whether processes are shown. `hidepid` is set if /proc hides them.
    pub(crate) fn are_shown(self, hidepid: bool) -> bool {
        match self {
            Self::Auto => !hidepid,
            Self::Show => true,
            Self::Hide => false,
        }
    }
}

fn address<'de, D: serde::Deserializer<'de>>(from: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(from)?;
    args::address(&text).map_err(|error| serde::de::Error::custom(format!("{text:?} {error}")))
}

impl Web {
    /// Returns the path of the web configuration, if there is one.
    pub(crate) fn config(&self) -> Option<&Path> {
        (!self.config.as_os_str().is_empty()).then_some(&self.config)
    }
}

impl Default for Web {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 9470)),
            plain_http: false,
            config: PathBuf::new(),
            hosts: Vec::new(),
            events: true,
            processes: ShownProcesses::default(),
        }
    }
}

impl Config {
    /// Reads the file, if one is given.
    pub(crate) fn load(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path else {
            return Ok(Self::default());
        };
        let place = || Usage(format!("configuration {}", path.display()));
        let text = bounded::settings(path).with_context(place)?;
        let config = Self::parse(&text).with_context(place)?;
        config.check().with_context(place)?;
        Ok(config)
    }

    fn parse(text: &str) -> Result<Self, Usage> {
        toml::from_str(text).map_err(|error| {
            let hint = nearest(error.message())
                .map_or(String::new(), |word| format!("did you mean `{word}`?\n"));
            Usage(format!("{}{hint}", shortened(&error.to_string())))
        })
    }

    /// Overrides settings with the command line.
    pub(crate) fn with(mut self, args: &RunArgs) -> Result<Self> {
        if let Some(listen) = args.listen {
            self.web.listen = listen;
        }
        if let Some(interval) = args.interval {
            self.collect.interval_seconds = interval.as_secs_f64();
        }
        if let Some(file) = &args.events {
            self.events.file.clone_from(file);
        }
        if let Some(bytes) = args.events_size {
            self.events.file_bytes = bytes;
        }
        if let Some(keep) = args.events_keep {
            self.events.file_keep = keep;
        }
        if let Some(folder) = &args.tape {
            self.tape.folder.clone_from(folder);
        }
        self.web.plain_http |= args.allow_plain_http;
        if let Some(file) = &args.web_config {
            self.web.config.clone_from(file);
        }
        self.metrics.processes |= args.process_metrics;
        if let Some(names) = args.names {
            self.metrics.names = names;
        }
        self.check()?;
        Ok(self)
    }

    fn check(&self) -> Result<(), Usage> {
        self.host.check()?;
        for (name, value, least, most) in self
            .numbers()
            .into_iter()
            .chain(self.energy.model.numbers())
            .chain(self.metrics.numbers())
            .chain(self.otlp.numbers())
        {
            within(name, value, least, most)?;
        }
        let counts = self.counts().into_iter().chain(self.events.counts());
        let counts = counts
            .chain(self.metrics.counts())
            .chain(self.otlp.counts());
        for (name, value, least, most) in counts {
            within(name, value, least, most)?;
        }
        self.energy.check()?;
        self.tape.check()?;
        self.otlp.check()?;
        self.metrics.choice()?;
        // Whether TLS is on is known only after reading the web configuration.
        self.may_serve(self.web.listen, self.web.config().is_some())
    }

    /// Returns an error if the data must not be served on this address.
    pub(crate) fn may_serve(&self, address: SocketAddr, tls: bool) -> Result<(), Usage> {
        if address.ip().is_loopback() || self.web.plain_http || tls {
            return Ok(());
        }
        Err(Usage(format!(
            "{address} is not a loopback address: anyone who can reach it could read the data of \
             all users of this machine; enable TLS (--web-config) or pass --allow-plain-http"
        )))
    }

    fn numbers(&self) -> [(&'static str, f64, f64, f64); 9] {
        [
            (
                "collect.interval_seconds (--interval)",
                self.collect.interval_seconds,
                0.01,
                3600.0,
            ),
            (
                "collect.unwatched_interval_seconds",
                self.collect.unwatched_interval_seconds,
                0.01,
                3600.0,
            ),
            (
                "collect.dead_cgroup_memory_seconds",
                self.collect.dead_cgroup_memory_seconds,
                0.0,
                86_400.0,
            ),
            ("verdicts.wait_share", self.verdicts.wait_share, 0.001, 1.0),
            (
                "verdicts.wait_seconds_per_second",
                self.verdicts.wait_seconds_per_second,
                0.0,
                1000.0,
            ),
            (
                "verdicts.culprit_share",
                self.verdicts.culprit_share,
                0.001,
                1.0,
            ),
            (
                "verdicts.baseline_factor",
                self.verdicts.baseline_factor,
                1.0,
                1e6,
            ),
            (
                "verdicts.window_seconds",
                self.verdicts.window_seconds,
                0.1,
                3600.0,
            ),
            (
                "verdicts.baseline_seconds",
                self.verdicts.baseline_seconds,
                0.0,
                86_400.0,
            ),
        ]
    }

    fn counts(&self) -> [Count; 4] {
        [
            (
                "collect.cgroup_rows",
                u64::from(self.collect.cgroup_rows),
                1,
                1 << 20,
            ),
            (
                "collect.blame_rows",
                u64::from(self.collect.blame_rows),
                1,
                1 << 22,
            ),
            (
                "collect.process_rows",
                u64::from(self.collect.process_rows),
                1,
                1 << 22,
            ),
            (
                "collect.ring_bytes (0: based on the number of CPUs)",
                RingSize::asked(self.collect.ring_bytes),
                RingSize::LEAST,
                1 << 28,
            ),
        ]
    }

    /// Returns this configuration with waits only if `needed`. Waits are half of the verifier's work
    /// at the start.
    pub(crate) fn with_waits_if(&self, needed: bool) -> Self {
        let mut config = self.clone();
        config.collect.waits &= needed;
        config
    }

    pub(crate) fn interval(&self) -> Duration {
        Duration::from_secs_f64(self.collect.interval_seconds)
    }

    /// Returns the interval of collections while no client views the page.
    pub(crate) fn longest_interval(&self) -> Duration {
        Duration::from_secs_f64(self.collect.unwatched_interval_seconds).max(self.interval())
    }
}

/// An integer setting: its name, value, minimum and maximum.
type Count = (&'static str, u64, u64, u64);

fn within<T: Copy + PartialOrd + std::fmt::Display>(
    name: &str,
    value: T,
    least: T,
    most: T,
) -> Result<(), Usage> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(Usage(format!(
        "{name} is {value}: must be between {least} and {most}"
    )))
}

/// Returns the expected word most similar to the unknown one. Both come from serde's message:
/// "unknown field `x`, expected one of `a`, `b`".
fn nearest(message: &str) -> Option<&str> {
    let mut quoted = message.split('`').skip(1).step_by(2);
    let unknown = quoted.next()?;
    quoted
        .map(|word| (strsim::jaro_winkler(unknown, word), word))
        .filter(|(score, _)| *score > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, word)| word)
}

/// Maximum length of a line in a message. A message quotes a line of the file, which can be
/// megabytes long.
const LINE_CHARS: usize = 200;

fn shortened(message: &str) -> String {
    let mut out = String::new();
    for line in message.lines() {
        match line.char_indices().nth(LINE_CHARS) {
            Some((at, _)) => out.extend([&line[..at], "...\n"]),
            None => out.extend([line, "\n"]),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHIPPED: &str = include_str!("../../../deploy/noctule.toml");

    #[test]
    fn the_shipped_file_shows_every_option_with_its_default() {
        assert_eq!(
            Config::parse(SHIPPED).expect("as shipped"),
            Config::default()
        );
        let uncommented: String = SHIPPED
            .lines()
            .map(|line| {
                line.strip_prefix("#")
                    .filter(|l| !l.starts_with(' '))
                    .unwrap_or(line)
            })
            .map(|line| format!("{line}\n"))
            .collect();
        assert_eq!(
            Config::parse(&uncommented).expect("with every option"),
            Config::default()
        );
        let shown: toml::Table = toml::from_str(&uncommented).expect("a table");
        let count: usize = shown
            .values()
            .filter_map(|v| v.as_table())
            .map(toml::Table::len)
            .sum();
        assert_eq!(count, 77, "an option is not shown in deploy/noctule.toml");
    }

    #[test]
    fn unknown_key_is_reported_with_line_and_suggestion() {
        let error = Config::parse("[collect]\npage_cach = true\n").expect_err("unknown key");
        assert!(error.0.contains("line 2"), "{}", error.0);
        assert!(
            error.0.contains("did you mean `page_cache`?"),
            "{}",
            error.0
        );
    }

    #[test]
    fn long_lines_are_not_quoted_in_full() {
        let long = format!("[collect]\nunknown = \"{}\"\n", "x".repeat(1 << 20));
        let error = Config::parse(&long).expect_err("unknown key");
        assert!(error.0.contains("line 2"), "{:.300}", error.0);
        assert!(error.0.len() < 3000, "{} bytes", error.0.len());
    }

    #[test]
    fn public_address_requires_the_opt_out() {
        let listen = "[web]\nlisten = \"0.0.0.0:9470\"\n";
        let error = Config::parse(listen)
            .expect("parses")
            .check()
            .expect_err("refused");
        assert!(error.0.contains("--allow-plain-http"), "{}", error.0);
        let allowed = format!("{listen}plain_http = true\n");
        assert!(Config::parse(&allowed).expect("parses").check().is_ok());
    }
}
