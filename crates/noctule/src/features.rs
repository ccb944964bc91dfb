//! Feature statuses that follow from facts about the machine and the agent's environment.

use std::collections::BTreeSet;
use std::io::Error;
use std::path::Path;

use noctule_kernel::{CgroupVersion, Facts, Landlock, Sandbox};
use noctule_model::{Feature, FeatureId, FeatureState, NOT_ASKED_FOR};
use noctule_text::escape;

use crate::config::ProgramCost;
use crate::scope::Scope;

mod energy;

pub(crate) use energy::{ZoneWarnings, energy};

/// Whether a feature status describes the live node or a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    Live,
    Recorded,
}

/// Returns the reasons of the wanted features that are off. If all are off, returns the first
/// feature's reason as an error. Wanted features are listed in dependency order, so the first is
/// the one on which the others depend.
pub(crate) fn need_one(
    features: &[Feature],
    wanted: &[FeatureId],
    when: When,
) -> Result<Vec<String>, String> {
    let is_off = |it: &&Feature| wanted.contains(&it.id) && it.state == FeatureState::Off;
    let words = |off: &Feature| {
        let Feature {
            id, reason, mend, ..
        } = off;
        match (when, mend.as_str()) {
            (When::Recorded, _) => format!("{id} was off when this was recorded: {reason}"),
            (When::Live, "") => format!("{id} is off: {reason}"),
            (When::Live, mend) => format!("{id} is off: {reason}; {mend}"),
        }
    };
    let mut off: Vec<String> = features.iter().filter(is_off).map(words).collect();
    match !off.is_empty() && off.len() == wanted.len() {
        true => Err(off.swap_remove(0)),
        false => Ok(off),
    }
}

/// Returns an error if all wanted kinds of events are off. If only some are off, logs a warning for
/// kinds that the user specified, and an info message for default kinds.
pub(crate) fn need_kinds(features: &[Feature], scope: &Scope, when: When) -> Result<(), String> {
    for words in need_one(features, &scope.features(), when)? {
        // The reasons in a recording come from a file, so they are escaped.
        let words = escape(&words);
        match scope.named {
            true => tracing::warn!("{words}"),
            false => tracing::info!("{words}"),
        }
    }
    Ok(())
}

pub(crate) fn hierarchy(facts: &Facts) -> Feature {
    let id = FeatureId::CgroupPaths;
    let version = match facts.hierarchy.version {
        CgroupVersion::V2 => "cgroup v2",
        CgroupVersion::V1 => "the cpu controller of cgroup v1",
    };
    let Some(mount) = &facts.hierarchy.mount else {
        return Feature::degraded(
            id,
            format!("{version} is not mounted here: groups are shown by number only"),
        )
        .with_fix("mount it, or give the container the host's /sys/fs/cgroup read-only");
    };
    // Paths come from the mount and from the kernel's events. Even in a cgroup namespace they are
    // the host's paths, if the mount is the host's.
    let part = noctule_identity::mount_note(mount);
    let namespace = || noctule_identity::namespace_note(Path::new("/"));
    if let Some(note) = part.map(|part| namespace().unwrap_or(part)) {
        return Feature::degraded(id, note).with_fix(
            "give the container the host's /sys/fs/cgroup read-only, or the host's cgroup namespace",
        );
    }
    Feature::on(id, format!("{version} at {}", mount.display()))
}

pub(crate) fn processes(facts: &Facts) -> Feature {
    let id = FeatureId::AllProcesses;
    if facts.pid_namespace {
        return Feature::degraded(
            id,
            "runs in a pid namespace: only the processes in it are listed; no row includes the CPU \
             time of other processes",
        )
        .with_fix("run in the host's pid namespace (docker --pid=host, hostPID: true)");
    }
    if let Some(why) = &facts.proc_hides {
        return Feature::degraded(
            id,
            format!(
                "/proc hides other users' processes, as with hidepid (process 2: {why}): their \
                 counters are complete, but their users, command lines and CPU affinities are \
                 unknown, and processes hidden from tracing programs do not appear in any row"
            ),
        )
        .with_fix(
            "add CAP_SYS_PTRACE, or mount /proc with hidepid=0 or with gid= set to a group of this \
             user",
        );
    }
    Feature::on(
        id,
        "runs in the host's pid namespace, and /proc shows all processes",
    )
}

/// At startup, warns of processes that the kernel hides. The CPU time of hidden processes appears
/// only in the machine's totals.
pub(crate) fn warn_of_hidden(facts: &Facts) {
    let processes = processes(facts);
    if processes.state != FeatureState::On {
        tracing::warn!("{}: {}; {}", processes.id, processes.reason, processes.mend);
    }
}

