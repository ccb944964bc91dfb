//! docs/metrics.md, from the metric table of the model.

use std::fmt::Write as _;

use noctule_model::{DETAILS, Kind, METRICS, Metric, SELF_METRICS, Source, Unit, VerdictKind};

/// Prefix of each level, and what its rows are.
const LEVELS: &[(&str, &str, &str)] = &[
    ("node", "the whole machine", "none"),
    (
        "container",
        "a container; the helpers of a runtime are not containers",
        "`container_id`, and where known `container` (its name), `runtime`, `pod_uid`, `pod`, \
         `namespace`, `unit`",
    ),
    ("unit", "a systemd unit, without its containers", "`unit`"),
    (
        "cgroup",
        "a cgroup in no container and no unit",
        "`cgroup` (its path)",
    ),
    (
        "process",
        "a process, only with `--process-metrics`",
        "`pid`, `start` (Unix seconds), `comm`, and one of `container_id`, `unit`, `cgroup`",
    ),
];

const HEAD: &str = "\
<!-- Made by `cargo xtask gen` from crates/model/src/metric.rs. Do not edit. -->

# Metrics

What `noctule run` serves at `/metrics`, in OpenMetrics 1.0, in the classic Prometheus text format or in
Prometheus' protobuf format, whichever the scraper asks for, compressed by gzip where it takes that. In
OpenMetrics the name of a counter's family has no `_total`; its samples have it in every format. In the
protobuf format histograms have native buckets as well ([promql.md](promql.md)).

- Counters start at 0 when the agent starts, and only go up.
- A scraper gets counters and histograms of a new row at 0 first, and with their value from its next scrape on. So
  `increase()` has all that the row used, whatever the interval, up to five minutes. Each scraper is served by itself
  ([why](decisions/31-new-series-begin-at-0.md)). A client that is no scraper, such as `curl`, gets the values at once.
- The sum over rows lacks a new row for one scrape. A row that is older than five minutes is never new.
- Two Prometheus servers of one version behind one address look like one scraper. Give each a query of its own:
  `params: {scraper: [\"a\"]}` in its scrape configuration.
- In the protobuf format each counter and histogram has its created timestamp. A server with
  `--enable-feature=created-timestamp-zero-ingestion` asks for that format by itself.
- A metric that is not measured is absent. It is never 0. `noctule doctor` and
  `noctule_self_feature` say why.
- A series keeps its labels while it lives. A container waits up to 3 seconds for its name before it
  is shown; nothing that it used meanwhile is lost.
- Each level has a number of series that it may have. What finds no room is added up in one row
  whose label is `_overflow`, and counted in `noctule_self_overflow_subjects`.
- Containers, units and cgroups do not overlap. The sum over the three, with those that are gone, is
  what all processes of the node used. `noctule_node_*` also has the softirqs and the hardware
  counts of idle CPUs.
- `cause` and `by` say `self` for what ran in the same row, `kernel` for threads of the kernel, and
  `neighbour` for every other container, unit or group. At the level of processes `self` is the
  process's own cgroup.
- `culprit` identifies a culprit (`container:<id>`, `unit:<name>`, `cgroup:<path>`, `kernel`, `_other`). The
  labels with the prefix `culprit_` are those of the culprit's own series.
- `sched_blame_seconds` names a culprit from 10 ms of blame on, the most blame first, up to
  `metrics.blame_pairs` in the configuration (1000). The rest is the victim's culprit `_other`, where
  it stays when the culprit gets a series of its own, which starts at 0. So the sum over culprits,
  those that are gone included, is what the victim waited for neighbours and threads of the
  kernel. Pairs that found no room are counted in `noctule_self_overflow_blame_pairs`. The limit
  is shared by victim: the victim with the most pairs gives up one first. What a series that ends has had since the
  last scrape is in `_other`: else nobody would ever see it. With several readers, of which the receiver of OTLP is
  one, that is the last that any of them saw, and a slower one can miss that part.
