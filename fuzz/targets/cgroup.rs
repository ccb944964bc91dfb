//! Fuzzes cgroup paths, which any user may create, and names with systemd's escapes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use noctule_identity::{classify, unescape};
use noctule_model::CgroupId;

fuzz_target!(|bytes: &[u8]| {
    let path = String::from_utf8_lossy(bytes);
    let owner = classify(CgroupId(1), &path);
    if let Some(container) = &owner.container {
        assert!(!container.id.is_empty(), "{path}");
    }
    // The owner depends only on the path of the cgroup.
    let again = classify(CgroupId(1), &owner.path);
    assert_eq!(owner, again, "{path}");
    for name in owner.unit.iter().map(String::as_str).chain([&*path]) {
        let _ = unescape(name);
    }
});
