//! The table of loads.

use anyhow::Result;

use super::{Part, server};
use crate::events::Sort;

/// The subject of a load, which decides which contenders run with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// CPU accounting.
    Accounting,
    /// Events of this kind, made as fast as possible.
    Events(Sort),
    /// One event of each kind that is only reported on request.
    Kinds,
    /// A server whose users wait for responses.
    Server,
}

/// The loads of the bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Load {
    /// Two processes on one CPU pass a byte to and fro over two pipes
    PingPong,
    /// Groups of 10 senders and 10 receivers over socket pairs, 4 groups, as threads
    Hackbench,
    /// One process after another on each CPU: start /bin/true and wait for it
    ForkStorm,
    /// 1,000 processes in 200 cgroups; each wakes twice a second and runs for 50 us
    Population,
    /// Sleeping threads: 100,000, or three quarters of the machine's thread ids if that is less
    Asleep,
    /// Like fork-storm with more processes: starts, execs and exits, each of which must be reported
    Processes,
    /// Short TCP connections over loopback, one after another on each CPU
    Connections,
    /// Opens of a file for writing, one after another on each CPU
    Opens,
    /// A signal, a failed exec, file changes and a DNS query
    Kinds,
    /// redis-server under redis-benchmark
    Redis,
    /// nginx under ab, with a connection for each request
    Nginx,
}

impl Load {
    pub(crate) const ALL: [Self; 11] = [
        Self::PingPong,
        Self::Hackbench,
        Self::ForkStorm,
        Self::Population,
        Self::Asleep,
        Self::Processes,
        Self::Connections,
        Self::Opens,
        Self::Kinds,
        Self::Redis,
        Self::Nginx,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::PingPong => "ping-pong",
            Self::Hackbench => "hackbench",
            Self::ForkStorm => "fork-storm",
            Self::Population => "population",
            Self::Asleep => "asleep",
            Self::Processes => "processes",
            Self::Connections => "connections",
            Self::Opens => "opens",
            Self::Kinds => "kinds",
            Self::Redis => "redis",
            Self::Nginx => "nginx",
        }
    }

    /// Describes the load and what one operation is.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::PingPong => "two processes on one CPU over two pipes; operation: a round trip",
            Self::Hackbench => {
                "4 x (10 senders, 10 receivers), threads, socket pairs; operation: a message"
            }
            Self::ForkStorm | Self::Processes => {
                "a worker per CPU starts /bin/true and waits; operation: a process"
            }
            Self::Population => {
                "1,000 processes in 200 cgroups (containers of 100 pods), each wakes twice a \
                 second and runs 50 us"
            }
            Self::Asleep => {
                "100,000 threads that sleep, or three quarters of what pid_max allows; 15,000 in a \
                 process"
            }
            Self::Connections => {
                "a worker per CPU connects over loopback, reads a byte, closes; operation: a \
                 connection"
            }
            Self::Opens => "a worker per CPU opens a file for writing; operation: an open",
            Self::Kinds => {
                "a worker per CPU; operation: a signal, an execution that fails, six changes of a \
                 file, a question to a name server and its answer"
            }
            Self::Redis => {
                "redis-benchmark, GET, 16 clients that stay, on one CPU; operation: a request"
            }
            Self::Nginx => {
                "ab, 16 clients, a connection for each request, on one CPU; operation: a request"
            }
        }
    }

    pub(crate) fn subject(self) -> Subject {
        match self {
            Self::PingPong
            | Self::Hackbench
            | Self::ForkStorm
            | Self::Population
            | Self::Asleep => Subject::Accounting,
            Self::Processes => Subject::Events(Sort::Processes),
            Self::Connections => Subject::Events(Sort::Connections),
            Self::Opens => Subject::Events(Sort::Opens),
            Self::Kinds => Subject::Kinds,
            Self::Redis | Self::Nginx => Subject::Server,
        }
    }

    /// Returns whether the load only stays present while the agent is measured.
    pub(crate) fn lasts(self) -> bool {
        matches!(self, Self::Population | Self::Asleep)
    }

    /// Returns the number of operations in a run. A run takes about half a second on the
    /// development machine. Event loads run as many operations as a tool must report without loss,
    /// and servers run for some seconds.
    pub(crate) fn operations(self, quick: bool) -> u64 {
        let full = match self {
            Self::PingPong => 100_000,
            Self::Hackbench => 600_000,
            Self::ForkStorm => 1_000,
            Self::Population | Self::Asleep => 0,
            Self::Processes => 10_000,
            Self::Connections => 20_000,
            Self::Opens => 200_000,
            Self::Kinds => 5_000,
            Self::Redis => 200_000,
            Self::Nginx => 50_000,
        };
        if quick { full / 10 } else { full }
    }

    /// Returns the number of runs. The fastest run is the sample. Bursts of other work are shorter
    /// than all runs together.
    pub(crate) fn runs(self) -> u32 {
        match self {
            Self::Processes => 1,
            _ => 3,
        }
    }

    /// Fails with the reason if the load cannot run on this machine.
    pub(crate) fn check(self) -> Result<()> {
        match self {
            Self::Redis => server::need_redis(),
            Self::Nginx => server::need_nginx(),
            _ => Ok(()),
        }
    }

    pub(super) fn part(self) -> Part {
        match self {
            Self::PingPong => Part::PingPong,
            Self::Hackbench => Part::Hackbench,
            Self::ForkStorm | Self::Processes => Part::ForkStorm,
            Self::Population => Part::Population,
            Self::Asleep => Part::Asleep,
            Self::Connections => Part::Connections,
            Self::Opens => Part::Opens,
            Self::Kinds => Part::Kinds,
            Self::Redis => Part::Redis,
            Self::Nginx => Part::Nginx,
        }
    }
}
