//! Resource attributes that describe this node and this agent.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::{env, fs};

use noctule_sinks::otlp::{Identity, agent_instance};

use crate::config::Config;

/// Returns the resource attributes. OpenTelemetry's environment variable overrides detected values,
/// and the configuration overrides the variable.
pub(super) fn of(config: &Config) -> Identity {
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let name = config.host.name();
    let machine = rustix::system::uname();
    let mut node = vec![
        pair("host.name", &name),
        pair("host.arch", arch(&machine.machine().to_string_lossy())),
        pair("os.type", "linux"),
    ];
    let id = fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let id = id.trim();
    if !id.is_empty() {
        node.push(pair("host.id", id));
    }
    node.extend(from_variable(
        &env::var("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default(),
    ));
    let configured = config.otlp.attributes.iter();
    node.extend(configured.map(|(key, value)| pair(key, value)));
    let agent = vec![
        pair("service.name", "noctule"),
        pair("service.version", env!("CARGO_PKG_VERSION")),
        pair(
            "service.instance.id",
            &agent_instance(node_key(&node, id, &name)),
        ),
    ];
    Identity {
        node,
        agent,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// Returns the key of the node, which is stable across restarts. In a container, the id and the
/// host name may not be the node's, so the node name of Kubernetes takes precedence.
fn node_key<'a>(node: &'a [(String, String)], id: &'a str, name: &'a str) -> &'a str {
    let given = node.iter().rfind(|(key, _)| key == "k8s.node.name");
    match given {
        Some((_, value)) => value,
        None if id.is_empty() => name,
        None => id,
    }
}

/// Parses `key=value,key=value` with percent-encoded values.
fn from_variable(text: &str) -> Vec<(String, String)> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    let pairs = pairs.map(|(key, value)| (key.trim().to_owned(), decoded(value.trim())));
    pairs.filter(|(key, _)| !key.is_empty()).collect()
}

fn decoded(text: &str) -> String {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        let code = after.get(..2).filter(|_| *byte == b'%');
        let code = code.and_then(|code| std::str::from_utf8(code).ok());
        let code = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        out.push(code.unwrap_or(*byte));
        rest = if code.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Returns the architecture's name in the semantic conventions.
fn arch(machine: &str) -> &str {
    match machine {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Returns an id for all records of this run of the agent.
pub(super) fn run(identity: &Identity, now_unix_ns: u64) -> u64 {
    let mut hasher = RandomState::new().build_hasher();
    for (_, value) in identity.node.iter().chain(&identity.agent) {
        hasher.write(value.as_bytes());
    }
    hasher.write_u64(now_unix_ns);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_attributes_variable_is_parsed() {
        let read = from_variable("k8s.node.name=n%201, a=b=c,broken,=x,d=%zz%4");
        let pairs: Vec<String> = read.iter().map(|(k, v)| format!("{k}|{v}")).collect();
        assert_eq!(pairs, ["k8s.node.name|n 1", "a|b=c", "d|%zz%4"]);
        assert!(from_variable("").is_empty());
    }

    #[test]
    fn kubernetes_node_name_outranks_the_machine_id() {
        let node = [("k8s.node.name".to_owned(), "n1".to_owned())];
        assert_eq!(node_key(&node, "4c1f", "pod"), "n1");
        assert_eq!(node_key(&[], "4c1f", "pod"), "4c1f");
        assert_eq!(node_key(&[], "", "pod"), "pod");
    }
}
