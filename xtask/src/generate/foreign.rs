//! docs/cadvisor.md and docs/coroot.md, from the table of names in the model.

use std::fmt::Write as _;

use noctule_model::{FOREIGN_METRICS, ForeignExporter, ForeignOffer};

const CADVISOR: &str = "\
<!-- Made by `cargo xtask gen` from crates/model/src/metric/foreign.rs. Do not edit. -->

# cAdvisor's names

`noctule run --names cadvisor` (`names = \"cadvisor\"` in the section `[metrics]` of the configuration) serves
the metrics below beside those of [metrics.md](metrics.md), for dashboards and rules that have cAdvisor's names.

- Rows are containers, with the labels that the kubelet gives them: `id` (the path of the cgroup), `name` (the
  id of the container), `container`, `pod`, `namespace`. `image` is not known. A label without a value is left
  out, which is the same to Prometheus.
- cAdvisor also has a series for each group above the containers, with what is below it. noctule has none: add
  up containers, or ask `noctule_node_*` for the machine.
- Do not scrape cAdvisor and noctule into one job: the names are the same.
- A container that found no room for series of its own is not here. It is in the row `_overflow` of
  `noctule_container_*`.
";

const COROOT: &str = "\
<!-- Made by `cargo xtask gen` from crates/model/src/metric/foreign.rs. Do not edit. -->

# Coroot's names

`noctule run --names coroot` (`names = \"coroot\"` in the section `[metrics]` of the configuration) serves the
metrics below beside those of [metrics.md](metrics.md). The names are those of coroot-node-agent 1.x.

- `container_id` is Coroot's: `/k8s/NAMESPACE/POD/CONTAINER`, `/docker/NAME`, and the path of the group of a
  systemd unit. `app_id`, `machine_id` and `system_uuid` are not there: relabelling can add the latter.
- Containers of one name share a series, such as one that was started again and the one before. The series has the sum
  of what they used, and does not fall when one of them goes.
- `destination` is the address that the program connects to, before NAT, or `_other` for what found no room
  ([metrics.md](metrics.md)). `actual_destination` is not known.
- Coroot counts bytes where a program reads and writes them by one of thirteen system calls; noctule counts what
  the socket carried.
- Loopback and ephemeral ports count here as well. Coroot leaves them out.
";

/// The page of cAdvisor.
pub(super) fn cadvisor() -> String {
    page(CADVISOR, ForeignExporter::Cadvisor)
}

/// The page of Coroot.
pub(super) fn coroot() -> String {
    page(COROOT, ForeignExporter::Coroot)
}

fn page(head: &str, exporter: ForeignExporter) -> String {
    let mut page = head.to_owned();
    let metrics = || FOREIGN_METRICS.iter().filter(|it| it.exporter == exporter);
    page.push_str("\n| metric | value |\n|---|---|\n");
    for metric in metrics() {
        if let ForeignOffer::Given(_) = metric.offer {
            let _ = writeln!(page, "| `{}` | {} |", metric.name, metric.help);
        }
    }
    page.push_str("\n| not offered | why |\n|---|---|\n");
    for metric in metrics() {
        if let ForeignOffer::Not(why) = metric.offer {
            let _ = writeln!(page, "| `{}` | {why} |", metric.name);
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_line_on_its_page() {
        for metric in FOREIGN_METRICS {
            let page = match metric.exporter {
                ForeignExporter::Cadvisor => cadvisor(),
                ForeignExporter::Coroot => coroot(),
            };
            let begin = format!("| `{}` | ", metric.name);
            let lines = page.lines().filter(|line| line.starts_with(&begin));
            assert_eq!(lines.count(), 1, "{begin}");
        }
    }
}
