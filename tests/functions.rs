//! Tests that function probes count exactly the calls that the test makes. Probes of kernel
//! functions need kprobes. On a kernel without kprobes, the tests check the error message.

use std::fs;
use std::hint::black_box;

use super::hist::{Hist, refused};
use super::support;
use super::support::expect::{has_shared_libc, skip_because};
use super::support::of_this_thread as own;

/// Returns whether this kernel has kprobes.
fn has_kprobes() -> bool {
    fs::read_to_string("/proc/kallsyms").is_ok_and(|all| all.contains(" register_kprobe\n"))
}

/// Calls a function of the C library.
fn getpriority(who: u32, times: u64) {
    for _ in 0..times {
        #[allow(
            unsafe_code,
            reason = "rustix makes the system call without the library"
        )]
        // SAFETY: the function only reads.
        unsafe {
            libc::getpriority(libc::PRIO_PROCESS, who);
        }
    }
}

#[test]
fn functions_of_libraries_are_counted_with_their_arguments() {
    let _machine = support::shared();
    needs!("cpu_time");
    if !has_shared_libc() {
        return skip_because("the tests are linked without the C library of the system");
    }
    let own = own();
    let trigger = format!(
        "keys=arg1_int,arg2_int if {own} && arg2_int == {}",
        std::process::id()
    );
    let hist = Hist::start("uprobe:libc.so.6:getpriority", &trigger, &["--json"]);
    getpriority(std::process::id(), 321);
    getpriority(0, 5);
    let answer = hist.end_json();
    assert_eq!(answer["hits"], 321, "{answer}");
    assert_eq!(answer["rows"][0]["arg1_int"], 0, "PRIO_PROCESS: {answer}");
    // The function returns the caller's own priority.
    let trigger = format!("keys=retval_int if {own} && retval_int < 100");
    let hist = Hist::start("uretprobe:libc.so.6:getpriority", &trigger, &["--json"]);
    getpriority(0, 32);
    let answer = hist.end_json();
    #[allow(unsafe_code, reason = "it only reads")]
    // SAFETY: the function only reads.
    let ours = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    assert_eq!(answer["hits"], 32, "{answer}");
    assert_eq!(
        answer["rows"][0]["retval_int"].as_i64(),
        Some(i64::from(ours)),
        "{answer}"
    );
    // Latency from entry to return.
    let trigger = format!("on=common_pid:keys=common_cpu:vals=latency.max if {own}");
    let events = "uprobe:libc.so.6:getpriority..uretprobe:libc.so.6:getpriority";
    let hist = Hist::start(events, &trigger, &["--json"]);
    getpriority(0, 77);
    let answer = hist.end_json();
    assert_eq!(answer["hits"], 77, "{answer}");
    assert!(
        answer["rows"][0]["latency.max"].as_u64() > Some(0),
        "{answer}"
    );
}

/// `pthread_kill` has two versions with different code, and the dynamic linker chooses the code of
/// `strlen`.
#[test]
fn called_version_of_a_function_is_counted() {
    let _machine = support::shared();
    needs!("cpu_time");
    if !has_shared_libc() {
        return skip_because("the tests are linked without the C library of the system");
    }
    let own = own();
    let text = c"a text of this test";
    let strlen = format!(
        "keys=common_pid if {own} && arg1 == {}",
        text.as_ptr().addr()
    );
    let strlen = Hist::start("uprobe:libc.so.6:strlen", &strlen, &["--json"]);
    let kill = format!("keys=common_pid if {own} && arg2_int == 0");
    let kill = Hist::start("uprobe:libc.so.6:pthread_kill", &kill, &["--json"]);
    for _ in 0..123 {
        #[allow(unsafe_code, reason = "the library has them from here")]
        // SAFETY: the string ends with its NUL, and no signal is sent.
        unsafe {
            black_box(libc::strlen(black_box(text.as_ptr())));
            libc::pthread_kill(libc::pthread_self(), 0);
        }
    }
    for hist in [strlen, kill] {
        let answer = hist.end_json();
        assert_eq!(answer["hits"], 123, "{answer}");
    }
}

/// Calls `getenv` of the C library with this name.
fn getenv(name: &std::ffi::CStr, times: u64) {
    for _ in 0..times {
        #[allow(unsafe_code, reason = "the library has it from here")]
        // SAFETY: the function only reads, and no thread changes the environment.
        let found = unsafe { libc::getenv(name.as_ptr()) };
        // The compiler knows the function and would otherwise call it only once.
        black_box(found);
    }
}

