//! Resources: the subjects of metrics and events.

use noctule_model::{CgroupId, ContainerRole, Owner};

use super::messages::{KeyValue, Resource};

/// Attributes of resources that do not depend on the subject.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Attributes of the node, in every resource: `host.name`, `host.id`, `os.type`, and those that
    /// the operator adds.
    pub node: Vec<(String, String)>,
    /// Attributes of the agent, in the resource of the node: `service.name`, `service.version`,
    /// `service.instance.id`.
    pub agent: Vec<(String, String)>,
    /// Version of the agent, for the scope.
    pub version: String,
}

impl Identity {
    /// Returns the resource of the node and the agent.
    pub(crate) fn of_node(&self) -> Resource {
        // The operator's attributes come last and override earlier ones.
        let all = self.agent.iter().chain(&self.node);
        let mut attributes: Vec<KeyValue> = Vec::new();
        for (key, value) in all {
            attributes.retain(|it| it.key != *key);
            attributes.push(KeyValue::text(key, value));
        }
        Resource { attributes }
    }

    /// Returns the resource of a subject on the node.
    pub(crate) fn of(&self, subject: Vec<KeyValue>) -> Resource {
        let mut attributes = subject;
        for (key, value) in &self.node {
            attributes.retain(|it| it.key != *key);
            attributes.push(KeyValue::text(key, value));
        }
        attributes.retain(|it| !it.key.starts_with("service."));
        Resource { attributes }
    }
}

/// Returns the attributes of a row, given the names and values of its labels.
pub(crate) fn of_labels<'a>(pairs: impl Iterator<Item = (&'a str, String)>) -> Vec<KeyValue> {
    let mut attributes = Vec::new();
    let mut container = None;
    let mut is_pod = false;
    for (label, value) in pairs {
        let key = match label {
            "container_id" => "container.id",
            "container" => {
                container = Some(value.clone());
                "container.name"
            }
            "runtime" => "container.runtime.name",
            "pod_uid" => {
                is_pod = true;
                "k8s.pod.uid"
            }
            "pod" => "k8s.pod.name",
            "namespace" => "k8s.namespace.name",
            "unit" => "systemd.unit",
            "cgroup" => "process.linux.cgroup",
            "comm" => "process.executable.name",
            "pid" => {
                if let Ok(pid) = value.parse() {
                    let value = super::messages::Value::Int(pid);
                    attributes.push(KeyValue::new("process.pid", value));
                }
                continue;
            }
            "start" => {
                attributes.push(KeyValue::text("process.creation.time", time(&value)));
                continue;
            }
            other => other,
        };
        attributes.push(KeyValue::text(key, value));
    }
    // In Kubernetes, the specification of a pod contains the names of its containers. The name in
    // the specification is the name known here.
    if let Some(name) = container.filter(|_| is_pod) {
        attributes.push(KeyValue::text("k8s.container.name", name));
    }
    attributes
}

/// Returns the attributes of an owner. These attributes equal the attributes derived from the
/// labels of its subject.
pub(crate) fn of_owner(owner: &Owner) -> Vec<KeyValue> {
    let container = owner.container.as_ref();
    let container = container.filter(|it| it.role != ContainerRole::Helper);
    let Some(container) = container else {
        let group = match (&owner.unit, &owner.container) {
            (Some(unit), None) => ("unit", unit),
            _ => ("cgroup", &owner.path),
        };
        let label = (group.0, crate::openmetrics::shown(group.1));
        return of_labels(std::iter::once(label));
    };
    let pod = owner.pod.as_ref();
    let known = [
        ("container_id", Some(container.id.as_str())),
        ("container", container.name.as_deref()),
        ("runtime", Some(container.runtime.name())),
        ("pod_uid", pod.map(|pod| pod.uid.as_str())),
        ("pod", pod.and_then(|pod| pod.name.as_deref())),
        ("namespace", pod.and_then(|pod| pod.namespace.as_deref())),
        ("unit", owner.unit.as_deref()),
    ];
    let known = known.into_iter().filter_map(|(label, value)| {
        let value = value.filter(|value| !value.is_empty())?;
        Some((label, crate::openmetrics::shown(value)))
    });
    of_labels(known)
}

/// Returns the attributes of a cgroup if only its id is known.
pub(crate) fn of_group(cgroup: CgroupId) -> Vec<KeyValue> {
    of_owner(&Owner::unknown(cgroup))
}

/// Converts Unix seconds with three decimals to ISO 8601 in UTC.
fn time(seconds: &str) -> String {
    let (whole, part) = seconds.split_once('.').unwrap_or((seconds, "000"));
    let Ok(whole) = whole.parse::<u64>() else {
        return seconds.to_owned();
    };
    let (year, month, day) = date(whole / 86_400);
    let (hour, minute, second) = (whole / 3600 % 24, whole / 60 % 60, whole % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{part}Z")
}

/// Returns year, month and day of a number of days since 1970. The algorithm is Howard Hinnant's
/// `civil_from_days`.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let part = (5 * of_year + 2) / 153;
    let day = of_year - (153 * part + 2) / 5 + 1;
    let month = if part < 10 { part + 3 } else { part - 9 };
    (year + era * 400 + u64::from(month <= 2), month, day)
}

