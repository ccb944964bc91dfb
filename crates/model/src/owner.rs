//! Owners of cgroups: containers, pods, units.

use crate::CgroupId;
use crate::named::named_values;

named_values! {
    /// The program that created the container. The name is the value of the `container.runtime`
    /// attribute.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Runtime {
        /// Docker Engine, including Docker behind cri-dockerd.
        Docker: "docker",
        /// containerd, through CRI or another client.
        Containerd: "containerd",
        /// CRI-O.
        Crio: "cri-o",
        /// Podman (libpod).
        Podman: "podman",
        /// Amazon ECS.
        Ecs: "ecs",
        /// LXC, LXD or Incus.
        Lxc: "lxc",
        /// systemd-nspawn.
        Nspawn: "systemd-nspawn",
        /// A libvirt virtual machine.
        Libvirt: "libvirt",
        /// HashiCorp Nomad.
        Nomad: "nomad",
        /// Cloud Foundry Garden.
        Garden: "garden",
        /// A Slurm job step.
        Slurm: "slurm",
        /// runc or crun used directly, or a runtime that cannot be recognized from the path.
        Oci: "oci",
    }
}

named_values! {
    /// The role of a container's cgroup.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub enum ContainerRole {
        /// The workload.
        #[default]
        Workload: "workload",
        /// The pod's sandbox (`pause`).
        Sandbox: "sandbox",
        /// A helper of the runtime (conmon, a shim), which serves a container but is not itself a
        /// container.
        Helper: "helper",
    }
}

/// A container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// The full id assigned by the runtime.
    pub id: String,
    /// The runtime.
    pub runtime: Runtime,
    /// The role.
    pub role: ContainerRole,
    /// The container's name, if a file of the runtime contains it.
    pub name: Option<String>,
    /// The image from which the container was started, as the runtime's file writes it.
    pub image: Option<String>,
    /// Ids of the enclosing containers, outermost first (`kind`, `k3d`, Docker in Docker).
    pub chain: Vec<String>,
}

/// A Kubernetes pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// UID with dashes.
    pub uid: String,
    /// `guaranteed`, `burstable` or `besteffort`; `unknown` if the path does not contain it.
    pub qos: &'static str,
    /// Name, if a file of the runtime contains it.
    pub name: Option<String>,
    /// Namespace, if a file of the runtime contains it.
    pub namespace: Option<String>,
}

/// The known facts about a cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The cgroup.
    pub cgroup: CgroupId,
    /// Path in the hierarchy that the kernel side reads, or `#<id>` while it is unknown.
    pub path: String,
    /// The innermost container that contains the cgroup.
    pub container: Option<Container>,
    /// The pod of the container.
    pub pod: Option<Pod>,
    /// The innermost systemd unit (service, scope) that contains the cgroup. The name is unescaped
    /// only for display.
    pub unit: Option<String>,
}

impl Owner {
    /// Creates an owner for which only the cgroup id is known.
    pub fn unknown(cgroup: CgroupId) -> Self {
        Self {
            cgroup,
            path: format!("#{}", cgroup.0),
            container: None,
            pod: None,
            unit: None,
        }
    }

    /// Returns whether more than the cgroup id is known.
    pub fn is_known(&self) -> bool {
        self.path.starts_with('/')
    }

    /// Returns the subject that the cgroup's figures are charged to: its container, else its unit,
    /// else the cgroup itself. Subjects do not overlap, so their figures add up to the node's.
    pub fn subject(&self) -> Subject {
        if self.cgroup == CgroupId::UNPLACED && !self.is_known() {
            return Subject::Overflow;
        }
        if let Some(container) = &self.container {
            if container.role == ContainerRole::Helper {
                return Subject::Cgroup(self.path.clone());
            }
            return Subject::Container(container.id.clone());
        }
        match &self.unit {
            Some(unit) => Subject::Unit(unit.clone()),
            None => Subject::Cgroup(self.path.clone()),
        }
    }
}

/// The subject that figures are charged to at the container level of the metrics.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    /// A container, by id.
    Container(String),
    /// A systemd unit outside containers, by name.
    Unit(String),
    /// Any other cgroup, by path.
    Cgroup(String),
    /// The sum of everything that exceeded the series limit.
    Overflow,
}

/// A change in the cgroup tree of the hierarchy that the kernel side reads.
///
/// Paths are the kernel's paths, relative to the root of the hierarchy. The root itself is `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CgroupEvent {
    /// A cgroup was created (`cgroup_mkdir`).
    Made {
        /// The cgroup.
        id: CgroupId,
        /// The path of the cgroup.
        path: String,
    },
    /// A cgroup was renamed, which also changes the paths of all its descendants (`cgroup_rename`;
    /// v1 only).
    Renamed {
        /// The cgroup.
        id: CgroupId,
        /// The new path.
        path: String,
    },
    /// The directory of a cgroup was removed (`cgroup_rmdir`), so that no task can enter the cgroup
    /// any more.
    Removed {
        /// The cgroup.
        id: CgroupId,
    },
    /// The kernel released a cgroup (`cgroup_release`): nothing refers to it any more.
    Released {
        /// The cgroup.
        id: CgroupId,
    },
}
