//! Tests that the Helm chart creates the objects of `deploy/kubernetes`.
//!
//! No distribution used for the tests packages Helm. This file therefore renders the subset of its
//! language that the chart uses: `if`, `range` and values piped through five functions. An unknown
//! word panics. The chart was also rendered by Go's text/template with sprig, as Helm does
//! (CONTRIBUTING.md).

use std::collections::BTreeMap;
use std::fs;

use serde_yaml_ng::Value;

use super::{deploy, support};

/// The remaining pieces of a template.
type Rest<'a> = &'a [Piece<'a>];

/// Text, or the action between `{{` and `}}`.
#[derive(Clone, Copy, Debug)]
enum Piece<'a> {
    Text(&'a str),
    Action(&'a str),
}

/// Splits a template. `{{-` trims white space before it, and `-}}` after it.
fn pieces(template: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = template;
    while let Some((text, behind)) = rest.split_once("{{") {
        let (action, behind) = behind.split_once("}}").expect("an end of the action");
        let (text, action) = match action.strip_prefix('-') {
            Some(action) => (text.trim_end(), action),
            None => (text, action),
        };
        assert!(!action.ends_with('-'), "not rendered here: {action}");
        pieces.extend([Piece::Text(text), Piece::Action(action.trim())]);
        rest = behind;
    }
    pieces.push(Piece::Text(rest));
    pieces
}

/// Renders up to the `end` of a block or the end of the template. Returns the rest.
fn render<'a>(mut rest: Rest<'a>, top: &Value, dot: &Value, out: &mut String) -> Rest<'a> {
    while let Some((piece, behind)) = rest.split_first() {
        rest = behind;
        let action = match piece {
            Piece::Text(text) => {
                out.push_str(text);
                continue;
            }
            Piece::Action(action) => *action,
        };
        let (word, argument) = action.split_once(' ').unwrap_or((action, ""));
        rest = match word {
            "end" => return rest,
            "if" => {
                let mut block = String::new();
                let behind = render(rest, top, dot, &mut block);
                if is_true(&pipeline(argument, top, dot)) {
                    out.push_str(&block);
                }
                behind
            }
            "range" => {
                let all = pipeline(argument, top, dot);
                let all = all.as_sequence().expect("a list");
                assert!(!all.is_empty(), "an empty list is not rendered here");
                let mut behind = rest;
                for item in all {
                    behind = render(rest, top, item, out);
                }
                behind
            }
            _ => {
                out.push_str(&text(&pipeline(action, top, dot)));
                rest
            }
        };
    }
    rest
}

fn pipeline(words: &str, top: &Value, dot: &Value) -> Value {
    let mut steps = words.split('|').map(str::trim);
    let first = steps.next().expect("a value");
    let value = match first.strip_prefix("toYaml ") {
        Some(path) => Value::String(yaml(&find(path, top, dot))),
        None => find(first, top, dot),
    };
    steps.fold(value, |value, step| {
        let (function, argument) = step.split_once(' ').unwrap_or((step, ""));
        match function {
            "nindent" => {
                let indent = " ".repeat(argument.parse().expect("a number"));
                let lines = text(&value).replace('\n', &format!("\n{indent}"));
                Value::String(format!("\n{indent}{lines}"))
            }
            "default" if is_true(&value) => value,
            "default" => find(argument, top, dot),
            // The sum depends on the configuration, so fixed text replaces it.
            "sha256sum" => Value::String("sum".into()),
            _ => panic!("not rendered here: {step}"),
        }
    })
}

/// Looks up `.a.b` in the values of the chart, or else in the current list item.
fn find(path: &str, top: &Value, dot: &Value) -> Value {
    let keys = path.strip_prefix('.').expect("a path");
    let (first, _) = keys.split_once('.').unwrap_or((keys, ""));
    let from = match top.get(first) {
        Some(_) => top,
        None => dot,
    };
    let step = |at: &Value, key: &str| at.get(key).cloned();
    let found = keys
        .split('.')
        .try_fold(from.clone(), |at, key| step(&at, key));
    found.unwrap_or_else(|| panic!("{path} is not a value of the chart"))
}

fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::String(text) => !text.is_empty(),
        Value::Sequence(list) => !list.is_empty(),
        Value::Mapping(map) => !map.is_empty(),
        other => panic!("not looked at here: {other:?}"),
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(value) => value.to_string(),
        other => panic!("no text: {other:?}"),
    }
}

fn yaml(value: &Value) -> String {
    let text = serde_yaml_ng::to_string(value).expect("YAML");
    text.trim_end().to_owned()
}

