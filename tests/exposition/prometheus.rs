//! Tests that a real Prometheus computes the CPU use that the kernel accounts.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::support::agent::Agent;
use crate::support::container::{Bundle, Container, Wish, hex_id, pod_uid};
use crate::support::prometheus::{Prometheus, unix_now};
use crate::support::{self, assert_close, wait_until};

/// Returns the value of a result.
fn value(result: &Value) -> f64 {
    let text = result["value"][1].as_str().expect("a number as text");
    text.parse().expect("a number")
}

/// The CPU time of a group according to the kernel, over time. Each entry has seconds since 1970
/// and CPU time.
struct Accounted(Vec<(f64, f64)>);

impl Accounted {
    /// Interpolates the CPU time at a moment between two readings.
    fn at(&self, time: f64) -> f64 {
        let next = self.0.iter().position(|(t, _)| *t >= time);
        let next = next.expect("it was read until later");
        let before = next.checked_sub(1).expect("it was read before");
        let ((t0, u0), (t1, u1)) = (self.0[before], self.0[next]);
        u0 + (u1 - u0) * (time - t0) / (t1 - t0)
    }
}

/// Half a minute, with a margin for Prometheus.
const WINDOW_SECONDS: f64 = 33.0;

/// Returns the rate computed by Prometheus and the rate according to the kernel over the same half
/// minute.
fn rates(server: &Prometheus, series: &str, container: &Container) -> (f64, f64) {
    let accounting = container.accounting();
    let mut accounted = Accounted(Vec::new());
    let began = unix_now();
    while unix_now() < began + WINDOW_SECONDS {
        let usage = accounting.usage_seconds();
        accounted.0.push((unix_now(), usage));
        thread::sleep(Duration::from_millis(50));
    }
    let at = unix_now() - 1.0;
    let rate = server.query(&format!("rate({series}[30s])"), at);
    assert_eq!(rate.len(), 1, "{rate:?}");
    let scraped = server.query(&format!("{series}[30s]"), at);
    let points = scraped[0]["values"].as_array().expect("samples");
    assert!(points.len() > 20, "scraped {} times", points.len());
    let time = |point: Option<&Value>| point.expect("a sample")[0].as_f64();
    let first = time(points.first()).expect("a time");
    let last = time(points.last()).expect("a time");
    let own = (accounted.at(last) - accounted.at(first)) / (last - first);
    (value(&rate[0]), own)
}

const MIXIN: &str = include_str!("kubernetes-mixin.yml");

/// The rules and queries of kubernetes-mixin. The queries ask for the container `cart` of the pod
/// `shop-1`.
struct Mixin(Value);

impl Mixin {
    fn read() -> Self {
        let variables = [
            (r#"job="cadvisor""#, r#"job="noctule""#),
            (r#"cluster="$cluster""#, r#"cluster="""#),
            ("$namespace", "prod"),
            ("$pod", "shop-1"),
            ("$node", ".*"),
            ("$workload", ".*"),
            ("$type", ".*"),
            ("$__rate_interval", "1m"),
        ];
        let filled = variables
            .iter()
            .fold(MIXIN.to_owned(), |text, (variable, value)| {
                text.replace(variable, value)
            });
        Self(serde_yaml_ng::from_str(&filled).expect("YAML"))
    }

    /// Returns the mixin's recording rules, with stand-ins for the series of kube-state-metrics.
    fn rules(&self) -> NamedTempFile {
        let pod = json!({"namespace": "prod", "pod": "shop-1", "node": "n1"});
        let owner = json!({
            "namespace": "prod", "pod": "shop-1", "workload": "shop", "workload_type": "deployment",
        });
        let mut rules = vec![
            json!({"record": "kube_pod_info", "expr": "vector(1)", "labels": pod}),
            json!({
                "record": "namespace_workload_pod:kube_pod_owner:relabel",
                "expr": "vector(1)",
                "labels": owner,
            }),
        ];
        let own = self.0["rules"].as_array().expect("rules").iter();
        rules.extend(own.map(|rule| json!({"record": rule["record"], "expr": rule["expr"]})));
        let groups = json!({"groups": [{"name": "mixin", "rules": rules}]});
        let file = NamedTempFile::new().expect("a file");
        serde_json::to_writer(&file, &groups).expect("our file");
        file
    }

    /// Waits until each query returns a value above 0.
    fn ask(&self, server: &Prometheus) {
        for query in self.0["queries"].as_array().expect("queries") {
            let place = format!("{}: {}", query["file"], query["name"]);
            let expression = query["expr"].as_str().expect("an expression");
            wait_until(&place, || {
                let answer = server.query(expression, unix_now());
                answer.iter().any(|row| value(row) > 0.0)
            });
        }
    }
}

#[test]
fn prometheus_sees_half_a_cpu_as_half_a_cpu() {
    let _machine = support::shared();
    let id = hex_id();
    // The group is directly below the root, so no parent's weight reduces its share.
    let wish = Wish {
        cpus: Some(0.5),
        ..Wish::burn(&id, &format!("/noctule-test-{id}"))
    };
    let _bundle = Bundle::write(
        &id,
        &json!({
            "io.kubernetes.cri.container-name": "cart",
            "io.kubernetes.cri.container-type": "container",
            "io.kubernetes.cri.image-name": "registry.example/cart:1",
            "io.kubernetes.cri.sandbox-name": "shop-1",
            "io.kubernetes.cri.sandbox-namespace": "prod",
            "io.kubernetes.cri.sandbox-uid": pod_uid(),
        }),
    );
    let container = wish.create();
    container.start();
    // A scrape shows the last batch. With one batch per second, a batch could be a second old when
    // the half minute starts and new when it ends. The error would be 3 %.
    let agent = Agent::start(&["--interval", "200ms", "--names", "cadvisor"]);
    let mixin = Mixin::read();
    let rules = mixin.rules();
    let server = Prometheus::scraping_with(agent.address(), Some(rules.path()), &[]);
    let series = format!("noctule_container_cpu_seconds_total{{container_id=\"{id}\"}}");
    wait_until("prometheus has scraped it", || {
        !server.query(&series, unix_now()).is_empty()
    });
    // On a busy machine the kernel may give a group less than its quota, so there are three tries.
    let mut given = Vec::new();
    let tried = (0..3).find_map(|_| {
        let before = support::stolen();
        let (rate, own) = rates(&server, &series, &container);
        // Both must agree, however much CPU time the group got.
        assert_close("rate against the kernel's accounting", rate, own, 0.03, 0.0);
        // Time that the hypervisor took is not available to the group.
        let taken = (support::stolen() - before) / WINDOW_SECONDS;
        given.push((own, taken));
        (0.495 - taken..0.505)
            .contains(&own)
            .then_some((rate, taken))
    });
    let (rate, taken) =
        tried.unwrap_or_else(|| panic!("the machine never gave half a CPU: {given:?}"));
    assert_close("half a CPU", rate, 0.5, 0.03, 0.015 + taken);
    let up = server.query("up{job=\"noctule\"}", unix_now());
    assert_eq!(value(&up[0]), 1.0, "{up:?}");
    mixin.ask(&server);
    let target = server.target();
    assert_eq!(target["health"], "up", "{target}");
    assert_eq!(target["lastError"], "", "{target}");
    let scraped = server.query("scrape_samples_scraped{job=\"noctule\"}", unix_now());
    let samples = agent.metrics().len() as f64;
    assert_close("samples", value(&scraped[0]), samples, 0.2, 0.0);
}
