//! The packages (sockets) of the machine, and which CPUs share a core.

use std::collections::BTreeMap;
use std::path::Path;

use crate::skel::switch::types::place_limit;
use crate::sysfs::{cpu_list, line};

/// Maximum number of packages. CPU time on further packages is counted with the first.
const MOST: usize = place_limit::MOST_PACKAGES.0 as usize;

/// Package and core of the CPUs that are or were online.
///
/// The kernel reports the package and core of a CPU only while the CPU is online, so the last
/// reading is kept. The set of packages is determined at the start. A package whose first CPU comes
/// online later counts as the first package until the agent is restarted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// The kernel's ids of the packages, in ascending order.
    packages: Vec<i32>,
    places: BTreeMap<u32, Place>,
    /// CPUs of packages that did not exist at the start.
    unplaced_cpus: Vec<u32>,
}

/// Package and core of a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    /// Index of the CPU's package.
    package: usize,
    /// The kernel's id of the package.
    number: i32,
    /// The other CPU of the core, if there is exactly one.
    sibling: Option<u32>,
    /// Number of online CPUs of the core.
    threads: usize,
}

impl Topology {
    /// Reads the topology of these CPUs from this mount of sysfs. If the kernel does not report
    /// packages (no physical_package_id, or -1 as on some arm64 machines), all CPUs are in one
    /// package.
    pub fn probe(sys: &Path, online: &[u32]) -> Self {
        let read: Vec<_> = online.iter().map(|cpu| (*cpu, read(sys, *cpu))).collect();
        let mut packages: Vec<i32> = read.iter().map(|(_, place)| place.number).collect();
        packages.sort_unstable();
        packages.dedup();
        packages.truncate(MOST);
        if packages.is_empty() {
            packages.push(0);
        }
        let mut this = Self {
            packages,
            ..Self::default()
        };
        this.add(read);
        this
    }

    /// Updates the topology for CPUs that came online, and for cores whose other thread came online
    /// or went offline.
    pub(crate) fn follow(&mut self, sys: &Path, online: &[u32]) {
        self.add(online.iter().map(|cpu| (*cpu, read(sys, *cpu))).collect());
    }

    fn add(&mut self, read: Vec<(u32, Place)>) {
        self.unplaced_cpus.clear();
        for (cpu, mut place) in read {
            match self.packages.binary_search(&place.number) {
                Ok(position) => place.package = position,
                Err(_) => self.unplaced_cpus.push(cpu),
            }
            self.places.insert(cpu, place);
        }
    }

    /// Returns the kernel's ids (physical_package_id) of the packages, in the order of their
    /// indexes. Ids can have gaps. The only id is 0 if the kernel does not report ids.
    pub fn packages(&self) -> &[i32] {
        &self.packages
    }

    /// Returns the index of the CPU's package.
    pub fn package_of(&self, cpu: u32) -> usize {
        self.places.get(&cpu).map_or(0, |place| place.package)
    }

    /// Returns the other hardware thread of the CPU's core, if there are two.
    pub fn sibling_of(&self, cpu: u32) -> Option<u32> {
        self.places.get(&cpu)?.sibling
    }

    /// Returns whether some cores have two online hardware threads.
    pub fn has_siblings(&self) -> bool {
        self.places.values().any(|place| place.sibling.is_some())
    }

    /// Returns the largest number of online hardware threads of a core.
    pub(crate) fn most_threads(&self) -> usize {
        self.places
            .values()
            .map(|place| place.threads)
            .max()
            .unwrap_or(1)
    }

    /// Returns the CPUs of packages beyond the maximum.
    pub(crate) fn unplaced_cpus(&self) -> &[u32] {
        &self.unplaced_cpus
    }

    /// Returns all known CPUs, ascending.
    pub fn cpus(&self) -> impl Iterator<Item = u32> + '_ {
        self.places.keys().copied()
    }
}

