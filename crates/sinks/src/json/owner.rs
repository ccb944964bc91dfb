//! The keys that identify a container, pod, unit or cgroup.

use noctule_analysis::Party;
use noctule_model::{CgroupId, Container, ContainerRole, Level, Owner, Subject};
use serde::Serialize;

/// The owner of a row's figures.
#[derive(Default, Serialize)]
pub(crate) struct OwnerJson<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(
        rename = "process.linux.cgroup",
        skip_serializing_if = "Option::is_none"
    )]
    path: Option<&'a str>,
    #[serde(rename = "cgroup.id", skip_serializing_if = "Option::is_none")]
    cgroup: Option<u64>,
    #[serde(rename = "container.id", skip_serializing_if = "Option::is_none")]
    container_id: Option<&'a str>,
    #[serde(rename = "container.name", skip_serializing_if = "Option::is_none")]
    container_name: Option<&'a str>,
    #[serde(
        rename = "container.runtime.name",
        skip_serializing_if = "Option::is_none"
    )]
    container_runtime: Option<&'static str>,
    #[serde(rename = "k8s.pod.uid", skip_serializing_if = "Option::is_none")]
    pod_uid: Option<&'a str>,
    #[serde(rename = "k8s.pod.name", skip_serializing_if = "Option::is_none")]
    pod: Option<&'a str>,
    #[serde(rename = "k8s.namespace.name", skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
    #[serde(rename = "systemd.unit", skip_serializing_if = "Option::is_none")]
    unit: Option<&'a str>,
}

impl<'a> OwnerJson<'a> {
    /// Returns the keys that apply to the whole row. At the levels of pods and units a row can
    /// cover several containers, so container keys are left out.
    pub(crate) fn new(owner: &'a Owner, level: Level) -> Self {
        match (level, &owner.pod, &owner.unit) {
            (Level::Pod, Some(_), _) => Self::default().with_pod(owner),
            (Level::Unit, _, Some(_)) => Self::default().with_group(owner).with_unit(owner),
            (Level::Container | Level::Pod, ..) => {
                let this = Self::default().with_group(owner).with_unit(owner);
                match owner.subject() {
                    Subject::Container(_) => this.with_container(owner).with_pod(owner),
                    _ => this,
                }
            }
            (Level::Process | Level::Cgroup | Level::Unit, ..) => Self::default()
                .with_group(owner)
                .with_container(owner)
                .with_pod(owner)
                .with_unit(owner),
        }
    }

    /// Like [`OwnerJson::new`], with the display name unless the row is a process.
    pub(crate) fn named(owner: &'a Owner, level: Level) -> Self {
        Self {
            name: Some(owner.name(level)).filter(|_| level != Level::Process),
            ..Self::new(owner, level)
        }
    }

    /// Returns the keys of a party that is a group.
    pub(crate) fn of_party(party: &'a Party, level: Level) -> Self {
        match party {
            Party::Group(owner) => Self::new(owner, level),
            Party::Kernel | Party::Command | Party::Below { .. } | Party::Unnamed => {
                Self::default()
            }
        }
    }

    /// Returns the keys for a cgroup if only its id is known. The id 0 is left out, because ids of
    /// the kernel start at 1.
    pub(crate) fn unnamed(cgroup: CgroupId) -> Self {
        Self {
            cgroup: Some(cgroup.0).filter(|id| *id != 0),
            ..Self::default()
        }
    }

    fn with_group(self, owner: &'a Owner) -> Self {
        Self {
            // If only the id of an owner is known, its path is `#id`, which is not a real path.
            path: Some(owner.path.as_str()).filter(|path| path.starts_with('/')),
            cgroup: Some(owner.cgroup.0),
            ..self
        }
    }

    /// Adds the container. A runtime's helper processes serve a container but do not run in it, so
    /// they get no container keys.
    fn with_container(self, owner: &'a Owner) -> Self {
        let container: Option<&Container> = owner.container.as_ref();
        match container.filter(|c| c.role != ContainerRole::Helper) {
            Some(container) => Self {
                container_id: Some(&container.id),
                container_name: container.name.as_deref(),
                container_runtime: Some(container.runtime.name()),
                ..self
            },
            None => self,
        }
    }

    fn with_pod(self, owner: &'a Owner) -> Self {
        match &owner.pod {
            Some(pod) => Self {
                pod_uid: Some(&pod.uid),
                pod: pod.name.as_deref(),
                namespace: pod.namespace.as_deref(),
                ..self
            },
            None => self,
        }
    }

    fn with_unit(self, owner: &'a Owner) -> Self {
        Self {
            unit: owner.unit.as_deref(),
            ..self
        }
    }
}
