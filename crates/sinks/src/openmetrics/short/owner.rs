//! Names the owners of short-lived groups.

use std::sync::Arc;

use noctule_model::{CgroupId, Container, Owner, Pod, Subject, SubjectRow};

/// Stands for the parts of a name that differ from group to group.
const ANY: char = '*';

/// Returns whether the names of the owner's other groups may differ from this name. A group whose
/// name never changes continues the series of its predecessor.
pub(super) fn varies(subject: &Subject) -> bool {
    match subject {
        Subject::Container(_) => true,
        Subject::Unit(name) | Subject::Cgroup(name) => {
            name.contains(|c: char| c.is_ascii_digit() || c == '@' || c == ANY)
        }
        Subject::Overflow => false,
    }
}

/// Returns whether a group's name can be that of a shared row.
pub(super) fn is_shared(subject: &Subject) -> bool {
    match subject {
        Subject::Unit(name) | Subject::Cgroup(name) | Subject::Container(name) => {
            name.contains(ANY)
        }
        Subject::Overflow => false,
    }
}

/// Returns the subject of the shared row: the template of a unit, the controller of a pod with the
/// container's name, the image of another container, or the path without the varying parts.
pub(super) fn of(row: &SubjectRow) -> Subject {
    match &row.subject {
        Subject::Unit(name) => Subject::Unit(template(name)),
        Subject::Cgroup(path) => Subject::Cgroup(masked(path)),
        Subject::Overflow => Subject::Overflow,
        Subject::Container(_) => Subject::Container(container(&row.owner)),
    }
}

fn container(owner: &Owner) -> String {
    let container = owner.container.as_ref();
    let name = container.and_then(|it| it.name.as_deref());
    if let Some((namespace, pod)) = pod_names(owner) {
        let pod = controller(pod);
        return format!("{namespace}/{pod}/{}/*", name.unwrap_or_default());
    }
    let runtime = container.map_or("container", |it| it.runtime.name());
    let image = container.and_then(|it| it.image.as_deref());
    let named = || name.map(masked);
    let what = image.map(str::to_owned).or_else(named);
    format!("{runtime}/{}/*", what.unwrap_or_default())
}

fn pod_names(owner: &Owner) -> Option<(&str, &str)> {
    let pod = owner.pod.as_ref()?;
    Some((pod.namespace.as_deref()?, pod.name.as_deref()?))
}

/// Returns the empty row of an owner, with the names that its groups have in common.
pub(super) fn row(subject: &Subject, like: &Owner) -> SubjectRow {
    let mut owner = Owner {
        path: masked(&like.path),
        ..Owner::unknown(CgroupId(0))
    };
    match subject {
        Subject::Unit(name) => owner.unit = Some(name.clone()),
        Subject::Container(id) => {
            let pod = pod_names(like);
            owner.container = like.container.as_ref().map(|like| Container {
                id: id.clone(),
                name: like.name.clone().filter(|_| pod.is_some()),
                chain: Vec::new(),
                ..like.clone()
            });
            owner.pod = pod.map(|(namespace, name)| Pod {
                uid: format!("{namespace}/{}", controller(name)),
                name: Some(controller(name)),
                namespace: Some(namespace.to_owned()),
                qos: like.pod.as_ref().map_or("unknown", |pod| pod.qos),
            });
        }
        Subject::Cgroup(_) | Subject::Overflow => {}
    }
    SubjectRow::new(subject.clone(), Arc::new(owner))
}

/// Returns the name of a unit with `*` for the instance, or for the varying parts.
fn template(name: &str) -> String {
    match (name.split_once('@'), name.rsplit_once('.')) {
        (Some((template, _)), Some((_, kind))) => format!("{}@*.{kind}", masked(template)),
        _ => masked(name),
    }
}

/// Returns the name of a pod with `*` for the parts that its controller generates.
fn controller(pod: &str) -> String {
    // The alphabet of Kubernetes' generated names has no vowels.
    let is_random = |word: &str, lengths: std::ops::RangeInclusive<usize>| {
        let random = |c: char| "bcdfghjklmnpqrstvwxz2456789".contains(c);
        lengths.contains(&word.len()) && word.chars().all(random)
    };
    let Some((rest, _)) = pod.rsplit_once('-').filter(|(_, it)| is_random(it, 5..=5)) else {
        return masked(pod);
    };
    let of_set = rest
        .rsplit_once('-')
        .filter(|(_, it)| is_random(it, 8..=10));
    let name = masked(of_set.map_or(rest, |(name, _)| name));
    format!("{}-*", name.strip_suffix("-*").unwrap_or(&name))
}

/// Replaces numbers, random words and UUIDs by `*`. A word before a number stays: `job17` becomes
/// `job*`.
fn masked(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric());
        let end = end.unwrap_or(rest.len()).max(first.len_utf8());
        let uuid = end
            .checked_sub(8)
            .filter(|at| begins_with_uuid(&rest[*at..]));
        let (word, after) = rest.split_at(uuid.map_or(end, |at| at + UUID));
        rest = after;
        if uuid.is_none() && !word.contains(|c: char| c.is_ascii_digit()) {
            out.push_str(word);
            continue;
        }
        let number = word.trim_end_matches(|c: char| c.is_ascii_digit());
        let letters = uuid.map_or(number, |at| &word[..at]);
        if letters.bytes().all(|byte| byte.is_ascii_alphabetic()) {
            out.push_str(letters);
        }
        out.push(ANY);
    }
    out
}

/// Length of a UUID in text.
const UUID: usize = 36;

fn begins_with_uuid(text: &str) -> bool {
    let fits = |(at, byte): (usize, &u8)| match at {
        8 | 13 | 18 | 23 => matches!(byte, b'-' | b'_'),
        _ => byte.is_ascii_hexdigit(),
    };
    let head = text.as_bytes().get(..UUID);
    head.is_some_and(|head| head.iter().enumerate().all(fits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_one_owner_have_one_pattern() {
        let cases = [
            ("run-u123.service", "run-u*.service"),
            ("run-r0a1b2c3d4e5f.scope", "run-*.scope"),
            ("run-p12-i9.service", "run-p*-i*.service"),
            ("session-12.scope", "session-*.scope"),
            ("backup@mnt-data.service", "backup@*.service"),
            ("cron.service", "cron.service"),
        ];
        for (name, expected) in cases {
            assert_eq!(template(name), expected);
        }
        let cases = [
            ("/jobs/17/step2", "/jobs/*/step*"),
            (
                "/kubepods/pod0f6a3c1e-abcd-face-beef-0123456789ab",
                "/kubepods/pod*",
            ),
            (
                "/slice/kubepods-pod_0f6a3c1e_abcd_face_beef_0123456789ab.slice",
                "/slice/kubepods-pod_*.slice",
            ),
            ("/été7", "/été*"),
        ];
        for (name, expected) in cases {
            assert_eq!(masked(name), expected);
        }
        let cases = [
            ("web-6d4cf56db6-x7k2p", "web-*"),
            ("report-28391234-bcdfg", "report-*"),
            ("db-0", "db-*"),
            ("kube-proxy-zx4k8", "kube-proxy-*"),
            ("redis-cache", "redis-cache"),
        ];
        for (name, expected) in cases {
            assert_eq!(controller(name), expected);
        }
    }
}
