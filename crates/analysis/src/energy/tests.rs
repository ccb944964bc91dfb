//! Tests from batches to joules.

use std::sync::Arc;

use noctule_model::{
    Batch, CgroupId, CgroupRow, Counter, Driver, Energy, FeatureState, Measured, Node, ProcessId,
    ProcessRow, Zone, ZoneAccount, ZoneKind, ZoneReading,
};

use super::{Attribution, EnergyReport, IdleEnergy};
use crate::{IdleKnowledge, LearnedIdle};

const SECOND: u64 = 1_000_000_000;

/// A simulated machine with the given processes and meters.
struct Machine {
    batch: Batch,
    /// Processes that ended since the last batch.
    ended: Vec<ProcessRow>,
}

fn zone(kind: ZoneKind, parent: Option<usize>) -> Zone {
    Zone {
        parent,
        ..Zone::powercap(kind, kind.name())
    }
}

impl Machine {
    /// Creates a machine with four CPUs, counters of cycles and cache misses, and these zones.
    fn new(zones: &[Zone]) -> Self {
        let counters = [Counter::CpuTime, Counter::Cycles, Counter::CacheMisses];
        Self {
            batch: Batch {
                node: Node {
                    cpus: 4,
                    ..Node::default()
                },
                measured: Measured::from_iter(counters),
                energy: Some(Energy {
                    zones: Arc::from(zones.to_vec()),
                    readings: vec![ZoneReading::of(0); zones.len()],
                }),
                ..Batch::default()
            },
            ended: Vec::new(),
        }
    }

    /// Runs a process at 2 GHz with one cache miss per 100 cycles.
    fn run(&mut self, pid: u32, cgroup: u64, cpu_ns: u64) {
        let id = ProcessId { pid, start_ns: 1 };
        let group = CgroupId(cgroup);
        let Batch {
            processes,
            cgroups,
            node,
            ..
        } = &mut self.batch;
        if !processes.iter().any(|row| row.id == id) {
            processes.push(ProcessRow {
                id,
                cgroup: group,
                ..ProcessRow::default()
            });
        }
        if !cgroups.iter().any(|row| row.id == group) {
            cgroups.push(CgroupRow {
                id: group,
                ..CgroupRow::default()
            });
        }
        let process = processes.iter_mut().find(|row| row.id == id);
        let cgroup = cgroups.iter_mut().find(|row| row.id == group);
        let counters = [
            &mut process.expect("it was added").counters,
            &mut cgroup.expect("it was added").counters,
            &mut node.total,
        ];
        for counters in counters {
            counters[Counter::CpuTime] += cpu_ns;
            counters[Counter::Cycles] += 2 * cpu_ns;
            counters[Counter::CacheMisses] += cpu_ns / 50;
        }
    }

    /// Ends a process. The next batch has its final figures.
    fn end(&mut self, pid: u32) {
        let (gone, stay) = self
            .batch
            .processes
            .drain(..)
            .partition(|row| row.id.pid == pid);
        self.batch.processes = stay;
        self.ended.extend::<Vec<_>>(gone);
    }

    fn reading(&mut self, zone: usize) -> &mut ZoneReading {
        let energy = self.batch.energy.as_mut().expect("it has meters");
        &mut energy.readings[zone]
    }

    /// Advances one second, in which the zones take this many microjoules, and applies the batch.
    fn second(&mut self, attribution: &mut Attribution, energies: &[u64]) -> Batch {
        self.pass(energies);
        self.apply(attribution)
    }

    /// Advances one second without applying the batch.
    fn pass(&mut self, energies: &[u64]) {
        self.batch.sequence += 1;
        self.batch.taken_ns += SECOND;
        self.batch.node.elapsed_ns += 4 * SECOND;
        let used = self.batch.node.total[Counter::CpuTime];
        self.batch.node.idle_ns = self.batch.node.elapsed_ns.saturating_sub(used);
        let now = self.batch.taken_ns;
        for (place, energy) in energies.iter().enumerate() {
            let reading = self.reading(place);
            reading.energy_uj += energy;
            reading.before_ns = now;
            reading.after_ns = now;
        }
    }

