//! Loads the object switch, with as many of its programs as this kernel accepts.
//!
//! The object is opened twice, with shared maps. libbpf loads the programs of an object one after
//! the other. With two objects, the tracing programs and the iterators are verified in parallel;
//! each is half of the work.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use libbpf_rs::skel::OpenSkel as _;
use libbpf_rs::{AsRawLibbpf as _, OpenMap, libbpf_sys};

use super::wakeups::Need;
use super::{features, walk};
use crate::beside::run_both;
use crate::cpu_slots::CpuSlots;
use crate::error::{Context as _, Error, not_loaded};
use crate::facts::Facts;
use crate::kernel_types;
use crate::plan::Wanted;
use crate::settings::configure;
use crate::skel::switch::{OpenSwitchSkel, SwitchSkel, SwitchSkelBuilder, types};

/// Maximum number of packages for which each process and cgroup has room in the tables.
const MOST_ROWS: usize = 4;

/// The parts of the object `switch` to load.
#[derive(Clone)]
pub(super) struct Asked {
    pub(super) wanted: Wanted,
    /// Whether threads that have run are listed, so that a snapshot reads only those.
    pub(super) lists_threads: bool,
}

/// The parts that the kernel rejected although it should accept them, and the first error.
pub(super) struct Refused {
    pub(super) list: bool,
    pub(super) waits: bool,
    pub(super) releasers: bool,
    pub(super) error: Error,
}

impl Asked {
    /// Returns everything that this kernel should accept, according to its facts.
    pub(super) fn full(facts: &Facts, wanted: &Wanted) -> Self {
        Self {
            wanted: wanted.clone(),
            lists_threads: walk::lists_threads(facts),
        }
    }

    /// Returns this request and smaller requests, largest first. Releasers, which are only measured
    /// on request, are dropped first. The list of threads is dropped next: without it everything is
    /// still reported, at a higher cost.
    fn smaller_requests(&self) -> Vec<Self> {
        let parts = |it: &Self| (it.lists_threads, it.wanted.waits, it.wanted.releasers);
        let most = parts(self);
        let mut all = vec![self.clone()];
        for less in [
            (true, true, false),
            (false, true, true),
            (false, true, false),
            (true, false, false),
            (false, false, false),
        ] {
            if less.0 <= most.0 && less.1 <= most.1 && less.2 <= most.2 && less != most {
                let mut asked = self.clone();
                asked.lists_threads = less.0;
                (asked.wanted.waits, asked.wanted.releasers) = (less.1, less.2);
                all.push(asked);
            }
        }
        all
    }
}

/// The object `switch` after loading.
pub(super) struct Loaded {
    /// The tracing programs, and the maps of both object instances.
    pub(super) switch: SwitchSkel<'static>,
    /// The instance from which only the iterators are loaded.
    pub(super) iterators: SwitchSkel<'static>,
}

/// Loads as much as the kernel accepts, because an untested kernel can reject a program that all
/// other kernels accept. If the kernel accepts nothing, returns the first error.
pub(super) fn load(
    most: &Asked,
    facts: &Facts,
    hardware_mask: u32,
    cpu_slots: &CpuSlots,
) -> Result<(Loaded, Asked, Option<Refused>), Error> {
    let load = |asked: &Asked| both(asked, facts, hardware_mask, cpu_slots);
    let (loaded, asked, error) = load_first_accepted(most.smaller_requests(), load)?;
    let refused = error.map(|error| Refused {
        list: asked.lists_threads != most.lists_threads,
        waits: asked.wanted.waits != most.wanted.waits,
        releasers: asked.wanted.releasers != most.wanted.releasers,
        error,
    });
    Ok((loaded, asked, refused))
}

fn both(
    asked: &Asked,
    facts: &Facts,
    hardware_mask: u32,
    cpu_slots: &CpuSlots,
) -> Result<Loaded, Error> {
    let mut hooks = open(facts)?;
    choose_hooks(&mut hooks, asked, facts);
    set_up(&mut hooks, asked, facts, hardware_mask, cpu_slots)?;
    make_maps(&mut hooks).map_err(not_loaded("switch", facts))?;
    let maps =
        made(&hooks).context("duplicating the map descriptors of the BPF object `switch`")?;
    let iterators = || {
        let mut iterators = open(facts)?;
        choose_iterators(&mut iterators, asked);
        share(&mut iterators, &maps).context("sharing the maps of the BPF object `switch`")?;
        iterators.load().map_err(not_loaded("switch", facts))
    };
    let (iterators, switch) = run_both(iterators, || hooks.load());
    Ok(Loaded {
        switch: switch.map_err(not_loaded("switch", facts))?,
        iterators: iterators?,
    })
}

