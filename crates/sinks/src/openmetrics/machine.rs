//! Facts about the machine that metrics of other exporters have as labels.

/// Facts about the machine. Unknown facts are empty.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// Name of the node.
    pub name: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Id of the system, from `/etc/machine-id`.
    pub machine_id: String,
    /// Id of the board.
    pub system_uuid: String,
    /// Logical CPUs. The values are in the order of the labels of `kepler_node_cpu_info`.
    pub processors: Vec<[String; 5]>,
}