/// UUID namespace that the semantic conventions define for `service.instance.id`.
const NAMESPACE: [u8; 16] = [
    0x4d, 0x63, 0x00, 0x9a, 0x8d, 0x0f, 0x11, 0xee, 0xaa, 0xd7, 0x4c, 0x79, 0x6e, 0xd8, 0xe3, 0x20,
];

/// Returns the `service.instance.id` of a node's agent: a version 5 UUID of the node's identity,
/// which stays the same across restarts.
pub fn agent_instance(node: &str) -> String {
    let mut bytes = NAMESPACE.to_vec();
    bytes.extend(node.as_bytes());
    let mut id = [0; 16];
    id.copy_from_slice(&sha1(&bytes)[..16]);
    id[6] = id[6] & 0x0f | 0x50;
    id[8] = id[8] & 0x3f | 0x80;
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ];
    parts.join("-")
}

/// Returns the SHA-1 digest (FIPS 180-4) that version 5 UUIDs require. The input contains no
/// secrets.
fn sha1(message: &[u8]) -> [u8; 20] {
    let mut padded = message.to_vec();
    padded.push(0x80);
    while padded.len() % 64 != 56 {
        padded.push(0);
    }
    padded.extend((message.len() as u64 * 8).to_be_bytes());
    let mut state = [
        0x6745_2301_u32,
        0xefcd_ab89,
        0x98ba_dcfe,
        0x1032_5476,
        0xc3d2_e1f0,
    ];
    for block in padded.chunks_exact(64) {
        let mut words = [0_u32; 80];
        for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
            *word = bytes
                .iter()
                .fold(0, |word, byte| word << 8 | u32::from(*byte));
        }
        for i in 16..80 {
            let mixed = words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16];
            words[i] = mixed.rotate_left(1);
        }
        let [mut a, mut b, mut c, mut d, mut e] = state;
        for (i, word) in words.iter().enumerate() {
            let (mix, constant) = match i / 20 {
                0 => (b & c | !b & d, 0x5a82_7999_u32),
                1 => (b ^ c ^ d, 0x6ed9_eba1),
                2 => (b & c | b & d | c & d, 0x8f1b_bcdc),
                _ => (b ^ c ^ d, 0xca62_c1d6),
            };
            let next = a
                .rotate_left(5)
                .wrapping_add(mix)
                .wrapping_add(e)
                .wrapping_add(constant)
                .wrapping_add(*word);
            (e, d, c, b, a) = (d, c, b.rotate_left(30), a, next);
        }
        for (sum, part) in state.iter_mut().zip([a, b, c, d, e]) {
            *sum = sum.wrapping_add(part);
        }
    }
    let mut out = [0; 20];
    for (bytes, word) in out.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use noctule_model::{Container, Pod, Runtime};

    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn sha1_matches_the_standard_examples() {
        let long = "a".repeat(200);
        let cases = [
            ("", "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
            ("abc", "a9993e364706816aba3e25717850c26c9cd0d89d"),
            (&long, "e61cfffe0d9195a525fc6cf06ca2d77119c24a40"),
        ];
        for (text, expected) in cases {
            assert_eq!(hex(&sha1(text.as_bytes())), expected, "{text}");
        }
    }

    #[test]
    fn instance_id_is_a_uuid_derived_from_the_node() {
        let id = agent_instance("4c1f");
        assert_eq!(id, agent_instance("4c1f"));
        assert_ne!(id, agent_instance("4c1e"));
        assert_eq!((id.len(), id.as_bytes()[14]), (36, b'5'));
    }

    #[test]
    fn times_are_in_utc() {
        let cases = [
            ("0.000", "1970-01-01T00:00:00.000Z"),
            ("951782400.250", "2000-02-29T00:00:00.250Z"),
            ("1735689599.999", "2024-12-31T23:59:59.999Z"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(time(seconds), expected);
        }
    }

    #[test]
    fn operator_attributes_override_defaults() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let identity = Identity {
            node: vec![
                pair("host.name", "n1"),
                pair("host.name", "other"),
                pair("service.instance.id", "mine"),
            ],
            agent: vec![
                pair("service.name", "noctule"),
                pair("service.instance.id", "x"),
            ],
            version: "1".into(),
        };
        let keys = |resource: Resource| -> Vec<String> {
            let attributes = resource.attributes.into_iter();
            attributes.map(|it| it.key).collect()
        };
        let node = identity.of_node();
        assert!(
            node.attributes
                .contains(&KeyValue::text("service.instance.id", "mine"))
        );
        assert!(
            node.attributes
                .contains(&KeyValue::text("host.name", "other"))
        );
        assert_eq!(
            keys(node),
            ["service.name", "host.name", "service.instance.id"]
        );
        let unit = identity.of(vec![KeyValue::text("systemd.unit", "a.service")]);
        assert_eq!(keys(unit), ["systemd.unit", "host.name"]);
    }

    #[test]
    fn a_container_of_a_pod_has_both_names() {
        let owner = Owner {
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
            ..Owner::unknown(CgroupId(7))
        };
        let attributes = of_owner(&owner);
        let keys: Vec<&str> = attributes.iter().map(|it| it.key.as_str()).collect();
        let expected = [
            "container.id",
            "container.name",
            "container.runtime.name",
            "k8s.pod.uid",
            "k8s.pod.name",
            "k8s.namespace.name",
            "k8s.container.name",
        ];
        assert_eq!(keys, expected);
        assert_eq!(
            of_group(CgroupId(7)),
            [KeyValue::text("process.linux.cgroup", "#7")]
        );
    }
}
