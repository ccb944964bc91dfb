//! Measures the cost of a scrape: `cargo run --release -p noctule-sinks --example render_cost`.
//!
//! With the argument `openmetrics` or `classic`, it prints a text full of hostile names instead, as
//! input for `promtool check metrics` or Python's `prometheus_client.openmetrics`.
#![allow(clippy::print_stdout, reason = "an example prints to its user")]

#[path = "../tests/fixture/mod.rs"]
mod fixture;

use std::time::{Duration, Instant};

use fixture::{SECOND, batch, container, group, hostile, owner};
use noctule_analysis::Rollup;
use noctule_model::{Batch, Counter, EventCounter, Measured};
use noctule_sinks::openmetrics::{Exporter, Exposition, Options};

fn main() {
    let options = Options {
        process_level: true,
        max_subjects: 8,
        ..Options::default()
    };
    let print = |exposition| {
        let text = Exporter::new(options)
            .observe(&hostile())
            .render(exposition, 0);
        print!("{text}");
    };
    match std::env::args().nth(1).as_deref() {
        Some("openmetrics") => print(Exposition::OpenMetrics),
        Some("classic") => print(Exposition::Classic),
        _ => cost(),
    }
}

/// 200 subjects with every metric. Half of the subjects are containers.
fn large() -> Batch {
    let subject = |id: u64| {
        if id.is_multiple_of(2) {
            return group(
                owner(id, &format!("/user.slice/session-{id}.d")),
                SECOND * id,
            );
        }
        let mut owner = container(id, Some("cart"));
        if let Some(container) = &mut owner.container {
            container.id = format!("{id:064x}");
        }
        group(owner, 123_456_789 * id)
    };
    let groups = (1..=200).map(subject).collect();
    let mut batch = batch(&mut Rollup::new(0), 1_000_000 * SECOND, groups);
    batch.measured = Measured::from_iter(Counter::all());
    batch.measured.extend(EventCounter::all());
    batch
}

fn cost() {
    let batch = large();
    let mut exporter = Exporter::new(Options::default());
    let snapshot = exporter.observe(&batch);
    let bytes = snapshot.render(Exposition::OpenMetrics, 0).len();
    let render = median(|| snapshot.render(Exposition::OpenMetrics, 0).len());
    let observe = median(|| exporter.observe(&batch));
    println!("200 subjects, {bytes} bytes: observe {observe:?}, render {render:?}");
}

fn median<T>(mut work: impl FnMut() -> T) -> Duration {
    let mut times: Vec<Duration> = (0..201)
        .map(|_| {
            let start = Instant::now();
            std::hint::black_box(work());
            start.elapsed()
        })
        .collect();
    times.sort();
    times[times.len() / 2]
}