fn load_first_accepted<T>(
    all: Vec<Asked>,
    load: impl Fn(&Asked) -> Result<T, Error>,
) -> Result<(T, Asked, Option<Error>), Error> {
    let mut first = None;
    for asked in all {
        match load(&asked) {
            Ok(loaded) => return Ok((loaded, asked, first)),
            Err(error) => _ = first.get_or_insert(error),
        }
    }
    Err(first.expect("at least one attempt was made"))
}

/// Opens the object, adapts it to this kernel, and deselects all programs.
fn open(facts: &Facts) -> Result<OpenSwitchSkel<'static>, Error> {
    let mut open = kernel_types::open::<SwitchSkelBuilder>(&facts.kernel_types)
        .context("opening the BPF object `switch`")?;
    configure!(open, facts).context("setting up the BPF object `switch`")?;
    for mut program in open.open_object_mut().progs_mut() {
        program.set_autoload(false);
    }
    Ok(open)
}

/// Selects the programs that will be attached. The other programs are not verified, which saves
/// time.
fn choose_hooks(open: &mut OpenSwitchSkel<'static>, asked: &Asked, facts: &Facts) {
    let waits = asked.wanted.waits;
    let wakeups = Need::new(waits, facts.scheduler) != Need::Never;
    let moves = facts.hooks.contains(features::MOVES);
    let walks = features::walks_over_threads(facts);
    let progs = &mut open.progs;
    progs.sched_switch.set_autoload(true);
    progs.sched_wakeup_new.set_autoload(true);
    progs.process_free.set_autoload(true);
    progs.sched_wakeup.set_autoload(wakeups);
    progs.sched_migrate_task.set_autoload(waits);
    progs.sched_waking.set_autoload(asked.wanted.releasers);
    progs.cgroup_attach_task.set_autoload(moves && walks);
    progs.attach_task_older.set_autoload(moves && !walks);
}

fn choose_iterators(open: &mut OpenSwitchSkel<'static>, asked: &Asked) {
    let lists = asked.lists_threads;
    let progs = &mut open.progs;
    progs.walk_tasks.set_autoload(lists);
    progs.sample_listed.set_autoload(lists);
    progs.list_waiting.set_autoload(lists);
    progs.sample_tasks_older.set_autoload(!lists);
}

fn make_maps(open: &mut OpenSwitchSkel<'static>) -> Result<(), libbpf_rs::Error> {
    let object = open.open_object_mut().as_libbpf_object();
    #[allow(unsafe_code, reason = "libbpf-rs does not offer this function")]
    // SAFETY: the object is open, and nothing else uses it.
    match unsafe { libbpf_sys::bpf_object__prepare(object.as_ptr()) } {
        0 => Ok(()),
        error => Err(libbpf_rs::Error::from_raw_os_error(-error)),
    }
}

/// Returns an owned descriptor of each map of a prepared object; `None` for an unused map.
fn made(open: &OpenSwitchSkel<'static>) -> io::Result<Vec<Option<OwnedFd>>> {
    let descriptor = |map: OpenMap<'_>| {
        let map = map.as_libbpf_object().as_ptr();
        #[allow(
            unsafe_code,
            reason = "libbpf-rs returns no map descriptors before the load"
        )]
        // SAFETY: the map lives as long as its object, and so does its descriptor.
        unsafe {
            // libbpf also returns a descriptor for unused maps, which does not refer to a map.
            let is_made = libbpf_sys::bpf_map__autocreate(map);
            is_made.then(|| BorrowedFd::borrow_raw(libbpf_sys::bpf_map__fd(map)))
        }
    };
    let maps = open.open_object().maps().map(descriptor);
    let own = |made: BorrowedFd<'_>| made.try_clone_to_owned();
    maps.map(|made| made.map(own).transpose()).collect()
}

/// Makes an object use the maps of another instance of the same object.
fn share(
    open: &mut OpenSwitchSkel<'static>,
    maps: &[Option<OwnedFd>],
) -> Result<(), libbpf_rs::Error> {
    for (mut map, made) in open.open_object_mut().maps_mut().zip(maps) {
        match made {
            Some(made) => map.reuse_fd(made.as_fd())?,
            None => map.set_autocreate(false)?,
        }
    }
    Ok(())
}

