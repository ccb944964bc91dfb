//! Tests the increases that Prometheus' `increase()` computes from the pages that a scraper
//! receives.

use std::collections::BTreeMap;

use noctule_analysis::Rollup;
use noctule_model::{Batch, CgroupId, EventCounter, Group, Histogram, WaitRow};
use noctule_sinks::openmetrics::{Exporter, Exposition, Options, View};

use super::fixture::{
    SECOND, cell, container, destination, eventful, group, measured, unit, waits,
};

/// Returns the values of the rows' counters and histograms, by series.
fn counted(text: &str) -> BTreeMap<String, f64> {
    let is_gauge = |line: &str| line.starts_with("# TYPE ") && line.ends_with(" gauge");
    let mut gauge = false;
    let mut values = BTreeMap::new();
    for line in text.lines() {
        if line.starts_with('#') {
            gauge = is_gauge(line) || gauge && !line.starts_with("# TYPE ");
        } else if !gauge && line.contains('{') && !line.starts_with("noctule_self_") {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            values.insert(series.to_owned(), value.parse().expect("a number"));
        }
    }
    values.retain(|series, _| !series.starts_with("noctule_node_"));
    values
}

/// The row already has its final values when it appears, like a job that ends within a second.
#[test]
fn every_scraper_counts_a_short_job_in_full() {
    let mut exporter = Exporter::new(Options::default());
    let mut rollup = Rollup::new(300 * SECOND);
    let mut scrapers = [5_u64, 15, 60].map(|interval| {
        let (first, last) = (BTreeMap::new(), BTreeMap::new());
        (interval, View::Since(SECOND), first, last)
    });
    let mut complete = String::new();
    for at in 1..=190 {
        let mut batch = match at {
            1..7 => Batch::default(),
            _ => eventful(),
        };
        batch.taken_ns = at * SECOND;
        rollup.apply(&mut batch);
        let snapshot = exporter.observe(&batch);
        for (interval, view, first, last) in &mut scrapers {
            if at % *interval == 3 {
                let values = counted(&snapshot.render_for(*view, Exposition::Classic, 0));
                assert_eq!(
                    values,
                    counted(&snapshot.render_for(*view, Exposition::Classic, 9))
                );
                for (series, value) in &values {
                    first.entry(series.clone()).or_insert(*value);
                }
                *last = values;
                *view = View::Since(batch.taken_ns);
            }
        }
        complete = snapshot.render(Exposition::Classic, 0);
    }
    let all = counted(&complete);
    assert!(all.len() > 50 && all.values().any(|value| *value > 0.0));
    for (interval, _, first, last) in scrapers {
        assert!(first.values().all(|value| *value == 0.0), "{first:?}");
        assert_eq!(last, all, "each {interval} s");
    }
}

/// A batch with the activity of two groups in the first `seconds`. One group is a container with
/// this name.
fn grown(rollup: &mut Rollup, at: u64, seconds: u64, name: Option<&str>) -> Batch {
    let mut groups = vec![group(container(71, name), seconds * SECOND / 2)];
    groups.push(group(unit(72, "cron.service"), seconds * SECOND / 2));
    for (i, counter) in (1..).zip(EventCounter::all()) {
        groups[0].events[counter] = seconds * i;
    }
    for (i, counter) in (1..).zip(waits()) {
        groups[0].counters[counter] = seconds * i * 30_000_000;
    }
    let others = seconds * 70_000_000;
    let mut batch = Batch {
        taken_ns: at * SECOND,
        time_unix_ns: (1_700_000_000 + at) * SECOND,
        measured: measured(),
        connects: vec![WaitRow {
            group: Group::Cgroup(CgroupId(71)),
            histogram: Histogram::from_counts([seconds, 2 * seconds]),
        }],
        waits: vec![WaitRow {
            group: Group::Cgroup(CgroupId(71)),
            histogram: Histogram::from_counts([3 * seconds, seconds]),
        }],
        destinations: vec![
            destination(71, Some(80), 5 * seconds),
            destination(71, None, seconds),
        ],
        blames: vec![cell(71, 72, others)],
        cgroups: groups,
        ..Batch::default()
    };
    batch.measured.extend(waits());
    batch.measured.extend(EventCounter::all());
    rollup.apply(&mut batch);
    batch
}

/// Returns a series without the labels whose values are names and partners, because names arrive at
/// different times.
fn nameless(series: &str) -> String {
    let (metric, labels) = series.split_once('{').expect("labels");
    let labels = labels.trim_end_matches('}').split(',');
    let stays = |label: &&str| {
        let late = [
            "container=",
            "pod=",
            "namespace=",
            "culprit",
            "destination=",
        ];
        !late.iter().any(|name| label.starts_with(name))
    };
    format!(
        "{metric} {}",
        labels.filter(stays).collect::<Vec<_>>().join(",")
    )
}

/// Returns the increases that `increase()` computes for three scrapers. A container gets its name
/// after `named_after` seconds.
fn increases(named_after: u64) -> [BTreeMap<String, f64>; 3] {
    let mut exporter = Exporter::new(Options::default());
    let mut rollup = Rollup::new(300 * SECOND);
    let mut increases = [(); 3].map(|()| BTreeMap::new());
    let mut scrapers = [1_u64, 5, 60].map(|interval| {
        let last: BTreeMap<String, f64> = BTreeMap::new();
        (interval, View::Since(SECOND), last)
    });
    for at in 1..=400_u64 {
        let name = (at >= named_after).then_some("cart");
        let batch = match at {
            1 | 2 => Batch {
                taken_ns: at * SECOND,
                ..Batch::default()
            },
            _ => grown(&mut rollup, at, at.min(20), name),
        };
        let snapshot = exporter.observe(&batch);
        for ((interval, view, last), sums) in scrapers.iter_mut().zip(&mut increases) {
            if at % *interval != 0 {
                continue;
            }
            let values = counted(&snapshot.render_for(*view, Exposition::Classic, 0));
            for (series, value) in &values {
                let before = last.get(series).copied().unwrap_or(*value);
                assert!(before <= *value, "{series} fell at {at}");
                *sums.entry(nameless(series)).or_default() += value - before;
            }
            *last = values;
            *view = View::Since(batch.taken_ns);
        }
    }
    increases
}

#[test]
fn late_name_loses_no_increase() {
    let known = increases(0);
    assert!(known[0].len() > 50 && known[0].values().any(|value| *value > 0.0));
    for named_after in [7, 8, 30] {
        for (known, late) in known.iter().zip(increases(named_after)) {
            assert!(known.keys().eq(late.keys()));
            for (series, value) in known {
                let late = late[series];
                assert!((late - value).abs() < 1e-6, "{series}: {late} of {value}");
            }
        }
    }
}
