//! Kepler's metrics: the table matches what is served, and the values add up.

mod fixture;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use fixture::{CONTAINER, SECOND, batch, container, group, metered, process, unit};
use noctule_analysis::Rollup;
use noctule_model::{Batch, Counter, KEPLER_METRICS, KeplerOffer, KeplerSource, Kind, ZoneKind};
use noctule_sinks::openmetrics::{Exporter, Exposition, Machine, Options};

fn exporter() -> Exporter {
    Exporter::new(Options {
        process_level: true,
        kepler_node: Some("bat-1".into()),
        machine: Arc::new(Machine {
            processors: vec![["0", "GenuineIntel", "Xeon", "1", "2"].map(String::from)],
            ..Machine::default()
        }),
        ..Options::default()
    })
}

/// Two packages, a container in a pod, a unit, and a process of the container. Each is charged the
/// amounts of `metered`, `tick` times.
fn node(rollup: &mut Rollup, tick: u64) -> Batch {
    let groups = vec![
        group(container(71, Some("cart")), tick * SECOND),
        group(unit(72, "cron.service"), tick * SECOND / 4),
    ];
    let mut batch = batch(rollup, 10 * tick * SECOND, groups);
    batch.measured = Counter::all().collect();
    batch.processes = vec![process(
        4711,
        "cartd",
        container(71, Some("cart")),
        tick * SECOND,
    )];
    metered(&mut batch);
    for account in &mut batch.zone_accounts {
        account.total_uj *= tick;
        account.idle_uj *= tick;
        account.active_uj *= tick;
    }
    for row in &mut batch.subjects {
        row.joules[ZoneKind::Package] *= tick;
    }
    batch.processes[0].joules[ZoneKind::Package] = tick * 4_000_000;
    batch
}

/// The samples of a scrape: name, labels and value.
type Samples = Vec<(String, BTreeMap<String, String>, f64)>;

fn samples(text: &str) -> Samples {
    let lines = text.lines().filter(|line| line.starts_with("kepler_"));
    lines
        .map(|line| {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            let (name, labels) = series.split_once('{').expect("labels");
            let labels = labels.trim_end_matches('}').split("\",");
            let label = |text: &str| {
                let (name, value) = text.split_once("=\"").expect("a label");
                (name.to_owned(), value.trim_end_matches('"').to_owned())
            };
            let labels = labels.map(label).collect();
            (name.to_owned(), labels, value.parse().expect("a number"))
        })
        .collect()
}

fn value(samples: &Samples, name: &str, labels: &[(&str, &str)]) -> f64 {
    let fits = |found: &BTreeMap<String, String>| {
        labels
            .iter()
            .all(|(name, value)| found.get(*name).is_some_and(|it| it == value))
    };
    let mut found = samples
        .iter()
        .filter(|(it, found, _)| it == name && fits(found));
    let (_, _, value) = found.next().unwrap_or_else(|| panic!("{name} {labels:?}"));
    assert!(
        found.next().is_none(),
        "{name} {labels:?} is not one series"
    );
    *value
}

/// Power is a quotient, so it is not exact.
#[track_caller]
fn assert_near(value: f64, wanted: f64) {
    assert!((value - wanted).abs() < 1e-9, "{value}, not {wanted}");
}

/// Renders a scrape after two batches, 10 s apart.
fn scrape(exposition: Exposition) -> String {
    let (mut exporter, mut rollup) = (exporter(), Rollup::new(0));
    exporter.observe(&node(&mut rollup, 1));
    let last = node(&mut rollup, 2);
    exporter.observe(&last).render(exposition, last.taken_ns)
}

#[test]
fn exactly_the_listed_metrics_are_served() {
    let text = scrape(Exposition::Classic);
    let mut served: HashMap<&str, BTreeSet<String>> = HashMap::new();
    let samples = samples(&text);
    for (name, labels, _) in &samples {
        served
            .entry(name)
            .or_default()
            .extend(labels.keys().cloned());
    }
    for metric in KEPLER_METRICS {
        let name = match metric.kind {
            Kind::Counter => format!("{}_total", metric.name),
            _ => metric.name.to_owned(),
        };
        let absent = match metric.offer {
            KeplerOffer::Not(_) => {
                let also = |it: &&noctule_model::KeplerMetric| {
                    it.name == metric.name && matches!(it.offer, KeplerOffer::Given(_))
                };
                assert!(KEPLER_METRICS.iter().find(also).is_none() && !served.contains_key(&*name));
                continue;
            }
            // This node has only package zones.
            KeplerOffer::Given(KeplerSource::JoulesOf(kind)) => kind != ZoneKind::Package,
            KeplerOffer::Given(_) => false,
        };
        assert_eq!(served.contains_key(&*name), !absent, "{name}");
        if let Some(labels) = served.remove(&*name) {
            let known: BTreeSet<String> = metric.labels().iter().map(|&it| it.into()).collect();
            assert_eq!(labels, known, "{name}");
        }
    }
    assert!(served.is_empty(), "not in the table: {served:?}");
}

