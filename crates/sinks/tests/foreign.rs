//! Tests the metrics under names of cAdvisor and Coroot, compared with noctule's own metrics.

mod fixture;

use std::sync::Arc;

use fixture::eventful;
use noctule_model::{
    Batch, Cause, Counter, Counters, DestinationCounter, FOREIGN_METRICS, ForeignExporter,
    ForeignMetric, ForeignOffer, Measured, Owner, QuotaRow, Runtime, Subject, SubjectRow,
};
use noctule_sinks::openmetrics::{Exporter, Exposition, Machine, Options};

/// A batch with connections, waits and an OOM kill.
fn batch() -> Batch {
    let mut batch = eventful();
    batch.measured.extend(Counter::all());
    batch.boot_unix_ns = 1_700_000_000_000_000_000;
    batch.time_unix_ns = batch.boot_unix_ns + 60_000_000_000;
    for row in &mut batch.subjects {
        row.counters[Counter::Wait(Cause::Throttle)] = 2_000_000_000;
        row.counters[Counter::Wait(Cause::Neighbour)] = 1_000_000_000;
        row.all_destinations[DestinationCounter::Connects] += 1;
        row.stalls = [Some(5_000_000_000); 6];
        if row.owner.container.is_some() {
            batch.quotas.push(quota(&row.owner, 30, 9));
        }
    }
    batch
}

fn quota(owner: &Owner, periods: u64, throttled_periods: u64) -> QuotaRow {
    QuotaRow {
        cgroup: owner.cgroup,
        path: owner.path.clone(),
        cpus: 0.5,
        period_ns: 100_000_000,
        periods,
        throttled_periods,
        throttled_ns: 0,
        ended: false,
    }
}

fn render(batch: &Batch, foreign: Option<ForeignExporter>) -> String {
    let mut exporter = Exporter::new(Options {
        foreign,
        version: "1.2.3",
        machine: Arc::new(Machine {
            name: "bat-1".into(),
            kernel: "6.12.0".into(),
            machine_id: "4c1f".into(),
            system_uuid: "0a-1b".into(),
            processors: Vec::new(),
        }),
        ..Options::default()
    });
    exporter.observe(batch).render(Exposition::Classic, 0)
}

/// Returns the labels and values of the samples with this name.
fn samples<'a>(text: &'a str, name: &str) -> Vec<(&'a str, f64)> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(name));
    let sample = |rest: &'a str| {
        let (labels, value) = rest.rsplit_once(' ')?;
        let whole = labels.is_empty() || labels.starts_with('{');
        whole.then(|| (labels, value.parse().expect("a number")))
    };
    lines.filter_map(sample).collect()
}

fn sum(samples: &[(&str, f64)]) -> f64 {
    samples.iter().map(|(_, value)| value).sum()
}

#[test]
fn exactly_the_offered_names_are_exposed() {
    let offered = |metric: &&ForeignMetric| matches!(metric.offer, ForeignOffer::Given(_));
    for exporter in [ForeignExporter::Cadvisor, ForeignExporter::Coroot] {
        let text = render(&batch(), Some(exporter));
        let families = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let theirs = families.filter(|line| !line.starts_with("noctule_"));
        let theirs: Vec<&str> = theirs.filter_map(|line| line.split(' ').next()).collect();
        let expected = FOREIGN_METRICS.iter().filter(offered);
        let expected = expected.filter(|metric| metric.exporter == exporter);
        let expected: Vec<&str> = expected.map(|metric| metric.name).collect();
        assert_eq!(theirs, expected);
    }
    let without = render(&batch(), None);
    assert!(!without.contains("\ncontainer_"));
    // Metrics that are not measured are absent.
    let mut unmeasured = batch();
    unmeasured.measured = Measured::NONE;
    unmeasured.quotas.clear();
    for row in &mut unmeasured.subjects {
        row.stalls = [None; 6];
    }
    let text = render(&unmeasured, Some(ForeignExporter::Cadvisor));
    assert!(!text.contains("\ncontainer_"), "{text}");
}

