use super::*;

#[test]
fn what_is_no_object_is_named() {
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
