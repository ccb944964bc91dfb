//! The life of cgroups as events of the model.

use noctule_kernel::{CgroupChange, CgroupEvents, Error};
use noctule_model::{CgroupEvent, CgroupId, Loss};

/// Source of cgroup events.
pub struct CgroupLife {
    kernel: CgroupEvents,
}

impl CgroupLife {
    /// Reads from these programs.
    pub fn new(kernel: CgroupEvents) -> Self {
        Self { kernel }
    }

    /// What happened since the last call, in order. A path too long for the kernel side is left
    /// out of `Made` and `Renamed`: those events are dropped, and a walk finds the group.
    pub fn collect(&mut self) -> Result<Vec<CgroupEvent>, Error> {
        Ok(self.kernel.drain()?.into_iter().filter_map(event).collect())
    }

    /// Events that found no room in the ring; their groups are found by a walk.
    pub fn loss(&self) -> Loss {
        Loss {
            kind: "cgroup_event",
            place: "cgroup_events",
            count: self.kernel.lost(),
        }
    }

    /// The programs and the ring behind this source.
    pub fn kernel(&self) -> &CgroupEvents {
        &self.kernel
    }
}

fn event(event: noctule_kernel::CgroupEvent) -> Option<CgroupEvent> {
    let id = CgroupId(event.id);
    let path =
        |path: Option<Vec<u8>>| path.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Some(match event.change {
        CgroupChange::Made => CgroupEvent::Made {
            id,
            path: path(event.path)?,
        },
        CgroupChange::Renamed => CgroupEvent::Renamed {
            id,
            path: path(event.path)?,
        },
        CgroupChange::Removed => CgroupEvent::Removed { id },
        CgroupChange::Released => CgroupEvent::Released { id },
    })
}