#[test]
fn foreign_values_equal_our_own() {
    let text = render(&batch(), Some(ForeignExporter::Cadvisor));
    let usage = samples(&text, "container_cpu_usage_seconds_total");
    let ours = samples(&text, "noctule_container_cpu_seconds_total");
    assert_eq!(sum(&usage), sum(&ours));
    let labels = usage[0].0;
    for part in [
        "id=\"/kubepods.slice/",
        "name=\"4f1c",
        "image=\"registry.example/cart:1\"",
        "container=\"cart\"",
        "pod=\"shop-5c9\"",
        "namespace=\"prod\"",
        "cpu=\"total\"",
    ] {
        assert!(labels.contains(part), "{labels}: {part}");
    }
    let throttled = samples(&text, "container_cpu_cfs_throttled_seconds_total");
    assert_eq!(sum(&throttled), 2.0);
    let queued = samples(&text, "container_cpu_schedstat_runqueue_seconds_total");
    assert_eq!(sum(&queued), 3.0);
    let [quota, period] =
        ["quota", "period"].map(|it| samples(&text, &format!("container_spec_cpu_{it}")));
    assert_eq!([sum(&quota), sum(&period)], [50_000.0, 100_000.0]);

    let text = render(&batch(), Some(ForeignExporter::Coroot));
    let ours = samples(&text, "noctule_container_tcp_destination_connects_total");
    let ours: Vec<_> = ours.into_iter().filter(|(l, _)| l.contains("ok")).collect();
    let theirs = samples(&text, "container_net_tcp_successful_connects_total");
    let of_container =
        |(labels, _): &&(&str, f64)| labels.contains("container_id=\"/k8s/prod/shop-5c9/cart\"");
    let theirs: Vec<_> = theirs.iter().filter(of_container).copied().collect();
    assert!(!theirs.is_empty(), "{text}");
    assert_eq!(sum(&theirs), sum(&ours));
    let units = samples(&text, "container_resources_cpu_usage_seconds_total");
    let machine = "{machine_id=\"4c1f\",system_uuid=\"0a-1b\"";
    let unit = format!("{machine},container_id=\"/system.slice/cron.service\"}}");
    assert!(units.iter().any(|(labels, _)| *labels == unit), "{units:?}");
    let of_node = format!("{machine},hostname=\"bat-1\",kernel_version=\"6.12.0\"}}");
    assert_eq!(samples(&text, "node_info"), [(of_node.as_str(), 1.0)]);
    assert_eq!(sum(&samples(&text, "node_uptime_seconds")), 60.0);
    let modes = samples(&text, "node_resources_cpu_usage_seconds_total");
    let ours =
        ["cpu", "cpu_idle"].map(|it| samples(&text, &format!("noctule_node_{it}_seconds_total")));
    assert_eq!(
        modes[0].1 + modes[1].1,
        ours.map(|it| sum(&it)).iter().sum::<f64>()
    );
    let [(image, _)] = samples(&text, "container_info")[..] else {
        panic!("{text}");
    };
    assert!(
        image.ends_with(",image=\"registry.example/cart:1\"}"),
        "{image}"
    );
    let limit = samples(&text, "container_resources_cpu_limit_cores");
    assert_eq!(sum(&limit), 0.5);
}

