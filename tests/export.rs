//! Tests of exporting recordings to other formats.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::support::prometheus::Prometheus;
use super::support::{self, json, noctule};

/// A recording made by an earlier version.
const COMMITTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tape/tests/format-1");

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// Runs the command and returns its standard output.
fn output(args: &[&str]) -> String {
    let done = noctule(args);
    assert!(done.status.success(), "{args:?}: {done:?}");
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// Parses samples by name and labels, each with its times in milliseconds.
fn samples(text: &str) -> BTreeMap<String, Vec<(u64, f64)>> {
    let mut samples: BTreeMap<String, Vec<(u64, f64)>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (rest, time) = line.rsplit_once(' ').expect("a time");
        let (series, value) = rest.rsplit_once(' ').expect("a value");
        let time = time.replace('.', "").parse().expect("milliseconds");
        let value = value.parse().expect("a number");
        samples
            .entry(series.to_owned())
            .or_default()
            .push((time, value));
    }
    samples
}

#[test]
fn prometheus_imports_the_samples_of_a_recording() {
    let _machine = support::shared();
    let folder = tempfile::tempdir().expect("a folder");
    let tape = folder.path().join("tape");
    output(&["record", "-o", text(&tape), "--for", "3s"]);
    let out = folder.path().join("out.om");
    let export = [
        "tape",
        "export",
        text(&tape),
        "--to",
        "openmetrics",
        "-o",
        text(&out),
    ];
    output(&[&export[..], &["--step", "1s"]].concat());
    let exported = fs::read_to_string(&out).expect("a file");
    assert!(exported.ends_with("\n# EOF\n"));
    // The lines of each family are contiguous.
    let types: Vec<&str> = exported
        .lines()
        .filter(|line| line.starts_with("# TYPE"))
        .collect();
    let mut once = types.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(types.len(), once.len(), "{types:?}");
    let all = samples(&exported);
    let last = all
        .values()
        .flatten()
        .map(|(time, _)| *time)
        .max()
        .expect("samples");
    let prometheus = Prometheus::of_samples(&out);
    let found = prometheus.query("{__name__=~'noctule_node_.+'}", last as f64 / 1e3);
    let mut compared = 0;
    for result in &found {
        let metric = result["metric"].as_object().expect("labels");
        let value: f64 = result["value"][1]
            .as_str()
            .and_then(|it| it.parse().ok())
            .expect("a number");
        let name = metric["__name__"].as_str().expect("a name");
        let labels = metric.iter().filter(|(key, _)| *key != "__name__");
        let labels: Vec<String> = labels
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        let fits = |series: &&String| {
            let (family, rest) = series.split_once('{').unwrap_or((series, ""));
            family == name && labels.iter().all(|label| rest.contains(label.as_str()))
        };
        // All series of a metric have the same number of labels. Only the values of the labels
        // differ.
        let mut same = all.iter().filter(|(series, _)| fits(series));
        let (series, values) = same.next().unwrap_or_else(|| panic!("{result}"));
        if same.next().is_none() {
            let (_, expected) = values.last().expect("samples");
            assert_eq!(value, *expected, "{series}");
            compared += 1;
        }
    }
    assert!(compared > 20, "{compared} of {}", found.len());
}

#[test]
fn the_committed_recording_is_exported_in_each_format() {
    let _machine = support::shared();
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let info = json(&["tape", "info", "--json", COMMITTED]);
    let export = |to: &str, more: &[&str]| {
        let out = at(to);
        let args = ["tape", "export", COMMITTED, "--to", to, "-o", text(&out)];
        output(&[&args[..], more].concat())
    };
    export("parquet", &["--partition-by", "date,host"]);
    let day = at("parquet/node/date=2026-09-21");
    let hosts: Vec<_> = fs::read_dir(&day).expect("a folder").collect();
    assert_eq!(hosts.len(), 1);
    let file = hosts[0]
        .as_ref()
        .expect("a folder")
        .path()
        .join("part-0.parquet");
    let bytes = fs::read(&file).expect("a file");
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
    export("csv", &[]);
    let node = fs::read_to_string(at("csv/node/part-0.csv")).expect("a file");
    let batches = info["spans"][0]["batches"].as_u64().expect("a number");
    assert_eq!(node.lines().count() as u64, 1 + batches, "{node}");
    export("openmetrics", &["--step", "1s"]);
    let exported = fs::read_to_string(at("openmetrics")).expect("a file");
    assert!(exported.contains("noctule_node_"), "{exported}");
    let trace = export("perfetto", &[]);
    assert!(trace.contains("batches"), "{trace}");
    // A trace is a sequence of packets of field 1.
    let bytes = fs::read(at("perfetto")).expect("a file");
    let mut rest = &bytes[..];
    let mut packets = 0;
    while let Some((tag, more)) = rest.split_first() {
        assert_eq!(*tag, 0x0a);
        let (length, more) = varint(more);
        rest = &more[length..];
        packets += 1;
    }
    assert!(packets > 10, "{packets}");
}

