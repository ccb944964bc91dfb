//! Tests of invalid arguments and configurations: exit status 2, and a message with the position
//! and the closest valid word.

use std::fs;

use super::{assert_says, failure, support};

/// Too long to be added to any clock.
const LONG: &str = "18446744073709551615s";

#[test]
fn wrong_arguments_end_with_2_and_the_nearest_word() {
    let _machine = support::shared();
    let cases: &[(&[&str], &[&str])] = &[
        (&["stat", "--jsn"], &["--jsn", "--json"]),
        (&["sta"], &["'sta'", "'stat'"]),
        (
            &["stat", "--by", "contaner"],
            &["contaner", "container", "--by"],
        ),
        (&["stat", "--for", "5q"], &["--for", "unit"]),
        (&["stat", "--for", LONG], &["--for", "100 years"]),
        (
            &["stat", "--for", LONG, "--", "true"],
            &["--for", "100 years"],
        ),
        (&["run", "--for", LONG], &["--for", "100 years"]),
        (&["top", "--interval", LONG], &["--interval", "100 years"]),
        (&["stat", "--top", "many"], &["--top", "many"]),
        (&["run", "--listen", "here"], &["--listen", "here"]),
        (&["run", "--interval", "0s"], &["--interval", "0.01"]),
        (&["run", "--interval", "1h30m"], &["--interval", "3600"]),
        (&["top", "--interval", "0s"], &["--interval", "50ms"]),
        (
            &["events", "--kind", "tcp,proces"],
            &["proces", "'process'", "--kind"],
        ),
        // No pid is that large: the kernel's limit is 2^22.
        (
            &["events", "--pid", "4194305"],
            &["--pid 4194305", "no such process"],
        ),
        (
            &["events", "--pid", "1", "--", "true"],
            &["--pid", "COMMAND"],
        ),
        (
            &["events", "--kind", "tcp", "--path", "/etc"],
            &["--path", "--kind"],
        ),
        (
            &["run", "--events-size", "64Mi"],
            &["--events-size", "Mi", "MiB"],
        ),
        (&["run", "--events-size", "1kB"], &["--events-size", "4096"]),
        (&["completions", "ksh"], &["ksh", "zsh"]),
        (
            &["record", "-o", "/nowhere", "true"],
            &["'true'", "[-- <COMMAND>...]"],
        ),
        (&[], &["Usage", "stat", "doctor"]),
    ];
    for (args, words) in cases {
        let (code, said) = failure(args);
        assert_eq!(code, 2, "{args:?}: {said}");
        assert_says(&said, words);
    }
}

#[test]
fn public_listen_address_requires_the_opt_out() {
    let _machine = support::shared();
    let (code, said) = failure(&["run", "--listen", "0.0.0.0:0"]);
    assert_eq!(code, 2, "{said}");
    assert_says(&said, &["0.0.0.0:0", "loopback", "--allow-plain-http"]);
}

#[test]
fn a_wrong_configuration_ends_with_2_and_names_file_line_and_key() {
    let _machine = support::shared();
    let folder = tempfile::tempdir().expect("a folder");
    let cases: &[(&[u8], &[&str])] = &[
        (
            b"[collect]\nsoftirqs = true\npage_cach = true\n",
            &["line 3", "page_cach", "did you mean `page_cache`?"],
        ),
        (
            b"[colect]\n",
            &["line 1", "colect", "did you mean `collect`?"],
        ),
        (
            b"[collect]\npage_cache = 7\n",
            &["line 2", "integer `7`", "boolean"],
        ),
        (
            b"[collect]\ninterval_seconds = 0\n",
            &["collect.interval_seconds", "between 0.01 and 3600"],
        ),
        (
            b"[collect]\ninterval_seconds = nan\n",
            &["collect.interval_seconds", "between 0.01 and 3600"],
        ),
        (
            b"[collect]\ncgroup_rows = 0\n",
            &["collect.cgroup_rows", "between 1 and"],
        ),
        (b"[collect]\ncgroup_rows = -1\n", &["line 2", "-1"]),
        (
            b"[web]\nlisten = \"localhost\"\n",
            &["line 2", "localhost", "address"],
        ),
        (
            b"[web]\nlisten = \"0.0.0.0:9470\"\n",
            &["0.0.0.0:9470", "--allow-plain-http"],
        ),
        (b"[collect\n", &["line 1", "]"]),
        (b"\xff\xfe", &["UTF-8"]),
    ];
    for (number, (text, words)) in cases.iter().enumerate() {
        let file = folder.path().join(format!("{number}.toml"));
        fs::write(&file, text).expect("a file");
        let path = file.to_str().expect("UTF-8");
        for command in ["run", "stat", "doctor"] {
            let (code, said) = failure(&["--config", path, command]);
            assert_eq!(code, 2, "{said}");
            assert_says(&said, &[&[path], *words].concat());
        }
    }
}

#[test]
fn missing_configuration_ends_with_2() {
    let _machine = support::shared();
    let folder = tempfile::tempdir().expect("a folder");
    let none = folder.path().join("none.toml");
    for path in [none.as_path(), folder.path()] {
        let path = path.to_str().expect("UTF-8");
        let (code, said) = failure(&["stat", "--config", path]);
        assert_eq!(code, 2, "{said}");
        assert_says(&said, &[path]);
    }
}
