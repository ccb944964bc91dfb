//! The values of the kernel's enumerators, by name.

use std::collections::HashMap;

use libbpf_rs::btf::types::{Enum, Enum64};
use libbpf_rs::btf::{Btf, BtfType};

/// Returns the values of these enumerators from the kernel's BTF. A name is missing from the result
/// if the kernel does not have it, or if its value does not fit. Without BTF all names are missing.
pub fn enumerators(names: &[String]) -> HashMap<String, i64> {
    let mut found = HashMap::new();
    let Ok(btf) = Btf::from_vmlinux() else {
        return found;
    };
    let mut add = |name: Option<&std::ffi::OsStr>, value: Option<i64>| {
        let name = name.and_then(std::ffi::OsStr::to_str);
        if let (Some(name), Some(value)) = (name, value)
            && names.iter().any(|wanted| wanted == name)
        {
            found.entry(name.to_owned()).or_insert(value);
        }
    };
    let types = (1..btf.len() as u32).filter_map(|id| btf.type_by_id::<BtfType<'_>>(id.into()));
    for of_any_kind in types {
        if let Ok(members) = Enum::try_from(of_any_kind) {
            members
                .iter()
                .for_each(|one| add(one.name, Some(one.value)));
        } else if let Ok(members) = Enum64::try_from(of_any_kind) {
            members
                .iter()
                .for_each(|one| add(one.name, i64::try_from(one.value).ok()));
        }
    }
    found
}
