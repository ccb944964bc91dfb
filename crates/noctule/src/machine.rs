//! Facts about the machine that metrics of other exporters have as labels.

use std::fs;
use std::path::Path;

use noctule_sinks::openmetrics::Machine;

use crate::config::Host;
use crate::rights::Reading;

/// Files with the id of the system, in the order in which coroot-node-agent tries them.
const MACHINE_ID: [&str; 2] = ["/etc/machine-id", "/var/lib/dbus/machine-id"];

/// Names in `/proc/cpuinfo`, in the order of the labels of `kepler_node_cpu_info`.
const PROCESSOR: [&str; 5] = [
    "processor",
    "vendor_id",
    "model name",
    "physical id",
    "core id",
];

/// Reads the facts. As in coroot-node-agent, the id of the board replaces a missing id of the
/// system.
pub(crate) fn read(host: &Host) -> Machine {
    let text = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    let system_uuid = {
        // Only root may read this file.
        let _reading = host.has_usual_roots().then(Reading::begin);
        text(&host.sys.join("class/dmi/id/product_uuid"))
    };
    let ids = MACHINE_ID.map(|path| text(Path::new(path)));
    let machine_id = ids.iter().find(|id| !id.trim().is_empty());
    let machine_id = machine_id.unwrap_or(&system_uuid);
    Machine {
        name: host.name(),
        kernel: rustix::system::uname().release().to_string_lossy().into(),
        machine_id: machine_id.trim().replace('-', ""),
        system_uuid: system_uuid.trim().to_owned(),
        processors: processors(&text(&host.proc.join("cpuinfo"))),
    }
}

/// Parses `/proc/cpuinfo`. A blank line separates the CPUs. On some architectures, a last block
/// without a CPU number describes the whole machine.
fn processors(cpuinfo: &str) -> Vec<[String; 5]> {
    let blocks = cpuinfo.split("\n\n");
    let processors = blocks.map(|block| {
        PROCESSOR.map(|name| {
            let mut lines = block.lines().filter_map(|line| line.split_once(':'));
            let found = lines.find(|(key, _)| key.trim() == name);
            found.map_or("", |(_, value)| value.trim()).to_owned()
        })
    });
    let is_numbered = |values: &[String; 5]| values[0].parse::<u32>().is_ok();
    processors.filter(is_numbered).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_of_both_architectures_are_read() {
        let x86 = "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Xeon\n\
            physical id\t: 0\ncore id\t\t: 3\n\nprocessor\t: 1\nvendor_id\t: GenuineIntel\n\
            model name\t: Xeon\nphysical id\t: 1\ncore id\t\t: 4\n\n";
        assert_eq!(
            processors(x86),
            [
                ["0", "GenuineIntel", "Xeon", "0", "3"],
                ["1", "GenuineIntel", "Xeon", "1", "4"]
            ]
        );
        let arm = "processor\t: 0\nBogoMIPS\t: 50.00\n\nHardware\t: Board\nSerial\t\t: 1\n";
        assert_eq!(processors(arm), [["0", "", "", "", ""]]);
    }
}
