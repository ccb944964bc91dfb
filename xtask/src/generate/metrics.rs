//! Generates docs/metrics.md from the metric table of the model.

use std::fmt::Write as _;

use noctule_model::{
    DETAILS, Kind, METRICS, Measurable as _, Metric, SELF_METRICS, Source, Unit, VerdictKind,
};

/// Prefix of each level, the meaning of its rows, and their labels.
const LEVELS: &[(&str, &str, &str)] = &[
    ("node", "the whole machine", "none"),
    (
        "container",
        "a container; the helper processes of a runtime do not belong to it",
        "`container_id`, and if known `container` (its name), `runtime`, `pod_uid`, `pod`, \
         `namespace`, `unit`",
    ),
    ("unit", "a systemd unit, without its containers", "`unit`"),
    (
        "cgroup",
        "a cgroup outside containers and units",
        "`cgroup` (its path)",
    ),
    (
        "process",
        "a process; only with `--process-metrics`",
        "`pid`, `start` (Unix seconds), `comm`, and one of `container_id`, `unit`, `cgroup`",
    ),
];

const HEAD: &str = "\
<!-- Made by `cargo xtask gen` from crates/model/src/metric.rs. Do not edit. -->

# Metrics

`noctule run` serves these metrics at `/metrics`. The scraper selects the format: OpenMetrics 1.0, the classic
Prometheus text format, or Prometheus' protobuf format. The response is compressed with gzip if the scraper accepts
it. In OpenMetrics, the family name of a counter has no `_total`; the samples have it in every format. In the
protobuf format, histograms also have native buckets ([promql.md](promql.md)).

- Counters start at 0 when the agent starts, and never decrease.
- A scraper first receives the counters and histograms of a new row as 0, and their values in its next scrape.
  `increase()` therefore includes all usage of the row, for any scrape interval up to 75 seconds (half of
  `metrics.grace_seconds`). The agent keeps track of each scraper separately
  ([why](decisions/31-new-series-begin-at-0.md)). A client that is not a scraper, such as `curl`, receives the values
  immediately.
- For one scrape, the sum over rows does not include a new row. A row older than five minutes is never treated as new.
- Two Prometheus servers of the same version behind one address look like one scraper. Give each of them its own query
  parameter, such as `params: {scraper: [\"a\"]}` in its scrape configuration.
- In the protobuf format, each counter and histogram has a created timestamp. A server with
  `--enable-feature=created-timestamp-zero-ingestion` requests that format automatically.
- A metric that cannot be measured is left out; it is never reported as 0. `noctule doctor` and
  `noctule_self_feature` show the reason.
- The labels of a series never change. A container is hidden until its name is known, for at most 3 seconds. Its
  usage during this time is not lost.
- If an owner has many short-lived groups (ten that ended within five minutes, each after less than 30 seconds), they
  share one row, whose labels have `*` for the parts of names that differ: `run-u*.service`. A group that lives on gets
  its own row after 30 seconds, with all that it used ([why](decisions/37-short-lived-groups.md)).
- Each level has a cardinality limit. Rows beyond the limit are summed in one row with the label `_overflow`.
  `noctule_self_overflow_subjects` is the number of these rows.
- Containers, units and cgroups do not overlap. The sum over all three, including ended ones, is the usage of all
  processes on the node. `noctule_node_*` also includes the softirqs and hardware counters of idle CPUs.
- The labels `cause` and `by` are `self` if the task that ran belongs to the same row, `kernel` for kernel threads, and
  `neighbour` for every other container, unit or group. At the level of processes, `self` is the process's own
  cgroup.
- `culprit` identifies a culprit (`container:<id>`, `unit:<name>`, `cgroup:<path>`, `kernel`, `_other`). The
  labels with the prefix `culprit_` are the labels of the culprit's own series.
- `sched_blame_seconds` names a culprit once its blame reaches 10 ms. The culprits with the most blame come first,
  up to `metrics.blame_pairs` in the configuration (1000). All other blame belongs to the victim's culprit `_other`.
  It stays there even if a culprit gets its own series later, which starts at 0. The sum over culprits, including
  ended ones, is therefore the time that the victim waited for neighbours and kernel threads.
- `noctule_self_overflow_blame_pairs` is the number of pairs beyond that limit. All victims share the limit: if room is
  needed, the victim with the most pairs loses one. A series that ends keeps its last value for five minutes, so that
  every scraper sees it. The number of series is at most twice the limit.
- A connection belongs to the group that its process was in when it connected or started listening, even if another
  process uses the socket later. If the kernel shows which process accepts the connection (the feature `tcp_calls`),
  it belongs to the group of that process afterwards. Connections that exist when the agent starts are in
  `tcp_connections`, and their later bytes are counted. They are not counted as connects or accepts.
- Energy is active energy: the idle energy of zones belongs to the node ([energy.md](energy.md)). Below the node, energy
  is summed over all sockets for each kind of zone. `source` names the meter; `source=\"model\"` is not a meter but a
  power model from the configuration. A package contains its cores, and a platform its packages: do not add those up.
- `tcp_connections` and `tcp_listeners` count open sockets. When a group ends, its sockets are no longer counted.
  When a row moves between the overflow row and its own, its gauge moves with it.
- `sched_verdict` describes the last window (`verdicts.window_seconds`, 10 s). When a group ends, its row keeps the
  verdict of that window until the next window ends. It is then `quiet` until its series end.
