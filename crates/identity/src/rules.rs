//! Table of rules that recognize containers in the components of a cgroup path.

use std::borrow::Cow;

use noctule_model::{ContainerRole, Runtime};

use crate::text::{is_fargate, is_garden, is_hash, is_number, is_uuid, unescape};

/// A container that is identified by a path component.
pub(crate) struct Found {
    pub(crate) id: String,
    /// The container's name, if the runtime's paths contain names.
    pub(crate) name: Option<String>,
    pub(crate) runtime: Runtime,
    /// The role of the group.
    pub(crate) role: ContainerRole,
}

/// The position of a component in its path.
#[derive(Clone, Copy)]
pub(crate) struct Position<'a> {
    /// The components above this one, from the enclosing container (or the root) downwards.
    pub(crate) above: &'a [&'a str],
    /// Whether the parent group, or some of the component itself, is a pod.
    pub(crate) in_pod: bool,
}

/// Condition on the components above.
enum Place {
    Anywhere,
    Child(&'static str),
    Within(&'static str),
    Pod,
    Slurm,
}

/// Condition on the end of the component.
enum Ending {
    MaybeScope,
    Exactly(&'static str),
}

/// Condition on the part between prefix and ending.
enum Form {
    /// 64 hex digits.
    Hash,
    /// Any text, then a dash and 64 hex digits.
    AnyHash,
    /// The id of a BuildKit build step: 25 characters of base 36.
    Build,
    Fargate,
    Garden,
    /// Any text, which is both id and name.
    Name,
    /// A name with systemd's escapes.
    Escaped,
    /// libvirt's name for machined, `qemu-3-<name>`, with systemd's escapes.
    Domain,
    /// Nomad's form `<allocation>.<task>`.
    Allocation,
    /// Slurm's form `job_<N>`. `Sluid` is a job id of Slurm 26 (`s` and 13 characters).
    Job,
    Sluid,
}

struct Rule(Place, &'static str, Ending, Form, Runtime, ContainerRole);

use ContainerRole::{Helper, Workload};
use Ending::{Exactly, MaybeScope};
use Form::{Allocation, AnyHash, Build, Domain, Escaped, Fargate, Garden, Hash, Job, Name, Sluid};
use Place::{Anywhere, Child, Pod, Slurm, Within};
use Runtime as R;

/// The first matching rule applies.
#[rustfmt::skip]
const RULES: &[Rule] = &[
    // Helpers come first, because some of their names begin with the prefix of a later rule.
    Rule(Anywhere, "crio-conmon-", MaybeScope, Hash, R::Crio, Helper),
    Rule(Anywhere, "libpod-conmon-", MaybeScope, Hash, R::Podman, Helper),
    Rule(Child("kata_overhead"), "", Exactly(""), Hash, R::Oci, Helper),
    Rule(Anywhere, "lxc.monitor.", Exactly(""), Name, R::Lxc, Helper),
    Rule(Child("lxc.monitor"), "", Exactly(""), Name, R::Lxc, Helper),
    // ECS runs its tasks with Docker, so the ancestors determine the runtime.
    Rule(Within("ecstasks.slice"), "docker-", MaybeScope, Hash, R::Ecs, Workload),
    Rule(Within("ecs"), "", Exactly(""), Hash, R::Ecs, Workload),
    Rule(Anywhere, "", Exactly(""), Fargate, R::Ecs, Workload),
    // The prefix determines the runtime.
    Rule(Anywhere, "docker-", MaybeScope, Hash, R::Docker, Workload),
    Rule(Anywhere, "docker-", MaybeScope, Build, R::Docker, Workload),
    Rule(Anywhere, "cri-containerd-", MaybeScope, Hash, R::Containerd, Workload),
    Rule(Anywhere, "containerd-", MaybeScope, Hash, R::Containerd, Workload),
    Rule(Anywhere, "nerdctl-", MaybeScope, Hash, R::Containerd, Workload),
    Rule(Anywhere, "crio-", MaybeScope, Hash, R::Crio, Workload),
    Rule(Anywhere, "libpod-payload-", MaybeScope, Hash, R::Podman, Workload),
    Rule(Anywhere, "libpod-", MaybeScope, Hash, R::Podman, Workload),
    Rule(Anywhere, "kata_", Exactly(""), Hash, R::Oci, Workload),
    // The parent determines the runtime. Containers directly in a pod count as containerd's,
    // because the path shows no more. Docker's files correct that for containers created by
    // cri-dockerd.
    Rule(Child("docker"), "", Exactly(""), Hash, R::Docker, Workload),
    Rule(Child("k8s.io"), "", Exactly(""), Hash, R::Containerd, Workload),
    Rule(Child("default"), "", Exactly(""), Hash, R::Containerd, Workload),
    Rule(Child("buildkit"), "", Exactly(""), Build, R::Oci, Workload),
    Rule(Pod, "", Exactly(""), Hash, R::Containerd, Workload),
    // Containers and machines with names.
    Rule(Anywhere, "lxc.payload.", Exactly(""), Name, R::Lxc, Workload),
    Rule(Child("lxc.payload"), "", Exactly(""), Name, R::Lxc, Workload),
    Rule(Child("lxc"), "", Exactly(""), Name, R::Lxc, Workload),
    Rule(Anywhere, "systemd-nspawn@", Exactly(".service"), Escaped, R::Nspawn, Workload),
    Rule(Child("machine.slice"), "machine-", Exactly(".scope"), Domain, R::Libvirt, Workload),
    Rule(Child("machine.slice"), "machine-", Exactly(".scope"), Escaped, R::Nspawn, Workload),
    Rule(Child("machine"), "", Exactly(".libvirt-qemu"), Domain, R::Libvirt, Workload),
    Rule(Child("machine"), "", Exactly(".libvirt-lxc"), Domain, R::Libvirt, Workload),
    // Schedulers.
    Rule(Within("nomad.slice"), "", MaybeScope, Allocation, R::Nomad, Workload),
    Rule(Within("nomad"), "", MaybeScope, Allocation, R::Nomad, Workload),
    Rule(Slurm, "job_", Exactly(""), Job, R::Slurm, Workload),
    Rule(Slurm, "", Exactly(""), Sluid, R::Slurm, Workload),
    Rule(Anywhere, "", Exactly(""), Garden, R::Garden, Workload),
    // Default paths of runc and crun with systemd.
    Rule(Anywhere, "runc-", Exactly(".scope"), Name, R::Oci, Workload),
    Rule(Anywhere, "crun-", Exactly(".scope"), Name, R::Oci, Workload),
    // In any parent, 64 hex digits identify a container.
    Rule(Anywhere, "", MaybeScope, Hash, R::Oci, Workload),
    Rule(Anywhere, "", MaybeScope, AnyHash, R::Oci, Workload),
];

/// Groups that a runtime creates directly inside a container's group for its own processes.
const INNER_HELPERS: [(Runtime, &str); 2] = [(R::Nspawn, "supervisor"), (R::Slurm, "slurm")];

/// Returns the container of the component, if there is one.
pub(crate) fn find(component: &str, position: Position<'_>) -> Option<Found> {
    // podman's pods have ids like containers, but are not containers. The group of such a pod
    // contains the groups of its containers.
    if position.above.last() == Some(&"libpod_parent") && is_hash(component) {
        return None;
    }
    let mut rules = RULES.iter();
    rules
        .find_map(|rule| rule.apply(component, position))
        .or_else(|| nspawn_machine(component, position))
}

/// Recognizes a systemd-nspawn machine in a unit of any name. The machine runs in `payload` below
/// the unit (`--register=no`, `--keep-unit`), or in a scope that is named after it. Other programs
/// have a group `supervisor`, too, so that name only counts in machine.slice.
fn nspawn_machine(component: &str, position: Position<'_>) -> Option<Found> {
    let (unit, above) = position.above.split_last()?;
    let scope = unit.strip_suffix(".scope");
    let of_machine = scope.is_some() && above.last() == Some(&"machine.slice");
    let role = match component {
        "payload" => Workload,
        "supervisor" if of_machine => Helper,
        _ => return None,
    };
    let name = unescape(scope.or_else(|| unit.strip_suffix(".service"))?);
    (!name.is_empty()).then(|| Found {
        id: name.clone(),
        name: Some(name),
        runtime: R::Nspawn,
        role,
    })
}

/// Returns whether the component, directly below a container's group, belongs to the runtime.
pub(crate) fn is_inner_helper(runtime: Runtime, component: &str) -> bool {
    INNER_HELPERS.contains(&(runtime, component))
}

impl Rule {
    fn apply(&self, component: &str, position: Position<'_>) -> Option<Found> {
        let Self(place, prefix, ending, form, runtime, role) = self;
        let body = ending.cut(component.strip_prefix(prefix)?)?;
        if !place.holds(position) {
            return None;
        }
        let (id, name) = form.read(body)?;
        Some(Found {
            id: id.into_owned(),
            name,
            runtime: *runtime,
            role: *role,
        })
    }
}

impl Place {
    fn holds(&self, position: Position<'_>) -> bool {
        match self {
            Self::Anywhere => true,
            Self::Child(parent) => position.above.last() == Some(parent),
            Self::Within(ancestor) => position.above.contains(ancestor),
            Self::Pod => position.in_pod,
            Self::Slurm => position.above.iter().any(|c| is_slurm(c)),
        }
    }
}

/// Returns whether Slurm creates the groups of jobs below this group. The name contains the name of
/// the node if several instances of slurmd run on one machine.
fn is_slurm(component: &str) -> bool {
    component == "slurm"
        || component.starts_with("slurm_")
        || component == "slurmstepd.scope"
        || component.ends_with("_slurmstepd.scope")
}

impl Ending {
    fn cut<'a>(&self, text: &'a str) -> Option<&'a str> {
        match self {
            Self::MaybeScope => Some(text.strip_suffix(".scope").unwrap_or(text)),
            Self::Exactly(suffix) => text.strip_suffix(suffix),
        }
    }
}

type IdAndName<'a> = (Cow<'a, str>, Option<String>);

impl Form {
    fn read<'a>(&self, body: &'a str) -> Option<IdAndName<'a>> {
        let plain = |fits: bool| fits.then_some((Cow::Borrowed(body), None));
        match self {
            Self::Hash => plain(is_hash(body)),
            Self::AnyHash => any_hash(body).map(|id| (Cow::Borrowed(id), None)),
            Self::Build => plain(is_base36(body, 25)),
            Self::Fargate => plain(is_fargate(body)),
            Self::Garden => plain(is_garden(body)),
            Self::Name => (!body.is_empty()).then(|| (Cow::Borrowed(body), Some(body.to_owned()))),
            Self::Escaped => {
                let name = unescape(body);
                (!body.is_empty()).then(|| (Cow::Owned(name.clone()), Some(name)))
            }
            Self::Domain => {
                let domain = unescape(body);
                let name = domain_name(&domain)?.to_owned();
                Some((Cow::Owned(domain), Some(name)))
            }
            Self::Allocation => {
                let (allocation, task) = body.split_once('.')?;
                let fits = is_uuid(allocation) && !task.is_empty();
                fits.then(|| (Cow::Borrowed(body), Some(task.to_owned())))
            }
            Self::Job => plain(is_number(body)),
            Self::Sluid => plain(body.strip_prefix('s').is_some_and(is_sluid)),
        }
    }
}

