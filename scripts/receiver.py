"""An OTLP receiver for HTTP and gRPC. Checks requests against the official protobuf schema, and answers as configured.

Usage: receiver.py FILE [--port N] [--grpc-port N] [--tls CERTIFICATE KEY CLIENT_CA]

Prints the HTTP and gRPC ports. Appends each accepted request to FILE as a line of JSON, in which "strange" lists what
neither the schema nor the semantic conventions contain. Exits when standard input is closed.
PUT /answer with JSON sets the response to the next requests: {"status": 503, "times": 2, "headers": {...},
"rejected": 5, "delay": 1.5}, and a gRPC status in "grpc".
With --tls both ports use TLS and require a client certificate signed by CLIENT_CA. The files are PEM.
"""

import argparse
import glob
import gzip
import json
import os
import re
import ssl
import sys
import threading
import time
from concurrent import futures
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
from google.protobuf import unknown_fields as unknown
from google.protobuf.json_format import MessageToDict
from opentelemetry import semconv
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2, logs_service_pb2_grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.semconv import schemas

REQUESTS = {
    "metrics": (
        metrics_service_pb2.ExportMetricsServiceRequest,
        metrics_service_pb2.ExportMetricsServiceResponse,
    ),
    "logs": (logs_service_pb2.ExportLogsServiceRequest, logs_service_pb2.ExportLogsServiceResponse),
}


# Keys of resources and points that neither have noctule's prefix nor are in the semantic conventions.
OWN_KEYS = ["systemd.unit"]


def conventions():
    """Returns the metrics of the semantic conventions with their units, and the attribute keys."""
    units, keys = {}, set(OWN_KEYS)
    folder = os.path.join(os.path.dirname(semconv.__file__), "_incubating")
    constant = r'^(\w+): Final = \(?\s*"([^"]+)"'
    for path in glob.glob(f"{folder}/metrics/*.py"):
        text = open(path, encoding="utf-8").read()
        names = dict(re.findall(constant, text, re.M))
        for name, unit in re.findall(r"name=(\w+),.*?unit=\"([^\"]*)\"", text, re.S):
            units[names[name]] = unit
    for path in glob.glob(f"{folder}/attributes/*.py"):
        text = open(path, encoding="utf-8").read()
        keys |= {value for _, value in re.findall(constant, text, re.M)}
    return units, keys


UNITS, KEYS = conventions()
SCHEMAS = {schema.value for schema in schemas.Schemas}


def strange(signal, message):
    """Lists deviations from the semantic conventions."""
    found = []

    def keys(attributes):
        names = [attribute.key for attribute in attributes]
        found.extend(f"key {name}" for name in names if not name.startswith("noctule.") and name not in KEYS)
        if len(names) != len(set(names)):
            found.append(f"keys twice: {names}")

    resources = message.resource_metrics if signal == "metrics" else message.resource_logs
    for resource in resources:
        keys(resource.resource.attributes)
        scopes = resource.scope_metrics if signal == "metrics" else resource.scope_logs
        urls = [resource.schema_url, *(scope.schema_url for scope in scopes)]
        found.extend(f"schema {url}" for url in urls if url not in SCHEMAS)
        for record in (record for scope in scopes for record in getattr(scope, "log_records", [])):
            keys(record.attributes)
        scopes = scopes if signal == "metrics" else []
        for metric in (metric for scope in scopes for metric in scope.metrics):
            if not metric.name.startswith("noctule.") and UNITS.get(metric.name) != metric.unit:
                found.append(f"metric {metric.name} with unit {metric.unit}")
            points = getattr(metric, metric.WhichOneof("data")).data_points
            series = set()
            for point in points:
                keys(point.attributes)
                attributes = sorted((it.key, str(it.value)) for it in point.attributes)
                series.add((str(attributes), point.time_unix_nano))
            if len(series) != len(points):
                found.append(f"points of {metric.name} with equal attributes and times")
        names = [metric.name for scope in scopes for metric in scope.metrics]
        if len(names) != len(set(names)):
            found.append(f"metrics twice: {names}")
    return found


def unknown_fields(message, path):
    """Lists the paths of messages with fields that are not in the schema."""
    found = [path for _ in unknown.UnknownFieldSet(message)]
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            several = value if field.is_repeated else [value]
            for one in several:
                found += unknown_fields(one, f"{path}.{field.name}")
    return found


