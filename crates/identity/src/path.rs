//! Container, pod and unit from a cgroup path alone.

use std::borrow::Cow;
use std::fmt::Display;

use noctule_model::{CgroupId, Container, ContainerRole, Owner, Pod, Runtime};

use crate::rules::{self, Found, Position};
use crate::{pod, text};

/// Components that are looked at. No runtime nests this deep, and a path that does must not cost
/// more than a long one.
const MAX_COMPONENTS: usize = 256;

/// Reads a cgroup path: a pure function of its arguments, which never fails. `path` is from the
/// root of the hierarchy; in a cgroup namespace a leading `/../..` is ignored.
///
/// The outermost component that is a container wins. Everything below belongs to it, because its processes may
/// choose those names. Names that only files have are `None`. The unit is the innermost
/// service or scope down to the container's own group, as systemd writes it (see
/// [`crate::unescape`]), with the user's number before it (`1000:NAME`) where it is one of a user's manager; units
/// that run inside the container do not count.
///
/// Wrong where a path lies: any process that may make cgroups may call one `docker-<64 hex>.scope`. The
/// registry believes only names that root gave.
/// A container of plain runc with cgroupfs looks like any other group here.
pub fn classify(id: CgroupId, path: &str) -> Owner {
    read(id, path, "").owner
}

/// What a path says.
pub(crate) struct Claim<'a> {
    pub(crate) owner: Owner,
    /// The path of the container's own group.
    pub(crate) top: Option<&'a str>,
}

/// Like [`classify`], where the container at `node` is a machine of its own: a container below it is told apart
/// from it and has it in its `chain`. `node` is empty, or a path above `path`.
pub(crate) fn read<'a>(id: CgroupId, path: &'a str, node: &str) -> Claim<'a> {
    let components: Vec<&str> = components(path).collect();
    let mut reading = Reading {
        node_depth: self::components(node).count(),
        ..Reading::default()
    };
    for (at, component) in components.iter().enumerate() {
        reading.step(&components[..at], component);
    }
    let last = components.get(reading.container_depth.wrapping_sub(1));
    // Each component is a part of the path.
    let end = |last: &&str| last.as_ptr() as usize + last.len() - path.as_ptr() as usize;
    Claim {
        top: last.map(|last| &path[..end(last)]),
        owner: Owner {
            cgroup: id,
            path: if path.is_empty() { "/" } else { path }.to_owned(),
            container: reading.container,
            pod: reading.pod,
            unit: reading.unit.map(Unit::name),
        },
    }
}

fn components(path: &str) -> impl Iterator<Item = &str> {
    let named = path.split('/').filter(|c| !matches!(*c, "" | "." | ".."));
    named.take(MAX_COMPONENTS)
}

/// What the components so far said.
#[derive(Default)]
struct Reading<'a> {
    container: Option<Container>,
    /// Number of components down to the container.
    container_depth: usize,
    /// Number of components down to a container that is a machine of its own.
    node_depth: usize,
    /// The names that follow are the container's own choice.
    inside: bool,
    pod: Option<Pod>,
    /// Number of components down to the pod.
    pod_depth: usize,
    unit: Option<Unit<'a>>,
    /// The innermost unit, also inside the container.
    inner_unit: Option<Unit<'a>>,
    /// The user whose manager the groups belong to, in digits.
    manager_of: Option<&'a str>,
}

/// A unit of the machine, or of a user's manager: both have a `dbus.service`, and those of root's own manager lie
/// in directories that are root's as well.
#[derive(Clone, Copy)]
struct Unit<'a> {
    manager_of: Option<&'a str>,
    name: &'a str,
}

impl Unit<'_> {
    fn name(self) -> String {
        match self.manager_of {
            Some(user) => mark(user, self.name),
            None => self.name.to_owned(),
        }
    }
}

impl<'a> Reading<'a> {
    fn step(&mut self, all_above: &[&'a str], component: &'a str) {
        let depth = all_above.len() + 1;
        let above = &all_above[self.container_depth..];
        if self.inside {
            return self.step_inside(above, component, depth);
        }
        let (slice, body) = split_mismatch(component);
        if let Some(pod) = pod::find(slice, above) {
            self.pod = Some(pod);
            self.pod_depth = depth;
        }
        if let Some(name) = unit(component) {
            let manager_of = self.manager_of;
            self.inner_unit = Some(Unit { manager_of, name });
        }
        self.manager_of = manager_of(component).or(self.manager_of);
        let position = Position {
            above,
            in_pod: self.pod.is_some() && self.pod_depth + 1 >= depth,
        };
        if let Some(found) = rules::find(&body, position) {
            self.enter(found, depth);
        }
        if self.container.is_none() {
            self.unit = self.inner_unit;
        }
    }

    /// A name that processes of the container may have chosen. It can only say which part of the same container
    /// this is.
    fn step_inside(&mut self, above: &[&'a str], component: &str, depth: usize) {
        let Some(container) = &mut self.container else {
            return;
        };
        if above.is_empty() && rules::is_inner_helper(container.runtime, component) {
            container.role = ContainerRole::Helper;
        } else if let Some(step) = rules::slurm_step(component)
            && above.is_empty()
            && container.runtime == Runtime::Slurm
            && !container.id.contains('.')
        {
            // Slurm's own name for a step; the job is not a container around it.
            container.id = format!("{}.{step}", container.id);
            self.container_depth = depth;
        }
    }

    fn enter(&mut self, found: Found, depth: usize) {
        let mut chain = Vec::new();
        if let Some(outer) = self.container.take() {
            chain = outer.chain;
            if outer.role != ContainerRole::Helper && outer.id != found.id {
                chain.push(outer.id);
            }
        }
        self.inside = found.role != ContainerRole::Helper && depth > self.node_depth;
        self.container = Some(Container {
            id: found.id,
            runtime: found.runtime,
            role: found.role,
            name: found.name,
            image: None,
            chain,
        });
        self.container_depth = depth;
        self.unit = self.inner_unit;
    }
}

/// A runtime that is configured for systemd's form of a path and uses cgroupfs makes one directory
/// `<slice>:<prefix>:<id>`. Returns the slice (else the whole) and `<prefix>-<id>` (else the whole).
fn split_mismatch(component: &str) -> (&str, Cow<'_, str>) {
    let mut parts = component.splitn(3, ':');
    if let (Some(slice), Some(prefix), Some(id)) = (parts.next(), parts.next(), parts.next())
        && text::is_hash(id)
    {
        return (slice, format!("{prefix}-{id}").into());
    }
    (component, component.into())
}

/// The systemd unit that a component stands for: services and scopes, for slices only group units
/// and mounts hold no processes of their own. systemd puts `_` before a name that would be one of
/// the kernel's files.
fn unit(component: &str) -> Option<&str> {
    let name = component.strip_prefix('_').unwrap_or(component);
    let stem = name
        .strip_suffix(".service")
        .or_else(|| name.strip_suffix(".scope"))?;
    (!stem.is_empty()).then_some(name)
}

/// The user whose manager `user@UID.service` is.
fn manager_of(component: &str) -> Option<&str> {
    let user = component.strip_prefix("user@")?.strip_suffix(".service")?;
    text::is_number(user).then_some(user)
}

/// A name that a user chose.
pub(crate) fn mark(user: impl Display, name: &str) -> String {
    format!("{user}:{name}")
}

#[cfg(test)]
mod tests;
