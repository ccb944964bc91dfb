//! Tests of damaged objects: each gets an error before anything is loaded.

use object::{Object as _, ObjectSection as _};

use super::{Object, fixtures, support};

/// Returns the range of a section in the file.
fn section(bytes: &[u8], name: &str) -> std::ops::Range<usize> {
    let file = object::File::parse(bytes).expect("an object");
    let section = file
        .section_by_name(name)
        .unwrap_or_else(|| panic!("no section {name}"));
    let (from, size) = section.file_range().expect("bytes");
    let from = usize::try_from(from).expect("small");
    from..from + usize::try_from(size).expect("small")
}

fn changed(bytes: &[u8], change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    change(&mut bytes);
    bytes
}

fn refused(bytes: &[u8], more: &[&str]) -> String {
    let (code, errors) = Object::new(bytes).refused(more);
    assert_eq!(code, Some(1), "{errors}");
    errors
}

#[test]
fn files_that_are_not_bpf_objects_are_named() {
    let _machine = support::shared();
    let host = std::fs::read("/proc/self/exe").expect("our own file");
    let cases: [(Vec<u8>, &str); 7] = [
        (
            b"#!/bin/sh\n".to_vec(),
            "is not an ELF file: expected an object from clang -target bpf -c",
        ),
        (Vec::new(), "is not an ELF file"),
        (host, "not for BPF: compile with clang -target bpf"),
        (fixtures::COUNTS[..40].to_vec(), "is damaged or truncated"),
        (
            fixtures::COUNTS[..fixtures::COUNTS.len() / 2].to_vec(),
            "is damaged or truncated",
        ),
        (changed(fixtures::COUNTS, |b| b[5] = 3 - b[5]), ""),
        (
            changed(fixtures::COUNTS, |b| b[16] = 2),
            "is already linked",
        ),
    ];
    for (bytes, words) in cases {
        let errors = refused(&bytes, &[]);
        assert!(errors.contains(words), "{words}: {errors}");
    }
}

#[test]
fn damaged_relocations_and_maps_are_named() {
    let _machine = support::shared();
    // The symbol of the first relocation, in the upper half of its second word.
    let program = ".reltracepoint/syscalls/sys_enter_getppid";
    let legacy = changed(fixtures::LEGACY, |bytes| {
        let at = section(bytes, program).start;
        bytes[at + 12..at + 16].copy_from_slice(&0xffff_u32.to_ne_bytes());
    });
    let errors = refused(&legacy, &["--no-attach"]);
    assert!(errors.contains("its symbol does not exist"), "{errors}");
    let outside = changed(fixtures::LEGACY, |bytes| {
        let at = section(bytes, program).start;
        bytes[at..at + 8].copy_from_slice(&0x10_0000_u64.to_ne_bytes());
    });
    let errors = refused(&outside, &["--no-attach"]);
    assert!(
        errors.contains("it is past the end of the program"),
        "{errors}"
    );
    let unknown = changed(fixtures::LEGACY, |bytes| {
        let definition = section(bytes, "maps");
        bytes[definition.start] = 250;
    });
    let (code, errors) = Object::new(&unknown).refused(&["--no-attach", "--program", "on_call"]);
    assert_eq!(
        code,
        Some(3),
        "the kernel has no such kind of map: {errors}"
    );
    assert!(errors.contains("creating the map by_length"), "{errors}");
    let modern = changed(fixtures::SECTIONS, |bytes| {
        let at = section(bytes, ".reltracepoint/syscalls/sys_enter_getppid").start;
        bytes[at + 12..at + 16].copy_from_slice(&0xffff_u32.to_ne_bytes());
    });
    let errors = refused(&modern, &["--no-attach"]);
    assert!(errors.contains("relo"), "{errors}");
}
