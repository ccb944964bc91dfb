//! The JSON of `noctule why`.

use noctule_analysis::{CpuUse, ProcessUse, StripStep, WaitReportRow, Why};
use noctule_model::{AsleepThreads, Level};
use serde::Serialize;

use super::disks::{DiskJson, disks};
use super::events::EventsJson;
use super::owner::OwnerJson;
use super::settings::SettingsJson;
use super::waits::{CulpritJson, RowJson, VerdictJson};
use super::{seconds, to_string};

/// Returns the JSON of `noctule why --json`, which is `null` if the report has no row of the group.
pub fn why_json(why: &Why) -> String {
    let answer = why.row().map(|row| {
        let others = row.wait_on_others_ns();
        let culprits = why.culprits.iter().map(|(culprit, processes)| Behind {
            culprit: CulpritJson::new(culprit, others, why.level),
            processes: processes.iter().map(ProcessJson::new).collect(),
        });
        let reason = why.reason(row);
        Answer {
            window_seconds: seconds(why.report.window_ns),
            from_unix_nano: why.report.from_unix_ns,
            to_unix_nano: why.report.time_unix_ns,
            cpus: why.report.cpus,
            level: noctule_text::level_word(why.level),
            asked: why.asked.as_ref().map(|asked| asked.id.pid),
            row: RowJson::new(&why.report, row, why.level),
            answer: noctule_text::answer(&row.party.name(why.level), &reason),
            settings: SettingsJson::new(why.weight, why.idle, why.allowed.as_deref(), why.pressure),
            processes: why.processes.iter().map(ProcessJson::new).collect(),
            behind: culprits.collect(),
            holders: (why.holders.iter())
                .map(|row| HolderOfLock::new(why, row))
                .collect(),
            disks: disks(&why.report, why.level),
            steps: why.steps.iter().map(StepJson::new).collect(),
            time_of_cpus: why
                .cpus
                .iter()
                .map(|it| CpuJson::new(it, why.level))
                .collect(),
            events: (why.events.as_ref())
                .map(|events| EventsJson::new(events, why.report.measured)),
        }
    });
    to_string(&answer)
}

/// Returns the JSON for the group `name`, if neither it nor a group below it ran or waited for a
/// CPU. `threads` lists their threads by state.
pub fn asleep_json(why: &Why, name: &str, threads: &[AsleepThreads]) -> String {
    let asleep = |it: &AsleepThreads| AsleepJson {
        kind: it.kind.name(),
        held: it.kind.is_held(),
        threads: it.threads,
        pid: it.pid,
        wchan: it.wchan.clone(),
        since_run_seconds: it.since_run_ns.map(seconds),
    };
    to_string(&AsleepAnswer {
        window_seconds: seconds(why.report.window_ns),
        from_unix_nano: why.report.from_unix_ns,
        to_unix_nano: why.report.time_unix_ns,
        cpus: why.report.cpus,
        level: noctule_text::level_word(why.level),
        name,
        answer: noctule_text::asleep(name, why.report.window_ns, threads),
        asleep: threads.iter().map(asleep).collect(),
    })
}

#[derive(Serialize)]
struct AsleepAnswer<'a> {
    window_seconds: f64,
    from_unix_nano: u64,
    to_unix_nano: u64,
    cpus: u32,
    level: &'static str,
    name: &'a str,
    answer: String,
    asleep: Vec<AsleepJson>,
}

#[derive(Serialize)]
struct AsleepJson {
    kind: &'static str,
    held: bool,
    threads: u32,
    #[serde(rename = "process.pid")]
    pid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    wchan: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    since_run_seconds: Option<f64>,
}

#[derive(Serialize)]
struct Answer<'a> {
    window_seconds: f64,
    from_unix_nano: u64,
    to_unix_nano: u64,
    cpus: u32,
    level: &'static str,
    #[serde(rename = "process.pid", skip_serializing_if = "Option::is_none")]
    asked: Option<u32>,
    answer: String,
    #[serde(flatten)]
    row: RowJson<'a>,
    #[serde(flatten)]
    settings: SettingsJson<'a>,
    processes: Vec<ProcessJson<'a>>,
    behind: Vec<Behind<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    holders: Vec<HolderOfLock<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    disks: Option<Vec<DiskJson<'a>>>,
    steps: Vec<StepJson>,
    time_of_cpus: Vec<CpuJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<EventsJson>,
}

#[derive(Serialize)]
struct Behind<'a> {
    #[serde(flatten)]
    culprit: CulpritJson<'a>,
    processes: Vec<ProcessJson<'a>>,
}

/// A group that held locks, and its own verdict.
#[derive(Serialize)]
struct HolderOfLock<'a> {
    name: String,
    #[serde(flatten)]
    owner: OwnerJson<'a>,
    verdict: VerdictJson,
}

impl<'a> HolderOfLock<'a> {
    fn new(why: &Why, row: &'a WaitReportRow) -> Self {
        Self {
            name: row.party.name(why.level),
            owner: OwnerJson::of_party(&row.party, why.level),
            verdict: VerdictJson::new(&why.report, row, why.level),
        }
    }
}

#[derive(Serialize)]
struct ProcessJson<'a> {
    #[serde(rename = "process.pid")]
    pid: u32,
    #[serde(rename = "process.executable.name")]
    name: &'a str,
    #[serde(
        rename = "process.command_line",
        skip_serializing_if = "Option::is_none"
    )]
    command: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    real_time: Option<String>,
    #[serde(rename = "cpu.seconds")]
    cpu: f64,
    exited: bool,
}

/// One step of the window.
#[derive(Serialize)]
struct StepJson {
    time_unix_nano: u64,
    seconds: f64,
    #[serde(rename = "cpu.seconds")]
    cpu: f64,
    #[serde(rename = "wait.seconds")]
    wait: f64,
    #[serde(rename = "wait.throttled_seconds")]
    throttled: f64,
}

impl StepJson {
    fn new(step: &StripStep) -> Self {
        Self {
            time_unix_nano: step.time_unix_ns,
            seconds: seconds(step.length_ns),
            cpu: seconds(step.cpu_ns),
            wait: seconds(step.wait_ns),
            throttled: seconds(step.throttled_ns),
        }
    }
}

#[derive(Serialize)]
struct CpuJson {
    cpu: u32,
    seconds: f64,
    idle_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    interrupt_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    steal_seconds: Option<f64>,
    holders: Vec<HolderJson>,
}

/// A task or group that held a CPU.
#[derive(Serialize)]
struct HolderJson {
    name: String,
    kind: &'static str,
    seconds: f64,
}

impl<'a> ProcessJson<'a> {
    fn new(process: &'a ProcessUse) -> Self {
        Self {
            pid: process.id.pid,
            name: &process.comm,
            command: process.command.as_deref(),
            real_time: process.real_time.map(|policy| policy.to_string()),
            cpu: seconds(process.cpu_ns),
            exited: process.exited,
        }
    }
}

impl CpuJson {
    fn new(cpu: &CpuUse, level: Level) -> Self {
        let holders = cpu.holders.iter().map(|(party, ns)| HolderJson {
            name: party.name(level),
            kind: party.kind(),
            seconds: seconds(*ns),
        });
        Self {
            cpu: cpu.cpu,
            seconds: seconds(cpu.elapsed_ns),
            idle_seconds: seconds(cpu.idle_ns),
            interrupt_seconds: cpu.interrupt_ns.map(seconds),
            steal_seconds: cpu.steal_ns.map(seconds),
            holders: holders.collect(),
        }
    }
}