/// The kernel can run another thread before a program has ended. Text, key and count must still
/// belong to the right thread.
#[test]
fn threads_on_one_cpu_do_not_mix_their_hits() {
    const CALLS: u64 = 20_000;
    let _machine = support::shared();
    needs!("cpu_time");
    if !has_shared_libc() {
        return skip_because("the tests are linked without the C library of the system");
    }
    let names: Vec<_> = (b'a'..=b'f')
        .map(|letter| {
            let name = [b"NOCTULE_".as_slice(), &[letter; 200]].concat();
            std::ffi::CString::new(name).expect("no NUL")
        })
        .collect();
    let trigger = format!(
        "keys=common_pid:vals=arg1.max,arg1.min if common_tgid == {} && arg1.ustring ~ \"NOCTULE_*aaaa\"",
        std::process::id()
    );
    let hist = Hist::start("uprobe:libc.so.6:getenv", &trigger, &["--json"]);
    let cpu = support::affinity::last_cpu();
    std::thread::scope(|scope| {
        for name in &names {
            scope.spawn(move || {
                support::affinity::pin(None, cpu);
                getenv(name, CALLS);
            });
        }
    });
    let answer = hist.end_json();
    let (hits, dropped) = (answer["hits"].as_u64(), answer["dropped"].as_u64());
    assert_eq!((hits, dropped), (Some(CALLS), Some(0)), "{answer}");
    let rows = answer["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 1, "{answer}");
    assert_eq!(rows[0]["arg1.max"], rows[0]["arg1.min"], "{answer}");
}

#[test]
fn missing_functions_are_named() {
    let _machine = support::shared();
    let cases = [
        (
            "uprobe:libc.so.6:getpriorit",
            "has no function getpriorit; did you mean getpriority?",
        ),
        ("uprobe:libc.so.6", "a file and one of its functions"),
        ("uprobe:/none/such:main", "there is no file /none/such"),
        ("uprobe:/dev/null:main", "/dev/null is not a regular file"),
        (
            "kprobe:vfs_reda",
            "this kernel has no function vfs_reda; did you mean vfs_read?",
        ),
        ("kretprobe:vfs_read+0x4", "a return probe has no offset"),
    ];
    for (event, words) in cases {
        let (code, errors) = refused(&[event, "keys=common_pid"]);
        assert_eq!(code, Some(2), "{errors}");
        assert!(errors.contains(words), "{errors}");
    }
    let (code, errors) = refused(&["uretprobe:libc.so.6:getpriority", "keys=arg1"]);
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("Field not found"), "{errors}");
}

/// Kernels with kprobes accept both probes.
#[test]
fn a_kernel_without_kprobes_is_named() {
    let _machine = support::shared();
    needs!("cpu_time");
    for event in ["kprobe:vfs_read", "kretprobe:vfs_read"] {
        if has_kprobes() {
            let answer = support::json(&["hist", event, "keys=common_pid", "--for=1ms", "--json"]);
            assert_eq!(answer["event"], event, "{answer}");
        } else {
            let (code, errors) = refused(&[event, "keys=common_pid"]);
            assert_eq!(code, Some(3), "{errors}");
            assert!(errors.contains("this kernel has no kprobes"), "{errors}");
        }
    }
}

/// `vfs_read` has named parameters in BTF.
#[test]
fn kernel_functions_are_counted_with_their_parameters() {
    let _machine = support::shared();
    needs_a_virtual_machine!();
    needs!("cpu_time");
    assert!(has_kprobes(), "the kernels of the machines have them");
    const SIZE: usize = 4093;
    let own = own();
    let read = |times: u64| {
        let mut file = fs::File::open("/dev/zero").expect("it is there");
        let mut bytes = [0; SIZE];
        (0..times).for_each(|_| std::io::Read::read_exact(&mut file, &mut bytes).expect("zeros"));
    };
    // Arguments are selected by their names in BTF, and by register.
    for field in ["count", "arg3"] {
        let trigger = format!("keys={field}:vals={field} if {own} && {field} == {SIZE}");
        let hist = Hist::start("kprobe:vfs_read", &trigger, &["--json"]);
        read(123);
        let answer = hist.end_json();
        assert_eq!(answer["hits"], 123, "{answer}");
        assert_eq!(answer["rows"][0][field], SIZE, "{answer}");
    }
    let trigger = format!("keys=retval if {own} && retval == {SIZE}");
    let hist = Hist::start("kretprobe:vfs_read", &trigger, &["--json"]);
    read(45);
    let answer = hist.end_json();
    assert_eq!(answer["hits"], 45, "{answer}");
    // Latency, with a key that both events have.
    let trigger =
        format!("on=common_pid:keys=common_pid:vals=latency.max if {own} && retval == {SIZE}");
    let hist = Hist::start("kprobe:vfs_read..kretprobe:vfs_read", &trigger, &["--json"]);
    read(67);
    let answer = hist.end_json();
    assert_eq!(answer["hits"], 67, "{answer}");
    assert!(
        answer["rows"][0]["latency.max"].as_u64() > Some(0),
        "{answer}"
    );
    // The text that a pointer points to, and the stack of the caller.
    let trigger = format!("keys=stacktrace if {own} && count == {SIZE}");
    let hist = Hist::start("kprobe:vfs_read", &trigger, &["--json"]);
    read(8);
    let answer = hist.end_json();
    let frames = answer["rows"][0]["stacktrace"].as_array().expect("frames");
    let is_read = |frame: &serde_json::Value| {
        frame["symbol"]
            .as_str()
            .is_some_and(|name| name.contains("read"))
    };
    assert!(frames.iter().any(is_read), "{answer}");
}