    fn apply(&mut self, attribution: &mut Attribution) -> Batch {
        let mut batch = self.batch.clone();
        batch.exited = std::mem::take(&mut self.ended);
        attribution.apply(&mut batch);
        batch
    }
}

fn assert_closes(account: &ZoneAccount) {
    let parts = account.idle_uj
        + account.active_uj
        + account.interrupts_uj
        + account.other_uj
        + account.unattributed_uj;
    assert_eq!(parts, account.total_uj, "{account:?}");
}

fn process_sum(batch: &Batch, kind: ZoneKind) -> u64 {
    let living = batch.processes.iter().map(|row| row.joules[kind]);
    living.sum()
}

fn package(batch: &Batch, pid: u32) -> u64 {
    let mut rows = batch.processes.iter().chain(&batch.exited);
    let row = rows.find(|row| row.id.pid == pid).expect("the process");
    row.joules[ZoneKind::Package]
}

#[test]
fn without_a_meter_nothing_is_charged() {
    let mut machine = Machine::new(&[]);
    machine.batch.energy = None;
    let mut attribution = Attribution::default();
    machine.run(1, 1, SECOND);
    let batch = machine.second(&mut attribution, &[]);
    assert!(batch.zone_accounts.is_empty());
    assert_eq!(package(&batch, 1), 0);
}

#[test]
fn idle_power_stays_with_the_node_and_work_is_shared_by_cycles() {
    let mut machine = Machine::new(&[zone(ZoneKind::Package, None)]);
    let mut attribution = Attribution::default();
    machine.second(&mut attribution, &[5]);
    for _ in 0..10 {
        machine.second(&mut attribution, &[20_000_000]);
    }
    machine.run(1, 1, SECOND / 2);
    machine.run(2, 2, SECOND / 4);
    let batch = machine.second(&mut attribution, &[35_000_000]);
    let account = &batch.zone_accounts[0];
    assert_eq!(account.driver, Driver::Cycles);
    assert_eq!(account.idle_uj, 220_000_000);
    assert_eq!(account.active_uj, 15_000_000);
    assert_eq!(
        [package(&batch, 1), package(&batch, 2)],
        [10_000_000, 5_000_000]
    );
    assert_closes(account);
}

#[test]
fn idle_energy_can_be_spread() {
    let mut machine = Machine::new(&[zone(ZoneKind::Package, None)]);
    let mut attribution = Attribution::new(IdleEnergy::Proportional);
    machine.second(&mut attribution, &[0]);
    machine.run(1, 1, 300);
    machine.run(2, 2, 100);
    let batch = machine.second(&mut attribution, &[1000]);
    assert_eq!([package(&batch, 1), package(&batch, 2)], [750, 250]);
    let batch = machine.second(&mut attribution, &[1000]);
    assert_eq!(batch.zone_accounts[0].idle_uj, 1000, "nobody ran");
}

#[test]
fn joules_of_an_ended_process_stay_in_group_and_node() {
    let mut machine = Machine::new(&[zone(ZoneKind::Package, None)]);
    let mut attribution = Attribution::new(IdleEnergy::Proportional);
    machine.second(&mut attribution, &[0]);
    machine.run(1, 7, 1000);
    machine.run(2, 7, 3000);
    machine.end(2);
    let batch = machine.second(&mut attribution, &[4000]);
    assert_eq!(package(&batch, 2), 3000);
    machine.run(1, 7, 1000);
    let batch = machine.second(&mut attribution, &[500]);
    assert_eq!(package(&batch, 1), 1500);
    assert_eq!(batch.cgroups[0].joules[ZoneKind::Package], 4500);
    assert_eq!(batch.zone_accounts[0].active_uj, 4500);
}

