//! The table of events. The table has the columns of all event kinds, which come from the schema.

use arrow_array::ArrayRef;
use arrow_schema::Field;
use noctule_model::{CgroupId, Comm, Event, EventProcess, Origin, ProcessId, TcpChange, What};

use super::{OwnerNumber, Owners};
use crate::column::{ColumnResult, Columns, Moment, Record, Word, Words, described, record};

record! {
    /// The columns common to all event kinds.
    pub(crate) struct HeadRecord {
        time: Moment,
        name: Word,
        origin: Word,
        /// The next seven columns describe the process; `pid` is null for an event without a
        /// process.
        pid: Option<u32>,
        start_ns: u64,
        start_time: Moment,
        comm: Words,
        /// The acting thread, if it is not the thread group leader.
        thread: Option<Words>,
        cgroup: u64,
        owner: OwnerNumber,
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct EventRecord {
    head: HeadRecord,
    /// `None` if the event was read from a recording and this version does not know its kind.
    what: Option<What>,
}

impl Record for EventRecord {
    fn fields(out: &mut Vec<Field>) {
        HeadRecord::fields(out);
        described::fields::<What>(out);
    }

    fn arrays(rows: &[&Self], out: &mut Vec<ArrayRef>) {
        let heads: Vec<&HeadRecord> = rows.iter().map(|row| &row.head).collect();
        HeadRecord::arrays(&heads, out);
        let whats: Vec<Option<&What>> = rows.iter().map(|row| row.what.as_ref()).collect();
        described::arrays(&whats, out);
    }

    fn read(from: &Columns<'_>) -> ColumnResult<Vec<Self>> {
        let heads = HeadRecord::read(from)?;
        let blank = |head: &HeadRecord| What::blank(head.name.0);
        let mut whats: Vec<Option<What>> = heads.iter().map(blank).collect();
        described::read(from, &mut whats)?;
        let rows = heads.into_iter().zip(whats);
        Ok(rows.map(|(head, what)| Self { head, what }).collect())
    }

    fn since(&self, _earlier: &Self) -> Option<Self> {
        Some(self.clone())
    }

    fn add(&mut self, _earlier: &Self) {}
}

impl EventRecord {
    pub(crate) fn new(event: &Event, owners: &mut Owners) -> Self {
        let Event {
            time_unix_ns,
            process,
            origin,
            what,
        } = event;
        let mut head = HeadRecord {
            time: Moment(*time_unix_ns),
            name: Word(what.name()),
            origin: Word(origin.name()),
            ..HeadRecord::default()
        };
        if let Some(EventProcess {
            id,
            start_unix_ns,
            comm,
            thread,
            cgroup,
            owner,
        }) = process
        {
            head.pid = Some(id.pid);
            head.start_ns = id.start_ns;
            head.start_time = Moment(*start_unix_ns);
            head.comm = Words::of(comm);
            head.thread = thread.as_ref().map(Words::of);
            head.cgroup = cgroup.0;
            head.owner = owners.number(owner.as_ref());
        }
        Self {
            head,
            what: Some(what.clone()),
        }
    }

    /// Returns the value of `event.name`.
    pub(crate) fn name(&self) -> &'static str {
        self.head.name.0
    }

    /// Returns the event, or `None` if this version does not know its kind.
    pub(crate) fn event(self, owners: &Owners) -> Option<Event> {
        let head = self.head;
        let process = head.pid.map(|pid| EventProcess {
            id: ProcessId {
                pid,
                start_ns: head.start_ns,
            },
            start_unix_ns: head.start_time.0,
            comm: Comm::new(&head.comm.0),
            thread: head.thread.as_ref().map(|name| Comm::new(&name.0)),
            cgroup: CgroupId(head.cgroup),
            owner: owners.owner(head.owner),
        });
        let mut what = self.what?;
        if let What::Tcp {
            change: TcpChange::ConnectFailed { duration_ns, .. },
            ..
        } = &mut what
        {
            // Older recordings have 0 for an unknown duration.
            *duration_ns = duration_ns.filter(|ns| *ns != 0);
        }
        Some(Event {
            time_unix_ns: head.time.0,
            process,
            origin: Origin::named(head.origin.0)?,
            what,
        })
    }
}