/// Returns the status of a feature that is off by default, because its programs run at each system
/// call or packet.
pub(crate) fn not_asked_for(id: FeatureId) -> Feature {
    let (switch, watch) = match id {
        FeatureId::DiskUse => {
            return Feature::off(id, NOT_ASKED_FOR).with_fix(
                "switch disks on in the section [collect] of the configuration, or watch with noctule why NAME",
            );
        }
        FeatureId::UdpEvents => ("dns or udp", "--kind dns,udp"),
        FeatureId::FileOpens => ("files", "--kind file"),
        _ => ("exec_failures", "--kind process --failures"),
    };
    Feature::off(id, NOT_ASKED_FOR).with_fix(format!(
        "enable {switch} in section [events] of the configuration, or watch with noctule events \
         {watch}"
    ))
}

/// Handles features that were enabled only for a trial. Features that worked are set to off, with
/// advice. A feature that failed keeps its reason.
pub(crate) fn withdraw(features: &mut [Feature], asked: &[FeatureId]) {
    let works = |feature: &Feature| feature.state != FeatureState::Off;
    let withdrawn: Vec<FeatureId> = features
        .iter()
        .filter(|feature| works(feature) && asked.contains(&feature.id))
        .map(|feature| feature.id)
        .collect();
    for feature in features {
        let needed = feature.id.needs().filter(|id| withdrawn.contains(id));
        if withdrawn.contains(&feature.id) {
            *feature = not_asked_for(feature.id);
        } else if let Some(needed) = needed {
            *feature = needs(feature.id, needed);
        }
    }
}

fn needs(id: FeatureId, needed: FeatureId) -> Feature {
    Feature::off(id, format!("needs {needed}, which is off"))
}

/// Returns the status "off" for each feature that was not tried because a feature that it needs is
/// off.
pub(crate) fn not_tried(tried: &[Feature]) -> Vec<Feature> {
    let status = |id: FeatureId| tried.iter().find(|feature| feature.id == id);
    let works = |id| status(id).is_some_and(|feature| feature.state != FeatureState::Off);
    let untried = |id: &FeatureId| {
        let needed = id.needs().filter(|needed| !works(*needed))?;
        status(*id).is_none().then(|| needs(*id, needed))
    };
    FeatureId::ALL.iter().filter_map(untried).collect()
}

/// Returns the status of all features if CPU time cannot be counted. `reason` explains why.
pub(crate) fn without_accounting(facts: &Facts, reason: String) -> Vec<Feature> {
    let mut features = vec![
        Feature::off(FeatureId::CpuTime, reason),
        hierarchy(facts),
        processes(facts),
        Feature::off(FeatureId::SelfCost, "no BPF program to measure"),
    ];
    features.extend(not_tried(&features));
    features
}

/// Returns why the cost of the programs is not measured; `None` if it is measured.
pub(crate) fn programs_unmeasured(
    wanted: ProgramCost,
    isolated: &BTreeSet<u32>,
) -> Option<Feature> {
    let id = FeatureId::SelfCost;
    match wanted {
        ProgramCost::Off => Some(
            Feature::off(id, "switched off in the configuration")
                .with_fix("set program_cost = \"auto\" in section [collect] of the configuration"),
        ),
        ProgramCost::Auto if !isolated.is_empty() => Some(
            Feature::off(
                id,
                format!(
                    "{} CPUs are isolated (isolcpus, nohz_full), and switching BPF statistics on \
                     and off would interrupt them",
                    isolated.len()
                ),
            )
            .with_fix(
                "if they may be interrupted, set program_cost = \"on\" in section [collect] of the \
                 configuration",
            ),
        ),
        ProgramCost::Auto | ProgramCost::On => None,
    }
}

fn privileges(facts: &Facts) -> Feature {
    let caps = facts.capabilities;
    let held = [
        ("CAP_BPF", caps.bpf),
        ("CAP_PERFMON", caps.perfmon),
        ("CAP_DAC_READ_SEARCH", caps.dac_read_search),
    ];
    let names = |want: bool| -> String {
        let named = held.iter().filter(|(_, has)| *has == want);
        named.map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    };
    let missing = match &facts.capabilities_error {
        Some(_) => String::new(),
        None => names(false),
    };
    let mut reasons = vec![match (&facts.capabilities_error, missing.as_str()) {
        (Some(error), _) => format!("cannot read the capabilities of this process: {error}"),
        (None, "") => format!("holds {}", names(true)),
        (None, missing) => format!("lacks {missing}"),
    }];
    let mut mends = Vec::new();
    if !missing.is_empty() {
        mends.push(
            "run as root, or as a service with AmbientCapabilities=CAP_BPF CAP_PERFMON \
             CAP_DAC_READ_SEARCH",
        );
    }
    if let Some(limit) = facts.memory_limit {
        reasons.push(format!(
            "before Linux 5.11, BPF memory counts as locked memory, which is limited to {limit} \
             bytes"
        ));
        mends.push("ulimit -l unlimited (systemd: LimitMEMLOCK=infinity), or add CAP_SYS_RESOURCE");
    }
    let state = match (caps.bpf && caps.perfmon, mends.is_empty()) {
        (false, _) => FeatureState::Off,
        (true, false) => FeatureState::Degraded,
        (true, true) => FeatureState::On,
    };
    Feature {
        id: FeatureId::Privileges,
        state,
        reason: reasons.join("; "),
        mend: mends.join("; "),
    }
}