#[test]
fn platform_energy_is_its_parts_plus_other() {
    let zones = [
        zone(ZoneKind::Psys, None),
        zone(ZoneKind::Package, Some(0)),
        zone(ZoneKind::Dram, Some(0)),
        zone(ZoneKind::Core, Some(1)),
    ];
    let mut machine = Machine::new(&zones);
    let mut attribution = Attribution::default();
    machine.second(&mut attribution, &[0; 4]);
    for _ in 0..5 {
        machine.second(
            &mut attribution,
            &[30_000_000, 10_000_000, 2_000_000, 1_000_000],
        );
    }
    machine.run(1, 1, SECOND);
    let batch = machine.second(
        &mut attribution,
        &[50_000_000, 25_000_000, 4_000_000, 9_000_000],
    );
    let joules = batch.processes[0].joules;
    let kinds = [
        ZoneKind::Package,
        ZoneKind::Dram,
        ZoneKind::Core,
        ZoneKind::Psys,
    ];
    let megajoules = [15_000_000, 2_000_000, 8_000_000, 17_000_000];
    assert_eq!(kinds.map(|kind| joules[kind]), megajoules);
    let psys = &batch.zone_accounts[0];
    assert_eq!(psys.driver, Driver::Parts);
    assert_eq!(psys.idle_uj, 6 * 12_000_000);
    assert_eq!(psys.other_uj, 5 * 18_000_000 + 21_000_000);
    // If the platform counts less energy than its parts, every row gets less.
    machine.run(1, 1, SECOND);
    let batch = machine.second(
        &mut attribution,
        &[20_000_000, 25_000_000, 4_000_000, 9_000_000],
    );
    assert_closes(&batch.zone_accounts[0]);
    let less = batch.processes[0].joules[ZoneKind::Psys] - 17_000_000;
    assert!(less < 17_000_000, "{less}");
}

#[test]
fn late_energy_is_shared_by_all_processes_that_ran() {
    let mut machine = Machine::new(&[zone(ZoneKind::Package, None)]);
    let mut attribution = Attribution::new(IdleEnergy::Proportional);
    machine.second(&mut attribution, &[0]);
    machine.run(1, 1, 1000);
    machine.run(3, 3, 4000);
    machine.end(3);
    let batch = machine.second(&mut attribution, &[0]);
    assert_eq!(package(&batch, 1), 0);
    machine.run(2, 2, 3000);
    let batch = machine.second(&mut attribution, &[8000]);
    // Process 1 sleeps, and process 3 has ended. The cgroup of process 3 gets the energy owed to
    // the process.
    assert_eq!([package(&batch, 1), package(&batch, 2)], [1000, 3000]);
    let groups = batch
        .cgroups
        .iter()
        .map(|row| row.joules[ZoneKind::Package]);
    assert_eq!(groups.collect::<Vec<_>>(), [1000, 4000, 3000]);
    assert_eq!(batch.zone_accounts[0].active_uj, 8000);
}

#[test]
fn unrecorded_processes_keep_their_share_of_energy() {
    let mut machine = Machine::new(&[zone(ZoneKind::Package, None)]);
    let mut attribution = Attribution::new(IdleEnergy::Proportional);
    machine.second(&mut attribution, &[0]);
    machine.run(1, 1, 1000);
    machine.run(2, 1, 1000);
    machine.batch.processes.retain(|row| row.id.pid == 1);
    let batch = machine.second(&mut attribution, &[600]);
    assert_eq!(package(&batch, 1), 300);
    assert_eq!(batch.cgroups[0].joules[ZoneKind::Package], 600);
}

