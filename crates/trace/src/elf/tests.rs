use super::*;

#[test]
fn files_that_are_not_objects_are_rejected() {
    assert_eq!(inspect(b"#!/bin/sh\n"), Err(ElfProblem::NotElf));
    assert_eq!(inspect(b""), Err(ElfProblem::NotElf));
    assert!(matches!(inspect(b"\x7fELF"), Err(ElfProblem::Truncated(_))));
    let mut header = [0_u8; 64];
    header[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    header[16] = 1;
    header[18] = 62;
    assert_eq!(inspect(&header), Err(ElfProblem::OtherMachine(62)));
    header[18] = 247;
    header[16] = 2;
    assert_eq!(inspect(&header), Err(ElfProblem::NotAnObject));
    header[16] = 1;
    assert_eq!(inspect(&header), Err(ElfProblem::NoProgram));
    header[5] = 2;
    header.swap(18, 19);
    header.swap(16, 17);
    assert_eq!(inspect(&header), Err(ElfProblem::OtherByteOrder));
}

const LIBRARY: &[u8] = include_bytes!("../../tests/objects/library.so");

fn offset_of(name: &str) -> u64 {
    match find_function(LIBRARY, name).expect("it is there").code {
        Code::Offset(offset) => offset,
        Code::Indirect(_) => panic!("{name} has code of its own"),
    }
}

#[test]
fn a_bare_name_means_the_default_version() {
    let default = find_function(LIBRARY, "changed").expect("it is there");
    assert_eq!(default.code, Code::Offset(offset_of("changed@@V_2")));
    assert_eq!(default.code, Code::Offset(offset_of("changed@V_2")));
    assert_eq!(default.other_versions, ["V_1"]);
    assert_ne!(offset_of("changed@V_1"), offset_of("changed"));
    assert_eq!(offset_of("changed_old"), offset_of("changed@V_1"));
    // This function does not have a default version.
    assert_eq!(offset_of("removed"), offset_of("removed@V_1"));
    let same = find_function(LIBRARY, "same").expect("it is there");
    assert_eq!(same.other_versions, [""; 0]);
    assert_eq!(
        find_function(LIBRARY, "same@V_2"),
        Err(NoFunction::UnknownVersion(vec!["V_1".to_owned()]))
    );
}

#[test]
fn indirect_functions_list_their_linker_slots() {
    let indirect = |name: &str| match find_function(LIBRARY, name).expect("it is there").code {
        Code::Indirect(indirect) => indirect,
        Code::Offset(offset) => panic!("{name} is at {offset:#x}"),
    };
    let (chosen, twin) = (indirect("chosen"), indirect("chosen_twin"));
    assert_eq!((chosen.slots.len(), twin.slots.len()), (1, 1));
    assert_eq!(chosen.others, [("chosen_twin".to_owned(), twin.slots[0])]);
    assert_eq!(indirect("unused").slots, [0; 0]);
}

#[test]
fn ambiguous_names_are_rejected_with_their_offsets() {
    let error = find_function(LIBRARY, "twice").expect_err("two source files have one");
    let NoFunction::Ambiguous(places) = &error else {
        panic!("{error}");
    };
    assert_eq!(places.len(), 2);
    assert!(
        places.iter().all(|place| place.starts_with("0x")),
        "{error}"
    );
    assert_eq!(
        find_function(LIBRARY, "twise"),
        Err(NoFunction::Unknown(Some("twice".to_owned())))
    );
}