#[test]
fn periods_count_from_the_first_batch_or_quota_start() {
    let mut exporter = Exporter::new(Options {
        foreign: Some(ForeignExporter::Cadvisor),
        ..Options::default()
    });
    let mut periods = |batch: &Batch| {
        let text = exporter.observe(batch).render(Exposition::Classic, 0);
        let names = [
            "container_cpu_cfs_periods_total",
            "container_cpu_cfs_throttled_periods_total",
        ];
        names.map(|name| samples(&text, name).first().map(|(_, value)| *value))
    };
    let mut batch = batch();
    assert_eq!(periods(&batch), [Some(0.0), Some(0.0)]);
    batch.quotas[0].periods += 10;
    batch.quotas[0].throttled_periods += 4;
    assert_eq!(periods(&batch), [Some(10.0), Some(4.0)]);
    // The limit was removed. The series are kept for as long as the container exists.
    let mut quotas = std::mem::take(&mut batch.quotas);
    assert_eq!(periods(&batch), [Some(10.0), Some(4.0)]);
    // When the limit is set again, the kernel counts from 0.
    (quotas[0].periods, quotas[0].throttled_periods) = (3, 1);
    batch.quotas = quotas;
    assert_eq!(periods(&batch), [Some(13.0), Some(5.0)]);

    let mut exporter = Exporter::new(Options {
        foreign: Some(ForeignExporter::Cadvisor),
        ..Options::default()
    });
    let quota = batch.quotas.remove(0);
    let mut text = |batch: &Batch| exporter.observe(batch).render(Exposition::Classic, 0);
    assert!(!text(&batch).contains("container_cpu_cfs_periods_total"));
    batch.quotas.push(quota);
    let text = text(&batch);
    assert_eq!(samples(&text, "container_cpu_cfs_periods_total")[0].1, 3.0);
}

#[test]
fn pressure_continues_when_a_row_changes_groups() {
    let mut exporter = Exporter::new(Options {
        foreign: Some(ForeignExporter::Cadvisor),
        ..Options::default()
    });
    let mut waiting = |batch: &Batch| {
        let text = exporter.observe(batch).render(Exposition::Classic, 0);
        sum(&samples(
            &text,
            "container_pressure_cpu_waiting_seconds_total",
        ))
    };
    let mut batch = batch();
    let set = |batch: &mut Batch, line: usize, seconds: Option<u64>| {
        for row in &mut batch.subjects {
            row.stalls[line] = seconds.map(|it| it * 1_000_000_000);
        }
    };
    assert_eq!(waiting(&batch), 5.0);
    set(&mut batch, 0, Some(8));
    assert_eq!(waiting(&batch), 8.0);
    // The group was removed, and another one with the same names follows.
    set(&mut batch, 0, None);
    assert_eq!(waiting(&batch), 8.0);
    set(&mut batch, 0, Some(2));
    assert_eq!(waiting(&batch), 10.0);

    // Before Linux 5.13, groups have no line `full` for the CPU.
    set(&mut batch, 1, None);
    let text = render(&batch, Some(ForeignExporter::Coroot));
    let kinds = |resource: &str| {
        let name = format!("container_resources_{resource}_pressure_waiting_seconds_total");
        let samples = samples(&text, &name);
        let has = |kind: &str| samples.iter().any(|(labels, _)| labels.contains(kind));
        ["kind=\"some\"", "kind=\"full\""].map(has)
    };
    assert_eq!(kinds("cpu"), [true, false]);
    assert_eq!(kinds("io"), [true, true]);
}

#[test]
fn docker_container_is_named_as_in_cadvisor() {
    let mut batch = batch();
    for row in &mut batch.subjects {
        let owner = Arc::make_mut(&mut row.owner);
        if let Some(container) = &mut owner.container {
            container.runtime = Runtime::Docker;
            owner.pod = None;
        }
    }
    let text = render(&batch, Some(ForeignExporter::Cadvisor));
    let usage = samples(&text, "container_cpu_usage_seconds_total");
    assert!(usage[0].0.contains("name=\"cart\""), "{usage:?}");
}

