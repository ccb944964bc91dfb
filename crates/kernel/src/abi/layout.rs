//! Checks that the exported structs of the objects meet the requirements of [`super::Plain`], and
//! that lists have the order of the enumerations in the objects.

use std::collections::HashMap;
use std::mem::MaybeUninit;

use libbpf_rs::btf::types::{Array, Enum, Int, MemberAttr, Ptr, Struct, Var};
use libbpf_rs::btf::{Btf, BtfType, HasSize, ReferencesType as _};
use libbpf_rs::skel::{OpenSkel as _, SkelBuilder};
use libbpf_rs::{AsRawLibbpf as _, OpenObject};

use noctule_model::{BlockClass, Counter};

use crate::events::{context, record};
use crate::loss::LOSSES;
use crate::skel;
use crate::skel::lifecycle::LifecycleSkelBuilder;
use crate::skel::switch::SwitchSkelBuilder;

/// Returns the size of a type that consists of integers without padding, or else a description of
/// the violation.
fn size(btf: &Btf<'_>, ty: BtfType<'_>) -> Result<usize, String> {
    let ty = ty.skip_mods_and_typedefs();
    let name = ty.name().unwrap_or_default().to_string_lossy().into_owned();
    if let Ok(int) = Int::try_from(ty) {
        return Ok(usize::from(int.bits) / 8);
    }
    if let Ok(array) = Array::try_from(ty) {
        return Ok(array.capacity() * size(btf, array.contained_type())?);
    }
    let body = Struct::try_from(ty).map_err(|ty| format!("{:?} {name}", ty.kind()))?;
    let mut end = 0;
    for member in body.iter() {
        let field = member.name.unwrap_or_default().to_string_lossy();
        let MemberAttr::Normal { offset } = member.attr else {
            return Err(format!("a bit field, {name}.{field}"));
        };
        if offset as usize != end * 8 {
            return Err(format!("a hole before {name}.{field}"));
        }
        let ty = btf.type_by_id(member.ty);
        end += size(btf, ty.ok_or("no type")?).map_err(|what| format!("{name}.{field}: {what}"))?;
    }
    let whole = HasSize::size(&body);
    (end == whole)
        .then_some(whole)
        .ok_or(format!("a hole at the end of {name}"))
}

#[allow(unsafe_code, reason = "libbpf-rs expects libbpf's object pointer")]
fn types(object: &OpenObject) -> Btf<'_> {
    // SAFETY: the object outlives the borrow, and is not modified during the borrow.
    let object = unsafe { object.as_libbpf_object().as_ref() };
    let btf = Btf::from_bpf_object(object);
    btf.expect("valid BTF").expect("the object has BTF")
}

/// Returns the structs that an object exports with ABI_EXPORT.
fn exported(object: &OpenObject) -> Vec<(String, Result<usize, String>)> {
    let btf = types(object);
    let pointers = btf.type_by_kind::<Var<'_>>().filter_map(|var| {
        let name = var.name()?.to_str()?.strip_prefix("abi_")?.to_owned();
        let target = Ptr::try_from(var.referenced_type()).ok()?;
        let target = target.referenced_type().skip_mods_and_typedefs();
        (!target.is_any_enum()).then(|| (name, size(&btf, target)))
    });
    pointers.collect()
}

macro_rules! sizes {
    ($($object:ident::$builder:ident: $($name:ident)*;)*) => {$({
        let mut storage = MaybeUninit::uninit();
        let open = skel::$object::$builder::default().open(&mut storage).expect("an object");
        let mut found = exported(open.open_object());
        found.sort();
        let mut expected = vec![$((
            stringify!($name).to_owned(),
            Ok(size_of::<skel::$object::types::$name>()),
        )),*];
        expected.sort();
        assert_eq!(found, expected, "{}", stringify!($object));
    })*};
}

#[test]
fn exported_records_are_integers_without_padding() {
    sizes! {
        switch::SwitchSkelBuilder: blame blame_key cpu_place settled_key settled_sums late_settle living past release
            release_key task_sample wait_row;
        softirq::SoftirqSkelBuilder: ;
        pagecache::PagecacheSkelBuilder: ;
        cgroup::CgroupSkelBuilder: cgroup_event;
        lifecycle::LifecycleSkelBuilder: oom_kill process_exec process_exec_failed process_exit process_parent
            process_signal process_row process_start;
        tcp::TcpSkelBuilder: connect_times destination_key destination_row socket_sample tcp_event
            tcp_row;
        disk::DiskSkelBuilder: ;
        udp::UdpSkelBuilder: dns_key dns_query flow_key udp_flow;
        files::FilesSkelBuilder: file_change file_counts file_open;
    }
}

/// Returns the values of all enumerators of an object.
fn values<B: SkelBuilder<'static> + Default>() -> HashMap<String, usize> {
    let storage = Box::leak(Box::new(MaybeUninit::uninit()));
    let open = B::default().open(storage).expect("an object");
    let btf = types(open.open_object());
    let mut values = HashMap::new();
    for of_all in btf.type_by_kind::<Enum<'_>>() {
        values.extend(of_all.iter().filter_map(|one| {
            let name = one.name?.to_str()?.to_owned();
            Some((name, usize::try_from(one.value).ok()?))
        }));
    }
    values
}

/// Returns the name of a counter in the BPF programs. Softirqs and blocked time have names of their
/// first counter only.
fn name_of(counter: Counter) -> Option<String> {
    Some(match counter {
        Counter::Wait(cause) => format!("WAIT_{}", cause.name()),
        Counter::PreemptedBy(preemptor) => format!("PREEMPTED_{}", preemptor.name()),
        Counter::Softirq(0) => "SOFTIRQS".to_owned(),
        Counter::Blocked(BlockClass::Poll) => "BLOCKED".to_owned(),
        Counter::Softirq(_) | Counter::Blocked(_) => return None,
        single => {
            let words = format!("{single:?}");
            let parts = words.char_indices().map(|(at, c)| match c {
                'A'..='Z' if at > 0 => format!("_{c}"),
                _ => c.to_string(),
            });
            parts.collect()
        }
    })
}

#[test]
fn lists_match_the_order_of_the_bpf_enums() {
    let of_switch = values::<SwitchSkelBuilder>();
    let of_lifecycle = values::<LifecycleSkelBuilder>();
    let check = |of: &HashMap<String, usize>, prefix: &str, name: &str, position: usize| {
        let name = format!("{prefix}_{name}").replace('.', "_").to_uppercase();
        assert_eq!(of.get(&name), Some(&position), "{name}");
    };
    for counter in Counter::all() {
        if let Some(name) = name_of(counter) {
            check(&of_switch, "COUNTER", &name, counter.index());
        }
    }
    for class in BlockClass::ALL {
        // 0 stands for a thread that is not blocked.
        check(&of_switch, "BLOCK", class.name(), class as usize + 1);
    }
    for (position, (name, _)) in LOSSES.iter().enumerate() {
        check(&of_switch, "LOSS", name, position);
    }
    for (position, name) in record::NAMES.iter().enumerate() {
        check(&of_lifecycle, "EVENT", name, position);
    }
    for (position, name) in context::KINDS.iter().enumerate() {
        check(&of_lifecycle, "NAMESPACE", name, position);
    }
}
