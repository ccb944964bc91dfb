"""Installs the Helm chart with Helm itself into a server that only records the objects.

Compares the objects with deploy/kubernetes, and validates them with Kubernetes' own schemas.
Usage: chart.py DEPLOY
"""

import asyncio
import http.server
import json
import pathlib
import sys
import tempfile
import threading

import helm_sdkpy
import kubernetes_validate
import yaml

NAMES = {
    "v1": ["ConfigMap", "Namespace", "ResourceQuota", "Secret", "ServiceAccount"],
    "apps/v1": ["DaemonSet"],
    "networking.k8s.io/v1": ["NetworkPolicy"],
    "monitoring.coreos.com/v1": ["PodMonitor", "PrometheusRule"],
}


def plural(kind):
    return kind[:-1].lower() + "ies" if kind.endswith("y") else kind.lower() + "s"


def groups():
    for version in NAMES:
        group, separator, number = version.partition("/")
        if separator:
            this = {"groupVersion": version, "version": number}
            yield {"name": group, "versions": [this], "preferredVersion": this}


class Api(http.server.BaseHTTPRequestHandler):
    """The parts of the Kubernetes API that Helm needs to install a chart."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, body, status=200, kind="application/json"):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        path = self.path.partition("?")[0]
        version = path.removeprefix("/apis/").removeprefix("/api/")
        minor = str(self.server.minor)
        if path == "/version":
            self.answer({"major": "1", "minor": minor, "gitVersion": f"v1.{minor}.0"})
        elif path == "/api":
            self.answer({"kind": "APIVersions", "versions": ["v1"]})
        elif path == "/apis":
            self.answer({"kind": "APIGroupList", "apiVersion": "v1", "groups": list(groups())})
        elif version in NAMES:
            resources = [
                {"name": plural(kind), "kind": kind, "namespaced": kind != "Namespace", "verbs": ["create", "get"]}
                for kind in NAMES[version]
            ]
            self.answer({"kind": "APIResourceList", "groupVersion": version, "resources": resources})
        elif path.endswith("/secrets"):
            self.answer({"kind": "SecretList", "apiVersion": "v1", "metadata": {}, "items": []})
        else:
            self.answer({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}, 404)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        kind = self.headers["Content-Type"]
        # Helm stores its own record of the release as a Secret in protobuf.
        if "json" in kind:
            self.server.objects.append(json.loads(body))
        self.answer(body, 201, kind)

    do_PUT = do_POST


def install(chart, values, minor=30, release="noctule"):
    """Returns the objects by kind and name, without what only Helm adds."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Api)
    server.objects, server.minor = [], minor
    threading.Thread(target=server.serve_forever, daemon=True).start()
    access = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {}}],
    }
    try:
        with tempfile.NamedTemporaryFile("w") as file:
            json.dump(access, file)
            file.flush()
            configuration = helm_sdkpy.Configuration(namespace="noctule", kubeconfig=file.name)
            asyncio.run(helm_sdkpy.Install(configuration).run(release, str(chart), values, wait=False))
    finally:
        server.shutdown()
    for item in server.objects:
        del item["metadata"]["annotations"]["meta.helm.sh/release-name"]
        del item["metadata"]["annotations"]["meta.helm.sh/release-namespace"]
        if not item["metadata"]["annotations"]:
            del item["metadata"]["annotations"]
        if item["apiVersion"].startswith("monitoring."):
            continue
        kubernetes_validate.validate(item, f"1.{minor}", strict=True)
    return {(item["kind"], item["metadata"]["name"]): item for item in server.objects}


def expect(actual, expected, what):
    if actual != expected:
        sys.exit(f"{what}: {actual}\nexpected: {expected}")


def without_helm(item):
    """Removes the labels and the annotation that the plain files do not have."""
    if isinstance(item, list):
        return [without_helm(part) for part in item]
    if not isinstance(item, dict):
        return item
    only_helm = ("instance", "version", "managed-by")
    removed = [f"app.kubernetes.io/{name}" for name in only_helm] + ["helm.sh/chart", "checksum/config"]
    return {key: without_helm(value) for key, value in item.items() if key not in removed}


def equal_the_plain_files(chart, plain):
    # The plain files have the AppArmor annotation, which Kubernetes accepts in every version.
    objects = install(chart, {"podMonitor": {"enabled": True}}, minor=29)
    config = objects.pop(("ConfigMap", "noctule"))
    expect(config["data"]["noctule.toml"].strip(), (plain / "noctule.toml").read_text().strip(), "configuration")
    others = ["kustomization.yaml", "namespace.yaml"]
    files = [file for file in sorted(plain.glob("*.yaml")) if file.name not in others]
    items = [yaml.safe_load(file.read_text()) for file in files]
    expected = {(item["kind"], "noctule"): item for item in items}
    expect({key: without_helm(item) for key, item in objects.items()}, expected, "objects")


