"""Compares what other programs read from a recording and from its exports. Usage: readers.py NOCTULE TAPE"""

import glob
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import duckdb
import polars
import pyarrow
from perfetto.protos.perfetto.trace import perfetto_trace_pb2
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from trace_processor import TraceProcessor

NOCTULE, TAPE = sys.argv[1:]

# A table, one of its counters, and its key if rows are written only when they change.
SUMS = [
    ("node", "idle_ns", []),
    ("processes", "cpu_ns", ["pid", "start_ns"]),
    ("groups", "cpu_ns", ["cgroup"]),
    ("waits", "count", ["what", "victim_kind", "victim", "from_ns"]),
    ("pairs", "wait_ns", ["victim_kind", "victim", "culprit_kind", "culprit"]),
    ("events", "cgroup", []),
]


def noctule(*arguments):
    done = subprocess.run([NOCTULE, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def not_run(what):
    print(f"not run: {what}")
    if "NOCTULE_NOT_RUN" in os.environ:
        with open(os.environ["NOCTULE_NOT_RUN"], "a", encoding="utf-8") as file:
            print(what, file=file)


def same(what, *found):
    assert len(set(found)) == 1, f"{what}: {found}"
    print(f"{what}: {found[0]}")


def recorded(table):
    """Returns a table of the recording, read by pyarrow and by Polars."""
    paths = sorted(glob.glob(f"{TAPE}/*/{table}.arrows"))
    arrow = pyarrow.concat_tables(pyarrow.ipc.open_stream(path).read_all() for path in paths)
    return arrow, polars.concat([polars.read_ipc_stream(path) for path in paths])


def sums(folder):
    """Compares row counts and sums of each table: pyarrow and Polars read the recording, DuckDB reads its export."""
    for table, column, key in SUMS:
        arrow, frame = recorded(table)
        parquet = f"read_parquet('{folder}/lake/{table}/*.parquet')"
        csv = f"read_csv('{folder}/csv/{table}/*.csv', all_varchar = true)"
        if "counted_from" in frame.columns:
            differences(table, column, key, arrow, frame, parquet)
            continue
        number = f"sum(cast({column} as hugeint))"
        query = f"select count(*), {number} from "
        numbers = [value for value in arrow.column(column).to_pylist() if value is not None]
        same(
            f"{table}: rows, and sum of {column}",
            (arrow.num_rows, sum(numbers)),
            (frame.height, sum(value for value in frame[column].to_list() if value is not None)),
            tuple(int(value) for value in duckdb.sql(query + parquet).fetchall()[0]),
            tuple(int(value) for value in duckdb.sql(query + csv).fetchall()[0]),
        )


def differences(table, column, key, arrow, frame, parquet):
    """Compares the last value of each row: counts summed as in docs/tape.md, and counts in the export."""
    assert b"counts" in arrow.schema.metadata
    rows = ", ".join(key)
    running = f"sum({column}) over (partition by {rows}, counted_from order by tick)"
    last = "select count(*), sum(value)::hugeint from (select arg_max(value, tick) as value from {} group by {})"
    added = frame.sort("tick").with_columns(polars.col(column).cum_sum().over([*key, "counted_from"]))
    added = added.group_by(key).agg(polars.col(column).last())[column].to_list()
    same(
        f"{table}: rows, and sum of the last {column}",
        duckdb.sql(last.format(f"(select *, {running} as value from arrow)", rows)).fetchall()[0],
        (len(added), sum(added)),
        duckdb.sql(last.format(f"(select *, {column} as value from {parquet})", rows)).fetchall()[0],
    )


def trace(path, batches, events):
    """Checks a trace against Perfetto's schema: each field is known, and each event has a track."""
    message = perfetto_trace_pb2.Trace()
    with open(path, "rb") as file:
        message.ParseFromString(file.read())
    tracks = {packet.track_descriptor.uuid for packet in message.packet if packet.HasField("track_descriptor")}
    kinds = perfetto_trace_pb2.TrackEvent
    found = [packet.track_event for packet in message.packet if packet.HasField("track_event")]
    assert all(event.track_uuid in tracks for event in found)
    assert all(packet.trusted_packet_sequence_id for packet in message.packet)
    snapshots = [packet.clock_snapshot for packet in message.packet if packet.HasField("clock_snapshot")]
    assert len(snapshots) == 1 and len(snapshots[0].clocks) == 2
    written = len(message.SerializeToString())
    same("trace: bytes with the fields that Perfetto has", written, len(open(path, "rb").read()))
    same("trace: events", sum(event.type == kinds.TYPE_INSTANT for event in found), events)
    assert any(event.type == kinds.TYPE_COUNTER for event in found) or batches < 2


def trace_processor(path, table):
    """Checks that Perfetto's trace processor finds the events of a table in the trace, with typed arguments."""
    with TraceProcessor(path) as processor:
        assert not processor.query("select name from stats where severity != 'info' and value > 0")
        long = "select count(*) from slice where extract_arg(arg_set_id, 'debug.duration_seconds') > 1.0"
        (expected,) = duckdb.sql(f"select count(*) from {table} where duration_ns > 1e9").fetchall()
        same("trace processor: events of more than a second", expected, *processor.query(long))
        types = processor.query("select distinct key, value_type from args where key glob 'debug.*'")
        expected = {
            "event_name": "string",
            "duration_seconds": "real",
            "oom_killed": "bool",
            "process_pid": "uint",
            "process_command_args[0]": "string",
        }
        found = {key.removeprefix("debug."): kind for key, kind in types}
        assert all(kind == expected.get(key, kind) for key, kind in found.items()), found
        assert len(found) == len(types), types


def openmetrics(path):
    """Checks that Prometheus' own parser accepts each family and finds every sample."""
    families = re.split(r"^(?=# TYPE )", pathlib.Path(path).read_text(encoding="utf-8").removesuffix("# EOF\n"), flags=re.M)
    texts = []
    for family in filter(None, families):
        lines = family.splitlines()
        if not lines[0].endswith(" histogram"):
            texts.append(family)
            continue
        # prometheus-client 0.26 drops most samples of a metric that has several samples at several
        # times.
        head = [line for line in lines if line.startswith("#")]
        times = dict.fromkeys(line.rsplit(" ", 1)[1] for line in lines[len(head) :])
        texts += ["\n".join([*head, *(line for line in lines if line.endswith(f" {time}")), ""]) for time in times]
    parsed = [list(text_string_to_metric_families(text + "# EOF\n")) for text in texts]
    assert all(len(found) == 1 for found in parsed)
    lines = [line.rsplit(" ", 2) for text in texts for line in text.splitlines() if not line.startswith("#")]
    # The random values of a committed recording contain a loss twice.
    samples = len({(series, time) for series, _, time in lines})
    same("openmetrics: samples", sum(len(found.samples) for (found,) in parsed), samples)
    assert samples > len(families) > 50, (samples, len(families))


def tables(folder):
    """Checks that Parquet and CSV have equal tables, including empty ones, and equal times in another time zone."""
    names = sorted(os.listdir(f"{folder}/lake"))
    assert names == sorted(os.listdir(f"{folder}/csv")) and len(names) == 18, names
    database = in_new_york()
    for name in names:
        for files in (f"{folder}/lake/{name}/*.parquet", f"{folder}/csv/{name}/*.csv"):
            database.execute(f"select * from '{files}'").fetchall()
    node, csv = f"'{folder}/lake/node/*.parquet'", f"'{folder}/csv/node/*.csv'"
    batches = database.execute(f"select count(*) from {node}").fetchone()
    joined = database.execute(f"select count(*) from {node} a join {csv} b using (run, time)").fetchone()
    same("batches, and those of Parquet and CSV with the same time", batches, joined)
    length = "select max(time) - min(time) from "
    same("time from the first batch to the last", *(database.execute(length + files).fetchone() for files in (node, csv)))


def in_new_york():
    database = duckdb.connect()
    database.execute("set timezone = 'America/New_York'")
    return database


def cookbook(lake):
    """Checks that every query of docs/sql.md succeeds, and that those about the recorded groups return rows."""
    text = pathlib.Path(__file__).parent.joinpath("../docs/sql.md").read_text(encoding="utf-8")
    database = in_new_york()
    rows = {}
    for title, block in re.findall(r"^## ([^\n]*)\n|```sql\n(.*?)```", text, re.S | re.M):
        if title:
            heading = title
        elif not block.startswith("-- clickhouse"):
            # Replaces the names and times of the examples with those of the recording.
            for name, value in {"n1": "hé", "2026-11-24": "2026-09-21", " 03:": " 14:", " 04:": " 15:"}.items():
                assert heading != "One host and one hour" or name in block, name
                block = block.replace(name, value)
            answer = database.execute(block.replace("'lake/", f"'{lake}/"))
            rows[heading] = 0 if block.startswith("--") else len(answer.fetchall())
    print(f"SQL cookbook, rows: {rows}")
    assert len(rows) == 9, "a heading with a query is missing"
    for heading in (
        "CPU time and number of hosts of each workload",
        "Hosts with the longest waits",
        "One host and one hour",
        "What went wrong",
    ):
        assert rows[heading] > 0, heading


with tempfile.TemporaryDirectory() as scratch:
    noctule("tape", "export", TAPE, "--to", "parquet", "-o", f"{scratch}/lake")
    noctule("tape", "export", TAPE, "--to", "csv", "-o", f"{scratch}/csv")
    noctule("tape", "export", TAPE, "--to", "perfetto", "-o", f"{scratch}/trace")
    noctule("tape", "export", TAPE, "--to", "parquet", "-o", f"{scratch}/parts", "--partition-by", "date,host")
    cookbook(f"{scratch}/parts")
    noctule("tape", "export", TAPE, "--to", "openmetrics", "--step", "1s", "-o", f"{scratch}/openmetrics")
    openmetrics(f"{scratch}/openmetrics")
    info = json.loads(noctule("tape", "info", "--json", TAPE))
    tables(scratch)
    sums(scratch)
    spans = info["spans"]
    trace(
        f"{scratch}/trace",
        sum(span["batches"] for span in spans),
        sum(span["events"] for span in spans),
    )
    if shutil.which("node"):
        trace_processor(f"{scratch}/trace", f"read_parquet('{scratch}/lake/events/*.parquet')")
    else:
        not_run("Perfetto's trace processor (no node)")
