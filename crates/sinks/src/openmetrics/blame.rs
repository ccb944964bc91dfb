//! Blame: how long one subject made another one wait.

use std::sync::Arc;

use noctule_model::{Blamed, Cause, Counter, Owner, Subject, SubjectRow};

use super::figures::Figures;
use super::pairs::{Named, Relation};
use super::text::push_label;

/// Minimum total blame of a pair that has its own series. Most pairs meet only once, by chance.
const FLOOR_NS: u64 = 10_000_000;

/// Pairs of victims and culprits. The amount is the time that the victim waited, in nanoseconds.
#[derive(Debug)]
pub(super) struct Blame;

impl Relation for Blame {
    /// Most pairs meet only once, by chance, so a pair gets series only if it continues to grow.
    const WHOLE: bool = false;
    const OTHER: &'static str = "culprit=\"_other\",culprit_kind=\"other\"";
    type Partner = Blamed;
    type Amount = u64;
    type Rank = u64;

    fn of(row: &SubjectRow) -> impl Iterator<Item = (&Blamed, u64)> {
        row.blame
            .iter()
            .map(|blame| (&blame.culprit, blame.wait_ns))
    }

    fn subject(culprit: &Blamed) -> Option<&Subject> {
        match culprit {
            Blamed::Subject(subject) => Some(subject),
            Blamed::Kernel | Blamed::Unnamed => None,
        }
    }

    fn is_named(culprit: &Blamed) -> bool {
        match culprit {
            Blamed::Kernel => true,
            Blamed::Subject(subject) => **subject != Subject::Overflow,
            Blamed::Unnamed => false,
        }
    }

    fn labels(culprit: &Blamed, named: &Named<'_>) -> Option<Arc<str>> {
        match culprit {
            Blamed::Kernel => Some("culprit=\"kernel\",culprit_kind=\"kernel\"".into()),
            Blamed::Subject(subject) => named(subject),
            Blamed::Unnamed => None,
        }
    }

    fn rank(wait_ns: &u64) -> Option<u64> {
        (*wait_ns >= FLOOR_NS).then_some(*wait_ns)
    }

    /// Returns the time that the subject waited for other groups and for kernel threads, which
    /// includes the blame of all pairs.
    fn all(figures: &Figures) -> u64 {
        let others = [Cause::Neighbour, Cause::Kernel].map(Counter::Wait);
        others.map(|cause| figures.counters[cause]).iter().sum()
    }
}

/// Returns the labels of a culprit: the labels of its own series with a prefix, so that queries can
/// join on them.
pub(super) fn culprit_labels(subject: &Subject, owner: &Owner) -> Arc<str> {
    let (kind, name) = match subject {
        Subject::Container(id) => ("container", id.as_str()),
        Subject::Unit(unit) => ("unit", unit.as_str()),
        Subject::Cgroup(path) => ("cgroup", path.as_str()),
        Subject::Overflow => ("other", ""),
    };
    let mut labels = String::new();
    push_label(&mut labels, "culprit", &format!("{kind}:{name}"));
    let (container, pod) = (owner.container.as_ref(), owner.pod.as_ref());
    let is = |wanted| (kind == wanted).then_some(name);
    let of_container = |value| is("container").and(value);
    let known = [
        ("culprit_kind", Some(kind)),
        (
            "culprit_namespace",
            of_container(pod.and_then(|pod| pod.namespace.as_deref())),
        ),
        (
            "culprit_pod",
            of_container(pod.and_then(|pod| pod.name.as_deref())),
        ),
        (
            "culprit_container",
            of_container(container.and_then(|container| container.name.as_deref())),
        ),
        ("culprit_unit", is("unit")),
        ("culprit_cgroup", is("cgroup")),
    ];
    for (label, value) in known {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            labels.push(',');
            push_label(&mut labels, label, value);
        }
    }
    labels.into()
}

#[cfg(test)]
mod tests {
    use noctule_model::{CgroupId, Container, ContainerRole, Pod, Runtime};

    use super::*;

    fn owner() -> Owner {
        Owner {
            container: Some(Container {
                id: "4f1c".into(),
                runtime: Runtime::Containerd,
                role: ContainerRole::Workload,
                name: Some("web".into()),
                image: None,
                chain: Vec::new(),
            }),
            pod: Some(Pod {
                uid: "0f6a".into(),
                qos: "burstable",
                name: Some("shop-1".into()),
                namespace: Some("prod".into()),
            }),
            unit: Some("cri-4f1c.scope".into()),
            ..Owner::unknown(CgroupId(1))
        }
    }

    #[test]
    fn a_culprit_has_the_labels_of_its_own_series() {
        let cases = [
            (
                Subject::Container("4f1c".into()),
                owner(),
                r#"culprit="container:4f1c",culprit_kind="container",culprit_namespace="prod",culprit_pod="shop-1",culprit_container="web""#,
            ),
            (
                Subject::Unit("a\"b.service".into()),
                Owner::unknown(CgroupId(1)),
                r#"culprit="unit:a\"b.service",culprit_kind="unit",culprit_unit="a\"b.service""#,
            ),
            (
                Subject::Cgroup("/x".into()),
                Owner::unknown(CgroupId(1)),
                r#"culprit="cgroup:/x",culprit_kind="cgroup",culprit_cgroup="/x""#,
            ),
        ];
        for (subject, owner, expected) in cases {
            assert_eq!(&*culprit_labels(&subject, &owner), expected);
            let named = |_: &Subject| Some(Arc::from("its own"));
            let labels = Blame::labels(&Blamed::Subject(Arc::new(subject)), &named);
            assert_eq!(labels.as_deref(), Some("its own"));
        }
    }

    #[test]
    fn culprit_without_series_has_no_labels() {
        let named = |_: &Subject| None;
        let unsettled = Blamed::Subject(Arc::new(Subject::Unit("x".into())));
        assert!(Blame::is_named(&unsettled));
        assert_eq!(Blame::labels(&unsettled, &named), None);
        for never in [
            Blamed::Unnamed,
            Blamed::Subject(Arc::new(Subject::Overflow)),
        ] {
            assert!(!Blame::is_named(&never));
        }
        assert!(Blame::labels(&Blamed::Kernel, &named).is_some());
    }
}
