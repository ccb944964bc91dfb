//! The record of a perf event: the position of the CPU at the overflow.

use super::registers;
use crate::format::EventFormat;

/// Name, offset in the record, and offset in the program's context (`struct bpf_perf_event_data`)
/// of each field. All fields have eight bytes.
pub(crate) const PERF_FIELDS: [(&str, i16, i16); 3] = [
    ("ip", 8, registers::INSTRUCTION),
    ("sample_period", 16, registers::SIZE),
    ("addr", 24, registers::SIZE + 8),
];

/// Describes the record like a format file.
pub fn perf_format() -> EventFormat {
    let mut text = "name: perf\nID: 0\nformat:\n".to_owned();
    for (name, offset, _) in PERF_FIELDS {
        text += &format!("\tfield:u64 {name};\toffset:{offset};\tsize:8;\tsigned:0;\n");
    }
    EventFormat::parse(&text).unwrap_or_default()
}
