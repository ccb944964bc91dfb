//! Reads the maps of an object.

use libbpf_rs::btf::Btf;
use libbpf_rs::{
    AsRawLibbpf as _, Map, MapCore as _, MapFlags, MapHandle, MapType, libbpf_sys as sys,
};

use super::shape::Shape;

/// Maximum number of entries read from a map.
const MOST: usize = 1 << 20;

/// A map with its entries.
#[derive(Clone, Debug)]
pub struct MapContents {
    /// The map's name in the object.
    pub name: String,
    /// The map's kind, as bpftool names it.
    pub kind: String,
    /// The layout of a key.
    pub key: Shape,
    /// The layout of a value.
    pub value: Shape,
    /// Whether an entry has a value for each CPU.
    pub per_cpu: bool,
    /// The entries, or the reason why they cannot be listed.
    pub entries: Result<Vec<MapEntry>, String>,
}

/// A key with its value, or its values on each CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapEntry {
    /// The bytes of the key.
    pub key: Vec<u8>,
    /// One value, or one for each possible CPU.
    pub values: Vec<Vec<u8>>,
}

/// Reads a map. An entry that is created or deleted during the read may be missing.
pub(super) fn contents(map: &Map<'_>, btf: Option<&Btf<'_>>) -> MapContents {
    let (key_type, value_type) = types(map);
    let key = Shape::of(btf, key_type, map.key_size() as usize);
    let value = Shape::of(btf, value_type, map.value_size() as usize);
    MapContents {
        name: map.name().to_string_lossy().into_owned(),
        kind: kind_name(map.map_type()),
        key,
        value,
        per_cpu: is_per_cpu(map.map_type()),
        entries: entries(map),
    }
}

/// Reads a map of unknown layout.
pub(super) fn plain_contents(name: &str, map: &MapHandle) -> MapContents {
    MapContents {
        name: name.to_owned(),
        kind: kind_name(map.map_type()),
        key: super::shape::bytes(map.key_size()),
        value: super::shape::bytes(map.value_size()),
        per_cpu: is_per_cpu(map.map_type()),
        entries: entries(map),
    }
}

#[allow(unsafe_code, reason = "libbpf-rs does not return the types of a map")]
fn types(map: &Map<'_>) -> (u32, u32) {
    let map = map.as_libbpf_object().as_ptr();
    // SAFETY: the map belongs to an object that is borrowed during the call.
    unsafe {
        (
            sys::bpf_map__btf_key_type_id(map),
            sys::bpf_map__btf_value_type_id(map),
        )
    }
}

fn is_per_cpu(kind: MapType) -> bool {
    matches!(
        kind,
        MapType::PercpuHash | MapType::PercpuArray | MapType::LruPercpuHash
    )
}

fn entries(map: &impl libbpf_rs::MapCore) -> Result<Vec<MapEntry>, String> {
    if let Some(why) = unlistable_reason(map.map_type()) {
        return Err(why.to_owned());
    }
    let per_cpu = is_per_cpu(map.map_type());
    let mut entries = Vec::new();
    for key in map.keys().take(MOST) {
        let values = if per_cpu {
            map.lookup_percpu(&key, MapFlags::ANY)
        } else {
            map.lookup(&key, MapFlags::ANY)
                .map(|value| value.map(|value| vec![value]))
        };
        match values {
            Ok(Some(values)) => entries.push(MapEntry { key, values }),
            // The entry was deleted during the read, or is an empty slot in an array of maps or
            // programs.
            Ok(None) => {}
            Err(error) if error.kind() == libbpf_rs::ErrorKind::NotFound => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(entries)
}

fn unlistable_reason(kind: MapType) -> Option<&'static str> {
    Some(match kind {
        MapType::RingBuf | MapType::UserRingBuf => "a ring buffer holds records, not entries",
        MapType::PerfEventArray => "an array of perf events",
        MapType::Queue | MapType::Stack => "reading an entry removes it",
        MapType::BloomFilter => "a Bloom filter can be queried but not listed",
        MapType::SkStorage
        | MapType::InodeStorage
        | MapType::CgroupStorage
        | MapType::PercpuCgroupStorage => "its keys are kernel objects",
        MapType::TaskStorage | MapType::CGrpStorage => "its keys are kernel objects",
        MapType::StructOps => "a table of functions",
        MapType::Arena => "memory shared with user space",
        _ => return None,
    })
}

/// Converts `PercpuHash` to `percpu_hash`.
pub(super) fn kind_name(kind: MapType) -> String {
    if kind == MapType::CGrpStorage {
        return "cgrp_storage".to_owned();
    }
    let mut name = String::new();
    for c in format!("{kind:?}").chars() {
        if c.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(c.to_ascii_lowercase());
    }
    name
}