fn varint(bytes: &[u8]) -> (usize, &[u8]) {
    let end = bytes
        .iter()
        .position(|byte| byte & 0x80 == 0)
        .expect("an end");
    let digits = bytes[..=end].iter().rev();
    let value = digits.fold(0, |value, byte| value << 7 | usize::from(byte & 0x7f));
    (value, &bytes[end + 1..])
}

#[test]
fn impossible_exports_are_refused_with_a_fix() {
    let _machine = support::shared();
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("there"), "").expect("a file");
    let full = text(folder.path());
    let cases: [(&[&str], i32, &str); 4] = [
        (&["--to", "parquet", "-o", full], 1, "is not empty"),
        (&["--to", "perfetto", "-o", full], 2, "give a file"),
        (
            &[
                "--to",
                "perfetto",
                "-o",
                "/dev/null",
                "--partition-by",
                "date",
            ],
            2,
            "--partition-by works only with",
        ),
        (
            &["--to", "csv", "-o", full, "--step", "1s"],
            2,
            "--step works only with",
        ),
    ];
    for (args, code, words) in cases {
        let output = noctule(&[&["tape", "export", COMMITTED], args].concat());
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {errors}");
        assert!(errors.contains(words), "{args:?}: {errors}");
    }
}

#[test]
fn export_of_an_incomplete_index_is_written_and_fails() {
    let _machine = support::shared();
    let folder = tempfile::tempdir().expect("a folder");
    let tape = folder.path().join("tape");
    copy(Path::new(COMMITTED), &tape);
    let mut segments = fs::read_dir(&tape).expect("a folder");
    let segment = segments.next().expect("a segment").expect("an entry");
    let index = segment.path().join("index");
    let lines = fs::read_to_string(&index).expect("an index");
    fs::write(&index, lines.replacen("closed", "clothed", 1)).expect("a file");
    for to in ["parquet", "csv", "openmetrics", "perfetto"] {
        for part in [&[][..], &["--at", "-1s", "--for", "1s"]] {
            let out = folder.path().join(format!("{to}-{}", part.len()));
            let args = ["tape", "export", text(&tape), "--to", to, "-o", text(&out)];
            let output = noctule(&[&args[..], part].concat());
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(1), "{args:?}: {errors}");
            assert_eq!(errors.matches("index is damaged").count(), 1, "{errors}");
            assert!(out.exists(), "{args:?}: {errors}");
        }
    }
}

/// Copies a directory recursively.
fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let to = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).expect("a file");
        }
    }
}

#[test]
fn recording_without_batches_is_not_exported() {
    let _machine = support::shared();
    let folder = tempfile::tempdir().expect("a folder");
    let segment = folder.path().join("tape/00000001-20261124T031000Z");
    fs::create_dir_all(&segment).expect("a folder");
    fs::write(segment.join("index"), "").expect("a file");
    let tape = folder.path().join("tape");
    for to in ["parquet", "openmetrics"] {
        let out = folder.path().join(to);
        let output = noctule(&["tape", "export", text(&tape), "--to", to, "-o", text(&out)]);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(errors.contains("the recording is empty"), "{errors}");
        assert!(!out.exists(), "{to}");
    }
    // The error names the argument, not an option.
    let nothing = folder.path().join("nothing");
    let output = noctule(&[
        "tape",
        "export",
        text(&nothing),
        "--to",
        "csv",
        "-o",
        "x",
        "--for",
        "1s",
    ]);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        errors.contains("nothing") && !errors.contains("--from"),
        "{errors}"
    );
}