fn read(sys: &Path, cpu: u32) -> Place {
    let folder = sys.join(format!("devices/system/cpu/cpu{cpu}/topology"));
    let number = line(&folder.join("physical_package_id"));
    let siblings = line(&folder.join("thread_siblings_list"));
    let siblings = siblings.map_or_else(Vec::new, |list| cpu_list(&list));
    let mut others = siblings.iter().copied().filter(|other| *other != cpu);
    Place {
        package: 0,
        number: number.and_then(|it| it.parse().ok()).unwrap_or(0).max(0),
        sibling: others.next().filter(|_| siblings.len() == 2),
        threads: siblings.len().max(1),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Creates a sysfs tree of CPUs, each given by its number, package and siblings.
    fn machine(cpus: &[(u32, &str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        for (cpu, package, siblings) in cpus {
            let folder = format!("devices/system/cpu/cpu{cpu}/topology");
            let folder = root.path().join(folder);
            fs::create_dir_all(&folder).expect("a folder");
            fs::write(folder.join("physical_package_id"), format!("{package}\n")).expect("a file");
            fs::write(folder.join("thread_siblings_list"), format!("{siblings}\n"))
                .expect("a file");
        }
        root
    }

    fn packages(topology: &Topology, cpus: &[u32]) -> Vec<usize> {
        cpus.iter().map(|cpu| topology.package_of(*cpu)).collect()
    }

    #[test]
    fn packages_have_positions_independent_of_their_ids() {
        let root = machine(&[
            (0, "36", "0,4"),
            (1, "0", "1,5"),
            (4, "36", "0,4"),
            (5, "0", "1,5"),
        ]);
        let topology = Topology::probe(root.path(), &[0, 1, 4, 5]);
        assert_eq!(topology.packages(), [0, 36]);
        assert_eq!(packages(&topology, &[0, 1, 4, 5]), [1, 0, 1, 0]);
        assert_eq!(topology.sibling_of(0), Some(4));
        assert_eq!(topology.sibling_of(5), Some(1));
        assert!(topology.has_siblings());
    }

    #[test]
    fn missing_topology_means_one_package() {
        let root = machine(&[(1, "-1", "")]);
        let topology = Topology::probe(root.path(), &[0, 1]);
        assert_eq!(topology.packages(), [0]);
        assert_eq!(packages(&topology, &[0, 1]), [0, 0]);
        assert!(!topology.has_siblings());
        assert_eq!(Topology::probe(root.path(), &[]).packages(), [0]);
    }

    #[test]
    fn an_offline_cpu_keeps_its_package() {
        let root = machine(&[(0, "0", "0,2"), (1, "1", "1"), (2, "0", "0,2")]);
        let mut topology = Topology::probe(root.path(), &[0, 1, 2]);
        let root = machine(&[(0, "0", "0"), (3, "1", "3"), (4, "2", "4")]);
        topology.follow(root.path(), &[0, 3, 4]);
        assert_eq!(packages(&topology, &[0, 1, 2, 3]), [0, 1, 0, 1]);
        assert_eq!(topology.sibling_of(0), None);
        assert_eq!(topology.packages(), [0, 1]);
        assert_eq!(topology.unplaced_cpus(), [4]);
        assert_eq!(topology.package_of(4), 0);
    }

    #[test]
    fn cores_of_four_threads_have_no_sibling() {
        let root = machine(&[(0, "0", "0-3")]);
        let topology = Topology::probe(root.path(), &[0]);
        assert!(!topology.has_siblings());
        assert_eq!(topology.most_threads(), 4);
    }

    #[test]
    fn packages_are_limited_to_the_bpf_maximum() {
        let cpus: Vec<_> = (0..20).map(|cpu| (cpu, cpu.to_string())).collect();
        let cpus: Vec<_> = cpus.iter().map(|(cpu, id)| (*cpu, &**id, "")).collect();
        let online: Vec<u32> = (0..20).collect();
        let topology = Topology::probe(machine(&cpus).path(), &online);
        assert_eq!(topology.packages().len(), MOST);
        assert_eq!(topology.unplaced_cpus(), [16, 17, 18, 19]);
        assert_eq!(packages(&topology, &[15, 16]), [15, 0]);
    }
}
