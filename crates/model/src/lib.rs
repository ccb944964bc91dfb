//! Plain data of noctule that flows from sources to sinks.
//!
//! This crate uses no file, kernel interface, clock or serialization format. The crate that writes
//! a format has its own types for it, so renaming a field here does not change the output.

mod asleep;
mod batch;
mod blocked;
mod capacity;
mod comm;
mod counters;
mod counts;
mod cpu;
mod destination;
mod disk;
mod energy;
mod event;
mod event_counters;
mod event_room;
mod feature;
mod health;
mod histogram;
mod idle;
mod idmap;
mod ids;
mod joules;
mod level;
mod measured;
mod memory;
mod metric;
mod named;
mod owner;
mod package;
mod pressure;
mod quota;
mod reason;
mod release;
mod subject;
mod verdict;
mod waits;

pub use asleep::{Asleep, AsleepThreads};
pub use batch::{Batch, CgroupRow, Node, ProcessRow};
pub use blocked::{BlockClass, Blocked};
pub use capacity::shrink_sparse;
pub use comm::{Comm, Command};
pub use counters::{Cause, Counter, Counters, Preemptor, SOFTIRQ_VECTORS};
pub use counts::{Countable, Counts, Cumulative};
pub use cpu::CpuRow;
pub use destination::{DestinationCounter, DestinationCounters, DestinationRow};
pub use disk::{Disk, DiskUse, DiskUser};
pub use energy::{Energy, EnergySource, Unread, UnreadZone, Zone, ZoneKind, ZoneReading};
pub use event::{
    CloseReason, ConnectError, DnsAnswer, DnsQuery, DnsQuestion, Event, EventKind, EventKinds,
    EventProcess, ExecContext, ExitStatus, FileChange, FilePath, Namespace, Origin, Parent, Socket,
    TcpChange, UdpFlow, What,
};
pub use event_counters::{
    EventCounter, EventCounters, EventFamily, Events, ExitKind, FileMode, Sockets,
};
pub use event_room::EventRoom;
pub use feature::FeatureId;
pub use health::{
    AgentCost, Feature, FeatureState, Loss, MapFill, NOT_ASKED_FOR, ProgramCost, Sending,
};
pub use histogram::Histogram;
pub use idle::Idle;
pub use idmap::{IdMap, IdSet};
pub use ids::{CgroupId, ProcessId};
pub use joules::{Driver, Joules, ZoneAccount};
pub use level::{Level, ROOT};
pub use measured::{Measurable, Measured};
pub use memory::{MemoryLimit, MemoryRow, MemoryUse};
pub use metric::{
    DETAILS, FOREIGN_METRICS, ForeignExporter, ForeignMetric, ForeignOffer, ForeignSource,
    KEPLER_METRICS, KeplerLevel, KeplerMetric, KeplerOffer, KeplerPart, KeplerSource,
    KeplerVersion, Kind, METRICS, Metric, OTEL_CONVENTIONS, OtelConvention, OtelKind, OtelMetric,
    SELF_METRICS, SelfSource, Source, Unit, otel_attributes,
};
pub use owner::{CgroupEvent, Container, ContainerRole, Owner, Pod, Runtime, Subject};
pub use package::{ByPackage, PackageRow, PackageUse};
pub use pressure::{Stall, Stalls};
pub use quota::QuotaRow;
pub use reason::{
    Affinity, CpuWeight, IdleGroup, QuotaUse, RealTime, Reason, ReasonCulprit, Rivals, Settings,
    Unusual,
};
pub use release::{BlockEnd, ReleaseRow, Releaser};
pub use subject::{Blamed, SubjectBlame, SubjectDestination, SubjectRow};
pub use verdict::VerdictKind;
pub use waits::{Blame, BlameRow, Group, ThreadRoom, WaitRow, Waiting};