#[test]
fn energy_sums_close_at_every_tick_during_churn() {
    let zones = [
        zone(ZoneKind::Psys, None),
        zone(ZoneKind::Package, Some(0)),
        zone(ZoneKind::Dram, Some(0)),
        zone(ZoneKind::Core, Some(1)),
    ];
    let mut machine = Machine::new(&zones);
    let mut attribution = Attribution::default();
    let mut state = 11_u64;
    let mut random = move |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut metered = [0_u64; 4];
    let mut ended = [0_u64; 4];
    let kinds = [
        ZoneKind::Psys,
        ZoneKind::Package,
        ZoneKind::Dram,
        ZoneKind::Core,
    ];
    let mut before: Option<Batch> = None;
    let mut pid = 0;
    for tick in 0..3600_u32 {
        for _ in 0..random(40) {
            pid += 1;
            machine.run(pid, 1 + random(12), 1 + random(90_000_000));
            if random(4) > 0 {
                machine.end(pid);
            }
        }
        while machine.batch.processes.len() > 60 {
            let pid = machine.batch.processes[random(60) as usize].id.pid;
            machine.end(pid);
        }
        // Meters stall, jump and are noisy.
        let stall = random(30) == 0;
        let energies = [90_000_000, 50_000_000, 9_000_000, 30_000_000];
        let energies = energies.map(|most| if stall { 0 } else { random(most) });
        let batch = machine.second(&mut attribution, &energies);
        if tick > 0 {
            for (sum, energy) in metered.iter_mut().zip(energies) {
                *sum += energy;
            }
        }
        for (place, kind) in kinds.into_iter().enumerate() {
            let account = &batch.zone_accounts[place];
            assert_closes(account);
            assert_eq!(account.total_uj, metered[place], "tick {tick}, {kind:?}");
            let groups: u64 = batch.cgroups.iter().map(|row| row.joules[kind]).sum();
            assert_eq!(groups, account.active_uj, "tick {tick}, {kind:?}");
            let last = batch.exited.iter().map(|row| row.joules[kind]);
            ended[place] += last.sum::<u64>();
            // If the meter stood still when a process ended, the energy owed to the process is
            // charged to its cgroup alone.
            let processes = process_sum(&batch, kind) + ended[place];
            assert!(processes <= account.active_uj, "tick {tick}, {kind:?}");
        }
        if let Some(before) = &before {
            for (now, then) in batch.cgroups.iter().zip(&before.cgroups) {
                assert_eq!(now.joules.since(&then.joules) + &then.joules, now.joules);
            }
        }
        before = Some(batch);
    }
    let last = before.expect("an hour");
    let unrecorded = last.zone_accounts[1].active_uj - process_sum(&last, kinds[1]) - ended[1];
    assert!(
        unrecorded * 20 < last.zone_accounts[1].active_uj,
        "{unrecorded}"
    );
}

#[test]
fn learned_idle_power_improves_a_second_pass() {
    let mut machine = Machine::new(&[zone(ZoneKind::Package, None)]);
    let mut attribution = Attribution::default();
    let mut batches = Vec::new();
    machine.second(&mut attribution, &[0]);
    for tick in 0..40_u64 {
        // The machine is never idle during the first ticks.
        let cpu_ns = if tick < 20 { 2 * SECOND } else { 0 };
        machine.run(1, 1, cpu_ns);
        batches.push(machine.second(&mut attribution, &[20_000_000 + cpu_ns / 100]));
    }
    let energy = machine.batch.energy.as_ref().expect("meters");
    let mut again = attribution.learned(energy);
    let mut last = Batch::default();
    for mut batch in batches {
        again.apply(&mut batch);
        last = batch;
    }
    let active = last.zone_accounts[0].active_uj;
    assert!(active.abs_diff(19 * 20_000_000) < 4_000_000, "{active}");
}

