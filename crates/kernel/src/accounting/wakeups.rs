//! Manages the program at wake-ups. Most kernels need it only while a group has a CPU quota, or
//! never. No other program is as expensive, because this one runs as often as the program at
//! switches.

use libbpf_rs::Link;

use crate::facts::Scheduler;
use crate::skel::switch::SwitchSkel;

/// Number of batches without a quota after which the program is detached, because groups with a
/// quota come and go.
const STAYS: u32 = 60;

/// When a kernel needs the program at wake-ups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// The scheduler records when a thread is queued, and a wait that begins with a wake-up cannot
    /// be throttled (Linux 6.18).
    Never,
    /// The program records the throttled time of the queue at the start of the wait.
    WhileQuotas,
    /// The scheduler does not record when a thread is queued.
    Always,
}

impl Need {
    pub(super) fn new(waits: bool, scheduler: Scheduler) -> Self {
        match (waits, scheduler.records_usable_times()) {
            (false, _) => Self::Never,
            (true, false) => Self::Always,
            (true, true) if scheduler.throttles_threads => Self::Never,
            (true, true) => Self::WhileQuotas,
        }
    }
}

/// The program, attached or not.
pub(super) struct Wakeups {
    need: Need,
    link: Option<Link>,
    /// Number of batches since the last quota was seen.
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

    /// Attaches the program if waits cannot be measured without it.
    pub(super) fn attach_always(
        &mut self,
        switch: &SwitchSkel<'static>,
    ) -> Result<(), libbpf_rs::Error> {
        if self.need == Need::Always {
            self.link = Some(switch.progs.sched_wakeup.attach()?);
        }
        Ok(())
    }

    /// Attaches or detaches the program after a walk over the threads, which records whether a
    /// group has a quota. If attaching fails, there is no other attempt.
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

    /// Attaches the program between two walks, after a thread was throttled.
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
    fn wakeups_are_traced_only_where_needed() {
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
