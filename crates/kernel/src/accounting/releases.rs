//! Reads from the BPF map which processes ended the blocks of threads.

use libbpf_rs::Link;
use noctule_model::{BlockClass, BlockEnd, Feature, FeatureId, ProcessId, ReleaseRow, Releaser};

use super::Accounting;
use super::object::Refused;
use crate::abi;
use crate::error::{Error, REPORT};
use crate::facts::Facts;
use crate::plan::Wanted;
use crate::skel::switch::{SwitchSkel, types};
use crate::table;

/// Value of `releases_from` until the next snapshot sets it to its moment. No block ends this late.
const NEXT_MOMENT: u64 = u64::MAX;

impl Accounting {
    /// Starts to charge blocks to the processes that end them, from the moment of the next
    /// snapshot. The time of a block before that moment does not count.
    pub fn begin_releases(&mut self) {
        self.count_releases_from(NEXT_MOMENT);
    }

    pub(super) fn begins_releases(&self) -> bool {
        let bss = self.switch.maps.bss_data.as_deref();
        bss.is_some_and(|bss| bss.releases_from == NEXT_MOMENT)
    }

    pub(super) fn count_releases_from(&mut self, ns: u64) {
        if let Some(bss) = self.switch.maps.bss_data.as_deref_mut() {
            bss.releases_from = ns;
        }
    }
}

/// Returns whether programs can determine the class of a block and the process that ends it.
fn can_measure(facts: &Facts) -> bool {
    facts.system_calls && facts.task_storage
}

/// Returns the request without releasers, if this kernel cannot measure them or waits are off.
pub(super) fn possible(wanted: &Wanted, facts: &Facts) -> Wanted {
    Wanted {
        releasers: wanted.releasers && wanted.waits && can_measure(facts),
        ..wanted.clone()
    }
}

/// Attaches the program at wake-ups if it was loaded. Returns the link, and the feature status of
/// releasers.
pub(super) fn attach(
    switch: &SwitchSkel<'static>,
    loaded: &Wanted,
    refused: Option<&Refused>,
    facts: &Facts,
) -> (Option<Link>, Option<Feature>) {
    const ID: FeatureId = FeatureId::BlockReleasers;
    if !loaded.waits {
        // The status of waits covers this case.
        return (None, None);
    }
    let refused = refused.filter(|refused| refused.releasers);
    let feature = match refused {
        _ if loaded.releasers => match switch.progs.sched_waking.attach() {
            Ok(link) => return (Some(link), Some(Feature::on(ID, "sched_waking"))),
            Err(error) => Feature::off(ID, format!("sched_waking: {error:#}")),
        },
        Some(refused) => {
            let reason = format!("this kernel refuses the program: {}", refused.error.chain());
            Feature::off(ID, reason).with_fix(REPORT)
        }
        None if can_measure(facts) => return (None, None),
        None => Feature::off(
            ID,
            "no program can read the system call of a thread (bpf_task_pt_regs, Linux 5.15), so \
             the class of a block is not known",
        ),
    };
    (None, Some(feature))
}

/// Returns the blocked time of each group up to the moment of the snapshot, by class and by the
/// process that ended the blocks.
pub(super) fn read(switch: &SwitchSkel<'static>, taken_ns: u64) -> Result<Vec<ReleaseRow>, Error> {
    let rows = table::entries(&switch.maps.releases, "the table of releasers")?;
    let row = |(key, value): (&[u8], &[u8])| {
        let key = abi::plain::<types::release_key>(key)?;
        let sums = abi::plain::<types::release>(value)?;
        let end = match key.releaser {
            abi::RELEASER_NONE => BlockEnd::Nobody,
            abi::RELEASER_LATER => BlockEnd::Left,
            releaser => BlockEnd::Released(Releaser {
                group: abi::group(releaser)?,
                process: ProcessId {
                    pid: key.pid,
                    start_ns: key.process_start,
                },
            }),
        };
        let later_ns = match sums.later_than == taken_ns as u32 {
            true => sums.later_ns,
            false => 0,
        };
        Some(ReleaseRow {
            victim: abi::group(key.victim)?,
            class: BlockClass::from_number(key.class.into())?,
            end,
            blocked_ns: sums.blocked_ns.saturating_sub(later_ns),
        })
    };
    Ok(rows.iter().filter_map(row).collect())
}
