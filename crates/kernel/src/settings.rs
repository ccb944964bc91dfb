//! Settings that depend only on the facts: the values of all `const volatile` variables with these
//! names in the objects.

use crate::facts::{CgroupVersion, Facts};
use crate::skel::{disk, files, lifecycle, pagecache, switch, tcp, udp};

/// The read-only data of an object that is not loaded yet.
pub(crate) trait Settings {
    /// Names of the variables that [`Settings::set`] sets.
    #[cfg(test)]
    const NAMES: &'static [&'static str];

    /// Sets the variables to the values that follow from the facts.
    fn set(&mut self, facts: &Facts);
}

macro_rules! settings {
    ($($object:ident: $($name:ident),+;)+) => {
        $(impl Settings for $object::types::rodata {
            #[cfg(test)]
            const NAMES: &'static [&'static str] = &[$(stringify!($name)),+];

            fn set(&mut self, facts: &Facts) {
                $(self.$name = value::$name(facts);)+
            }
        })+
    };
}

settings! {
    switch: cgroup_from_v2, has_task_storage, scheduler_notes, has_prev_state;
    pagecache: cgroup_from_v2, has_task_storage, scheduler_notes, page_shift;
    lifecycle: cgroup_from_v2, has_task_storage, scheduler_notes, page_shift, has_group_dead, victim_is_task;
    tcp: cgroup_from_v2, has_task_storage, has_retransmit_error, accept_takes_struct;
    files: cgroup_from_v2;
    udp: cgroup_from_v2, has_task_storage;
    disk: cgroup_from_v2, has_task_storage, request_passes_queue, bio_passes_queue, hierarchy;
}

/// The value of each setting.
mod value {
    use super::{CgroupVersion, Facts};

    pub(super) fn cgroup_from_v2(facts: &Facts) -> bool {
        facts.hierarchy.version == CgroupVersion::V2
    }

    pub(super) fn has_task_storage(facts: &Facts) -> bool {
        facts.task_storage
    }

    pub(super) fn scheduler_notes(facts: &Facts) -> bool {
        facts.scheduler.records_usable_times()
    }

    pub(super) fn has_prev_state(facts: &Facts) -> bool {
        facts.tracepoints.prev_state
    }

    pub(super) fn page_shift(_: &Facts) -> u32 {
        rustix::param::page_size().trailing_zeros()
    }

    pub(super) fn has_group_dead(facts: &Facts) -> bool {
        facts.tracepoints.group_dead
    }

    pub(super) fn victim_is_task(facts: &Facts) -> bool {
        facts.tracepoints.victim_task
    }

    pub(super) fn has_retransmit_error(facts: &Facts) -> bool {
        facts.tracepoints.retransmit_error
    }

    pub(super) fn accept_takes_struct(facts: &Facts) -> bool {
        facts.tracepoints.accept_struct
    }

    pub(super) fn request_passes_queue(facts: &Facts) -> bool {
        facts.tracepoints.request_queue
    }

    pub(super) fn bio_passes_queue(facts: &Facts) -> bool {
        facts.tracepoints.bio_queue
    }

    pub(super) fn hierarchy(facts: &Facts) -> i32 {
        facts.hierarchy.id
    }
}

/// Prepares an object for this kernel before it is loaded: sets its variables and adapts its
/// instructions.
macro_rules! configure {
    ($open:expr, $facts:expr) => {{
        if let Some(rodata) = $open.maps.rodata_data.as_deref_mut() {
            $crate::settings::Settings::set(rodata, $facts);
        }
        $crate::older::adapt($open.open_object_mut(), $facts)
    }};
}

pub(crate) use configure;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fmt::Debug;
    use std::mem::MaybeUninit;

    use libbpf_rs::skel::SkelBuilder;

    use super::*;

    /// Returns the names of the object's settings, and its read-only data in debug format.
    fn described<T: Settings + Debug>(rodata: Option<&mut T>) -> (&'static [&'static str], String) {
        (T::NAMES, format!("{:?}", rodata.expect("read-only data")))
    }

    macro_rules! described {
        ($($object:ident: $builder:ident;)+) => {
            vec![$({
                let mut storage = MaybeUninit::uninit();
                let builder = crate::skel::$object::$builder::default();
                let mut open = builder.open(&mut storage).expect("it opens");
                (stringify!($object), described(open.maps.rodata_data.as_deref_mut()))
            }),+]
        };
    }

    #[test]
    fn every_object_with_a_setting_gets_it() {
        let objects = described! {
            switch: SwitchSkelBuilder;
            pagecache: PagecacheSkelBuilder;
            lifecycle: LifecycleSkelBuilder;
            tcp: TcpSkelBuilder;
            files: FilesSkelBuilder;
            udp: UdpSkelBuilder;
            disk: DiskSkelBuilder;
        };
        let all = objects.iter().flat_map(|(_, (names, _))| names.iter());
        let all: BTreeSet<&str> = all.copied().collect();
        for (object, (names, rodata)) in objects {
            for name in &all {
                let has = rodata.contains(&format!(" {name}: "));
                assert_eq!(has, names.contains(name), "{object}: {name}");
            }
        }
    }
}
