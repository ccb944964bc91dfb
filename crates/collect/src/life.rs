//! Converts kernel records about the creation and removal of cgroups to the model's events.

use noctule_kernel::{CgroupChange, CgroupEvents, Error};
use noctule_model::{CgroupEvent, CgroupId, Loss};

pub struct CgroupLife {
    kernel: CgroupEvents,
}

impl CgroupLife {
    /// Creates a source that reads from these programs.
    pub fn new(kernel: CgroupEvents) -> Self {
        Self { kernel }
    }

    /// Returns the events since the last call, in order. If a path is too long for the kernel side,
    /// its `Made` or `Renamed` event is dropped, and a walk of the hierarchy finds the cgroup.
    pub fn collect(&mut self) -> Result<Vec<CgroupEvent>, Error> {
        Ok(self.kernel.drain()?.into_iter().filter_map(event).collect())
    }

    /// Returns the events lost because the ring was full. A walk finds their cgroups.
    pub fn loss(&self) -> Loss {
        Loss {
            kind: "cgroup_event",
            place: "cgroup_events",
            count: self.kernel.lost(),
        }
    }

    /// Returns the programs and the ring of this source.
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
