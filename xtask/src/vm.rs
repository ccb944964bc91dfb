//! Implements `cargo xtask vm`: runs the tests of the binary on other kernels in virtual machines.
//!
//! The machines are emulated, so the host's kernel does not matter and no privileges are needed.

use std::env;
use std::fs;
use std::io::{Write as _, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use noctule_vm::Job;

mod apt;
mod architecture;
mod cached;
mod command;
mod cpio;
mod disk;
mod emulator;
mod kernel;
mod kernels;
mod machine;
mod modules;
mod own_modules;
mod programs;
mod report;
mod sensors;
mod toolchain;
mod tools;

use architecture::Architecture;
use emulator::Emulator;
use kernel::Fetched;
use kernels::Kernel;
pub(crate) use kernels::default_names as kernel_names;
use machine::Setup;
use modules::Module;
use programs::Programs;
use report::Report;
use sensors::Sensors;
use tools::Tools;

/// Run the tests of the binary on other kernels
///
/// Boots each kernel in a virtual machine without hardware support. Kernels are downloaded once
/// from Debian with this machine's apt and kept in the user's cache directory. Runs the tests whose
/// names contain one of the given words, and always those of the environment.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Run only this kernel; can be repeated
    #[arg(long, value_name = "KERNEL", value_parser = clap::builder::PossibleValuesParser::new(kernels::names()))]
    kernel: Vec<String>,
    /// Download the newest version of each kernel even if one is cached
    #[arg(long)]
    refresh: bool,
    /// Skip tests whose names contain this word; can be repeated
    #[arg(long, value_name = "WORD")]
    skip: Vec<String>,
    /// Download and build everything, but start no machine
    #[arg(long, conflicts_with_all = ["command", "tests"])]
    prepare: bool,
    /// Number of machines to run in parallel; each has two CPUs
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..))]
    machines: u8,
    /// Maximum minutes per machine
    #[arg(long, value_name = "MINUTES", default_value_t = 45)]
    limit: u64,
    /// Run a command in the machine instead of the tests
    #[arg(long, num_args = 1.., value_name = "COMMAND", allow_hyphen_values = true, conflicts_with = "tests")]
    command: Vec<String>,
    /// Run the tests that `make test` runs on each kernel
    #[arg(long, conflicts_with_all = ["command", "tests"])]
    usual_tests: bool,
    /// Run only tests whose names contain one of these words
    #[arg(last = true, value_name = "TEST")]
    tests: Vec<String>,
}

/// Maximum seconds per test in a machine.
const TEST_LIMIT: u64 = 400;

