//! Who owns a cgroup: container, pod, unit.

use crate::CgroupId;

/// An enumeration whose values have stable names: one line declares a value, its name, and its entry in
/// `ALL`, so that none of them can be forgotten.
macro_rules! named_values {
    ($(#[$doc:meta])* pub enum $name:ident {
        $($(#[$value_doc:meta])* $value:ident: $text:literal,)+
    }) => {
        $(#[$doc])*
        pub enum $name {
            $($(#[$value_doc])* $value,)+
        }

        impl $name {
            /// Each of them.
            pub const ALL: &'static [Self] = &[$(Self::$value),+];

            /// Its stable name, which recordings have too.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $text,)+
                }
            }
        }
    };
}

named_values! {
    /// Which program made the container. The name is the value of the `container.runtime` attribute.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Runtime {
        /// Docker Engine, also behind cri-dockerd.
        Docker: "docker",
        /// containerd, by CRI or another client.
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
        /// A virtual machine of libvirt.
        Libvirt: "libvirt",
        /// HashiCorp Nomad.
        Nomad: "nomad",
        /// Cloud Foundry Garden.
        Garden: "garden",
        /// A job step of Slurm.
        Slurm: "slurm",
        /// runc or crun used directly, or a runtime that the path does not show.
        Oci: "oci",
    }
}

named_values! {
    /// What a container's group is for.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub enum ContainerRole {
        /// The workload.
        #[default]
        Workload: "workload",
        /// The pod's sandbox (`pause`).
        Sandbox: "sandbox",
        /// The runtime's own helper (conmon, a shim): it serves a container and is not one.
        Helper: "helper",
    }
}

/// A container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// The id that the runtime gave it, in full.
    pub id: String,
    /// Which runtime.
    pub runtime: Runtime,
    /// What it is for.
    pub role: ContainerRole,
    /// Its name, when a file of the runtime has it.
    pub name: Option<String>,
    /// Ids of the containers around it, outermost first (kind, k3d, Docker in Docker).
    pub chain: Vec<String>,
}

/// A Kubernetes pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// UID with dashes.
    pub uid: String,
    /// `guaranteed`, `burstable` or `besteffort`; `unknown` when the path does not show the level.
    pub qos: &'static str,
    /// Name, when a file of the runtime has it.
    pub name: Option<String>,
    /// Namespace, when a file of the runtime has it.
    pub namespace: Option<String>,
}

/// What is known of one cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The group.
    pub cgroup: CgroupId,
    /// Its path in the hierarchy that the kernel side reads, or `#<id>` while it is not known.
    pub path: String,
    /// The innermost container that it belongs to.
    pub container: Option<Container>,
    /// The pod of that container.
    pub pod: Option<Pod>,
    /// The innermost systemd unit (service, scope) around it, unescaped only for display.
    pub unit: Option<String>,
}

impl Owner {
    /// An owner of which only the id is known.
    pub fn unknown(cgroup: CgroupId) -> Self {
        Self {
            cgroup,
            path: format!("#{}", cgroup.0),
            container: None,
            pod: None,
            unit: None,
        }
    }

    /// Whether more than the id is known.
    pub fn is_known(&self) -> bool {
        self.path.starts_with('/')
    }

    /// Whom the group's figures are charged to: its container, else its unit, else itself.
    /// Subjects do not overlap, so the sums over them close.
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

/// Whom figures are charged to at the container level of the metrics.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    /// A container, by id.
    Container(String),
    /// A systemd unit outside containers, by name.
    Unit(String),
    /// Any other cgroup, by path.
    Cgroup(String),
    /// What the series budget left no room for.
    Overflow,
}

/// A change in the tree of cgroups of the hierarchy that the kernel side reads.
///
/// Paths are those of the kernel: from the root of the hierarchy, `/` for the root itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CgroupEvent {
    /// A group was made (`cgroup_mkdir`).
    Made {
        /// Which one.
        id: CgroupId,
        /// Where.
        path: String,
    },
    /// A group, and with it everything below it, has another path now (`cgroup_rename`; v1 only).
    Renamed {
        /// Which one.
        id: CgroupId,
        /// Where it is now.
        path: String,
    },
    /// Its directory was removed (`cgroup_rmdir`): no task can enter it any more.
    Removed {
        /// Which one.
        id: CgroupId,
    },
    /// The kernel let go of it (`cgroup_release`): nothing refers to it any more.
    Released {
        /// Which one.
        id: CgroupId,
    },
}