/// Idle power was learned before a power limit was set. For the next ten minutes the machine takes
/// less than the learned idle power.
#[test]
fn idle_power_debt_is_limited_to_ten_seconds() {
    let mut machine = Machine::new(&[zone(ZoneKind::Package, None)]);
    let mut attribution = Attribution::default();
    let mut second = |cpu_ns: u64, joules: u64| {
        machine.run(1, 1, cpu_ns);
        let batch = machine.second(&mut attribution, &[joules * 1_000_000]);
        batch.zone_accounts[0].active_uj
    };
    for _ in 0..100 {
        second(0, 20);
    }
    for _ in 0..600 {
        second(SECOND / 5, 15);
    }
    let before = second(2 * SECOND, 60);
    let after = (0..20).map(|_| second(2 * SECOND, 60)).last();
    let active = after.unwrap_or_default() - before;
    assert!(active > 500 * 1_000_000, "{active}");
}

#[test]
fn energy_missing_in_a_gap_does_not_reduce_later_charges() {
    let mut machine = Machine::new(&[zone(ZoneKind::Package, None)]);
    let mut attribution = Attribution::default();
    let mut second = |cpu_ns: u64, mj: u64, gaps: u64| {
        machine.run(1, 1, cpu_ns);
        machine.reading(0).gaps += gaps;
        let batch = machine.second(&mut attribution, &[mj * 1000]);
        batch.zone_accounts[0].active_uj
    };
    for _ in 0..100 {
        second(0, 20_000, 0);
    }
    let before = (0..10).map(|_| second(SECOND, 30_000, 0)).last();
    let jumped = second(SECOND, 5, 1);
    let after = (0..3).map(|_| second(SECOND, 30_000, 0)).last();
    let of_gap = jumped - before.expect("ten seconds");
    assert!(of_gap < 100, "{of_gap}");
    let active = after.unwrap_or_default() - jumped;
    assert!(active.abs_diff(30_000_000) < 3_000_000, "{active}");
}

/// The readings of a meter that fails, and recovers in the last second.
#[derive(Clone, Copy, Debug)]
struct Failure {
    /// How many seconds before the last second have no readings.
    seconds: u64,
    /// For how many milliseconds at the end of the last second the meter counted. `None` if the
    /// meter never stopped counting.
    counted_ms: Option<u64>,
    /// Whether the sensor responded so late that the energy of that part is in the next reading.
    late: bool,
}

/// A package takes 20 W, and 30 W while something runs. The platform around it takes 5 W more. The
/// meter at `place` fails while process 2 runs; process 1 runs before and after. Returns the
/// millijoules of this zone charged to processes 1 and 2, from the failure to three seconds after
/// it.
fn charged_over(failure: Failure, place: usize) -> [u64; 2] {
    let zones = [zone(ZoneKind::Psys, None), zone(ZoneKind::Package, Some(0))];
    let (busy, idle) = ([35_000_000, 30_000_000], [25_000_000, 20_000_000]);
    let kind = zones[place].kind;
    let mut machine = Machine::new(&zones);
    let mut attribution = Attribution::default();
    for _ in 0..100 {
        machine.second(&mut attribution, &idle);
    }
    for pid in [2, 1, 1, 1] {
        machine.run(pid, pid.into(), SECOND);
        machine.second(&mut attribution, &busy);
    }
    let charged = |batch: &Batch| {
        assert_closes(&batch.zone_accounts[place]);
        let of = |pid| batch.processes.iter().find(|row| row.id.pid == pid);
        [1, 2].map(|pid| of(pid).expect("it ran").joules[kind] / 1000)
    };
    let before = charged(&machine.second(&mut attribution, &idle));
    let shown = machine.reading(place).clone();
    for _ in 0..failure.seconds {
        machine.run(2, 2, SECOND);
        machine.pass(&busy);
        let truth = machine.reading(place).clone();
        *machine.reading(place) = ZoneReading {
            gaps: 1,
            state: FeatureState::Degraded,
            ..shown.clone()
        };
        machine.apply(&mut attribution);
        *machine.reading(place) = truth;
    }
    machine.run(1, 1, SECOND);
    machine.pass(&busy);
    let now_ns = machine.batch.taken_ns;
    let reading = machine.reading(place);
    reading.gaps = 1;
    let counted_uj = failure.counted_ms.map_or(0, |ms| busy[place] / 1000 * ms);
    if let Some(ms) = failure.counted_ms {
        let from_ns = now_ns - ms * 1_000_000;
        reading.lost_ns = from_ns - shown.before_ns;
        reading.energy_uj = shown.energy_uj + counted_uj;
        if failure.late {
            reading.energy_uj = shown.energy_uj;
            (reading.before_ns, reading.after_ns) = (from_ns, from_ns);
        }
    }
    machine.apply(&mut attribution);
    if failure.late {
        machine.reading(place).energy_uj += counted_uj;
    }
    let mut after = before;
    for _ in 0..3 {
        machine.run(1, 1, SECOND);
        after = charged(&machine.second(&mut attribution, &busy));
    }
    [after[0] - before[0], after[1] - before[1]]
}

