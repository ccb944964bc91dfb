//! Tests of programs given as plain instructions. The programs are loaded, attached and detached,
//! and a refusal is explained.

use std::net::UdpSocket;

use super::{Load, fixtures, getppid, map, support, value};

/// Counts the calls of a tracepoint by process.
const COUNT: &str = "\
map by_process hash 4 8 4096
map first array 4 8 1
  call bpf_get_current_pid_tgid
  r0 >>= 32
  *(u32 *)(r10 -4) = r0
  r1 = map by_process
  r2 = r10
  r2 += -4
  call bpf_map_lookup_elem
  if r0 != 0 goto add        ; it is there
  *(u64 *)(r10 -16) = 0
  r1 = map by_process
  r2 = r10
  r2 += -4
  r3 = r10
  r3 += -16
  r4 = 1
  call bpf_map_update_elem
  r1 = map by_process
  r2 = r10
  r2 += -4
  call bpf_map_lookup_elem
  if r0 == 0 goto end
add:
  r1 = 1
  lock *(u64 *)(r0 +0) += r1
end:
  r0 = 0
  exit
";

#[test]
fn extended_instructions_count_the_calls() {
    let _machine = support::shared();
    needs!("cpu_time");
    const CALLS: u64 = 1000;
    let kind = ["--raw", "--type", "tracepoint/syscalls/sys_enter_getppid"];
    let load = Load::start(COUNT.as_bytes(), &kind);
    getppid(CALLS);
    let lines = load.end();
    // Other test threads may also call getppid.
    let of_us = value(map(&lines, "by_process"), u64::from(std::process::id()));
    assert!(of_us >= CALLS, "{of_us}: {lines:?}");
    assert_eq!(lines[0]["name"], "some", "that of the file: {lines:?}");
    assert_eq!(
        lines[0]["attached"],
        "tracepoint syscalls:sys_enter_getppid"
    );
    // A raw tracepoint, in hexadecimal and as bytes.
    let bytes: [u8; 16] = [0xb7, 0, 0, 0, 0, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0];
    let text = "b7 00 00 00 00 00 00 00\n95 00 00 00 00 00 00 00\n";
    for program in [&bytes[..], text.as_bytes()] {
        let load = Load::start(program, &["--raw", "--type", "raw_tp/sys_enter"]);
        let lines = load.end();
        assert_eq!(lines[0]["instructions"], 2, "{lines:?}");
    }
}

/// Datagrams with a distinctive length pass twice on loopback: leaving and arriving.
#[test]
fn classic_instructions_pass_only_matching_packets() {
    let _machine = support::shared();
    needs!("cpu_time");
    const PAYLOAD: usize = 6011;
    const SENT: u64 = 50;
    let length = PAYLOAD + 8 + 20 + 14;
    let filters = [
        format!("4,128 0 0 0,21 0 1 {length},6 0 0 65535,6 0 0 0"),
        format!(
            "{{ 0x80, 0, 0, 0 }},\n{{ 0x15, 0, 1, {length} }},\n{{ 6, 0, 0, 1 }},\n{{ 6, 0, 0, 0 }},\n"
        ),
    ];
    for filter in filters {
        let load = Load::start_plain(filter.as_bytes(), &["--raw", "--interface", "lo"]);
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        for _ in 0..SENT {
            let to = socket.local_addr().expect("bound");
            socket.send_to(&[0; PAYLOAD], to).expect("sent");
        }
        let lines = load.end();
        let packets = lines.iter().find(|line| line["kind"] == "packets");
        let passed = packets.and_then(|line| line["passed"].as_u64());
        assert_eq!(passed, Some(2 * SENT), "{lines:?}");
    }
}

/// A text, options, the exit status, and words of the error.
type Case<'a> = (&'a str, &'a [&'a str], Option<i32>, &'a [&'a str]);

#[test]
fn instruction_errors_have_their_place() {
    let _machine = support::shared();
    let tracepoint = ["--raw", "--type", "tracepoint/syscalls/sys_enter_getppid"];
    let cases: [Case<'_>; 8] = [
        (
            "r0 = 0\nexti\n",
            &tracepoint,
            Some(2),
            &["some.bpf.o: line 2: error: there is no such", "  exti\n  ^"],
        ),
        ("r0 = 0\nexit\n", &["--raw"], Some(2), &["--type SECTION"]),
        (
            "r0 = 0\nexit\n",
            &["--raw", "--type", "socket"],
            Some(2),
            &["--interface NAME"],
        ),
        (
            "r0 = 0\nexit\n",
            &["--raw", "--type", "fentry/do_exit"],
            Some(2),
            &["needs BTF"],
        ),
        (
            "r0 = 0\nexit\n",
            &["--raw", "--type", "sokcet"],
            Some(2),
            &["did you mean socket?"],
        ),
        (
            "2,6 0 0 0",
            &["--raw"],
            Some(1),
            &["instruction 1: the number of instructions differs"],
        ),
        (
            "r0 = 0\nexit\n",
            &[],
            Some(1),
            &["plain instructions need --raw", "is not an ELF file"],
        ),
        (
            "# the number of a function is no address\ncall bpf_get_smp_processor_id\nr1 = *(u64 *)(r0 +0)\nexit\n",
            &tracepoint,
            Some(1),
            &[
                "memory access: R0 is used as an address",
                "some.bpf.o:3: r1 = *(u64 *)(r0 +0)\n      instruction 1: ",
                "help: ",
            ],
        ),
    ];
    for (text, args, status, words) in cases {
        let (code, errors) = super::Object::new(text.as_bytes()).refused(args);
        assert_eq!(code, status, "{text}: {errors}");
        for word in words {
            assert!(errors.contains(word), "{text}: {errors}");
        }
    }
}

/// The given licence decides which functions a program may call.
#[test]
fn the_licence_is_passed_on() {
    let _machine = support::shared();
    needs!("cpu_time");
    let text = "r1 = r10\nr1 += -8\nr2 = 8\nr3 = 0\ncall bpf_probe_read_kernel\nr0 = 0\nexit\n";
    let object = super::Object::new(text.as_bytes());
    let kind = [
        "--raw",
        "--no-attach",
        "--type",
        "tracepoint/syscalls/sys_enter_getppid",
    ];
    let (code, errors) = object.refused(&kind);
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("license: "), "{errors}");
    let more = ["--license", "GPL", "--kernel-version", "4.14.0"];
    let (code, errors) = object.refused(&[&kind[..], &more].concat());
    assert_eq!(code, Some(0), "{errors}");
    assert!(
        errors.contains("some: verified (7 instructions)"),
        "{errors}"
    );
    let (code, errors) = object.refused(&[&kind[..], &["--kernel-version", "4"]].concat());
    assert_eq!(code, Some(2), "{errors}");
    // The options for instructions do not apply to objects.
    let (code, errors) = super::Object::new(fixtures::COUNTS).refused(&["--license", "GPL"]);
    assert_eq!(code, Some(2), "{errors}");
}
