//! Measures the cost of the agent itself.

use std::time::Instant;

use noctule_kernel::{CostWindow, ProgramHandle};
use noctule_model::AgentCost;
use procfs::process::Process;

/// BPF statistics are enabled during one of this many batches. The statistics add about 20 ns to
/// each program run, so the average is below 1 ns.
const WINDOW_EVERY: u64 = 30;

/// Measures the agent's own CPU time, and the cost of its programs if that is enabled.
#[derive(Default)]
pub(crate) struct Agent {
    programs: Option<CostWindow>,
}

impl Agent {
    pub(crate) fn new(programs: Vec<ProgramHandle>) -> Self {
        let mut agent = Self {
            programs: Some(CostWindow::new(programs)),
        };
        // Tries to open a window once, to find out whether measuring is permitted.
        agent.begin();
        agent.end();
        agent
    }

    /// Opens or closes the window of BPF statistics after the batch with this number. The first
    /// window is between the second batch and the third, because the first batch does extra work.
    pub(crate) fn tick(&mut self, sequence: u64) {
        self.end();
        if sequence % WINDOW_EVERY == 2 {
            self.begin();
        }
    }

    fn begin(&mut self) {
        let began = self
            .programs
            .as_mut()
            .map(|window| window.begin(Instant::now()));
        if let Some(Err(error)) = began {
            tracing::info!(%error, "the cost of BPF programs is not measured");
            self.programs = None;
        }
    }

    fn end(&mut self) {
        if let Some(window) = &mut self.programs {
            window.end(Instant::now());
        }
    }

    /// Returns whether the cost of programs can be measured.
    pub(crate) fn measures_programs(&self) -> bool {
        self.programs.is_some()
    }

    pub(crate) fn cost(&self) -> AgentCost {
        let (programs, programs_window_ns) = match &self.programs {
            Some(window) => {
                let (programs, window_ns) = window.sums();
                (Some(programs), window_ns)
            }
            None => (None, 0),
        };
        AgentCost {
            cpu_ns: cpu_ns(),
            resident_bytes: resident_bytes().unwrap_or(0),
            programs,
            programs_window_ns,
            ..AgentCost::default()
        }
    }
}

/// Returns `CLOCK_PROCESS_CPUTIME_ID`: user and system time of all threads of the agent.
fn cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn resident_bytes() -> Option<u64> {
    let pages = Process::myself().ok()?.statm().ok()?.resident;
    Some(pages * procfs::page_size())
}