/// Returns the status of the sandbox of `run`'s threads.
fn sandbox(found: Sandbox) -> Feature {
    let id = FeatureId::Sandbox;
    let what =
        "threads of noctule run cannot start programs, and its HTTP thread cannot open files";
    match (found.seccomp, found.landlock) {
        (_, Landlock::Unknown(errno)) => Feature::degraded(
            id,
            format!(
                "cannot tell whether the kernel has Landlock: {}",
                Error::from_raw_os_error(errno)
            ),
        )
        .with_fix("let the container's or service's seccomp filter allow landlock_create_ruleset"),
        (true, Landlock::Absent) => Feature::degraded(
            id,
            format!("{what}; enforced by seccomp alone, without Landlock"),
        )
        .with_fix(
            "on a kernel of version 5.13 or later with CONFIG_SECURITY_LANDLOCK, boot with \
             landlock in lsm=",
        ),
        (true, Landlock::Version(version)) => Feature::on(
            id,
            format!("{what}; enforced by seccomp and Landlock {version}"),
        ),
        (false, Landlock::Absent) => {
            Feature::off(id, "the kernel has neither seccomp nor Landlock")
                .with_fix("on a kernel with CONFIG_SECCOMP_FILTER")
        }
        (false, Landlock::Version(version)) => Feature::degraded(
            id,
            format!("the HTTP thread cannot open files; enforced by Landlock {version} alone"),
        )
        .with_fix("on a kernel with CONFIG_SECCOMP_FILTER"),
    }
}

