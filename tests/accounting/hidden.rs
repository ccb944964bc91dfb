//! Tests of a process that the kernel hides from tracing programs.

use std::thread;
use std::time::Duration;

use super::support::window::Window;
use super::support::{self, oracle, rows};

/// On most kernels process 1 is visible, and must still have exactly one row.
#[test]
fn process_1_has_one_row_even_if_hidden() {
    let _machine = support::shared();
    needs!("cpu_time");
    let outer = oracle::process_seconds(1);
    let window = Window::open("process");
    let inner = oracle::process_seconds(1);
    thread::sleep(Duration::from_secs(3));
    let inner = oracle::process_seconds(1) - inner;
    let answer = window.close().answer;
    let outer = oracle::process_seconds(1) - outer;
    let found = rows(&answer, |row| row["process.pid"] == 1);
    let used = support::cpu_seconds(&found);
    assert!(found.len() <= 1, "{answer}");
    // The kernel updates the time of a running thread at its tick.
    let step = 0.004;
    assert!(used >= inner - step, "{used}, not {inner} s at least");
    assert!(used <= outer + step, "{used}, not {outer} s at most");
}
