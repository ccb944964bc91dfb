//! What a row stands for, and how an owner is named there.

use crate::{Owner, Subject};

/// What a row of a report stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// One process.
    Process,
    /// A container; what is in none appears as its unit or cgroup, so that the sums close.
    #[default]
    Container,
    /// A pod; what is in none appears as its container, unit or cgroup.
    Pod,
    /// A systemd unit; what is in none appears as its cgroup.
    Unit,
    /// A cgroup by itself.
    Cgroup,
}

/// A container's id as its tools show it. What has the length of one can be anything: part of the
/// name of a cgroup.
fn short(id: &str) -> &str {
    let whole = id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    if whole { &id[..12] } else { id }
}

impl Owner {
    /// A name for people: container, pod, unit or path, whichever the level shows. Not escaped.
    pub fn name(&self, level: Level) -> String {
        if let (Level::Pod, Some(pod)) = (level, &self.pod) {
            return match (&pod.namespace, &pod.name) {
                (Some(namespace), Some(name)) => format!("{namespace}/{name}"),
                _ => pod.uid.clone(),
            };
        }
        match level {
            Level::Process => String::new(),
            Level::Pod | Level::Container => match (self.subject(), &self.container) {
                (Subject::Container(id), Some(container)) => {
                    let name = || short(&id).to_owned();
                    container.name.clone().unwrap_or_else(name)
                }
                (Subject::Unit(unit), _) => unit,
                _ => self.path.clone(),
            },
            Level::Unit => self.unit.clone().unwrap_or_else(|| self.path.clone()),
            Level::Cgroup => self.path.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_id_of_a_container_is_cut() {
        let id = "0123456789abcdef".repeat(4);
        assert_eq!(short(&id), "0123456789ab");
        assert_eq!(short("web"), "web");
        // As long in bytes, and no place to cut it at.
        let name = format!("lxc-payload{}{}", '\u{e9}', "n".repeat(51));
        assert_eq!(name.len(), 64);
        assert_eq!(short(&name), name);
    }
}
