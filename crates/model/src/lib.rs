//! Plain data of noctule: what flows from the sources to the sinks.
//!
//! This crate knows no file, no kernel, no clock and no serialisation format. Every format has its
//! own counterpart type in the crate that writes it, so that a field can be renamed here without
//! changing what users see.

mod bar;
mod batch;
mod comm;
mod counters;
mod counts;
mod destination;
mod draw;
mod event;
mod event_counters;
mod evidence;
mod gone;
mod health;
mod histogram;
mod ids;
mod judge;
mod level;
mod measured;
mod metric;
mod owner;
mod reason;
mod report;
mod rollup;
mod subject;
mod verdict;
mod wait_report;
mod waits;

pub use batch::{Batch, CgroupRow, Node, ProcessRow};
pub use comm::{Comm, escape_terminal};
pub use counters::{Cause, Counter, Counters, Preemptor, SOFTIRQ_VECTORS};
pub use counts::{Countable, Counts, Cumulative};
pub use destination::{DestinationCounter, DestinationCounters, DestinationRow};
pub use draw::{WAIT_LENGTHS, WAIT_SCALE};
pub use event::{
    ConnectError, Event, EventProcess, ExitStatus, FilePath, Origin, Socket, TcpChange, What,
};
pub use event_counters::{
    EventCounter, EventCounters, EventFamily, Events, ExitKind, FileMode, Sockets,
};
pub use evidence::{Baseline, Evidence, Thresholds};
pub use health::{AgentCost, Feature, FeatureState, Loss, MapFill, ProgramCost};
pub use histogram::Histogram;
pub use ids::{CgroupId, ProcessId};
pub use judge::{Judge, JudgeOptions};
pub use level::Level;
pub use measured::{Measurable, Measured};
pub use metric::{Kind, METRICS, Metric, SELF_METRICS, SelfSource, Source, Unit};
pub use owner::{CgroupEvent, Container, ContainerRole, Owner, Pod, Runtime, Subject};
pub use report::{Report, ReportBuilder, Row};
pub use rollup::Rollup;
pub use subject::{Blamed, SubjectBlame, SubjectDestination, SubjectRow};
pub use verdict::VerdictKind;
pub use wait_report::{Culprit, Party, Verdict, WaitReport, WaitReportRow};
pub use waits::{Blame, BlameRow, Group, WaitRow};