#[test]
fn lost_energy_is_unassigned_and_late_energy_is_charged() {
    let failure = |seconds, counted_ms, late| Failure {
        seconds,
        counted_ms,
        late,
    };
    let cases = [
        // A counter that cannot be read, or a sensor that fails so briefly that its power can be
        // interpolated.
        (failure(3, None, false), [40_000, 30_000]),
        // A sensor that could not be read for longer, and was sampled again afterwards.
        (failure(8, Some(750), false), [37_500, 0]),
        (failure(200, Some(750), false), [37_500, 0]),
        // A sensor after suspend, and a counter: neither has a base for comparison, like a counter
        // that jumped.
        (failure(0, Some(750), false), [37_500, 0]),
        (failure(0, Some(0), false), [30_000, 0]),
        // A sensor that took eight seconds to respond.
        (failure(8, Some(4000), true), [70_000, 0]),
    ];
    for (case, expected) in cases {
        let charged = charged_over(case, 1);
        let near = |place: usize| charged[place].abs_diff(expected[place]) < 1000;
        assert!(near(0) && near(1), "{case:?}: {charged:?}");
    }
    // A platform has the energy of its parts, whatever its own meter counted in that time.
    for (case, expected) in &cases[..5] {
        let charged = charged_over(*case, 0);
        let near = |place: usize| charged[place].abs_diff(expected[place]) < 2000;
        assert!(near(0) && near(1), "platform, {case:?}: {charged:?}");
    }
}

#[test]
fn zone_that_appears_in_the_window_is_no_root() {
    let batch = |zones: &[Zone]| {
        let account = ZoneAccount {
            driver: Driver::Cycles,
            ..ZoneAccount::default()
        };
        let zone_accounts = vec![account; zones.len()];
        Batch {
            zone_accounts,
            ..Machine::new(zones).batch
        }
    };
    let package = |parent| zone(ZoneKind::Package, parent);
    let [alone, none] = [batch(&[package(None)]), Batch::default()];
    let both = batch(&[package(Some(1)), zone(ZoneKind::Psys, None)]);
    let roots = |first, last| {
        let report = EnergyReport::between(first, last).expect("there is a meter");
        let kinds = report.kinds.into_iter();
        let roots: Vec<ZoneKind> = kinds.filter(|it| it.root).map(|it| it.kind).collect();
        roots
    };
    assert_eq!(roots(&alone, &both), [ZoneKind::Package]);
    assert_eq!(roots(&both, &both), [ZoneKind::Psys]);
    assert_eq!(roots(&none, &both), [ZoneKind::Psys]);
}

