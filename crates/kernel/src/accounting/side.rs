//! Objects other than `switch` that add counters to the accounts of threads. If an object fails,
//! only its counters are missing.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};

use libbpf_rs::skel::{OpenSkel as _, Skel as _};
use libbpf_rs::{Link, OpenMapMut};
use noctule_model::{Feature, FeatureId};

use crate::cost::ProgramHandle;
use crate::facts::Facts;
use crate::kernel_types;
use crate::loss;
use crate::plan::{Plan, Way};
use crate::settings::configure;
use crate::skel::pagecache::{PagecacheSkel, PagecacheSkelBuilder};
use crate::skel::softirq::{SoftirqSkel, SoftirqSkelBuilder};
use crate::skel::switch::SwitchSkel;

/// A loaded object with its attached programs.
pub(super) struct Side {
    // Declared first, so that links are dropped before their object.
    _links: Vec<Link>,
    object: Object,
    programs: Vec<&'static str>,
}

enum Object {
    Softirq(SoftirqSkel<'static>),
    Pagecache(PagecacheSkel<'static>),
}

/// The maps and programs that the objects share with switch.
#[derive(Clone, Copy)]
pub(super) struct Accounts<'a> {
    threads: BorrowedFd<'a>,
    cpus: BorrowedFd<'a>,
    started_ns: u64,
}

impl<'a> Accounts<'a> {
    /// Returns the maps of switch. Depending on the kernel, accounts of threads are in `tasks` or
    /// in `accounts`.
    pub(super) fn of(switch: &'a SwitchSkel<'static>, facts: &Facts) -> Self {
        Self {
            threads: match facts.task_storage {
                true => switch.maps.tasks.as_fd(),
                false => switch.maps.accounts.as_fd(),
            },
            cpus: switch.maps.cpus.as_fd(),
            started_ns: switch.maps.bss_data.as_deref().map_or(0, |b| b.started_at),
        }
    }
}

/// Loads all objects that work on this kernel, and returns the status of each object's feature.
pub(super) fn all(
    accounts: &Accounts<'_>,
    plan: &Plan,
    facts: &Facts,
) -> (Vec<Side>, Vec<Feature>) {
    let (mut sides, mut features) = of_page_cache(accounts, plan, facts);
    let load = |way: &Way| softirq(accounts, way, facts);
    let (side, feature) = load_first_working(FeatureId::Softirqs, &plan.softirqs, load);
    sides.extend(side);
    features.extend(feature);
    (sides, features)
}

/// Loads a single object for reads and writes if the kernel accepts the best way to count each,
/// because libbpf reads all kernel types for each object. Otherwise each counter has its own
/// object, with the best way that works.
fn of_page_cache(accounts: &Accounts<'_>, plan: &Plan, facts: &Facts) -> (Vec<Side>, Vec<Feature>) {
    const READS: FeatureId = FeatureId::PageCacheReads;
    const WRITES: FeatureId = FeatureId::PageCacheWrites;
    let (reads, writes) = (&plan.page_reads, &plan.page_writes);
    if let ([read, ..], [write, ..]) = (&reads[..], &writes[..])
        && let Ok(side) = pagecache(accounts, &[read, write], facts)
    {
        return (vec![side], vec![read.works(READS), write.works(WRITES)]);
    }
    let load = |way: &Way| pagecache(accounts, &[way], facts);
    let each = [(READS, reads), (WRITES, writes)];
    let (sides, features): (Vec<_>, Vec<_>) = each
        .map(|(feature, ways)| load_first_working(feature, ways, load))
        .into_iter()
        .unzip();
    let (sides, features) = (sides.into_iter(), features.into_iter());
    (sides.flatten().collect(), features.flatten().collect())
}

/// Loads the first of `ways` that works. The status contains the hook of that way, or the reason
/// why each way failed. Returns no status if there are no ways.
fn load_first_working(
    feature: FeatureId,
    ways: &[Way],
    load: impl Fn(&Way) -> Result<Side, libbpf_rs::Error>,
) -> (Option<Side>, Option<Feature>) {
    if ways.is_empty() {
        return (None, None);
    }
    let mut problems = Vec::new();
    for way in ways {
        match load(way) {
            Ok(side) => return (Some(side), Some(way.works(feature))),
            Err(error) => problems.push(format!("{}: {error:#}", way.hook)),
        }
    }
    let reason = format!("could not be attached: {}", problems.join("; "));
    (None, Some(Feature::off(feature, reason)))
}

fn share_accounts<'o>(
    storage: &mut OpenMapMut<'o>,
    table: &mut OpenMapMut<'o>,
    accounts: &Accounts<'_>,
    facts: &Facts,
) -> Result<(), libbpf_rs::Error> {
    let (used, unused) = match facts.task_storage {
        true => (storage, table),
        false => (table, storage),
    };
    used.reuse_fd(accounts.threads)?;
    unused.set_autocreate(false)
}

fn softirq(accounts: &Accounts<'_>, way: &Way, facts: &Facts) -> Result<Side, libbpf_rs::Error> {
    let mut open = kernel_types::open::<SoftirqSkelBuilder>(&facts.kernel_types)?;
    open.maps.cpus.reuse_fd(accounts.cpus)?;
    let skel = open.load()?;
    let link = skel.progs.softirq_entry.attach()?;
    Ok(Side {
        _links: vec![link],
        object: Object::Softirq(skel),
        programs: vec![way.program],
    })
}

/// Loads the object pagecache with the programs of `ways`.
fn pagecache(
    accounts: &Accounts<'_>,
    ways: &[&Way],
    facts: &Facts,
) -> Result<Side, libbpf_rs::Error> {
    let programs: Vec<_> = ways.iter().map(|way| way.program).collect();
    let is_chosen = |name: &OsStr| programs.iter().any(|program| *program == name);
    let mut open = kernel_types::open::<PagecacheSkelBuilder>(&facts.kernel_types)?;
    share_accounts(
        &mut open.maps.tasks,
        &mut open.maps.accounts,
        accounts,
        facts,
    )?;
    open.maps.cpus.reuse_fd(accounts.cpus)?;
    configure!(open, facts)?;
    for mut program in open.open_object_mut().progs_mut() {
        let chosen = is_chosen(program.name());
        program.set_autoload(chosen);
    }
    let mut skel = open.load()?;
    if let Some(bss) = skel.maps.bss_data.as_deref_mut() {
        bss.started_at = accounts.started_ns;
    }
    let loaded = skel.object_mut().progs_mut();
    let links = loaded
        .filter(|program| is_chosen(program.name()))
        .map(|program| program.attach())
        .collect::<Result<_, _>>()?;
    Ok(Side {
        _links: links,
        object: Object::Pagecache(skel),
        programs,
    })
}

impl Side {
    /// Returns the loss counters of the object.
    pub(super) fn losses(&self) -> [u64; loss::KINDS] {
        let losses = match &self.object {
            // Softirq counts in the CPU slots, which always exist.
            Object::Softirq(_) => None,
            Object::Pagecache(skel) => skel.maps.bss_data.as_deref().map(|b| b.losses),
        };
        losses.unwrap_or_default()
    }

    /// Returns the attached programs.
    pub(super) fn programs(&self) -> impl Iterator<Item = ProgramHandle> {
        let object = match &self.object {
            Object::Softirq(skel) => skel.object(),
            Object::Pagecache(skel) => skel.object(),
        };
        self.programs.iter().filter_map(|name| {
            let program = object.progs().find(|p| p.name() == *name)?;
            ProgramHandle::of(name, &program)
        })
    }
}