#[test]
fn kepler_figures_equal_ours_and_add_up() {
    let samples = samples(&scrape(Exposition::OpenMetrics));
    let get = |name: &str, labels: &[(&str, &str)]| value(&samples, name, labels);
    let zone = [
        ("zone", "package"),
        ("path", "aggregated-package"),
        ("node_name", "bat-1"),
    ];
    let [total, active, idle] = ["", "_active", "_idle"]
        .map(|part| get(&format!("kepler_node_cpu{part}_joules_total"), &zone));
    assert_eq!([total, active, idle], [120.000004, 40.000004, 80.0]);
    // Half of the energy was used in the last 10 s, so the power is a twentieth of the energy.
    let [total, active, idle] =
        ["", "_active", "_idle"].map(|part| get(&format!("kepler_node_cpu{part}_watts"), &zone));
    for (watts, wanted) in [(total, 6.0000002), (active, 2.0000002), (idle, 4.0)] {
        assert_near(watts, wanted);
    }
    let one = [("container_id", CONTAINER)];
    assert_eq!(get("kepler_container_cpu_joules_total", &one), 10.000002);
    assert_near(get("kepler_container_cpu_watts", &one), 0.5000001);
    assert_eq!(get("kepler_container_cpu_seconds_total", &one), 2.0);
    assert_eq!(get("kepler_container_joules_total", &one), 10.000002);
    assert_eq!(get("kepler_container_bpf_cpu_time_ms_total", &one), 2000.0);
    let pod = [("pod_name", "shop-5c9"), ("pod_namespace", "prod")];
    assert_eq!(get("kepler_pod_cpu_joules_total", &pod), 10.000002);
    assert_near(get("kepler_pod_cpu_watts", &pod), 0.5000001);
    let process = [
        ("pid", "4711"),
        ("type", "container"),
        ("start", "1700000005.250"),
    ];
    assert_eq!(get("kepler_process_cpu_joules_total", &process), 8.0);
    assert_near(get("kepler_process_cpu_watts", &process), 0.4);
    for (socket, mode, joules) in [("0", "dynamic", 20.000002), ("1", "idle", 40.0)] {
        let labels = [("package", socket), ("mode", mode), ("instance", "bat-1")];
        assert_eq!(get("kepler_node_package_joules_total", &labels), joules);
    }
}

#[test]
fn pod_keeps_the_energy_of_a_removed_container() {
    let other = |mut owner: noctule_model::Owner| {
        if let Some(container) = &mut owner.container {
            container.id = "feed".repeat(16);
        }
        owner
    };
    let (mut exporter, mut rollup) = (exporter(), Rollup::new(0));
    let mut pods = Vec::new();
    for tick in 1..=4 {
        let mut groups = vec![group(container(71, Some("cart")), tick * SECOND)];
        // The second container exists in two of the batches.
        if [2, 3].contains(&tick) {
            groups.push(group(other(container(81, Some("side"))), tick * SECOND));
        }
        let mut batch = batch(&mut rollup, tick * SECOND, groups);
        metered(&mut batch);
        for row in &mut batch.subjects {
            row.joules[ZoneKind::Package] = tick * 1_000_000;
        }
        let text = exporter
            .observe(&batch)
            .render(Exposition::Classic, batch.taken_ns);
        pods.push(value(&samples(&text), "kepler_pod_cpu_joules_total", &[]));
    }
    assert_eq!(pods, [1.0, 4.0, 6.0, 7.0]);
}

#[test]
fn kepler_metrics_are_opt_in_and_joules_need_a_meter() {
    let mut rollup = Rollup::new(0);
    let mut bare = node(&mut rollup, 1);
    let plain = Exporter::new(Options::default()).observe(&bare);
    assert!(!plain.render(Exposition::Classic, 0).contains("kepler"));
    bare.energy = None;
    bare.zone_accounts.clear();
    let mut exporter = exporter();
    exporter.observe(&bare);
    let text = exporter.observe(&bare).render(Exposition::Classic, 0);
    assert!(
        !text.contains("_joules") && !text.contains("_watts"),
        "{text}"
    );
    assert!(
        text.contains("kepler_container_cpu_seconds_total{"),
        "{text}"
    );
}
