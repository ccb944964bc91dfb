//! The sections about the host's files and about energy.

use std::collections::BTreeMap;
use std::path::PathBuf;

use noctule_analysis::IdleEnergy;
use noctule_collect::CpuWatts;
use noctule_kernel::HostRoots;
use noctule_model::ZoneKind;
use serde::Deserialize;

use super::within;
use crate::exit::Usage;

/// Maximum length of a DNS name, in bytes.
const LONGEST_NAME: usize = 253;

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Host {
    pub(crate) sys: PathBuf,
    pub(crate) proc: PathBuf,
    pub(crate) name: String,
}

impl Default for Host {
    fn default() -> Self {
        let HostRoots { sys, proc } = HostRoots::default();
        Self {
            sys,
            proc,
            name: String::new(),
        }
    }
}

impl Host {
    pub(crate) fn roots(&self) -> HostRoots {
        HostRoots {
            sys: self.sys.clone(),
            proc: self.proc.clone(),
        }
    }

    /// Returns whether the directories are the default ones. The node's name does not matter,
    /// because it is not a path.
    pub(crate) fn has_usual_roots(&self) -> bool {
        self.roots() == HostRoots::default()
    }

    /// Returns the name of the node. In a container, the kernel's host name can be that of the
    /// container.
    pub(crate) fn name(&self) -> String {
        if !self.name.is_empty() {
            return self.name.clone();
        }
        let name = rustix::system::uname();
        name.nodename().to_string_lossy().into_owned()
    }

    /// Returns an error if a mount is wrong. Otherwise all data would be missing without a reason.
    pub(super) fn check(&self) -> Result<(), Usage> {
        // Readers of recordings treat a longer name as damage.
        if self.name.len() > LONGEST_NAME {
            let bytes = self.name.len();
            return Err(Usage(format!(
                "host.name is {bytes} bytes long: must be at most {LONGEST_NAME}"
            )));
        }
        let mounts = [
            ("sys", &self.sys, "devices/system/cpu/online"),
            ("proc", &self.proc, "self/mountinfo"),
        ];
        let missing = |(_, folder, file): &(_, &PathBuf, _)| !folder.join(file).exists();
        match mounts.into_iter().find(missing) {
            None => Ok(()),
            Some((name, folder, file)) => Err(Usage(format!(
                "host.{name} is {}, which has no {file}: must be a mount of the host's {name}fs, \
                 by default /{name}",
                folder.display()
            ))),
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct EnergyConfig {
    pub(crate) idle: Idle,
    idle_watts: BTreeMap<String, f64>,
    idle_power: IdlePower,
    pub(crate) model: Model,
}

/// The assumed idle power of a zone whose idle power was never observed.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum IdlePower {
    /// The middle between the bounds of idle power.
    #[default]
    Bounded,
    /// The published share of full power for the processor.
    Published,
}

/// Upper limit of any zone's idle power.
const MOST_IDLE_WATTS: f64 = 50_000.0;

impl EnergyConfig {
    /// Returns whether the published idle power is used.
    pub(crate) fn wants_published_idle(&self) -> bool {
        self.idle_power == IdlePower::Published
    }

    /// Returns the configured idle power of zones, by kind.
    pub(crate) fn given_idle(&self) -> Vec<(ZoneKind, f64)> {
        let given = self.idle_watts.iter();
        given
            .filter_map(|(name, watts)| Some((kind_of(name)?, *watts)))
            .collect()
    }

    pub(super) fn check(&self) -> Result<(), Usage> {
        for (name, watts) in &self.idle_watts {
            if kind_of(name).is_none() {
                let kinds = ZoneKind::ALL.map(ZoneKind::name).join(", ");
                return Err(Usage(format!(
                    "energy.idle_watts: unknown kind of zone {name:?}; must be one of {kinds}"
                )));
            }
            within("energy.idle_watts", *watts, 0.0, MOST_IDLE_WATTS)?;
        }
        self.model.check()
    }
}

fn kind_of(name: &str) -> Option<ZoneKind> {
    ZoneKind::named(name)
}

/// Power of the CPUs of a machine without a meter.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Model {
    pub(crate) idle_watts: f64,
    pub(crate) busy_watts: f64,
}

impl Model {
    /// Returns `None` if the section is not set.
    pub(crate) fn watts(&self) -> Option<CpuWatts> {
        let given = self.idle_watts > 0.0 || self.busy_watts > 0.0;
        given.then_some(CpuWatts {
            idle: self.idle_watts,
            busy: self.busy_watts,
        })
    }

    /// Returns an error if a busy CPU would use less than an idle one.
    fn check(&self) -> Result<(), Usage> {
        if self.busy_watts < self.idle_watts {
            return Err(Usage(format!(
                "energy.model.busy_watts is {}, but idle_watts is {}: a busy CPU cannot use less \
                 than an idle one",
                self.busy_watts, self.idle_watts
            )));
        }
        Ok(())
    }

    /// Returns the settings with their minimum and maximum.
    pub(super) fn numbers(&self) -> [(&'static str, f64, f64, f64); 2] {
        [
            ("energy.model.idle_watts", self.idle_watts, 0.0, 1000.0),
            ("energy.model.busy_watts", self.busy_watts, 0.0, 1000.0),
        ]
    }
}

/// The recipient of idle energy.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Idle {
    #[default]
    Node,
    Proportional,
}

impl From<Idle> for IdleEnergy {
    fn from(idle: Idle) -> Self {
        match idle {
            Idle::Node => Self::Node,
            Idle::Proportional => Self::Proportional,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_roots_depend_only_on_the_folders() {
        let host = |sys: &str, proc: &str, name: &str| Host {
            sys: sys.into(),
            proc: proc.into(),
            name: name.into(),
        };
        for (host, usual) in [
            (Host::default(), true),
            (host("/sys", "/proc", "node-1"), true),
            (host("/host/sys", "/proc", ""), false),
            (host("/sys", "/host/proc", ""), false),
        ] {
            assert_eq!(host.has_usual_roots(), usual, "{host:?}");
        }
    }

    #[test]
    fn idle_power_is_configured_by_zone_kind() {
        let config = |watts: &[(&str, f64)]| EnergyConfig {
            idle_watts: watts.iter().map(|(name, w)| ((*name).into(), *w)).collect(),
            ..EnergyConfig::default()
        };
        let good = config(&[("package", 20.0)]);
        assert!(good.check().is_ok());
        assert_eq!(good.given_idle(), [(ZoneKind::Package, 20.0)]);
        for bad in [("packages", 20.0), ("dram", -1.0)] {
            assert!(config(&[bad]).check().is_err(), "{bad:?}");
        }
    }
}