/// Returns facts about the machine that explain other statuses.
pub(crate) fn machine(facts: &Facts) -> Vec<Feature> {
    let status = |id, good: bool, bad_state, reason: String, mend: &str| Feature {
        id,
        state: if good { FeatureState::On } else { bad_state },
        reason,
        mend: if good { String::new() } else { mend.to_owned() },
    };
    let caps = facts.capabilities;
    let lockdown = facts.lockdown.as_deref();
    let paranoid = facts.perf_event_paranoid;
    vec![
        privileges(facts),
        status(
            FeatureId::Btf,
            facts.btf,
            FeatureState::Off,
            format!(
                "kernel {}: /sys/kernel/btf/vmlinux {}",
                facts.release,
                match &facts.btf_error {
                    Some(error) => format!("cannot be read: {error}"),
                    None if facts.btf => "exists".to_owned(),
                    None => "is missing".to_owned(),
                }
            ),
            "use a kernel with CONFIG_DEBUG_INFO_BTF=y",
        ),
        status(
            FeatureId::Tracefs,
            facts.tracefs.is_some(),
            FeatureState::Degraded,
            match &facts.tracefs {
                Some(path) => format!("mounted at {}", path.display()),
                None => "not mounted; no enabled feature needs tracefs".into(),
            },
            "mount -t tracefs tracefs /sys/kernel/tracing",
        ),
        status(
            FeatureId::Lockdown,
            !matches!(lockdown, Some("confidentiality")),
            FeatureState::Off,
            lockdown.map_or("not active, or securityfs is not mounted".into(), |mode| {
                format!("mode {mode}")
            }),
            "boot without lockdown=confidentiality, which prevents BPF from reading kernel memory",
        ),
        status(
            FeatureId::PerfEventParanoid,
            caps.perfmon || paranoid.is_none_or(|level| level <= 0),
            FeatureState::Degraded,
            format!(
                "kernel.perf_event_paranoid is {}{}",
                paranoid.map_or("not readable".into(), |level| level.to_string()),
                if caps.perfmon {
                    "; CAP_PERFMON overrides it"
                } else {
                    ""
                }
            ),
            "sysctl kernel.perf_event_paranoid=0, or add CAP_PERFMON",
        ),
        sandbox(Sandbox::probe()),
        status(
            FeatureId::NominalFrequency,
            facts.nominal_hertz.is_some(),
            FeatureState::Degraded,
            match facts.nominal_hertz {
                Some(hertz) => noctule_text::frequency(hertz as f64),
                None => {
                    "the machine does not report its nominal frequency: frequencies are computed \
                         as cycles / CPU time"
                        .into()
                }
            },
            "",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use noctule_model::{EventKind, EventKinds};

    use super::*;

    #[test]
    fn hidepid_degrades_the_process_view() {
        let mut facts = Facts::probe(&noctule_kernel::HostRoots::default());
        let why = Some("No such file or directory");
        let cases = [
            (false, None, FeatureState::On, "shows all"),
            (
                false,
                why,
                FeatureState::Degraded,
                "hidepid (process 2: No such file",
            ),
            (true, why, FeatureState::Degraded, "runs in a pid namespace"),
        ];
        for (namespace, hides, state, words) in cases {
            facts.pid_namespace = namespace;
            facts.proc_hides = hides.map(str::to_owned);
            let feature = processes(&facts);
            assert_eq!(feature.state, state);
            assert!(feature.reason.contains(words), "{}", feature.reason);
        }
    }

    #[test]
    fn features_that_are_off_fail_only_if_all_are_off() {
        let (waits, sockets) = (FeatureId::CpuWaits, FeatureId::TcpSockets);
        let off = |id| Feature::off(id, "no such hook");
        let one = [
            off(waits).with_fix("a newer kernel"),
            Feature::on(sockets, ""),
        ];
        let live = "cpu_waits is off: no such hook; a newer kernel".to_owned();
        let recorded = "cpu_waits was off when this was recorded: no such hook".to_owned();
        for (when, words) in [(When::Live, live), (When::Recorded, recorded)] {
            assert_eq!(need_one(&one, &[waits], when), Err(words.clone()));
            assert_eq!(need_one(&one, &[waits, sockets], when), Ok(vec![words]));
            assert_eq!(need_one(&one, &[sockets], when), Ok(Vec::new()));
        }
        let both = [off(waits), off(sockets)];
        let words = "cpu_waits is off: no such hook".to_owned();
        assert_eq!(need_one(&both, &[waits, sockets], When::Live), Err(words));
        assert_eq!(need_one(&both, &[], When::Live), Ok(Vec::new()));
    }

    /// Returns the log at the levels warn and info.
    fn logged(run: impl Fn()) -> [String; 2] {
        [tracing::Level::WARN, tracing::Level::INFO].map(|level| {
            let log = tempfile::NamedTempFile::new().expect("a file");
            let subscriber = tracing_subscriber::fmt()
                .with_max_level(level)
                .with_ansi(false)
                .with_writer(Arc::new(log.reopen().expect("a file")))
                .finish();
            tracing::subscriber::with_default(subscriber, &run);
            fs::read_to_string(log.path()).expect("text")
        })
    }

    #[test]
    fn kind_that_is_off_is_a_warning_only_if_requested() {
        let features = [
            Feature::on(FeatureId::ProcessEvents, ""),
            Feature::off(FeatureId::OomEvents, "no such hook"),
        ];
        for (when, words) in [
            (When::Live, "oom_events is off: no such hook"),
            (When::Recorded, "oom_events was off when this was recorded"),
        ] {
            let scope = |named| Scope {
                kinds: EventKinds::of(&[EventKind::Process, EventKind::Oom]),
                named,
                ..Scope::default()
            };
            let of =
                |scope: Scope| logged(|| assert_eq!(need_kinds(&features, &scope, when), Ok(())));
            let [warned, noted] = of(scope(false));
            assert_eq!(warned, "");
            assert!(noted.contains("INFO") && noted.contains(words), "{noted}");
            let [warned, _] = of(scope(true));
            assert!(
                warned.contains("WARN") && warned.contains(words),
                "{warned}"
            );
            // It is an error if all wanted kinds are off, whether the user specified them or not.
            for named in [false, true] {
                let scope = Scope {
                    kinds: EventKinds::of(&[EventKind::Oom]),
                    ..scope(named)
                };
                assert!(need_kinds(&features, &scope, when).is_err());
            }
        }
    }

    #[test]
    fn isolated_cpus_are_disturbed_only_on_request() {
        use ProgramCost::{Auto, Off, On};
        let (none, some) = (BTreeSet::new(), BTreeSet::from([2, 3]));
        let measured = |wanted, isolated| programs_unmeasured(wanted, isolated).is_none();
        let cases =
            [Auto, On, Off].map(|wanted| [measured(wanted, &none), measured(wanted, &some)]);
        assert_eq!(cases, [[true, false], [true, true], [false, false]]);
        let reason = programs_unmeasured(Auto, &some).expect("a status").reason;
        assert!(reason.starts_with("2 CPUs are isolated"), "{reason}");
    }
}
