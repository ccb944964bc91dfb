//! Options that select rows by name.

use clap::Args as ClapArgs;

/// Shell patterns. Options of one kind are alternatives; each given kind must match.
#[derive(Clone, Debug, Default, ClapArgs)]
#[command(next_help_heading = "Filter by name (shell patterns: *, ?, [...])")]
pub(crate) struct Names {
    /// Only this pod, container, unit or cgroup, by any name that the filters accept
    #[arg(value_name = "NAME", help_heading = "Arguments")]
    pub(crate) name: Vec<String>,
    /// Only this Kubernetes namespace
    #[arg(long, value_name = "GLOB")]
    pub(crate) namespace: Vec<String>,
    /// Only this pod: name, namespace/name, or UID
    #[arg(long, value_name = "GLOB")]
    pub(crate) pod: Vec<String>,
    /// Only this container: name, namespace/pod/name, id, or at least the first four characters of
    /// its id
    #[arg(long, value_name = "GLOB")]
    pub(crate) container: Vec<String>,
    /// Only this systemd unit; .service is optional
    #[arg(long, value_name = "GLOB")]
    pub(crate) unit: Vec<String>,
    /// Only this cgroup and its descendants: path in the hierarchy or under /sys/fs/cgroup
    #[arg(long, value_name = "GLOB")]
    pub(crate) cgroup: Vec<String>,
    /// Only this process and its descendants; for waits, the group of the process
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Vec<u32>,
}

impl Names {
    /// Returns whether anything other than pids is selected.
    pub(crate) fn has_names(&self) -> bool {
        let Self {
            name,
            namespace,
            pod,
            container,
            unit,
            cgroup,
            pid: _,
        } = self;
        [name, namespace, pod, container, unit, cgroup]
            .iter()
            .any(|patterns| !patterns.is_empty())
    }
}
