//! Analyses batches with pure functions. The functions charge the figures of cgroups to subjects,
//! build reports about two batches, determine the causes of waits, and judge each group that waits.
//!
//! This crate opens no files, reads no clock and prints nothing. The input of the crate is batches,
//! in order.

mod bar;
mod command;
mod cpus;
pub mod diff;
mod disk_report;
mod energy;
mod evidence;
mod gone;
mod history;
mod judge;
mod party;
mod reason;
mod report;
mod rollup;
mod select;
mod stalls;
mod strip;
mod wait_report;
mod why;

pub use command::by_command;
pub use cpus::{CpuUse, CpuWindow};
pub use disk_report::{DiskParty, DiskReport};
pub use energy::{
    Attribution, EnergyReport, IdleEnergy, IdleKnowledge, KindReport, LearnedIdle, ZoneReport,
    charged_kinds, counts_in_rows,
};
pub use evidence::{Baseline, Evidence, Thresholds};
pub use history::{
    Account, Accounts, CpuPoint, CpuStep, CpuStrip, Episode, EventLog, EventLogLimits, Hurt,
    HurtGroup, JudgedWindow, NodePoint, OwnerId, OwnerLengths, OwnerPoint, OwnerSum, PackedRows,
    PairPoint, PairSum, PointRows, Power, Restart, SpanStep, Thinned, TimePoint, TimeSpan,
    TimeSpanQuery, Timeline, TimelineLimits, TimelineView, WaitedFor, ZoneSum, at_most, is_trouble,
};
pub use judge::{Judge, JudgeOptions};
pub use party::Party;
pub use report::{Detail, Key, Report, ReportBuilder, Row};
pub use rollup::Rollup;
pub use select::{Descent, Found, Missing, Named, SHORTEST_ID, Selection};
pub use stalls::Stalls;
pub use strip::{Strip, StripStep};
pub use wait_report::{
    Culprit, Hurts, OwnWaits, Released, ReleasedBy, Surroundings, Verdict, WaitReport,
    WaitReportRow,
};
pub use why::{ProcessUse, Why, busiest};