/// A battery was charged in the window, or a meter disappeared. The energy of the zone does not
/// cover all its parts.
#[test]
fn zone_with_less_energy_than_its_parts_is_no_root() {
    let roots = |zones: &[Zone], joules: &[u64], states: &[FeatureState]| {
        let batch = |joules: &[u64]| {
            let account = |joules: &u64| ZoneAccount {
                driver: Driver::Cycles,
                total_uj: joules * 1_000_000,
                ..ZoneAccount::default()
            };
            let mut batch = Machine::new(zones).batch;
            batch.zone_accounts = joules.iter().map(account).collect();
            batch
        };
        let (first, mut last) = (batch(&vec![0; joules.len()]), batch(joules));
        let readings = &mut last.energy.as_mut().expect("meters").readings;
        for (reading, state) in readings.iter_mut().zip(states) {
            reading.state = *state;
        }
        let report = EnergyReport::between(&first, &last).expect("meters");
        let roots = report.kinds.into_iter().filter(|it| it.root);
        roots.map(|it| it.kind).collect::<Vec<ZoneKind>>()
    };
    let (on, gone) = (FeatureState::On, FeatureState::Degraded);
    let zones = [
        zone(ZoneKind::Core, Some(1)),
        zone(ZoneKind::Package, Some(3)),
        zone(ZoneKind::Dram, Some(3)),
        zone(ZoneKind::Platform, None),
    ];
    let platform = [ZoneKind::Platform];
    let parts = [ZoneKind::Package, ZoneKind::Dram];
    assert_eq!(roots(&zones, &[5, 10, 2, 15], &[on; 4]), platform);
    assert_eq!(roots(&zones, &[5, 10, 2, 12], &[on; 4]), platform);
    assert_eq!(roots(&zones, &[5, 10, 2, 11], &[on; 4]), parts);
    assert_eq!(roots(&zones, &[5, 10, 2, 0], &[on, on, on, gone]), parts);
    // The energy comes with the meter's next step.
    assert_eq!(roots(&zones, &[5, 10, 2, 0], &[on; 4]), platform);
    let cores = [ZoneKind::Core, ZoneKind::Dram];
    assert_eq!(roots(&zones, &[5, 0, 2, 0], &[on, gone, on, gone]), cores);
    // One of two sockets disappeared. The package of the other one counts more than the cores of
    // both sockets (first case), or less (second case).
    let sockets = [
        zone(ZoneKind::Package, None),
        zone(ZoneKind::Core, Some(0)),
        zone(ZoneKind::Package, None),
        zone(ZoneKind::Core, Some(2)),
    ];
    let one_gone = [gone, on, on, on];
    assert_eq!(
        roots(&sockets, &[0, 4, 20, 4], &one_gone),
        [ZoneKind::Package]
    );
    assert_eq!(
        roots(&sockets, &[0, 14, 20, 14], &one_gone),
        [ZoneKind::Core]
    );
}

/// Four CPUs of 20 W idle and 30 W busy power, all busy from the start. The measured load is
/// sometimes slightly too low.
fn busy_seconds(zones: &[Zone], count: u64, mut observe: impl FnMut(&Batch)) -> Batch {
    let mut machine = Machine::new(zones);
    let mut attribution = Attribution::default();
    let mut last = Batch::default();
    for second in 0..=count {
        machine.run(1, 1, 2 * SECOND - second % 7 * SECOND / 20);
        machine.run(2, 2, 2 * SECOND);
        let noise = second * 37 % 11 * 10_000;
        let energies = zones.iter().map(|zone| match zone.kind {
            ZoneKind::Psys => 70_000_000 + noise,
            ZoneKind::Dram => 4_000_000 + noise / 10,
            _ => 50_000_000 + noise,
        });
        last = machine.second(&mut attribution, &energies.collect::<Vec<u64>>());
        if second > 0 {
            observe(&last);
        }
    }
    last
}

#[test]
fn busy_node_is_charged_within_the_stated_error() {
    let mut before = [0; 2];
    let last = busy_seconds(&[zone(ZoneKind::Package, None)], 300, |batch| {
        let account = &batch.zone_accounts[0];
        let error = account.error_ratio.expect("there is an error");
        assert!(error < 0.6, "{account:?}");
        let now = [1, 2].map(|pid| package(batch, pid));
        assert!(now[0] > before[0] && now[1] > before[1], "{now:?}");
        before = now;
    });
    let account = &last.zone_accounts[0];
    let active = account.active_uj as f64;
    let truth = 300.0 * 30e6;
    let error = account.relative_error(61).expect("an error");
    assert!((active - truth).abs() < error * active, "{account:?}");
    assert!((active - truth).abs() < 0.3 * truth, "{account:?}");
}

