//! Derives container, pod and unit from a cgroup path alone.

use std::borrow::Cow;
use std::fmt::Display;

use noctule_model::{CgroupId, Container, ContainerRole, Owner, Pod, Runtime};

use crate::rules::{self, Found, Position};
use crate::{pod, text};

/// Maximum number of components to read. No runtime nests groups this deep, and this limits the
/// cost of a deeper path.
const MAX_COMPONENTS: usize = 256;

/// Reads a cgroup path. This is a pure function that never fails. `path` is relative to the root of
/// the hierarchy; in a cgroup namespace a leading `/../..` is ignored.
///
/// The result is the outermost component that is a container. Everything below belongs to that
/// container, because its processes may choose those names. Names that only occur in files are
/// `None`.
///
/// The unit is the innermost service or scope down to the container's own group, in systemd's
/// spelling (see [`crate::unescape`]). A unit of a user's manager is prefixed with the user's id
/// (`1000:NAME`). Units inside the container do not count.
///
/// The result can be wrong, because any process that may create cgroups can name one `docker-<64
/// hex>.scope`. The registry therefore only trusts names given by root.
///
/// A container of plain runc with cgroupfs looks like any other group here.
pub fn classify(id: CgroupId, path: &str) -> Owner {
    read(id, path, "").owner
}

/// The owner according to a path.
pub(crate) struct Claim<'a> {
    pub(crate) owner: Owner,
    /// The path of the container's own group.
    pub(crate) top: Option<&'a str>,
}

/// Like [`classify`], except that the container at the path `node` is a Kubernetes node. A
/// container below it counts as a separate container, with the node in its `chain`. `node` is
/// empty, or an ancestor of `path`.
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
    // Each component is a slice of the path.
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

/// State of the parser after reading some of the components.
#[derive(Default)]
struct Reading<'a> {
    container: Option<Container>,
    /// Number of components down to and including the container.
    container_depth: usize,
    /// Number of components down to and including the container that is a node.
    node_depth: usize,
    /// Whether the following names were chosen inside the container.
    inside: bool,
    pod: Option<Pod>,
    /// Number of components down to and including the pod.
    pod_depth: usize,
    unit: Option<Unit<'a>>,
    /// The innermost unit, which may be inside the container.
    inner_unit: Option<Unit<'a>>,
    /// The user to whose manager the groups belong, in digits.
    manager_of: Option<&'a str>,
}

/// A unit of the machine or of a user's manager. A name alone is ambiguous: the machine and each
/// user's manager can have a `dbus.service`. The directories of root's own user manager also belong
/// to root.
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

    /// Reads a name that processes of the container may have chosen. Such a name can only identify
    /// a part of the same container.
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
            // The name that Slurm itself gives to a step. The job does not count as an outer
            // container.
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

/// Splits `<slice>:<prefix>:<id>`, the name of a single directory. A runtime that is configured for
/// systemd paths but uses cgroupfs creates such directories. Returns the slice and `<prefix>-<id>`.
/// If the component does not have this form, returns the whole component for both.
fn split_mismatch(component: &str) -> (&str, Cow<'_, str>) {
    let mut parts = component.splitn(3, ':');
    if let (Some(slice), Some(prefix), Some(id)) = (parts.next(), parts.next(), parts.next())
        && text::is_hash(id)
    {
        return (slice, format!("{prefix}-{id}").into());
    }
    (component, component.into())
}

/// Returns the systemd unit of a component. Only services and scopes count: slices only contain
/// other units, and mounts have no processes of their own. systemd prefixes a name with `_` if it
/// would clash with the name of a kernel file.
fn unit(component: &str) -> Option<&str> {
    let name = component.strip_prefix('_').unwrap_or(component);
    let stem = name
        .strip_suffix(".service")
        .or_else(|| name.strip_suffix(".scope"))?;
    (!stem.is_empty()).then_some(name)
}

/// Returns the user of a manager, whose unit is `user@UID.service`.
fn manager_of(component: &str) -> Option<&str> {
    let user = component.strip_prefix("user@")?.strip_suffix(".service")?;
    text::is_number(user).then_some(user)
}

/// Marks a name as chosen by a user.
pub(crate) fn mark(user: impl Display, name: &str) -> String {
    format!("{user}:{name}")
}

#[cfg(test)]
mod tests;