def have_effect(chart, deploy):
    probe = {"httpGet": {"path": "/other", "port": 1}}
    values = {
        "image": {"repository": "r", "tag": "t", "pullPolicy": "Always"},
        "imagePullSecrets": [{"name": "s"}],
        "config": "[web]\n",
        "energy": {"enabled": True},
        "env": [{"name": "A", "value": "b"}],
        "capabilities": ["BPF"],
        "appArmorProfile": {"type": "RuntimeDefault"},
        "podSecurityContext": {"fsGroup": 1},
        "runtimeFolders": [{"name": "k3s", "path": "/run/k3s"}],
        "resources": {"limits": {"memory": "1Gi"}},
        "extraVolumes": [{"name": "tls", "secret": {"secretName": "s"}}],
        "extraVolumeMounts": [{"name": "tls", "mountPath": "/tls"}],
        "startupProbe": probe,
        "livenessProbe": probe,
        "readinessProbe": {"httpGet": None, "tcpSocket": {"port": "metrics"}},
        "podLabels": {"team": "x"},
        "podAnnotations": {"p": "q"},
        "nodeSelector": {"a": "b"},
        "affinity": {"nodeAffinity": {}},
        "tolerations": [{"key": "k", "operator": "Exists"}],
        "priorityClassName": "",
        "maxUnavailable": 1,
        "networkPolicy": {"enabled": False},
        "podMonitor": {"enabled": True, "labels": {"l": "m"}, "interval": "1s", "endpoint": {"scheme": "https"}},
        "prometheusRule": {"enabled": True, "labels": {"l": "m"}},
        "dashboards": {"enabled": True, "annotations": {"folder": "f"}},
    }
    known = yaml.safe_load((chart / "values.yaml").read_text())
    unset = {"nameOverride", "fullnameOverride", "priorityQuota"}
    expect(set(known), set(values) | unset, "keys of values.yaml")
    objects = install(chart, values, release="mine")
    kinds = {kind for kind, _ in objects}
    expect(kinds, {"ServiceAccount", "ConfigMap", "DaemonSet", "PodMonitor", "PrometheusRule"}, "kinds")
    boards = list((deploy / "grafana").glob("*.json"))
    for board in boards:
        item = objects["ConfigMap", f"mine-noctule-dashboard-{board.stem}"]
        expect(json.loads(item["data"][f"noctule-{board.name}"]), json.loads(board.read_text()), board.name)
        expect(item["metadata"]["labels"]["grafana_dashboard"], "1", "label of the dashboards")
        expect(item["metadata"]["annotations"], {"folder": "f"}, "annotations of the dashboards")
    expect(len(objects), 5 + len(boards), "number of objects")
    rules = objects["PrometheusRule", "mine-noctule"]
    expect(rules["spec"], yaml.safe_load((deploy / "prometheus/rules.yml").read_text()), "rules")
    expect(rules["metadata"]["labels"]["l"], "m", "labels of the rules")
    monitor = objects["PodMonitor", "mine-noctule"]
    endpoint = monitor["spec"]["podMetricsEndpoints"][0]
    expect([endpoint["interval"], endpoint["scheme"], endpoint["port"]], ["1s", "https", "metrics"], "endpoint")
    config = objects["ConfigMap", "mine-noctule"]["data"]["noctule.toml"]
    expect(config, '[web]\n[host]\nsys = "/host/sys"\n', "configuration")
    whole = objects["DaemonSet", "mine-noctule"]
    template = whole["spec"]["template"]
    pod, container = template["spec"], template["spec"]["containers"][0]
    selector = {"app.kubernetes.io/name": "noctule", "app.kubernetes.io/instance": "mine"}
    expect(whole["spec"]["selector"]["matchLabels"], selector, "selector")
    expect(whole["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"], 1, "maxUnavailable")
    expect(template["metadata"]["labels"]["team"], "x", "labels of the pods")
    expect(template["metadata"]["annotations"]["p"], "q", "annotations of the pods")
    expect(pod["securityContext"], {"fsGroup": 1, "seccompProfile": {"type": "RuntimeDefault"}}, "pod")
    expect(pod["affinity"], values["affinity"], "affinity")
    expect(pod["tolerations"], values["tolerations"], "tolerations")
    expect(pod["nodeSelector"]["a"], "b", "nodeSelector")
    expect(pod["imagePullSecrets"], values["imagePullSecrets"], "imagePullSecrets")
    expect("priorityClassName" in pod, False, "priorityClassName")
    expect(pod["serviceAccountName"], "mine-noctule", "service account")
    expect([container["image"], container["imagePullPolicy"]], ["r:t", "Always"], "image")
    expect(container["env"], values["env"], "env")
    expect(container["resources"]["limits"]["memory"], "1Gi", "resources")
    context = container["securityContext"]
    expect(context["capabilities"]["add"], ["BPF"], "capabilities")
    expect(context["appArmorProfile"], {"type": "RuntimeDefault"}, "AppArmor")
    paths = [mount["mountPath"] for mount in container["volumeMounts"]]
    expect(paths[-3:], ["/host/sys", "/run/k3s", "/tls"], "mounts")
    expect([volume["name"] for volume in pod["volumes"]][-3:], ["sys", "k3s", "tls"], "volumes")
    expect(container["startupProbe"]["httpGet"]["path"], "/other", "startupProbe")
    expect(container["livenessProbe"]["httpGet"]["path"], "/other", "livenessProbe")
    expect([key for key in container["readinessProbe"] if key != "periodSeconds"], ["tcpSocket"], "readinessProbe")


def refuse(chart):
    for values in ({"unknown": 1}, {"energy": {"enabled": True}, "config": "[host]\nname = 'n'\n"}):
        try:
            install(chart, values)
        except helm_sdkpy.HelmError:
            continue
        sys.exit(f"accepted: {values}")


deploy = pathlib.Path(sys.argv[1])
chart = deploy / "helm/noctule"
equal_the_plain_files(chart, deploy / "kubernetes")
have_effect(chart, deploy)
refuse(chart)