/// Sets the constants of the programs and the sizes of the maps.
fn set_up(
    open: &mut OpenSwitchSkel<'static>,
    asked: &Asked,
    facts: &Facts,
    hardware_mask: u32,
    cpu_slots: &CpuSlots,
) -> Result<(), Error> {
    let wanted = &asked.wanted;
    let lists = asked.lists_threads;
    let ring = wanted.ring_bytes.max(4096).next_power_of_two();
    if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
        rodata.hardware_mask = hardware_mask;
        rodata.waits_on = wanted.waits;
        rodata.releasers_on = wanted.releasers;
        rodata.lists_threads = lists;
        rodata.packages = facts.topology.packages().len() as u32;
        rodata.has_siblings = facts.topology.has_siblings();
        rodata.exits_wakeup_bytes = ring / 4;
        rodata.last_wait_row = if wanted.waits { wanted.cgroups } else { 1 };
    }
    let unused = match facts.task_storage {
        true => open.maps.accounts.set_autocreate(false),
        false => open.maps.tasks.set_autocreate(false),
    };
    unused.context("disabling the unused map of thread accounts")?;
    if !lists {
        open.maps
            .listed
            .set_max_entries(1)
            .context("sizing the list of threads")?;
    }
    let cpus = facts.possible_cpus;
    // Each process and cgroup has a row for each package that it uses. Few of them use more than
    // MOST_ROWS.
    let packages = facts.topology.packages().len().min(MOST_ROWS) as u32;
    let if_on = |entries| if wanted.waits { entries } else { 1 };
    let sizes = [
        open.maps.cpus.reuse_fd(cpu_slots.as_fd()),
        open.maps
            .hardware
            .set_max_entries(cpus * crate::hardware::SLOTS as u32),
        open.maps
            .scratches
            .set_max_entries(types::scratch::SCRATCHES.0 + cpus),
        open.maps.places.set_max_entries(cpus),
        open.maps.settled.set_max_entries(wanted.cgroups * packages),
        open.maps
            .carried
            .set_max_entries(wanted.processes * packages),
        open.maps.pasts.set_max_entries(if_on(cpus)),
        open.maps
            .divisions
            .set_max_entries(if_on(types::division_place::DIVISIONS_ELSEWHERE.0 + cpus)),
        open.maps.waits.set_max_entries(if_on(wanted.cgroups) + 1),
        open.maps.wait_rows.set_max_entries(if_on(wanted.cgroups)),
        open.maps.free_rows.set_max_entries(if_on(wanted.cgroups)),
        open.maps.blames.set_max_entries(if_on(wanted.blames)),
        open.maps
            .releases
            .set_max_entries(if wanted.releasers { wanted.blames } else { 1 }),
        open.maps.exits.set_max_entries(ring),
    ];
    sizes
        .into_iter()
        .collect::<Result<(), _>>()
        .context("sizing the maps")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn refuse(number: u32) -> Error {
        Error::new(ErrorKind::Kernel, format!("try {number}"))
    }

    fn asked(lists_threads: bool, waits: bool) -> Asked {
        Asked {
            wanted: Wanted {
                waits,
                ..Wanted::default()
            },
            lists_threads,
        }
    }

    #[test]
    fn fewer_features_are_requested_after_a_refusal() {
        let tried = std::cell::RefCell::new(Vec::new());
        let (_, got, error) = load_first_accepted(asked(true, true).smaller_requests(), |asked| {
            let mut tried = tried.borrow_mut();
            tried.push((asked.lists_threads, asked.wanted.waits));
            match asked.wanted.waits {
                true => Err(refuse(tried.len() as u32)),
                false => Ok(()),
            }
        })
        .expect("it takes something");
        assert_eq!(tried.take(), [(true, true), (false, true), (true, false)]);
        assert!(got.lists_threads && !got.wanted.waits);
        assert_eq!(error.expect("what it refused").to_string(), "try 1");
    }

    #[test]
    fn releasers_are_dropped_before_the_thread_list() {
        let mut most = asked(true, true);
        most.wanted.releasers = true;
        let all = most.smaller_requests().into_iter();
        let all: Vec<_> = all
            .map(|it| (it.lists_threads, it.wanted.waits, it.wanted.releasers))
            .collect();
        let first = [(true, true, true), (true, true, false), (false, true, true)];
        assert_eq!(all[..3], first);
        assert!(all[3..].iter().all(|(.., releasers)| !releasers));
    }

    #[test]
    fn retries_never_request_more_features() {
        let all = |lists, waits| {
            let all = asked(lists, waits).smaller_requests().into_iter();
            all.map(|it| (it.lists_threads, it.wanted.waits))
                .collect::<Vec<_>>()
        };
        assert_eq!(all(false, false), [(false, false)]);
        assert_eq!(all(false, true), [(false, true), (false, false)]);
        assert_eq!(all(true, false), [(true, false), (false, false)]);
    }

    #[test]
    fn first_error_is_reported_if_nothing_loads() {
        let error = load_first_accepted(asked(false, true).smaller_requests(), |asked| {
            Err::<(), _>(refuse(u32::from(asked.wanted.waits)))
        });
        assert_eq!(error.err().expect("an error").to_string(), "try 1");
    }
}
