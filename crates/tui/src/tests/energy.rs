//! Tests of nodes with energy meters, and of the view of energy.

use noctule_model::{
    Batch, Energy, FeatureId, FeatureState, Level, Zone, ZoneAccount, ZoneKind, ZoneReading,
};

use super::fixture::{Fake, app, feed, press, screen};
use crate::state::App;

const NGINX: &str = "/system.slice/nginx.service";
const BUILD: &str = "/user.slice/user-1000.slice/session-3.scope";

/// Advances by one second, in which the first zone of each kind consumes these joules: idle, active
/// and unattributed. The two rows get one third and two thirds of the active part.
fn second(fake: &mut Fake, took: &[(ZoneKind, [u64; 3])]) -> Batch {
    let zone = |kind: ZoneKind| {
        let name = match kind {
            ZoneKind::Package => "package-0",
            other => other.name(),
        };
        Zone {
            socket: (kind != ZoneKind::Psys).then_some(0),
            ..Zone::powercap(kind, name)
        }
    };
    let batch = &mut fake.batch;
    if batch.energy.is_none() {
        batch.energy = Some(Energy {
            zones: took.iter().map(|(kind, _)| zone(*kind)).collect(),
            readings: vec![ZoneReading::of(0); took.len()],
        });
        batch.zone_accounts = vec![ZoneAccount::default(); took.len()];
    }
    for (account, (kind, [idle, active, unattributed])) in batch.zone_accounts.iter_mut().zip(took)
    {
        account.idle_uj += idle * 1_000_000;
        account.active_uj += active * 1_000_000;
        account.unattributed_uj += unattributed * 1_000_000;
        account.total_uj += (idle + active + unattributed) * 1_000_000;
        account.residual_uj2 += 2e10;
        for (row, part) in (1..).zip(&mut batch.processes) {
            part.joules[*kind] += active * 1_000_000 * row / 3;
        }
        for (row, part) in (1..).zip(&mut batch.cgroups) {
            part.joules[*kind] += active * 1_000_000 * row / 3;
        }
    }
    fake.tick(&[(1, 40), (2, 90)])
}

fn node() -> Fake {
    Fake::new()
        .process(1, 0, "nginx", NGINX)
        .process(2, 0, "cc1plus", BUILD)
}

/// Shows the view of energy after two seconds.
pub(super) fn metered(app: App) -> App {
    let mut fake = node();
    let took = [(ZoneKind::Package, [12, 9, 1]), (ZoneKind::Dram, [3, 3, 0])];
    let batches = [(); 3].map(|()| second(&mut fake, &took));
    press(feed(app, batches), "e")
}

/// Shows the view of energy on a machine without a meter.
pub(super) fn without_meter(app: App) -> App {
    let mut fake = node().off(FeatureId::Energy, FeatureState::Off);
    let batches = [(); 3].map(|()| fake.tick(&[(1, 40)]));
    press(feed(app, batches), "e")
}

#[test]
fn rows_sum_only_outermost_zones() {
    let app = metered(app(Level::Process, 120, 20));
    let text = screen(&app, 120, 20);
    // cc1plus gets two thirds of 9 W and of 3 W, and is listed first.
    let row = |name: &str| text.lines().find(|line| line.contains(name)).expect(name);
    assert!(row("cc1plus").contains("8.00"), "{text}");
    assert!(row("nginx").contains("4.00"), "{text}");
    assert!(text.find("cc1plus") < text.find("nginx"), "{text}");
    assert!(row("package-0").contains("22.0"), "{text}");
}

#[test]
fn a_meter_that_did_not_move_has_no_figures() {
    let mut fake = node();
    let still = [(ZoneKind::Package, [0, 0, 0])];
    let batches = [(); 3].map(|()| second(&mut fake, &still));
    let app = press(feed(app(Level::Process, 120, 20), batches), "e");
    let text = screen(&app, 120, 20);
    let zone = text.lines().find(|line| line.contains("package-0"));
    let zone = zone.expect("the zone");
    assert!(!zone.replace("package-0", "").contains('0'), "{text}");
}

#[test]
fn keys_lead_from_every_view_to_every_other() {
    let app = metered(app(Level::Process, 120, 20));
    let shows = |app: &App, word: &str| screen(app, 120, 20).contains(word);
    assert!(shows(&app, " e energy ") && shows(&app, "PKG W"));
    let waits = press(app.clone(), "w");
    assert!(shows(&waits, " w waits ") && !shows(&waits, "PKG W"));
    let back = press(waits, "e");
    assert!(shows(&back, "by W\u{25bc}"));
    let used = press(back, "e");
    assert!(shows(&used, "by CPU%") && !shows(&used, "package-0"));
    // This view has its own levels and its own sort order.
    let sorted = press(app, "2 s w e");
    assert!(shows(&sorted, "by JOULES"));
}
