//! Recognizes Kubernetes pods in the components of a path.

use noctule_model::Pod;

use crate::text::is_pod_uid;

const LEVELS: [&str; 2] = ["burstable", "besteffort"];

/// Returns the pod of a component, if there is one. `above` holds the components before it.
pub(crate) fn find(component: &str, above: &[&str]) -> Option<Pod> {
    by_slice(component).or_else(|| by_directory(component, above))
}

/// The kubelet's systemd driver: `[<root>-]kubepods[-<level>]-pod<uid>.slice`. Dashes separate the
/// levels of slices, so the kubelet replaces those in the UID by `_`.
fn by_slice(component: &str) -> Option<Pod> {
    let (above, uid) = component.strip_suffix(".slice")?.rsplit_once("-pod")?;
    if uid.is_empty() || !above.contains("kubepods") {
        return None;
    }
    let level = LEVELS
        .into_iter()
        .find(|&level| above.rsplit('-').next() == Some(level));
    Some(pod(uid.replace('_', "-"), level.unwrap_or("guaranteed")))
}

/// The kubelet's cgroupfs driver: `[<root>/]kubepods[/<level>]/pod<uid>`. A cgroup namespace may
/// have cut off the components above the pod. Without these components, the form of the UID must
/// suffice, and the level is unknown.
fn by_directory(component: &str, above: &[&str]) -> Option<Pod> {
    let uid = component.strip_prefix("pod")?;
    let anchored = above.iter().any(|c| c.contains("kubepods"));
    let parent = above.last().copied().unwrap_or_default();
    let level = LEVELS.into_iter().find(|&level| parent == level);
    let sure = is_pod_uid(uid) || (anchored && (level.is_some() || parent.contains("kubepods")));
    if uid.is_empty() || !sure {
        return None;
    }
    let unlevelled = if anchored { "guaranteed" } else { "unknown" };
    Some(pod(uid.to_owned(), level.unwrap_or(unlevelled)))
}

fn pod(uid: String, qos: &'static str) -> Pod {
    Pod {
        uid,
        qos,
        name: None,
        namespace: None,
    }
}
