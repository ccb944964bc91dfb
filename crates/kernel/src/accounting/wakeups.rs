//! The hook at wake-ups, which most kernels need only while some group has a CPU quota, or never: it
//! is the dearest of all, for it runs as often as the switch itself.

use libbpf_rs::Link;

use crate::facts::Scheduler;
use crate::skel::switch::SwitchSkel;

/// For so many batches without a quota the hook stays: groups with one come and go.
const STAYS: u32 = 60;

/// When wake-ups are to be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// The scheduler notes when a thread is queued, and no wait can be throttled that begins with a
    /// wake-up (Linux 6.18).
    Never,
    /// To note how long the queue of the thread was throttled until then.
    WhileQuotas,
    /// The scheduler keeps no notes.
    Always,
}

impl Need {
    pub(super) fn new(waits: bool, scheduler: Scheduler) -> Self {
        match (waits, scheduler.keeps_notes()) {
            (false, _) => Self::Never,
            (true, false) => Self::Always,
            (true, true) if scheduler.throttles_threads => Self::Never,
            (true, true) => Self::WhileQuotas,
        }
    }
}

/// The hook, attached or not.
pub(super) struct Wakeups {
    need: Need,
    link: Option<Link>,
    /// Batches since a quota was seen.
    unused: u32,
}

impl Wakeups {
    pub(super) fn new(need: Need) -> Self {
        Self {
            need,
            link: None,
            unused: 0,
        }
    }

    /// Attaches the hook if waits cannot be measured without.
    pub(super) fn attach_always(
        &mut self,
        switch: &SwitchSkel<'static>,
    ) -> Result<(), libbpf_rs::Error> {
        if self.need == Need::Always {
            self.link = Some(switch.progs.sched_wakeup.attach()?);
        }
        Ok(())
    }

    /// After a walk over the threads, which has noted whether a group has a quota. An error: it
    /// could not be attached, and is not tried again.
    pub(super) fn follow_quotas(
        &mut self,
        switch: &mut SwitchSkel<'static>,
    ) -> Result<(), libbpf_rs::Error> {
        if self.need != Need::WhileQuotas {
            return Ok(());
        }
        let Some(bss) = switch.maps.bss_data.as_deref_mut() else {
            return Ok(());
        };
        let seen = std::mem::take(&mut bss.quotas_seen) != 0;
        self.unused = if seen {
            0
        } else {
            self.unused.saturating_add(1)
        };
        let wanted = self.unused < STAYS && (seen || self.link.is_some());
        bss.quotas_in_use = wanted.into();
        if wanted {
            return self.attach(switch);
        }
        self.link = None;
        Ok(())
    }

    /// Between two walks, after a thread was throttled.
    pub(super) fn follow_found(
        &mut self,
        switch: &SwitchSkel<'static>,
    ) -> Result<(), libbpf_rs::Error> {
        let bss = switch.maps.bss_data.as_deref();
        let found = bss.is_some_and(|bss| bss.quotas_in_use != 0);
        match found && self.need == Need::WhileQuotas {
            true => self.attach(switch),
            false => Ok(()),
        }
    }

    fn attach(&mut self, switch: &SwitchSkel<'static>) -> Result<(), libbpf_rs::Error> {
        if self.link.is_none() {
            let attached = switch.progs.sched_wakeup.attach();
            if attached.is_err() {
                self.need = Need::Never;
            }
            self.link = Some(attached?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wake_ups_are_seen_where_the_scheduler_does_not_say_it() {
        let newest = Scheduler {
            clock: true,
            notes: true,
            throttles_threads: true,
            ..Scheduler::default()
        };
        let older = Scheduler {
            throttles_threads: false,
            ..newest
        };
        let without_notes = Scheduler {
            notes: false,
            ..newest
        };
        let without_clock = Scheduler {
            clock: false,
            ..newest
        };
        assert_eq!(Need::new(true, newest), Need::Never);
        assert_eq!(Need::new(true, older), Need::WhileQuotas);
        assert_eq!(Need::new(true, without_notes), Need::Always);
        assert_eq!(Need::new(true, without_clock), Need::Always);
        assert_eq!(Need::new(false, without_notes), Need::Never);
    }
}