#[test]
fn platform_is_as_uncertain_as_its_parts() {
    let zones = [
        zone(ZoneKind::Psys, None),
        zone(ZoneKind::Package, Some(0)),
        zone(ZoneKind::Dram, Some(0)),
    ];
    busy_seconds(&zones, 100, |batch| {
        let [platform, parts @ ..] = &batch.zone_accounts[..] else {
            panic!("no zones");
        };
        let errors = parts.iter().filter_map(|part| part.error_ratio);
        let least = errors.reduce(f64::min).expect("an error");
        assert!(platform.error_ratio >= Some(least), "{platform:?}");
        let doubt: f64 = parts.iter().map(|part| part.idle_doubt_uj).sum();
        assert!((platform.idle_doubt_uj - doubt).abs() < 1.0, "{platform:?}");
    });
}

#[test]
fn observed_idle_power_survives_an_hour_of_load() {
    let mut machine = Machine::new(&[zone(ZoneKind::Package, None)]);
    let mut attribution = Attribution::default();
    let mut idle_watts = |cpu_ns: u64, joules: u64| {
        machine.run(1, 1, cpu_ns);
        let batch = machine.second(&mut attribution, &[joules * 1_000_000]);
        batch.zone_accounts[0].idle_watts
    };
    let loads = std::iter::repeat_n((0, 25), 100);
    let loads = loads.chain(std::iter::repeat_n((4 * SECOND, 50), 3600));
    let estimates = loads.map(|(cpu_ns, joules)| idle_watts(cpu_ns, joules));
    let watts = estimates.last().flatten().expect("an estimate");
    assert!((watts - 25.0).abs() < 1.0, "{watts}");
}

#[test]
fn known_idle_power_is_used_on_a_busy_node() {
    let learned = |watts, age_seconds| IdleKnowledge {
        learned: vec![LearnedIdle {
            path: String::new(),
            watts,
            half_width: 1.0,
            age_seconds,
        }],
        ..IdleKnowledge::default()
    };
    let given = IdleKnowledge {
        given: vec![(ZoneKind::Package, 20.0)],
        ..IdleKnowledge::default()
    };
    let published = IdleKnowledge {
        published_share: Some(0.2),
        ..IdleKnowledge::default()
    };
    // Known idle power, the estimate on a node that uses 50 W, and the largest accepted half-width.
    let cases = [
        (IdleKnowledge::default(), 15.0, 16.0),
        (learned(20.0, 3600), 20.0, 2.1),
        // A learned value above what the node uses now, and a value that was learned too long ago.
        (learned(80.0, 0), 50.0, 1.2),
        (learned(20.0, 100_000_000), 15.0, 16.0),
        (given, 20.0, 1.0),
        (published, 10.0, 11.0),
    ];
    for (knowledge, watts, half_width) in cases {
        let words = format!("{knowledge:?}");
        let mut machine = Machine::new(&[zone(ZoneKind::Package, None)]);
        let mut attribution = Attribution::default().knowing(knowledge);
        let mut account = ZoneAccount::default();
        for _ in 0..20 {
            machine.run(1, 1, 4 * SECOND);
            let batch = machine.second(&mut attribution, &[50_000_000]);
            account = batch.zone_accounts[0].clone();
        }
        let idle = account.idle_watts.expect("an estimate");
        assert!((idle - watts).abs() < 0.5, "{words}: {idle}");
        let doubt = account.idle_doubt_uj / 1e6 / 19.0;
        assert!(doubt <= half_width, "{words}: {doubt}");
    }
}