- A connection belongs to the group that its process was in when it connected or began to listen,
  even if another process has the socket later; where the kernel shows which process accepts it (the
  feature `tcp_calls`), to the group of that process from then on. Connections that were there when the agent started are in
  `tcp_connections` and count their bytes from then on; they are in no connect or accept.
- Energy is active energy: what zones take when idle is the node's (docs/energy.md). Rows have it by
  kind of zone, over all sockets. `source` names the meter; `source=\"model\"` is none, but the
  operator's model. A package contains its cores, a platform its packages: do not add those up.
- `tcp_connections` and `tcp_listeners` follow what is open. What a group had open is gone with it,
  and the gauge of a row that moves between the overflow row and its own moves with it.
- `sched_verdict` is of the last window (`verdicts.window_seconds`, 10 s). A row whose group has gone keeps the verdict
  of the window in which it went until the next one ends, and is `quiet` from then on until its series end.
- `tcp_destination_*` have connections from this side only, by the address and port that they go
  to (`10.0.0.1:80`, `[2001:db8::1]:443`), the most attempts first, up to `metrics.destinations` in
  the configuration (100) on the node. The rest is the destination `_other`, as for
  `sched_blame_seconds`: nothing that was scraped moves from one series to another, and the sum over destinations,
  those that are gone included, is what the row did with all of them. Destinations that found no
  room are counted in `noctule_self_overflow_destinations`; the limit is shared by row, as that of pairs
  by victim. A row has these series from its first connection on. Where the table of the kernel side (`events.destinations`) is full and a group that has less than
  its share finds no room, those that have more get no further rows until a minute after: a warning in the log names
  each of them once.
- Rows below the node have these only where the configuration asks for them (`metrics.with`,
  `metrics.detail`): {details}.
  Their histograms have a bucket for each second power of two. A row without connections then has 60 series where CPU time, waits, page cache, processes and TCP are measured;
  hardware counters add 5, energy one for each kind of zone, a destination 6, a culprit one.

## Levels
";

/// The page.
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
    page.push_str("\n## Of the node and of the agent\n");
    for metric in SELF_METRICS {
        section(&mut page, metric, &[full_name("", metric)], "");
    }
    page
}

/// One metric.
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

/// Name of the samples.
fn full_name<S>(level: &str, metric: &Metric<S>) -> String {
    let separator = if level.is_empty() { "" } else { "_" };
    let suffix = match metric.kind {
        Kind::Counter => "_total",
        Kind::Gauge | Kind::Histogram => "",
    };
    format!("`noctule_{level}{separator}{}{suffix}`", metric.name)
}

/// The values of the metric's own label, of the last where it has two.
fn values(metric: &Metric) -> String {
    match metric.source {
        Source::Labelled(parts) | Source::LabelledNanoseconds(parts) | Source::Blocked(parts) => {
            listed(parts.iter().map(|(v, _)| *v))
        }
        Source::LabelledEvents(parts) => listed(parts.iter().map(|(v, _)| *v)),
        Source::Destinations(parts) if parts.len() > 1 => listed(parts.iter().map(|(v, _)| *v)),
        Source::Verdict => listed(VerdictKind::ALL.iter().map(|kind| kind.name())),
        Source::Blame => " (`container`, `unit`, `cgroup`, `kernel`, `other`), and where known \
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
        Unit::None => "a count",
        other => other.name(),
    }
}

/// Adds a line. Writing to a string cannot fail.
fn push(page: &mut String, line: std::fmt::Arguments<'_>) {
    let _ = writeln!(page, "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_named_in_full_at_every_level() {
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
    fn each_section_says_what_absence_means() {
        let page = page();
        let count = |start| page.lines().filter(|l| l.starts_with(start)).count();
        let sections = METRICS.len() + SELF_METRICS.len();
        for start in ["### ", "- name: ", "- type: ", "- unit: ", "- absent: "] {
            assert_eq!(count(start), sections, "{start}");
        }
    }
}