#[test]
fn labels_stay_as_first_exposed() {
    let mut exporter = Exporter::new(Options {
        foreign: Some(ForeignExporter::Coroot),
        ..Options::default()
    });
    let name = "container_resources_cpu_usage_seconds_total";
    let mut labels = |batch: &Batch| {
        let text = exporter.observe(batch).render(Exposition::Classic, 0);
        let rows = samples(&text, name).into_iter();
        rows.map(|(labels, _)| labels.to_owned())
            .collect::<Vec<_>>()
    };
    let first = labels(&batch());
    let mut renamed = batch();
    for row in &mut renamed.subjects {
        let owner = Arc::make_mut(&mut row.owner);
        if let Some(container) = &mut owner.container {
            container.name = Some("another".into());
        }
    }
    assert_eq!(labels(&renamed), first);
}

/// A restarted container has another id and the same name. The row of the previous container is
/// kept for a while.
#[test]
fn containers_with_one_name_share_a_growing_sum() {
    let mut exporter = Exporter::new(Options {
        foreign: Some(ForeignExporter::Coroot),
        ..Options::default()
    });
    let mut usage = |batch: &mut Batch| {
        batch.taken_ns += 2_000_000_000;
        let text = exporter.observe(batch).render(Exposition::Classic, 0);
        let rows = samples(&text, "container_resources_cpu_usage_seconds_total").into_iter();
        let cart = rows.filter(|(labels, _)| labels.contains("/k8s/prod/shop-5c9/cart"));
        let cpu = cart.map(|(_, value)| value).collect::<Vec<_>>();
        let rows = samples(&text, "container_net_tcp_successful_connects_total");
        let cart = rows.into_iter();
        let cart = cart.filter(|(labels, _)| labels.contains("/k8s/prod/shop-5c9/cart"));
        let connects = cart.map(|(_, value)| value).sum::<f64>();
        let restarts = samples(&text, "container_restarts_total");
        assert_eq!(restarts.len(), 1);
        (cpu, connects, sum(&restarts))
    };
    let mut batch = batch();
    let (cpu, connects, restarts) = usage(&mut batch);
    assert_eq!((cpu.len(), restarts), (1, 0.0));
    assert!(connects > 0.0);
    let is_cart = |row: &SubjectRow| {
        let container = row.owner.container.as_ref();
        container.is_some_and(|it| it.name.as_deref() == Some("cart"))
    };
    let place = batch.subjects.iter().position(is_cart).expect("the cart");
    let mut again = batch.subjects[place].clone();
    again.subject = Subject::Container("0again".into());
    again.counters = Counters::default();
    again.counters[Counter::CpuTime] = 7_000_000_000;
    let owner = Arc::make_mut(&mut again.owner);
    owner.container.as_mut().expect("a container").id = "0again".into();
    batch.subjects.insert(place, again);
    let both = (vec![cpu[0] + 7.0], 2.0 * connects, 1.0);
    assert_eq!(usage(&mut batch), both);
    // After one of the two containers ends, the sum is unchanged.
    batch.subjects.remove(place + 1);
    assert_eq!(usage(&mut batch), both);
    batch.subjects[place].counters[Counter::CpuTime] += 1_000_000_000;
    assert_eq!(usage(&mut batch).0, [cpu[0] + 8.0]);
}

#[test]
fn late_name_counts_no_connection_twice() {
    let mut exporter = Exporter::new(Options {
        foreign: Some(ForeignExporter::Coroot),
        ..Options::default()
    });
    let mut connects = |batch: &mut Batch| {
        batch.taken_ns += 2_000_000_000;
        let text = exporter.observe(batch).render(Exposition::Classic, 0);
        sum(&samples(
            &text,
            "container_net_tcp_successful_connects_total",
        ))
    };
    let named = batch();
    let mut batch = named.clone();
    for row in &mut batch.subjects {
        if let Some(container) = &mut Arc::make_mut(&mut row.owner).container {
            container.name = None;
        }
    }
    // Rows without a name are shown a few seconds later.
    let before = (0..5).map(|_| connects(&mut batch)).last();
    assert!(before > Some(0.0), "{before:?}");
    batch.subjects.clone_from(&named.subjects);
    assert_eq!(Some(connects(&mut batch)), before);
}