class Receiver:
    def __init__(self, path):
        self.file = open(path, "a", encoding="utf-8")
        self.lock = threading.Lock()
        self.answer = {}

    def ask(self, answer):
        with self.lock:
            self.answer = answer

    def next_answer(self):
        with self.lock:
            answer = self.answer
            if "times" in answer:
                answer["times"] -= 1
                if answer["times"] < 0:
                    self.answer = answer = {}
            return dict(answer)

    def keep(self, signal, message, how):
        entry = {"signal": signal, "how": how, "time": time.time()}
        entry["strange"] = unknown_fields(message, signal) + strange(signal, message)
        entry["message"] = MessageToDict(message, preserving_proto_field_name=True)
        with self.lock:
            self.file.write(json.dumps(entry) + "\n")
            self.file.flush()

    def response(self, signal, answer):
        response = REQUESTS[signal][1]()
        if "rejected" in answer:
            field = "rejected_data_points" if signal == "metrics" else "rejected_log_records"
            setattr(response.partial_success, field, answer["rejected"])
            response.partial_success.error_message = "the test wants it so"
        return response


def http_handler(receiver):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def body(self):
            return self.rfile.read(int(self.headers["content-length"]))

        def reply(self, status, body, headers=()):
            self.send_response(status)
            for name, value in dict(headers).items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_PUT(self):
            receiver.ask(json.loads(self.body()))
            self.reply(204, b"")

        def do_POST(self):
            body = self.body()
            signal = self.path.rpartition("/")[2]
            answer = receiver.next_answer()
            time.sleep(answer.get("delay", 0))
            if answer.get("status", 200) != 200:
                self.reply(answer["status"], b"the test wants it so", answer.get("headers", {}))
                return
            assert self.headers["content-type"] == "application/x-protobuf"
            how = {name.lower(): value for name, value in self.headers.items()}
            how["path"] = self.path
            if self.headers["content-encoding"] == "gzip":
                body = gzip.decompress(body)
            message = REQUESTS[signal][0].FromString(body)
            receiver.keep(signal, message, how)
            response = receiver.response(signal, answer)
            kind = {"content-type": "application/x-protobuf"}
            self.reply(200, response.SerializeToString(), kind)

        def log_message(self, *_):
            pass

    return Handler


def grpc_servicer(receiver, signal, base):
    class Servicer(base):
        def Export(self, request, context):
            answer = receiver.next_answer()
            time.sleep(answer.get("delay", 0))
            if "grpc" in answer:
                trailers = []
                if "retry_seconds" in answer:
                    trailers.append(("grpc-status-details-bin", retry_info(answer)))
                context.set_trailing_metadata(trailers)
                code = getattr(grpc.StatusCode, answer["grpc"])
                context.abort(code, "the test wants it so")
            how = {key: value for key, value in context.invocation_metadata() if isinstance(value, str)}
            how["path"] = "grpc"
            receiver.keep(signal, request, how)
            return receiver.response(signal, answer)

    return Servicer()


def retry_info(answer):
    """Encodes a google.rpc.Status with a RetryInfo by hand, because its schema is in another package."""

    def field(number, data):
        return bytes([number << 3 | 2, len(data)]) + data

    delay = field(1, bytes([1 << 3, answer["retry_seconds"]]))
    kind = b"type.googleapis.com/google.rpc.RetryInfo"
    return bytes([1 << 3, 8]) + field(3, field(1, kind) + field(2, delay))


class HttpServer(ThreadingHTTPServer):
    def __init__(self, port, handler, tls):
        super().__init__(("127.0.0.1", port), handler)
        if tls:
            certificate, key, client_ca = tls
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=client_ca)
            context.load_cert_chain(certificate, key)
            context.verify_mode = ssl.CERT_REQUIRED
            # The handshake runs on the connection's thread, so a stalled client does not block
            # others.
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def handle_error(self, request, address):
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, address)


def grpc_port(server, port, tls):
    place = f"127.0.0.1:{port}"
    if not tls:
        return server.add_insecure_port(place)
    certificate, key, client_ca = (open(path, "rb").read() for path in tls)
    credentials = grpc.ssl_server_credentials([(key, certificate)], client_ca, require_client_auth=True)
    return server.add_secure_port(place, credentials)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--grpc-port", type=int, default=0)
    parser.add_argument("--tls", nargs=3)
    options = parser.parse_args()
    receiver = Receiver(options.file)
    http = HttpServer(options.port, http_handler(receiver), options.tls)
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=4))
    metrics = grpc_servicer(receiver, "metrics", metrics_service_pb2_grpc.MetricsServiceServicer)
    metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(metrics, server)
    logs = grpc_servicer(receiver, "logs", logs_service_pb2_grpc.LogsServiceServicer)
    logs_service_pb2_grpc.add_LogsServiceServicer_to_server(logs, server)
    port = grpc_port(server, options.grpc_port, options.tls)
    server.start()
    print(http.server_port, port, flush=True)
    # The receiver ends when its parent closes standard input.
    threading.Thread(target=http.serve_forever, daemon=True).start()
    sys.stdin.read()
    server.stop(0)


main()
