//! Performance monitoring units (PMUs) of perf that count energy: `power`, and `power_core` on
//! newer AMD processors.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use noctule_kernel::EnergyEvent;
use noctule_model::{EnergySource, ZoneKind};

use super::found::{Found, Input, Rank};
use super::source::{Meter, Value, line};

/// Energy unit of most processors, in microjoules. Perf does not report it.
const UNIT_UJ: u64 = 61;

/// The zone that each event covers.
const EVENTS: &[(&str, ZoneKind)] = &[
    ("energy-pkg", ZoneKind::Package),
    ("energy-cores", ZoneKind::Core),
    ("energy-core", ZoneKind::Core),
    ("energy-gpu", ZoneKind::Uncore),
    ("energy-ram", ZoneKind::Dram),
    ("energy-psys", ZoneKind::Psys),
];

/// Finds every energy event, once for each socket.
pub(super) fn find(sys: &Path) -> Vec<Found> {
    let class = sys.join("bus/event_source/devices");
    let mut pmus: Vec<_> = fs::read_dir(class)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path.file_name().unwrap_or_default();
            ["power", "power_core"].iter().any(|it| name == *it)
        })
        .collect();
    pmus.sort();
    pmus.iter().flat_map(|pmu| events(sys, pmu)).collect()
}

fn events(sys: &Path, pmu: &Path) -> Vec<Found> {
    let sockets = sockets(
        sys,
        &cpu_list(&line(&pmu.join("cpumask")).unwrap_or_default()),
    );
    let mut found = Vec::new();
    for (event, kind) in EVENTS {
        if !pmu.join("events").join(event).exists() {
            continue;
        }
        for (socket, cpus) in &sockets {
            let whole = *kind == ZoneKind::Psys;
            let zone = Found {
                name: (*event).to_owned(),
                kind: *kind,
                socket: if whole { None } else { *socket },
                die: None,
                source: EnergySource::Perf,
                rank: Rank::PERF,
                resolution_uj: UNIT_UJ,
                device: pmu.to_owned(),
                input: Input::Perf {
                    event: (*event).to_owned(),
                    cpus: if whole {
                        cpus[..1].to_vec()
                    } else {
                        cpus.clone()
                    },
                },
            };
            found.push(zone);
            if whole {
                break;
            }
        }
    }
    found
}

/// Groups the CPUs by socket.
fn sockets(sys: &Path, cpus: &[u32]) -> BTreeMap<Option<u32>, Vec<u32>> {
    let mut sockets: BTreeMap<_, Vec<u32>> = BTreeMap::new();
    for cpu in cpus {
        let file = format!("devices/system/cpu/cpu{cpu}/topology/physical_package_id");
        let socket = line(&sys.join(file)).and_then(|id| id.parse().ok());
        sockets.entry(socket).or_default().push(*cpu);
    }
    sockets
}

/// Parses a list of CPUs such as `0-2,8`.
fn cpu_list(text: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
    };
    text.split(',').filter_map(range).flatten().collect()
}

/// The events of one socket: one for each die or core.
pub(super) struct PerfEvents(Vec<EnergyEvent>);

impl PerfEvents {
    pub(super) fn open(pmu: &Path, event: &str, cpus: &[u32]) -> io::Result<Self> {
        let open = |cpu: &u32| EnergyEvent::open(pmu, event, *cpu);
        cpus.iter().map(open).collect::<io::Result<_>>().map(Self)
    }
}

impl Meter for PerfEvents {
    fn read(&mut self) -> io::Result<Value> {
        let sum: io::Result<u64> = self.0.iter_mut().map(EnergyEvent::microjoules).sum();
        sum.map(Value::Counted)
    }
}