fn parse(file: &str) -> Value {
    let text = fs::read_to_string(deploy(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    serde_yaml_ng::from_str(&text).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Renders the chart with changed values. Returns the objects by kind.
fn rendered(change: impl FnOnce(&mut Value)) -> BTreeMap<String, Value> {
    let chart = parse("helm/noctule/Chart.yaml");
    let mut values = parse("helm/noctule/values.yaml");
    change(&mut values);
    let mut top: Value =
        serde_yaml_ng::from_str("Release: {Namespace: noctule}\nChart: {}").expect("YAML");
    top["Chart"]["AppVersion"] = chart["appVersion"].clone();
    top["Values"] = values;
    let folder = fs::read_dir(deploy("helm/noctule/templates")).expect("templates");
    let mut objects = BTreeMap::new();
    for file in folder {
        let template = fs::read_to_string(file.expect("a file").path()).expect("text");
        let mut out = String::new();
        assert!(render(&pieces(&template), &top, &top, &mut out).is_empty());
        let object: Value =
            serde_yaml_ng::from_str(&out).unwrap_or_else(|error| panic!("{error}:\n{out}"));
        if let Some(kind) = object["kind"].as_str() {
            objects.insert(kind.to_owned(), object.clone());
        }
    }
    objects
}

#[test]
fn the_chart_makes_the_objects_of_the_plain_files() {
    let _machine = support::shared();
    let mut objects = rendered(|values| values["podMonitor"]["enabled"] = true.into());
    let set = objects.get_mut("DaemonSet").expect("one");
    let annotations = &mut set["spec"]["template"]["metadata"]["annotations"];
    // kustomize puts the sum into the name of the ConfigMap instead.
    let sum = annotations
        .as_mapping_mut()
        .and_then(|map| map.remove("checksum/config"));
    assert!(sum.is_some(), "a changed configuration makes new pods");
    let config = objects.remove("ConfigMap").expect("one");
    let plain = fs::read_to_string(deploy("kubernetes/noctule.toml")).expect("text");
    assert_eq!(config["data"]["noctule.toml"], plain.as_str());
    let files = ["daemonset", "networkpolicy", "podmonitor", "serviceaccount"];
    assert_eq!(objects.len(), files.len());
    for file in files {
        let plain = parse(&format!("kubernetes/{file}.yaml"));
        let kind = plain["kind"].as_str().expect("a kind");
        assert_eq!(objects[kind], plain, "{file}");
    }
}

#[test]
fn the_values_of_the_chart_have_effect() {
    let _machine = support::shared();
    let change = "{image: {repository: r, tag: t, pullPolicy: Always}, imagePullSecrets: [{name: s}], \
        config: \"[web]\\n\", env: [{name: A, value: b}], capabilities: [BPF], podAnnotations: {}, \
        extraVolumes: [{name: tls, secret: {secretName: s}}], extraVolumeMounts: [{name: tls, mountPath: /tls}], \
        startupProbe: {httpGet: {path: /s, port: 1}}, livenessProbe: {httpGet: {path: /l, port: 1}}, \
        readinessProbe: {tcpSocket: {port: metrics}}, \
        runtimeFolders: [{name: k3s, path: /run/k3s}], resources: {}, nodeSelector: {a: b}, tolerations: [], \
        priorityClassName: \"\", maxUnavailable: 1, networkPolicy: {enabled: false, from: [], egress: []}, \
        podMonitor: {enabled: true, interval: 1s, endpoint: {scheme: https}}}";
    let mut objects = rendered(|values| {
        let changed: Value = serde_yaml_ng::from_str(change).expect("YAML");
        let keys = |value: &Value| {
            let map = value.as_mapping().expect("a map");
            map.keys().cloned().collect::<Vec<_>>()
        };
        for key in keys(values) {
            assert_ne!(values[&key], changed[&key], "{key:?} is changed");
        }
        *values = changed;
    });
    assert!(!objects.contains_key("NetworkPolicy"));
    assert!(!rendered(|_| {}).contains_key("PodMonitor"));
    let endpoint = &objects["PodMonitor"]["spec"]["podMetricsEndpoints"][0];
    assert_eq!(endpoint["interval"], "1s");
    assert_eq!(endpoint["scheme"], "https");
    assert_eq!(endpoint["port"], "metrics");
    assert_eq!(objects["ConfigMap"]["data"]["noctule.toml"], "[web]\n");
    let set = objects.remove("DaemonSet").expect("one");
    let pod = &set["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(container["image"], "r:t");
    assert_eq!(container["imagePullPolicy"], "Always");
    assert_eq!(container["env"][0]["value"], "b");
    assert_eq!(
        container["securityContext"]["capabilities"]["add"][0],
        "BPF"
    );
    let mounts = container["volumeMounts"].as_sequence().expect("mounts");
    let [.., runtime, extra] = mounts.as_slice() else {
        panic!("mounts: {mounts:?}");
    };
    assert_eq!(runtime["mountPath"], "/run/k3s");
    assert_eq!(extra["mountPath"], "/tls");
    let volumes = pod["volumes"].as_sequence().expect("volumes");
    let [.., runtime, extra] = volumes.as_slice() else {
        panic!("volumes: {volumes:?}");
    };
    assert_eq!(runtime["hostPath"]["path"], "/run/k3s");
    assert_eq!(extra["secret"]["secretName"], "s");
    assert_eq!(container["startupProbe"]["httpGet"]["path"], "/s");
    assert_eq!(container["livenessProbe"]["httpGet"]["path"], "/l");
    let ready = &container["readinessProbe"];
    assert_eq!(ready["tcpSocket"]["port"], "metrics");
    assert_eq!(ready.get("httpGet"), None);
    assert_eq!(pod["imagePullSecrets"][0]["name"], "s");
    assert_eq!(pod["nodeSelector"]["a"], "b");
    assert_eq!(pod.get("priorityClassName"), None);
    assert_eq!(
        set["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"],
        1
    );
}
