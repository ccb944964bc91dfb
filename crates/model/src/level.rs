//! Levels of rows, and names of owners at each level.

use crate::{ContainerRole, Owner, Subject};

/// The level of a report's rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    Process,
    /// A container. Cgroups outside containers appear as their unit or cgroup, so that all CPU time
    /// appears in some row.
    #[default]
    Container,
    /// A pod. Cgroups outside pods appear as their container, unit or cgroup.
    Pod,
    /// A systemd unit. Cgroups outside units appear individually.
    Unit,
    /// A single cgroup.
    Cgroup,
}

/// Returns the short form of a container's id. A text of the same length that is not an id can be
/// part of a cgroup's name, and is kept.
fn short(id: &str) -> &str {
    let whole = id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    if whole { &id[..12] } else { id }
}

/// The name of the root cgroup, because `/` is easily overlooked.
pub const ROOT: &str = "(root)";

impl Owner {
    /// Returns a name for people: container, pod, unit or path, depending on the level. The name is
    /// not escaped.
    pub fn name(&self, level: Level) -> String {
        let path = || self.short_path().to_owned();
        match level {
            Level::Process => String::new(),
            Level::Pod => self
                .pod_name()
                .unwrap_or_else(|| self.name(Level::Container)),
            Level::Container => match self.subject() {
                Subject::Container(_) => self.container_name().unwrap_or_else(path),
                Subject::Unit(unit) => unit,
                _ => path(),
            },
            Level::Unit => self.unit.clone().unwrap_or_else(path),
            Level::Cgroup => path(),
        }
    }

    /// Returns `namespace/pod`, or the pod's UID while its name is unknown.
    pub fn pod_name(&self) -> Option<String> {
        let pod = self.pod.as_ref()?;
        Some(match (&pod.namespace, &pod.name) {
            (Some(namespace), Some(name)) => format!("{namespace}/{name}"),
            (None, Some(name)) => name.clone(),
            _ => pod.uid.clone(),
        })
    }

    /// Returns `namespace/pod/container`, or only the name outside pods. An unknown name is
    /// replaced by the id.
    pub fn container_name(&self) -> Option<String> {
        let container = self.container.as_ref()?;
        let own = match (&container.name, container.role) {
            (Some(name), _) => name,
            (None, ContainerRole::Sandbox) => "(sandbox)",
            (None, _) => short(&container.id),
        };
        match (&self.pod, self.pod_name()) {
            (Some(pod), Some(around)) if pod.name.is_some() => Some(format!("{around}/{own}")),
            _ if own == "(sandbox)" => Some(short(&container.id).to_owned()),
            _ => Some(own.to_owned()),
        }
    }

    /// Returns the path of the cgroup; `(root)` for the root of the hierarchy.
    pub fn short_path(&self) -> &str {
        match self.path.as_str() {
            "/" => ROOT,
            path => path,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CgroupId, Container, Pod, Runtime};

    #[test]
    fn human_names_take_precedence() {
        let id = "0123456789abcdef".repeat(4);
        let owner = |name: Option<&str>, pod: Option<&str>| Owner {
            path: "/kubepods/pod1/x".into(),
            container: Some(Container {
                id: id.clone(),
                runtime: Runtime::Crio,
                role: ContainerRole::Workload,
                name: name.map(str::to_owned),
                image: None,
                chain: vec![],
            }),
            pod: Some(Pod {
                uid: "6f0f".into(),
                qos: "unknown",
                name: pod.map(str::to_owned),
                namespace: Some("prod".into()),
            }),
            ..Owner::unknown(CgroupId(7))
        };
        let cases = [
            (
                Some("web"),
                Some("shop-0"),
                "prod/shop-0/web",
                "prod/shop-0",
            ),
            (
                None,
                Some("shop-0"),
                "prod/shop-0/0123456789ab",
                "prod/shop-0",
            ),
            (Some("web"), None, "web", "6f0f"),
            (None, None, "0123456789ab", "6f0f"),
        ];
        for (name, pod, container, of_pod) in cases {
            let owner = owner(name, pod);
            assert_eq!(owner.name(Level::Container), container);
            assert_eq!(owner.name(Level::Pod), of_pod);
            assert_eq!(owner.name(Level::Unit), "/kubepods/pod1/x");
        }
        let root = Owner {
            path: "/".into(),
            ..Owner::unknown(CgroupId(1))
        };
        for level in [Level::Container, Level::Pod, Level::Unit, Level::Cgroup] {
            assert_eq!(root.name(level), "(root)");
        }
    }

    #[test]
    fn only_container_ids_are_shortened() {
        let id = "0123456789abcdef".repeat(4);
        assert_eq!(short(&id), "0123456789ab");
        assert_eq!(short("web"), "web");
        // This name is as long as a container id in bytes, but byte 12 is in the middle of a
        // character.
        let name = format!("lxc-payload{}{}", '\u{e9}', "n".repeat(51));
        assert_eq!(name.len(), 64);
        assert_eq!(short(&name), name);
    }
}
