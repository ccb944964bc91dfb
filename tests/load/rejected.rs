//! Tests of programs that the verifier rejects: each gets an explanation, and nothing is left.

use libbpf_rs::query::{MapInfoIter, ProgInfoIter};

use super::{Object, fixtures, support};

/// Program, explanation of its rejection, and the source line shown.
const REFUSED: &[(&str, &str, &str)] = &[
    (
        "null_pointer",
        "possible null pointer: R0 is used without a check for NULL",
        "return value->numbers[0];",
    ),
    (
        "null_passed",
        "possible null pointer: R3 is passed without a check",
        "bpf_map_update_elem",
    ),
    (
        "not_an_address",
        "memory access: R0 is used as an address, but is a number",
        "return task[3];",
    ),
    (
        "endless",
        "program too complex: a loop never ends",
        "bpf_get_prandom_u32() != 7",
    ),
    (
        "too_long",
        "program too complex: the verifier gave up: too many steps",
        // Before Linux 6.4, the verifier's log buffer has room only for the reason.
        "use fewer iterations",
    ),
    (
        "uninitialised",
        "uninitialized data: R7 is read before anything was written to it",
        "r7",
    ),
    (
        "behind_value",
        "out of bounds: R",
        "return value->numbers[index];",
    ),
    (
        "unbounded_index",
        "an unbounded number is added to a pointer",
        "return value->numbers[index];",
    ),
    (
        "negative_size",
        "out of bounds: ",
        "bpf_get_current_comm(text, size)",
    ),
    (
        "behind_packet",
        "packet access: the access may be past the end of the packet",
        "return data[14];",
    ),
    (
        "behind_context",
        "context access: the context of this program type has no accessible field",
        "ctx)[100]",
    ),
    (
        "not_released",
        "reference leak: a reference is acquired but not released",
        "at: ",
    ),
    ("released_twice", "memory access: R", "*record = 1;"),
    (
        "not_for_sockets",
        "helper function: ",
        "bpf_override_return(",
    ),
    (
        "unknown_helper",
        "helper function: the program calls a function that this kernel does not have",
        "no_such_helper()",
    ),
    (
        "lock_kept",
        "lock: the program ends while it holds a lock",
        "at: ",
    ),
    ("lock_refused", "lock: ", "help: "),
    (
        "writes_constant",
        "memory access: a write to a map that is read-only for programs",
        "constant = 2;",
    ),
    (
        "wrong_return",
        "return value: the program returns a value that is invalid for its type",
        "at: ",
    ),
    (
        "wrong_argument",
        "argument: R1 has the wrong type for this function",
        "argument 1 of bpf_map_lookup_elem",
    ),
    (
        "large_stack",
        "stack: a write is outside of the stack",
        "r10 -520",
    ),
    (
        "divided_pointer",
        "pointer arithmetic: arithmetic on R1 is not allowed",
        "r1 *= 3",
    ),
];

#[test]
fn each_refusal_is_explained_and_leaves_nothing_behind() {
    let _machine = support::shared();
    needs!("cpu_time");
    let object = Object::new(fixtures::REJECTED);
    for (program, words, source) in REFUSED {
        let (code, errors) = object.refused(&["--program", program, "--no-attach"]);
        assert_eq!(code, Some(1), "{program}: {errors}");
        assert!(
            errors.contains(&format!("the kernel refuses {program}")),
            "{errors}"
        );
        assert!(errors.contains(words), "{program}: {errors}");
        assert!(errors.contains(source), "{program}: {errors}");
        assert!(!errors.contains("processed "), "{program}: {errors}");
    }
    let (_, errors) = object.refused(&["--program", "null_pointer", "-v"]);
    assert!(errors.contains("processed "), "the whole log: {errors}");
    assert_none_named(
        &["null_pointer", "too_long", "wrong_return"],
        &["guarded", "table"],
    );
}

#[test]
fn licence_and_unknown_section_are_named() {
    let _machine = support::shared();
    needs!("cpu_time");
    let object = Object::new(fixtures::PROPRIETARY);
    let (code, errors) = object.refused(&["--program", "not_gpl"]);
    assert_eq!(code, Some(1), "{errors}");
    assert!(
        errors.contains("license: the called function is restricted to GPL programs"),
        "{errors}"
    );
    let (code, errors) = object.refused(&["--program", "misspelt"]);
    assert_eq!(code, Some(2), "{errors}");
    let words = "misspelt: libbpf has no section kporbe/vfs_read; did you mean kprobe?";
    assert!(errors.contains(words), "{errors}");
}

/// Checks that the kernel soon has no program and no map with these names any more.
pub(super) fn assert_none_named(programs: &[&str], maps: &[&str]) {
    support::wait_until("the programs are gone", || {
        !ProgInfoIter::default().any(|info| programs.contains(&&*info.name.to_string_lossy()))
    });
    support::wait_until("the maps are gone", || {
        !MapInfoIter::default().any(|info| maps.contains(&&*info.name.to_string_lossy()))
    });
}
