//! Interprets the labels and annotations of a container.

use std::collections::HashMap;

use noctule_model::{Container, ContainerRole, Owner, Pod, Runtime};

use crate::path::{classify, mark};
use crate::trust::Delegated;

/// Maximum length of a name. Names are kept in memory for every group.
const MAX_NAME: usize = 1024;

/// Keys of each fact, in order of preference: containerd's CRI, cri-dockerd and CRI-O, other
/// programs.
const NAME: &[&str] = &[
    "io.kubernetes.cri.container-name",
    "io.kubernetes.container.name",
    "com.amazonaws.ecs.container-name",
    "nerdctl/name",
    "io.kubernetes.cri-o.Name",
];
const POD_NAME: &[&str] = &["io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name"];
const POD_NAMESPACE: &[&str] = &[
    "io.kubernetes.cri.sandbox-namespace",
    "io.kubernetes.pod.namespace",
];
const POD_UID: &[&str] = &["io.kubernetes.cri.sandbox-uid", "io.kubernetes.pod.uid"];
/// The image as requested by the kubelet. The other annotations of CRI-O contain the digest
/// instead.
const IMAGE: &[&str] = &[
    "io.kubernetes.cri.image-name",
    "io.kubernetes.cri-o.ImageName",
];
/// Keys and values that identify the sandbox of a pod.
const SANDBOX: &[(&str, &str)] = &[
    ("io.kubernetes.cri.container-type", "sandbox"),
    ("io.kubernetes.cri-o.ContainerType", "sandbox"),
    ("io.kubernetes.docker.type", "podsandbox"),
];

/// Labels of containers that are Kubernetes nodes, as set by `kind`, `k3d` and `minikube`.
const NODE: &[&str] = &[
    "io.x-k8s.kind.role",
    "k3d.role",
    "role.minikube.sigs.k8s.io",
];

/// Returns whether the labels belong to a node.
pub(crate) fn is_node(labels: &HashMap<String, String>) -> bool {
    NODE.iter().any(|&key| labels.contains_key(key))
}

/// Facts about a container from files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    /// The container's id and the path of its group, if the path does not contain the id.
    pub(crate) id: Option<String>,
    pub(crate) top: Option<String>,
    /// The container's runtime, if the file belongs to one runtime only.
    pub(crate) runtime: Option<Runtime>,
    /// Whether the container is the sandbox of its pod.
    pub(crate) sandbox: bool,
    /// Whether the container is a node, which runs containers itself.
    pub(crate) node: bool,
    pub(crate) name: Option<String>,
    pub(crate) image: Option<String>,
    /// UID, name and namespace of the container's pod.
    pub(crate) pod_uid: Option<String>,
    pub(crate) pod_name: Option<String>,
    pub(crate) pod_namespace: Option<String>,
}

impl Names {
    /// Reads labels or annotations.
    pub(crate) fn from_labels(labels: &HashMap<String, String>) -> Self {
        let first = |keys: &[&str]| keys.iter().find_map(|&key| usable(labels.get(key)?));
        let is = |&(key, value): &(&str, &str)| labels.get(key).is_some_and(|v| v == value);
        Self {
            id: None,
            top: None,
            runtime: None,
            sandbox: SANDBOX.iter().any(is),
            node: false,
            name: first(NAME),
            image: first(IMAGE),
            pod_uid: first(POD_UID),
            pod_name: first(POD_NAME),
            pod_namespace: first(POD_NAMESPACE),
        }
    }

    /// Returns whether there is a name for people.
    pub(crate) fn has_names(&self) -> bool {
        self.sandbox || self.name.is_some() || self.pod_name.is_some()
    }

    /// Returns the owner with these names added. Values from the path take precedence, except for
    /// the runtime: several runtimes use the same paths, so the file is more reliable.
    ///
    /// Files of a user cannot set the pod, and ids in them are marked as chosen by the user.
    pub(crate) fn applied(mut self, owner: &Owner, delegated: Option<&Delegated>) -> Owner {
        let mut owner = owner.clone();
        if let (Some(top), Some(_), None) = (&self.top, &owner.container, delegated) {
            // Names below the container's group were chosen inside the container.
            owner = Owner {
                path: owner.path,
                ..classify(owner.cgroup, top)
            };
        }
        if let Some(delegated) = delegated {
            self.id = self.id.map(|id| mark(delegated.uid, &id));
            self.pod_uid = None;
            self.pod_name = None;
            self.pod_namespace = None;
        }
        if owner.container.is_none()
            && let Some(id) = self.id
        {
            owner.container = Some(Container {
                id,
                runtime: Runtime::Oci,
                role: ContainerRole::Workload,
                name: None,
                image: None,
                chain: Vec::new(),
            });
        }
        if let Some(container) = &mut owner.container {
            if container.runtime != Runtime::Ecs {
                container.runtime = self.runtime.unwrap_or(container.runtime);
            }
            if self.sandbox && container.role == ContainerRole::Workload {
                container.role = ContainerRole::Sandbox;
            }
            container.name = self.name.or_else(|| container.name.take());
            container.image = self.image.or_else(|| container.image.take());
        }
        if let (None, Some(uid)) = (&owner.pod, self.pod_uid) {
            owner.pod = Some(Pod {
                uid,
                qos: "unknown",
                name: None,
                namespace: None,
            });
        }
        if let Some(pod) = &mut owner.pod
            && delegated.is_none()
        {
            pod.name = self.pod_name;
            pod.namespace = self.pod_namespace;
        }
        owner
    }
}

/// Returns the name unless it is empty or too long.
pub(crate) fn usable(name: &str) -> Option<String> {
    (1..=MAX_NAME)
        .contains(&name.len())
        .then(|| name.to_owned())
}
