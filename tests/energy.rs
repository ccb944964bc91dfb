//! Tests of energy meters against one whose true values are known: a kernel module (`vm/modules`)
//! in some virtual machines.

mod sensors;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use noctule_collect::{Meters, Moment};
use noctule_model::{EnergySource, FeatureState, Node, ZoneKind};
use rustix::time::{ClockId, clock_gettime};

use super::support::{self, StopAtEnd};

/// Returns the module's sums in microjoules by kind and CPU. These sums do not wrap.
fn truth() -> BTreeMap<(String, u32), u64> {
    let text = fs::read_to_string("/sys/module/noctule_meter/parameters/truth");
    let text = text.expect("the module is loaded");
    let line = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| fields[at].parse::<u64>().expect("a number");
        ((fields[0].to_owned(), number(1) as u32), number(4))
    };
    text.lines().map(line).collect()
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn moment() -> Moment {
    Moment {
        at_ns: now_ns(),
        suspended_ns: 0,
    }
}

/// Polls the counters as often as they require, until the deadline.
fn poll_until(meters: &mut Meters, deadline_ns: u64) {
    loop {
        let now = now_ns();
        if now >= deadline_ns {
            return;
        }
        let next = meters.due_ns().unwrap_or(deadline_ns).min(deadline_ns);
        thread::sleep(Duration::from_nanos(next.saturating_sub(now)));
        meters.poll();
    }
}

#[test]
fn sums_of_counters_that_wrap_are_exact() {
    let _machine = support::shared();
    needs_a_virtual_machine!();
    needs!("energy");
    let range = fs::read_to_string("/sys/class/powercap/noctule-meter:0/max_energy_range_uj");
    let range: u64 = range.expect("a zone").trim().parse().expect("microjoules");
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = StopAtEnd(&stop);
        // One CPU stays busy, so the module's power depends only on the other CPU.
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let before = truth();
        let mut meters = Meters::probe(Path::new("/sys"), Arc::new(moment), None);
        let after = truth();
        let mut most_wraps = 0;
        for _ in 0..3 {
            poll_until(&mut meters, now_ns() + 5_000_000_000);
            let low = truth();
            let energy = meters.read(&Node::default(), now_ns()).expect("a meter");
            let high = truth();
            assert_eq!(energy.zones.len(), 4, "two packages and their memory");
            for (zone, reading) in energy.zones.iter().zip(&energy.readings) {
                assert_eq!(zone.source, EnergySource::Powercap);
                assert!(zone.kind != ZoneKind::Dram || zone.parent.is_none());
                let socket = zone.socket.expect("each has a package");
                let key = (zone.kind.name().to_owned(), socket);
                let (least, most) = (low[&key] - after[&key], high[&key] - before[&key]);
                let counted = reading.energy_uj;
                assert!(
                    (least..=most).contains(&counted),
                    "{key:?}: {counted} uJ, but {least} to {most}"
                );
                assert_eq!(
                    (reading.gaps, reading.state),
                    (0, FeatureState::On),
                    "{key:?}"
                );
                most_wraps = most_wraps.max(counted / (range + 1));
            }
        }
        assert!(most_wraps >= 3, "only {most_wraps} wraps");
    });
}