- `tcp_destination_*` contain outgoing connections by destination address and port (`10.0.0.1:80`,
  `[2001:db8::1]:443`). The destinations with the most attempts come first, up to `metrics.destinations` in the
  configuration (100) on the node. All other destinations are summed under `_other`. As for `sched_blame_seconds`,
  scraped values never move from one series to another, and the sum over destinations, including ended ones, is the
  total of the row. A row has these series from its first connection on.
- `noctule_self_overflow_destinations` is the number of destinations beyond that limit. Rows share the limit as victims
  share the limit of pairs. If the table in the kernel (`events.destinations`) is full and a group with less than its
  share finds no room, groups with more than their share get no further rows until a minute later. The log names each
  of these groups once, in a warning.
- Rows below the node have the following metrics only if the configuration enables them (`metrics.with`,
  `metrics.detail`): {details}.
- Histograms of rows below the node have a bucket for every second power of two. By default, a row without connections
  has 66 series if CPU time, waits, page cache, processes and TCP are measured. Hardware counters add 5 series,
  energy one for each kind of zone, a destination 6, and a culprit one.

## Levels
";

pub(super) fn page() -> String {
    let details: Vec<String> = DETAILS.iter().map(|name| format!("`{name}`")).collect();
    let mut page = HEAD.replace("{details}", &details.join(", "));
    page.push_str("\n| level | a row is | labels |\n|---|---|---|\n");
    for (level, what, labels) in LEVELS {
        push(&mut page, format_args!("| {level} | {what} | {labels} |"));
    }
    page.push_str("\n## At the levels\n");
    for metric in METRICS {
        let levels = metric.source.levels();
        let names = levels.iter().map(|level| full_name(level, metric));
        section(
            &mut page,
            metric,
            &names.collect::<Vec<_>>(),
            &values(metric),
        );
    }
    page.push_str("\n## Node and agent\n");
    for metric in SELF_METRICS {
        section(&mut page, metric, &[full_name("", metric)], "");
    }
    page
}

/// Appends the section of a metric.
fn section<S>(page: &mut String, metric: &Metric<S>, names: &[String], values: &str) {
    push(
        page,
        format_args!("\n### {}\n\n{}\n", metric.name, metric.help),
    );
    push(page, format_args!("- name: {}", names.join(", ")));
    push(page, format_args!("- type: {}", kind(metric.kind)));
    push(page, format_args!("- unit: {}", unit(metric.unit)));
    if !metric.labels.is_empty() {
        let labels: Vec<String> = metric.labels.iter().map(|l| format!("`{l}`")).collect();
        push(
            page,
            format_args!("- labels: {}{values}", labels.join(", ")),
        );
    }
    push(page, format_args!("- absent: {}", metric.absent));
}

/// Returns the name of the samples.
fn full_name<S>(level: &str, metric: &Metric<S>) -> String {
    let separator = if level.is_empty() { "" } else { "_" };
    let suffix = match metric.kind {
        Kind::Counter => "_total",
        Kind::Gauge | Kind::Histogram => "",
    };
    format!("`noctule_{level}{separator}{}{suffix}`", metric.name)
}

/// Returns the values of the metric's last own label.
fn values(metric: &Metric) -> String {
    match metric.source {
        Source::Counters(list) => listed(list.iter().map(|it| it.part())),
        Source::Blocked(classes) => listed(classes.iter().map(|class| class.name())),
        Source::Events(list) => listed(list.iter().map(|it| it.part())),
        Source::Destinations(list) if list.len() > 1 => listed(list.iter().map(|it| it.part())),
        Source::Verdict => listed(VerdictKind::ALL.iter().map(|kind| kind.name())),
        Source::Blame => " (`container`, `unit`, `cgroup`, `kernel`, `other`), and if known \
             `culprit_namespace`, `culprit_pod`, `culprit_container`, `culprit_unit`, \
             `culprit_cgroup`"
            .into(),
        _ => String::new(),
    }
}

fn listed<'a>(values: impl Iterator<Item = &'a str>) -> String {
    let values: Vec<String> = values.map(|value| format!("`{value}`")).collect();
    format!(" ({})", values.join(", "))
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram (`_bucket` with the label `le`, `_count`, `_sum`)",
    }
}

fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Count(_) => "a count",
        other => other.name(),
    }
}

/// Appends a line. Writing to a `String` cannot fail.
fn push(page: &mut String, line: std::fmt::Arguments<'_>) {
    let _ = writeln!(page, "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_listed_at_every_level() {
        let page = page();
        for metric in METRICS {
            for level in metric.source.levels() {
                let name = full_name(level, metric);
                assert!(page.contains(&name), "{name} is not on the page");
            }
        }
        for metric in SELF_METRICS {
            assert!(page.contains(&full_name("", metric)), "{}", metric.name);
        }
        assert!(page.contains("`noctule_container_cpu_seconds_total`"));
        assert!(!page.contains("`noctule_process_sched_wait_duration_seconds`"));
        let has_row = |name: &&str| LEVELS.iter().any(|(level, ..)| level == name);
        assert!(METRICS.iter().flat_map(|m| m.source.levels()).all(has_row));
        assert!(page.contains("- labels: `op` (`read`, `write`)\n"));
    }

    #[test]
    fn every_section_explains_absence() {
        let page = page();
        let count = |start| page.lines().filter(|l| l.starts_with(start)).count();
        let sections = METRICS.len() + SELF_METRICS.len();
        for start in ["### ", "- name: ", "- type: ", "- unit: ", "- absent: "] {
            assert_eq!(count(start), sections, "{start}");
        }
    }
}
