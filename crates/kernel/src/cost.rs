//! Measures the cost of the BPF programs with the kernel's own statistics. Measuring costs about 20
//! ns per run, so it is limited to windows.

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Instant;

use libbpf_rs::{Object, libbpf_sys};
use noctule_model::ProgramCost;

/// A program whose cost is measured.
pub struct ProgramHandle {
    name: String,
    fd: OwnedFd,
    skips: Skips,
}

/// The effect of a run that the kernel skipped.
enum Skips {
    /// The program missed an event.
    Lost,
    /// Nothing is lost as long as the kernel runs this other program on the same hook.
    CoveredBy(OwnedFd),
    /// Nothing is lost: this is the second copy of another program.
    CoversOther,
}

impl ProgramHandle {
    /// Creates a handle with its own descriptor of a loaded program; `None` if no descriptor is
    /// available.
    pub(crate) fn of(name: &str, program: &impl AsFd) -> Option<Self> {
        let fd = program.as_fd().try_clone_to_owned().ok()?;
        Some(Self {
            name: name.to_owned(),
            fd,
            skips: Skips::Lost,
        })
    }

    /// Creates a handle to each of these programs of an object.
    pub(crate) fn all(object: &Object, names: &[&str]) -> Vec<Self> {
        let named = object.progs().filter_map(|program| {
            let name = names.iter().find(|name| program.name() == **name)?;
            Self::of(name, &program)
        });
        named.collect()
    }

    /// Creates another handle to this program; `None` if no descriptor is available.
    pub(crate) fn again(&self) -> Option<Self> {
        Self::of(&self.name, &self.fd)
    }

    /// Creates handles to two programs on one hook. The second program handles the calls for which
    /// the kernel skipped the first. The second program is not necessarily loaded.
    pub(crate) fn pair(first: (&str, &impl AsFd), again: (&str, &impl AsFd)) -> [Option<Self>; 2] {
        let mut first = Self::of(first.0, first.1);
        let mut again = Self::of(again.0, again.1);
        if let (Some(first), Some(again)) = (&mut first, &mut again)
            && let Ok(fd) = again.fd.try_clone()
        {
            first.skips = Skips::CoveredBy(fd);
            again.skips = Skips::CoversOther;
        }
        [first, again]
    }

    /// Returns an upper bound for the number of lost calls. The kernel skips a program that is
    /// already running on the CPU. Always 0 before Linux 5.12.
    pub fn skipped(&self) -> u64 {
        let misses = |fd| info(fd).map_or(0, |info| info.misses);
        match &self.skips {
            Skips::Lost => misses(&self.fd),
            Skips::CoveredBy(again) => misses(&self.fd).min(misses(again)),
            Skips::CoversOther => 0,
        }
    }
}

/// Cost of the programs, summed over the windows.
#[derive(Default)]
pub struct CostWindow {
    programs: Vec<ProgramHandle>,
    sums: HashMap<String, ProgramCost>,
    window_ns: u64,
    open: Option<Open>,
}

struct Open {
    since: Instant,
    before: Vec<Info>,
    /// Dropping this descriptor ends the kernel's measuring, unless another process is measuring,
    /// too.
    _stats: OwnedFd,
}

#[derive(Clone, Copy, Default)]
struct Info {
    run_ns: u64,
    runs: u64,
    misses: u64,
}

impl CostWindow {
    /// Creates a window for these programs.
    pub fn new(programs: Vec<ProgramHandle>) -> Self {
        Self {
            programs,
            ..Self::default()
        }
    }

    /// Begins a window.
    ///
    /// # Errors
    ///
    /// Fails if the process lacks CAP_SYS_ADMIN.
    pub fn begin(&mut self, now: Instant) -> std::io::Result<()> {
        let stats = enable_stats()?;
        let before = self
            .programs
            .iter()
            .map(|p| info(&p.fd).unwrap_or_default())
            .collect();
        self.open = Some(Open {
            since: now,
            before,
            _stats: stats,
        });
        Ok(())
    }

    /// Ends the window and adds it to the sums.
    pub fn end(&mut self, now: Instant) {
        let Some(open) = self.open.take() else { return };
        self.window_ns += now.duration_since(open.since).as_nanos() as u64;
        for (program, before) in self.programs.iter().zip(open.before) {
            let Some(after) = info(&program.fd) else {
                continue;
            };
            let sum = self
                .sums
                .entry(program.name.clone())
                .or_insert_with(|| ProgramCost {
                    name: program.name.clone(),
                    ..ProgramCost::default()
                });
            sum.run_ns += after.run_ns.saturating_sub(before.run_ns);
            sum.runs += after.runs.saturating_sub(before.runs);
            sum.recursion_misses = after.misses;
        }
    }

    /// Returns the cost of the programs in all windows, by name, and the total length of the
    /// windows.
    pub fn sums(&self) -> (Vec<ProgramCost>, u64) {
        let mut sums: Vec<ProgramCost> = self.sums.values().cloned().collect();
        sums.sort_by(|a, b| a.name.cmp(&b.name));
        (sums, self.window_ns)
    }
}

#[allow(unsafe_code, reason = "libbpf-rs has no function for this")]
fn enable_stats() -> std::io::Result<OwnedFd> {
    // SAFETY: the call takes a number and returns a descriptor or a negative error.
    let fd = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
    if fd < 0 {
        return Err(std::io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: the descriptor was just created, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Returns how often the kernel skipped a program.
pub(crate) fn misses(program: &OwnedFd) -> u64 {
    info(program).unwrap_or_default().misses
}

#[allow(
    unsafe_code,
    reason = "libbpf-rs returns these figures only with all other details of the program"
)]
fn info(program: &OwnedFd) -> Option<Info> {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut size = size_of_val(&info) as u32;
    // SAFETY: `info` is valid for writes of `size` bytes, and requests no array behind a pointer.
    let error = unsafe {
        libbpf_sys::bpf_obj_get_info_by_fd(
            program.as_raw_fd(),
            (&raw mut info).cast(),
            &raw mut size,
        )
    };
    (error == 0).then_some(Info {
        run_ns: info.run_time_ns,
        runs: info.run_cnt,
        misses: info.recursion_misses,
    })
}
