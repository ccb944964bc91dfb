//! Generates docs/kepler.md from the table of Kepler's names in the model.

use std::fmt::Write as _;

use noctule_model::{KEPLER_METRICS, KeplerMetric, KeplerOffer, KeplerVersion, Kind};

const HEAD: &str = "\
<!-- Made by `cargo xtask gen` from crates/model/src/metric/kepler.rs. Do not edit. -->

# Kepler's names

`noctule run --names kepler` (`names = \"kepler\"` in the section `[metrics]` of the configuration) serves the
metrics below in addition to those of [metrics.md](metrics.md), so that dashboards and rules for
[Kepler](https://github.com/sustainable-computing-io/kepler) continue to work. The names are those of Kepler 0.11,
and the totals of 0.7 to 0.9 whose meaning is well defined.

The names are Kepler's, but the values are noctule's ([energy.md](energy.md)):

- Idle energy is an estimate, which is not derived from the share of time in which no CPU was busy. Total = active +
  idle.
- Rows below the node have active energy only (`mode=\"dynamic\"` in the names of 0.7).
- `zone` is the kind of zone: `package`, `core`, `dram`, `psys`, `platform`. All zones of a kind are summed, and their
  `path` is then `aggregated-package`, as in 0.11.
- `state` is always `running`. In Kepler, a workload that ends gets another `state` and therefore another series, and
  the energy between the last samples of the two is in neither. In noctule, the last sample of a series includes it.
- Processes that have ended, even short-lived ones, are included in their container and in the node.
- A process has the label `start` (Unix seconds), because a pid can be reused. `exe` and `vm_id` are unknown and
  omitted. Processes need `--process-metrics`.
- `source` is the meter; `source=\"model\"` is not a meter but a power model from the configuration. Kepler 0.11 has no
  such label.
- A pod has the energy of its containers that have their own series. Containers above the cardinality limit are in
  the container `_overflow`. Units and cgroups outside containers are not exported under these names.
- A label without a value is omitted, which is equivalent in Prometheus.
";

pub(super) fn page() -> String {
    let mut page = HEAD.to_owned();
    for (version, heading) in [
        (KeplerVersion::V011, "Names of 0.11"),
        (KeplerVersion::V07, "Names of 0.7 to 0.9"),
    ] {
        let _ = write!(page, "\n## {heading}\n");
        let metrics = || {
            KEPLER_METRICS
                .iter()
                .filter(move |it| it.version == version)
        };
        page.push_str("\n| metric | labels | value |\n|---|---|---|\n");
        for metric in metrics() {
            if let KeplerOffer::Given(_) = metric.offer {
                let labels: Vec<String> =
                    metric.labels().iter().map(|it| format!("`{it}`")).collect();
                let (name, help) = (full_name(metric), metric.help);
                let _ = writeln!(page, "| `{name}` | {} | {help} |", labels.join(", "));
            }
        }
        page.push_str("\n| not offered | why |\n|---|---|\n");
        for metric in metrics() {
            if let KeplerOffer::Not(why) = metric.offer {
                let _ = writeln!(page, "| `{}` | {why} |", full_name(metric));
            }
        }
    }
    page
}

/// Returns the name of the samples.
fn full_name(metric: &KeplerMetric) -> String {
    match metric.kind {
        Kind::Counter => format!("{}_total", metric.name),
        Kind::Gauge | Kind::Histogram => metric.name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_described_or_explained() {
        let page = page();
        for metric in KEPLER_METRICS {
            let begin = format!("| `{}` | ", full_name(metric));
            let line = page.lines().find(|line| {
                let offered = matches!(metric.offer, KeplerOffer::Given(_));
                line.starts_with(&begin) && offered == (line.matches(" | ").count() == 2)
            });
            assert!(line.is_some(), "{begin}");
        }
    }
}