/// Names of Slurm steps that have no number.
const STEPS: [&str; 3] = ["batch", "extern", "interactive"];

/// Returns the Slurm step of the component, if there is one.
pub(crate) fn slurm_step(component: &str) -> Option<&str> {
    let step = component.strip_prefix("step_")?;
    (is_number(step) || STEPS.contains(&step)).then_some(step)
}

fn is_sluid(rest: &str) -> bool {
    let fits = |b: u8| b.is_ascii_digit() || b.is_ascii_uppercase();
    rest.len() == 13 && rest.bytes().all(fits)
}

fn is_base36(text: &str, len: usize) -> bool {
    let fits = |b: u8| b.is_ascii_digit() || b.is_ascii_lowercase();
    text.len() == len && text.bytes().all(fits)
}

/// Matches `<any text>-<64 hex digits>`, as in `<prefix>-<id>.scope` of runc and crun with any
/// prefix.
fn any_hash(body: &str) -> Option<&str> {
    body.rsplit_once('-')
        .map(|(_, id)| id)
        .filter(|id| is_hash(id))
}

/// Returns the name in libvirt's `<driver>-<number>-<name>`.
fn domain_name(domain: &str) -> Option<&str> {
    let (driver, rest) = domain.split_once('-')?;
    let (number, name) = rest.split_once('-')?;
    let known = matches!(driver, "qemu" | "lxc" | "xen" | "ch");
    (known && is_number(number) && !name.is_empty()).then_some(name)
}
