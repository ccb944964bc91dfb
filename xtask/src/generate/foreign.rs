//! Generates docs/cadvisor.md and docs/coroot.md from the table of names in the model.

use std::fmt::Write as _;

use noctule_model::{FOREIGN_METRICS, ForeignExporter, ForeignOffer};

const CADVISOR: &str = "\
<!-- Made by `cargo xtask gen` from crates/model/src/metric/foreign.rs. Do not edit. -->

# cAdvisor's names

`noctule run --names cadvisor` (`names = \"cadvisor\"` in the section `[metrics]` of the configuration) serves
the metrics below in addition to those of [metrics.md](metrics.md), for dashboards and rules that use cAdvisor's
names.

- Rows are containers, with the labels of the kubelet: `id` (the path of the cgroup), `name`, `image`, `container`,
  `pod`, `namespace`. A label without a value is omitted, which is equivalent in Prometheus.
- `name` is the name of a Docker container outside Kubernetes, and the id of any other container.
- `image` comes from the files of containerd's CRI plugin, CRI-O, Docker and podman. Other clients of containerd
  (nerdctl, ctr) leave no image in the files that noctule reads.
- The CPU and throttling queries of kubernetes-mixin work with these names. They also need `kube_pod_info` and other
  series of kube-state-metrics.
- cAdvisor also has a series for each cgroup above the containers, which includes its descendants. noctule has none:
  sum the containers, or use `noctule_node_*` for the machine.
- Pressure is the kernel's own figure (PSI), from the files of cgroup v2, counted since the agent started. On cgroup v1
  and on kernels without PSI these series are absent. They cannot be split by cause: the kernel counts the time in which
  any thread waited, and noctule's waits are sums over threads. If a group is removed, its pressure since the last batch
  is lost.
- Do not scrape cAdvisor and noctule in the same job: their names are equal.
- A container above the cardinality limit has no series here. Such a container is included in the row `_overflow` of
  `noctule_container_*`.
";

const COROOT: &str = "\
<!-- Made by `cargo xtask gen` from crates/model/src/metric/foreign.rs. Do not edit. -->

# Coroot's names

`noctule run --names coroot` (`names = \"coroot\"` in the section `[metrics]` of the configuration) serves the
metrics below in addition to those of [metrics.md](metrics.md). The names are those of coroot-node-agent 1.x.

- `container_id` has Coroot's format: `/k8s/NAMESPACE/POD/CONTAINER`, `/docker/NAME`, and the cgroup path of a
  systemd unit. `app_id` is absent.
- `machine_id` is the id in `/etc/machine-id`, and `system_uuid` the id of the board (DMI). All series have both. Coroot
  needs them to find the pod of a container. If `/etc/machine-id` is missing, as in noctule's image, `machine_id` is the
  board's id without hyphens, as in coroot-node-agent.
- Containers with the same name, such as a restarted container and its predecessor, share a series. The series is the
  sum of their usage, and does not decrease when one of them exits.
- `destination` is the address that the program connects to, before NAT, or `_other` above the cardinality limit
  ([metrics.md](metrics.md)). `actual_destination` is unknown.
- Coroot counts the bytes that a program reads and writes with one of thirteen system calls; noctule counts the bytes
  that the socket transferred.
- noctule includes loopback destinations and ephemeral ports. Coroot omits both.
- Pressure is the kernel's own figure (PSI), from the files of cgroup v2, counted since the agent started. On cgroup v1
  and on kernels without PSI these series are absent. They cannot be split by cause: the kernel counts the time in which
  any thread waited, and noctule's waits are sums over threads. If a group is removed, its pressure since the last batch
  is lost.
";

pub(super) fn cadvisor() -> String {
    page(CADVISOR, ForeignExporter::Cadvisor)
}

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
    fn every_name_is_on_its_page() {
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
