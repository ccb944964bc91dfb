//! Tests of a command and its descendants as one row.

use std::process::Output;

use super::parts::assert_adds_up;
use super::support;
use super::support::cgroup::Group;
use super::support::load::{self, Load};
use super::{
    answer_file, answer_in, around, assert_close, cause, number, parse_waits, path, waited,
};

#[test]
fn a_command_is_one_row_with_all_waits() {
    let _machine = support::shared_but(&[support::Part::LastCpu]);
    needs!("cpu_waits");
    let group = Group::new("command").heavy();
    let hog = Group::new("hog").heavy();
    let spinning = Load::own(&hog, "spin 1");
    let file = answer_file();
    let load = load::command("worker 1 0.6").join("' '");
    // The shell prints how long it waited, as a load does. The shell first stops the hog, because
    // the printed sum would not contain later waits.
    let script = format!(
        "'{load}'; kill -STOP {}; read -r _ waited _ < /proc/$$/schedstat; \
         echo \"load: waited $$ $waited\"; exit 7",
        spinning.pid()
    );
    let command = ["/bin/sh".to_owned(), "-c".to_owned(), script];
    let output = around(&["waits", "--json", "-o", path(&file)], &group, &command);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let answer = answer_in(&file);
    let rows = support::rows(&answer, |_| true);
    assert_eq!(rows.len(), 1, "{answer}");
    let row = rows[0];
    assert_eq!(row["name"], "the command", "{row}");
    assert_adds_up(row);
    assert!(number(&row["wait"]["count"]) > 0.0, "{row}");
    let told = parse_waits(&output);
    assert_eq!(told.len(), 2, "the shell and what it started: {output:?}");
    let kernel: f64 = told.iter().map(|(_, seconds)| seconds).sum();
    println!("waited {} s; the kernel says {kernel} s", waited(row));
    // If the kernel hides a process, the start of a wait can be lost in a switch to or from that
    // process.
    assert_close("waited", waited(row), kernel, 0.03, 0.000_3);
    assert!(cause(row, "neighbour") > 0.8 * waited(row), "{row}");
    let culprit = &row["culprits"][0];
    assert_eq!(culprit["name"], hog.path().as_str(), "{row}");
    // Other loads on the machine can account for the rest.
    assert!(number(&culprit["share"]) > 0.8, "{row}");
    assert_eq!(row["verdict"]["kind"], "hurt_by_neighbour", "{row}");
    assert_eq!(row["verdict"]["culprit"], hog.path().as_str(), "{row}");
}

/// The kernel reports the end of a multi-threaded process about 100 ms late. The command can have
/// ended by then.
#[test]
fn descendants_ending_before_the_command_are_complete() {
    let _machine = support::shared_but(&[support::Part::LastCpu]);
    needs!("cpu_waits");
    let group = Group::new("command").heavy();
    let (waits, stat) = (answer_file(), answer_file());
    let cases = [
        (&waits, &["waits", "--json"][..]),
        (&stat, &["stat", "--json", "--by", "process"]),
    ];
    for (file, args) in cases {
        let args = [args, &["-o", path(file)]].concat();
        // On an overloaded machine the reports may come too late, and noctule then prints a
        // warning.
        let whole = |output: &Output| {
            let said = String::from_utf8_lossy(&output.stderr);
            !said.contains("the final counters of a process did not arrive")
        };
        let mut tries = (0..5).map(|_| around(&args, &group, &load::command("pair 0.2")));
        let output = tries.find(whole).expect("the last figures come");
        assert!(output.status.success(), "{output:?}");
        let told = parse_waits(&output);
        let kernel: f64 = told.iter().map(|(_, seconds)| seconds).sum();
        let answer = answer_in(file);
        let rows = support::rows(&answer, |_| true);
        let ours: f64 = if args[0] == "waits" {
            rows.iter().map(|row| waited(row)).sum()
        } else {
            assert_eq!(rows.len(), told.len(), "{answer}");
            rows.iter().map(|row| number(&row["wait.seconds"])).sum()
        };
        // As above, the start of a wait can be lost in a switch to or from a hidden process.
        assert_close(args[0], ours, kernel, 0.03, 0.000_3);
    }
}
