//! The objects beside switch: each adds one counter to the accounts of the threads, and each fails
//! alone.

use std::os::fd::{AsFd, BorrowedFd};

use libbpf_rs::skel::OpenSkel;
use libbpf_rs::{Link, OpenMapMut, ProgramMut};
use noctule_model::{Feature, FeatureId};

use crate::cost::ProgramHandle;
use crate::facts::Facts;
use crate::kernel_types;
use crate::loss;
use crate::plan::Way;
use crate::settings::configure;
use crate::skel::pagecache::{PagecacheSkel, PagecacheSkelBuilder};
use crate::skel::softirq::{SoftirqSkel, SoftirqSkelBuilder};
use crate::skel::switch::SwitchSkel;

/// One loaded object with one attached program.
pub(super) struct Side {
    // Before the object that it holds.
    _link: Link,
    object: Object,
    program: &'static str,
}

enum Object {
    Softirq(SoftirqSkel<'static>),
    Pagecache(PagecacheSkel<'static>),
}

/// Loads and attaches one way to feed a feature.
pub(super) type Loader = fn(&Accounts<'_>, &Way, &Facts) -> Result<Side, libbpf_rs::Error>;

/// What the objects share with switch.
#[derive(Clone, Copy)]
pub(super) struct Accounts<'a> {
    threads: BorrowedFd<'a>,
    cpus: BorrowedFd<'a>,
    started_ns: u64,
}

impl<'a> Accounts<'a> {
    /// Those of switch, which has one of the two maps of threads.
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

/// Tries the ways in order. The status names the hook that works, or why each does not.
pub(super) fn first_that_works(
    feature: FeatureId,
    ways: &[Way],
    load: impl Fn(&Way) -> Result<Side, libbpf_rs::Error>,
) -> (Option<Side>, Feature) {
    let mut problems = Vec::new();
    for way in ways {
        match load(way) {
            Ok(side) => return (Some(side), way.works(feature)),
            Err(error) => problems.push(format!("{}: {error:#}", way.hook)),
        }
    }
    let reason = format!("could not be attached: {}", problems.join("; "));
    (None, Feature::off(feature, reason))
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

pub(super) fn softirq(
    accounts: &Accounts<'_>,
    way: &Way,
    facts: &Facts,
) -> Result<Side, libbpf_rs::Error> {
    let mut open = kernel_types::open::<SoftirqSkelBuilder>(facts)?;
    open.maps.cpus.reuse_fd(accounts.cpus)?;
    let skel = open.load()?;
    let link = skel.progs.softirq_entry.attach()?;
    Ok(Side {
        _link: link,
        object: Object::Softirq(skel),
        program: way.program,
    })
}

pub(super) fn pagecache(
    accounts: &Accounts<'_>,
    way: &Way,
    facts: &Facts,
) -> Result<Side, libbpf_rs::Error> {
    let mut open = kernel_types::open::<PagecacheSkelBuilder>(facts)?;
    share_accounts(
        &mut open.maps.tasks,
        &mut open.maps.accounts,
        accounts,
        facts,
    )?;
    open.maps.cpus.reuse_fd(accounts.cpus)?;
    configure!(open, facts)?;
    for mut program in open.open_object_mut().progs_mut() {
        let chosen = program.name() == way.program;
        program.set_autoload(chosen);
    }
    let mut skel = open.load()?;
    if let Some(bss) = skel.maps.bss_data.as_deref_mut() {
        bss.started_at = accounts.started_ns;
    }
    let link = attach_named(&mut skel, way.program)?;
    Ok(Side {
        _link: link,
        object: Object::Pagecache(skel),
        program: way.program,
    })
}

fn attach_named(skel: &mut PagecacheSkel<'static>, name: &str) -> Result<Link, libbpf_rs::Error> {
    use libbpf_rs::skel::Skel;
    let mut programs = skel.object_mut().progs_mut();
    let program: ProgramMut<'_> = programs
        .find(|p| p.name() == name)
        .ok_or_else(|| std::io::Error::new(std::io::ErrorKind::NotFound, name.to_owned()))?;
    program.attach()
}

impl Side {
    /// The loss counters of the object.
    pub(super) fn losses(&self) -> [u64; loss::KINDS] {
        let losses = match &self.object {
            // It counts in what is there for each CPU.
            Object::Softirq(_) => None,
            Object::Pagecache(skel) => skel.maps.bss_data.as_deref().map(|b| b.losses),
        };
        losses.unwrap_or_default()
    }

    /// The attached program.
    pub(super) fn program(&self) -> Option<ProgramHandle> {
        use libbpf_rs::skel::Skel;
        let object = match &self.object {
            Object::Softirq(skel) => skel.object(),
            Object::Pagecache(skel) => skel.object(),
        };
        let program = object.progs().find(|p| p.name() == self.program)?;
        ProgramHandle::of(self.program, &program)
    }
}