pub(crate) fn run(root: &Path, args: &Args) -> Result<ExitCode> {
    let began = Instant::now();
    let cache = cache()?;
    let folder = Folder::new(&cache)?;
    let kernels = kernels::named(&args.kernel);
    let place = Place {
        root,
        cache: &cache,
        folder: &folder.0,
        began,
    };
    // Kernels are downloaded while the programs are built.
    let (systems, boots) = thread::scope(|scope| {
        let boots = scope.spawn(|| {
            let boots = kernels.iter().map(|it| Boot::prepare(it, &place, args));
            boots.collect::<Vec<_>>()
        });
        let systems = systems(&kernels, &place);
        (systems, boots.join().expect("no panic"))
    });
    let systems = systems?;
    if args.prepare {
        return match boots.into_iter().find_map(|boot| boot.files.err()) {
            None => Ok(ExitCode::SUCCESS),
            Some(error) => Err(error),
        };
    }
    let reports = run_all(&boots, args.machines, |boot| {
        let kernel = boot.kernel;
        let (fetched, modules) = boot.files.as_ref().map_err(|e| anyhow!("{e:#}"))?;
        let sensors = kernel.has_sensors.then(|| Sensors::make(root, &folder.0));
        let sensors = sensors.transpose()?;
        let mut systems = systems.iter();
        let system = systems.find(|s| s.architecture == kernel.architecture);
        let system = system.context("every architecture has its system")?;
        let setup = Setup {
            architecture: system.architecture,
            cpus: kernel.cpus,
            emulator: &system.emulator,
            init: &system.programs.init,
            disk: &system.disk,
            folder: &folder.0,
            job: &job(root, kernel, args)?,
            modules,
            sensors: sensors.as_ref(),
            limit: Duration::from_secs(args.limit * 60),
        };
        machine::run(kernel.name, fetched, &setup)
    });
    write!(stdout(), "\n{}", report::table(&reports))?;
    for report in &reports {
        report.note_skipped()?;
    }
    stage("all machines", began);
    Ok(match reports.iter().all(Report::is_good) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// The directories and the start time of a run.
struct Place<'a> {
    root: &'a Path,
    /// Persistent files.
    cache: &'a Path,
    /// Temporary files.
    folder: &'a Path,
    began: Instant,
}

/// A kernel and the files that its machine boots.
struct Boot {
    kernel: &'static Kernel,
    /// The kernel's files, and the modules of this repository, built for the kernel.
    files: Result<(Fetched, Vec<Module>)>,
}

impl Boot {
    /// Gets the kernel from the cache or downloads it, and builds the modules.
    fn prepare(kernel: &'static Kernel, place: &Place<'_>, args: &Args) -> Self {
        let files = || {
            let fetched = Fetched::get(kernel, place.cache, args.refresh)?;
            stage(&format!("kernel {}", kernel.name), place.began);
            let mut modules = Vec::new();
            if own_modules::are_wanted(kernel) {
                let Place {
                    root,
                    cache,
                    folder,
                    ..
                } = place;
                modules = own_modules::build(root, kernel, &fetched, cache, folder)?;
                stage(&format!("modules for kernel {}", kernel.name), place.began);
            }
            Ok((fetched, modules))
        };
        let files = files();
        Self { kernel, files }
    }
}

/// Creates a system for each architecture of the kernels.
fn systems(kernels: &[&Kernel], place: &Place<'_>) -> Result<Vec<System>> {
    let mut systems: Vec<System> = Vec::new();
    for kernel in kernels {
        let mut made = systems.iter();
        if !made.any(|system| system.architecture == kernel.architecture) {
            systems.push(System::make(kernel.architecture, place)?);
            let name = kernel.architecture.debian;
            stage(&format!("system for {name}"), place.began);
        }
    }
    Ok(systems)
}

/// Programs and disk that the machines of an architecture share.
struct System {
    architecture: &'static Architecture,
    programs: Programs,
    disk: PathBuf,
    emulator: Emulator,
}

impl System {
    fn make(architecture: &'static Architecture, place: &Place<'_>) -> Result<Self> {
        let Place {
            root,
            cache,
            folder,
            ..
        } = place;
        let programs = Programs::build(root, architecture, cache, folder)?;
        let tools = Tools::get(architecture, cache)?;
        let disk = disk::make(architecture, &programs, &tools, folder)?;
        let emulator = Emulator::get(architecture, cache)?;
        Ok(Self {
            architecture,
            programs,
            disk,
            emulator,
        })
    }
}

/// Runs machines in parallel until every kernel has run. The last kernels take longest: newer
/// kernels have more to test, and another architecture is slower to emulate. The last kernels start
/// first, so that none of them runs alone after all others. Returns the reports in the order of the
/// kernels.
fn run_all(
    boots: &[Boot],
    machines: u8,
    one: impl Fn(&Boot) -> Result<Report> + Sync,
) -> Vec<Report> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut reports = Vec::new();
        while let Some((at, boot)) = take(boots, &next) {
            let broken = |e| Report::broken(boot.kernel.name, format!("{e:#}"));
            reports.push((at, one(boot).unwrap_or_else(broken)));
        }
        reports
    };
    let mut reports = thread::scope(|scope| {
        let workers: Vec<_> = (0..machines).map(|_| scope.spawn(worker)).collect();
        let ended = workers.into_iter().map(|w| w.join().expect("no panic"));
        ended.flatten().collect::<Vec<_>>()
    });
    reports.sort_by_key(|(at, _)| *at);
    reports.into_iter().map(|(_, report)| report).collect()
}

fn take<'a>(boots: &'a [Boot], next: &AtomicUsize) -> Option<(usize, &'a Boot)> {
    let taken = next.fetch_add(1, Ordering::Relaxed);
    let at = boots.len().checked_sub(taken + 1)?;
    Some((at, &boots[at]))
}

fn job(root: &Path, kernel: &Kernel, args: &Args) -> Result<Job> {
    let expect = root.join("vm/expect").join(format!("{}.toml", kernel.name));
    let usual_tests = || kernel.usual_tests.iter().map(|&word| word.to_owned());
    Ok(Job {
        tests: match args.usual_tests {
            true => usual_tests().collect(),
            false => args.tests.clone(),
        },
        skip: args.skip.clone(),
        command: args.command.clone(),
        expect: fs::read_to_string(&expect).with_context(|| expect.display().to_string())?,
        environment: vec![(
            "NOCTULE_SLOWNESS".into(),
            kernel.architecture.slowness.into(),
        )],
        limit: TEST_LIMIT,
        ..Job::default()
    })
}

/// Returns the cache directory. The directory is outside of the repository because kernels are
/// large and shared by all worktrees.
fn cache() -> Result<PathBuf> {
    let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let base = env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(home);
    let folder = base.context("neither XDG_CACHE_HOME nor HOME is set")?;
    Ok(folder.join("noctule/vm"))
}

/// A temporary directory that is removed on drop.
struct Folder(PathBuf);

impl Folder {
    /// Creates the directory, and removes directories left behind by killed processes.
    fn new(cache: &Path) -> Result<Self> {
        const PREFIX: &str = "run-";
        for entry in fs::read_dir(cache).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let owner = name.strip_prefix(PREFIX);
            if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
                fs::remove_dir_all(entry.path())?;
            }
        }
        let path = cache.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A leftover directory only wastes space.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn stage(what: &str, began: Instant) {
    say(&format!(
        "{what}: ready after {:.1} s",
        began.elapsed().as_secs_f64()
    ));
}

/// Prints progress. A closed stdout must not stop the machines.
fn say(text: &str) {
    let _ = writeln!(stdout().lock(), "vm: {text}");
}
