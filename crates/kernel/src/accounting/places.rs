//! Writes the package and core of each CPU into the BPF map, and updates the map.

use std::path::PathBuf;

use libbpf_rs::{MapCore as _, MapFlags, MapHandle};

use crate::abi::CpuSlot;
use crate::error::{Context as _, Error};
use crate::facts::{self, Facts};
use crate::skel::switch::SwitchSkel;
use crate::topology::Topology;

/// Package and core of the CPUs, here and in the BPF map.
pub(super) struct Places {
    /// Mount point of sysfs.
    sys: PathBuf,
    topology: Topology,
    /// The value from the start, because the programs were loaded for it.
    has_siblings: bool,
    possible: u32,
    map: MapHandle,
    /// The online CPUs at the last update.
    online: Vec<u32>,
}

impl Places {
    pub(super) fn new(switch: &SwitchSkel<'static>, facts: &Facts) -> Result<Self, Error> {
        Ok(Self {
            sys: facts.roots.sys.clone(),
            has_siblings: facts.topology.has_siblings(),
            topology: facts.topology.clone(),
            possible: facts.possible_cpus,
            map: MapHandle::try_from(&switch.maps.places)
                .context("opening the map of CPU topology")?,
            online: Vec::new(),
        })
    }

    pub(super) fn topology(&self) -> &Topology {
        &self.topology
    }

    pub(super) fn has_siblings(&self) -> bool {
        self.has_siblings
    }

    /// Returns the CPUs that are online now.
    pub(super) fn online_now(&self) -> Vec<u32> {
        facts::online_cpus(&self.sys)
    }

    /// Updates the map if CPUs came online or went offline. Called with each snapshot. While a CPU
    /// comes online, the kernel's data about it can be incomplete, so they are read again at the
    /// next change.
    pub(super) fn follow(&mut self, online: &[u32]) -> Result<(), Error> {
        if self.online == online {
            return Ok(());
        }
        self.topology.follow(&self.sys, online);
        self.online = online.to_vec();
        for cpu in self.topology.cpus().filter(|cpu| *cpu < self.possible) {
            let sibling = self.topology.sibling_of(cpu).map_or(0, |other| other + 1);
            let place = [self.topology.package_of(cpu) as u32, sibling].map(u32::to_ne_bytes);
            let (key, flags) = (cpu.to_ne_bytes(), MapFlags::ANY);
            let updated = self.map.update(&key, place.as_flattened(), flags);
            updated.context("updating the map of CPU topology")?;
        }
        Ok(())
    }

    /// Returns for how long the other hardware thread of the core was busy since the last switch of
    /// this one, up to the moment of the snapshot. `None` if the core has no other hardware thread.
    /// Must match `sibling_growth` in the BPF program.
    pub(super) fn sibling_busy(
        &self,
        cpu: u32,
        slots: &[(u32, CpuSlot)],
        now_ns: u64,
    ) -> Option<u64> {
        let slot = |cpu| {
            let at = slots.binary_search_by_key(&cpu, |(cpu, _)| *cpu).ok()?;
            Some(&slots[at].1)
        };
        let sibling = self
            .topology
            .sibling_of(cpu)
            .filter(|_| self.has_siblings)?;
        let (own, other) = (slot(cpu)?, slot(sibling)?);
        let running = match (other.pid, other.since) {
            (0, _) | (_, 0) => 0,
            (_, since) => now_ns.saturating_sub(since),
        };
        Some((other.busy_ns + running).saturating_sub(own.sibling_busy))
    }
}
