//! The options that choose whose figures are shown.

use clap::Args as ClapArgs;

/// Patterns as in a shell. Options of one kind are alternatives; each kind that is given must fit.
#[derive(Clone, Debug, Default, ClapArgs)]
#[command(next_help_heading = "Choose by name (patterns as in a shell: *, ?, [...])")]
pub(crate) struct Names {
    /// Only this Kubernetes namespace
    #[arg(long, value_name = "GLOB")]
    pub(crate) namespace: Vec<String>,
    /// Only this pod: name, namespace/name, or UID
    #[arg(long, value_name = "GLOB")]
    pub(crate) pod: Vec<String>,
    /// Only this container: name, namespace/pod/name, id, or four or more characters of its begin
    #[arg(long, value_name = "GLOB")]
    pub(crate) container: Vec<String>,
    /// Only this systemd unit; .service can be left out
    #[arg(long, value_name = "GLOB")]
    pub(crate) unit: Vec<String>,
    /// Only this cgroup and those below it: its path in the hierarchy, or below /sys/fs/cgroup
    #[arg(long, value_name = "GLOB")]
    pub(crate) cgroup: Vec<String>,
    /// Only this process and its descendants; of waits, those of its group
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Vec<u32>,
}

impl Names {
    /// Whether anything but processes is chosen.
    pub(crate) fn has_names(&self) -> bool {
        let Self {
            namespace,
            pod,
            container,
            unit,
            cgroup,
            pid: _,
        } = self;
        [namespace, pod, container, unit, cgroup]
            .iter()
            .any(|patterns| !patterns.is_empty())
    }
}
