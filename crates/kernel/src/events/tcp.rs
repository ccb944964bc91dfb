//! Loads and attaches the object tcp.

use std::cell::Cell;
use std::os::fd::AsFd as _;

use libbpf_rs::Link;
use libbpf_rs::skel::OpenSkel;
use noctule_model::{Feature, FeatureId};

use super::load::kinds;
use super::{EventsWanted, FILES, Sockets, namespaces};
use crate::error::{Context, Error, ErrorKind, REPORT};
use crate::facts::Facts;
use crate::fexit;
use crate::kernel_types;
use crate::settings::configure;
use crate::skel::lifecycle::LifecycleSkel;
use crate::skel::tcp::{TcpSkel, TcpSkelBuilder};

/// How open sockets are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Sockets are read with the iterator over socket storage.
    Storage,
    /// Sockets are read with the iterator over our own table, if the iterator over socket storage
    /// can crash the kernel.
    Table,
    /// Sockets are read with the TCP iterator, in each network namespace that has a process, if the
    /// kernel rejects iterators over maps.
    Walk,
}

impl Look {
    /// Returns the best method that the facts allow, and the fallback if the kernel rejects that
    /// method.
    fn best_and_fallback(facts: &Facts) -> [Self; 2] {
        let best = match facts.socket_storage_iterates {
            true => Self::Storage,
            false => Self::Table,
        };
        [best, Self::Walk]
    }

    /// Returns whether this method finds every open socket.
    pub(super) fn is_complete(self) -> bool {
        self != Self::Walk
    }
}

/// The programs that a kernel may reject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parts {
    /// Whether to load the programs at connect(2) and accept(2).
    calls: bool,
    look: Look,
}

/// Loads as much of the object as the kernel accepts. Returns `None` if TCP is not wanted or this
/// kernel does not support it.
pub(super) fn load(
    facts: &Facts,
    wanted: &EventsWanted,
    lifecycle: &LifecycleSkel<'static>,
) -> Option<LoadedTcp> {
    if !wanted.tcp || tcp_impossible(facts).is_some() {
        return None;
    }
    let load = |parts| load_tcp(facts, wanted, lifecycle, parts);
    let looks = Look::best_and_fallback(facts);
    Some(load_accepted_parts(check_call_hooks(facts), &looks, load))
}

fn load_accepted_parts<T>(
    mut calls: Result<(), Error>,
    looks: &[Look],
    work: impl Fn(Parts) -> Result<T, Error>,
) -> Loaded<T> {
    let calls_are_there = calls.is_ok();
    let mut refused = None;
    for look in looks.iter().copied() {
        for with_calls in [true, false] {
            if with_calls && !calls_are_there {
                continue;
            }
            let parts = Parts {
                calls: with_calls,
                look,
            };
            match work(parts) {
                Ok(tcp) => {
                    return Loaded {
                        tcp: Ok(tcp),
                        calls: if with_calls { Ok(()) } else { calls },
                        look,
                        refused,
                    };
                }
                Err(error) if !with_calls => _ = refused.get_or_insert(error),
                // Keeps only the first error, and only if the other programs load without these.
                Err(error) if calls.is_ok() => calls = Err(error),
                Err(_) => {}
            }
        }
    }
    Loaded {
        tcp: Err(refused.take().expect("at least one combination was tried")),
        calls,
        look: Look::Walk,
        refused,
    }
}

/// The object tcp before it is attached.
pub(super) type LoadedTcp = Loaded<TcpSkel<'static>>;

pub(super) struct Loaded<T> {
    tcp: Result<T, Error>,
    /// Whether the programs at connect and accept are loaded.
    calls: Result<(), Error>,
    look: Look,
    /// The reason why the open sockets are not read in the best way.
    refused: Option<Error>,
}

/// Returns why TCP cannot be counted on this kernel.
fn tcp_impossible(facts: &Facts) -> Option<&'static str> {
    if !facts.hooks.contains("inet_sock_set_state") {
        return Some("this kernel has no tracepoint inet_sock_set_state");
    }
    (!facts.task_storage).then_some(
        "before Linux 5.13, tracing programs cannot store data with sockets and threads (local \
        storage)",
    )
}

/// Attaches everything for TCP. A failure turns off only TCP.
pub(super) fn sockets(
    facts: &Facts,
    wanted: &EventsWanted,
    lifecycle: &LifecycleSkel<'static>,
    loaded: Option<LoadedTcp>,
    features: &mut Vec<Feature>,
) -> Option<Sockets> {
    let Some(loaded) = loaded else {
        let id = FeatureId::TcpEvents;
        features.push(match tcp_impossible(facts) {
            Some(reason) if wanted.tcp => Feature::off(id, reason),
            _ => Feature::switched_off(id, "events"),
        });
        return None;
    };
    let attached = attach_most(loaded, facts, |parts| {
        attach_tcp(load_tcp(facts, wanted, lifecycle, parts)?, parts, facts)
    });
    let calls = match attached.calls {
        Ok(()) => calls_seen(facts),
        Err(error) => calls_missing(&error),
    };
    match attached.tcp {
        Ok((sockets, retransmits)) => {
            let reason = "inet_sock_set_state; existing sockets from the file iterator";
            features.extend([
                Feature::on(FeatureId::TcpEvents, reason),
                calls,
                listed(attached.look, attached.refused.as_ref()),
                retransmits,
            ]);
            Some(sockets)
        }
        Err(error) => {
            features.push(Feature::off(FeatureId::TcpEvents, error.chain()));
            None
        }
    }
}

/// Attaches the object. Some kernels load programs but refuse to attach them. On such kernels, this
/// function attaches as many programs as possible.
fn attach_most(
    loaded: LoadedTcp,
    facts: &Facts,
    again: impl Fn(Parts) -> Result<(Sockets, Feature), Error>,
) -> Loaded<(Sockets, Feature)> {
    let Loaded {
        tcp,
        calls,
        look,
        refused,
    } = loaded;
    let parts = Parts {
        calls: calls.is_ok(),
        look,
    };
    let failed = match tcp.map(|tcp| attach_tcp(tcp, parts, facts)) {
        Ok(Err(error)) => error,
        Ok(Ok(attached)) => {
            return Loaded {
                tcp: Ok(attached),
                calls,
                look,
                refused,
            };
        }
        Err(error) => {
            return Loaded {
                tcp: Err(error),
                calls,
                look,
                refused,
            };
        }
    };
    tracing::debug!(error = %failed.chain(), "the BPF object `tcp` was loaded but could not be \
        attached");
    let looks: &[Look] = match look {
        Look::Walk => &[Look::Walk],
        look => &[look, Look::Walk],
    };
    let attached = load_accepted_parts(calls, looks, again);
    Loaded {
        refused: refused.or(attached.refused),
        ..attached
    }
}

/// Kernel functions. The programs at these functions report what no state change shows.
const CALLS: [&str; 2] = ["tcp_v4_connect()", "inet_csk_accept()"];

/// Kernel function that is missing without IPv6, or is in the IPv6 module.
const V6_CONNECT: &str = "tcp_v6_connect()";

fn check_call_hooks(facts: &Facts) -> Result<(), Error> {
    match CALLS.iter().find(|call| !facts.hooks.contains(*call)) {
        None => fexit::probe(CALLS[0], facts),
        Some(call) => Err(Error::new(
            ErrorKind::Kernel,
            format!("this kernel does not have {call}"),
        )),
    }
}

fn calls_seen(facts: &Facts) -> Feature {
    let calls = CALLS.join(", ");
    if facts.hooks.contains(V6_CONNECT) {
        return Feature::on(FeatureId::TcpCalls, format!("{calls}, {V6_CONNECT}"));
    }
    Feature::degraded(
        FeatureId::TcpCalls,
        format!(
            "{calls}; this kernel does not have {V6_CONNECT} (no IPv6, or IPv6 as a module): an \
            IPv6 connect that fails before anything is sent (no route) is not seen"
        ),
    )
}

fn calls_missing(error: &Error) -> Feature {
    Feature::degraded(
        FeatureId::TcpCalls,
        format!(
            "a connect that fails before anything is sent (no route) is not seen, and an incoming \
            connection belongs to the listening process instead of the accepting one: no \
            fexit: {}",
            error.chain()
        ),
    )
}

/// Returns the status of reading open sockets.
fn listed(look: Look, refused: Option<&Error>) -> Feature {
    let id = FeatureId::TcpSockets;
    let why = refused.map_or_else(String::new, Error::chain);
    match look {
        Look::Storage => Feature::on(id, "iterator over socket local storage"),
        Look::Table => Feature::on(
            id,
            "table of open sockets; the iterator over socket local storage is not used because it \
            can crash this kernel",
        ),
        Look::Walk => Feature::degraded(
            id,
            format!(
                "TCP iterator: this kernel rejects iterators over maps, so each batch walks all \
                sockets of the network namespaces that have a process and that noctule may \
                enter; bytes of connections in other namespaces are counted when the \
                connections end, and the end of a connection is not reported if its event was \
                lost: {why}"
            ),
        )
        .with_fix(REPORT),
    }
}

/// Returns the status of retransmissions, depending on the attached programs.
fn retransmits(
    facts: &Facts,
    segments: Result<(), String>,
    answers: Result<(), String>,
) -> Feature {
    let why = |hook: &str, error: String| match facts.hooks.contains(hook) {
        true => format!("{hook}: {error}"),
        false => format!("this kernel has no tracepoint {hook}"),
    };
    match (segments, answers) {
        (Ok(()), Ok(())) => {
            Feature::on(FeatureId::TcpRetransmits, "tcp_retransmit_skb and _synack")
        }
        (Ok(()), Err(error)) => Feature::degraded(
            FeatureId::TcpRetransmits,
            format!(
                "{}: retransmitted SYN-ACKs are not counted",
                why("tcp_retransmit_synack", error)
            ),
        ),
        (Err(error), _) => {
            Feature::off(FeatureId::TcpRetransmits, why("tcp_retransmit_skb", error))
        }
    }
}

fn load_tcp(
    facts: &Facts,
    wanted: &EventsWanted,
    lifecycle: &LifecycleSkel<'static>,
    Parts { calls, look }: Parts,
) -> Result<TcpSkel<'static>, Error> {
    let mut open = kernel_types::open::<TcpSkelBuilder>(&facts.kernel_types)
        .context("opening the BPF object `tcp`")?;
    if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
        rodata.stream_kinds = kinds(wanted.stream);
        rodata.filter_processes = wanted.filter_processes;
        rodata.filter_cgroups = wanted.filter_cgroups;
        rodata.calls_are_seen = calls;
        rodata.v6_connects_are_seen = calls && facts.hooks.contains(V6_CONNECT);
    }
    if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
        rodata.has_open_sockets = look == Look::Table;
        rodata.survey_looks = look == Look::Walk;
    }
    configure!(open, facts).context("setting up the BPF object `tcp`")?;
    let has = |hook| facts.hooks.contains(hook);
    open.progs
        .retransmit_skb
        .set_autoload(has("tcp_retransmit_skb"));
    open.progs
        .retransmit_synack
        .set_autoload(has("tcp_retransmit_synack"));
    open.progs
        .look_at_storage
        .set_autoload(look == Look::Storage);
    open.progs.look_at_table.set_autoload(look == Look::Table);
    open.progs
        .tcp_destroy_sock
        .set_autoload(has("tcp_destroy_sock"));
    open.progs
        .set_state_again
        .set_autoload(facts.tracepoints_preempt);
    open.progs
        .destroy_again
        .set_autoload(facts.tracepoints_preempt && has("tcp_destroy_sock"));
    open.progs.v4_connect_ret.set_autoload(calls);
    open.progs
        .v6_connect_ret
        .set_autoload(calls && has(V6_CONNECT));
    open.progs.csk_accept_ret.set_autoload(calls);
    let maps = &mut open.maps;
    let base = &lifecycle.maps;
    let sizes = [
        maps.facts.reuse_fd(base.facts.as_fd()),
        maps.followed.reuse_fd(base.followed.as_fd()),
        maps.wanted_cgroups.reuse_fd(base.wanted_cgroups.as_fd()),
        maps.open_sockets.set_autocreate(look == Look::Table),
        maps.tcp_rows.set_max_entries(wanted.cgroups),
        maps.connect_time_rows.set_max_entries(wanted.cgroups),
        maps.destinations.set_max_entries(wanted.destinations),
        maps.other_destinations.set_max_entries(wanted.cgroups),
        maps.over_share.set_max_entries(wanted.cgroups),
    ];
    sizes
        .into_iter()
        .collect::<Result<(), _>>()
        .context("sizing the maps")?;
    open.load().context("loading the BPF object `tcp`")
}

/// Attaches the TCP iterator, if it was loaded. Without the iterator, sockets without a file are
/// not found at the start.
fn attach_optional(program: &libbpf_rs::ProgramImpl<'_, libbpf_rs::Mut>) -> Option<Link> {
    let link = program.attach();
    link.inspect_err(|error| tracing::debug!(%error, "cannot attach the TCP iterator"))
        .ok()
}

fn attach_tcp(
    tcp: TcpSkel<'static>,
    Parts { calls, look }: Parts,
    facts: &Facts,
) -> Result<(Sockets, Feature), Error> {
    let progs = &tcp.progs;
    // The programs at connect and accept are attached first. Otherwise an incoming connection would
    // wait for an accept that no program sees.
    let mut links = Vec::new();
    if calls {
        let v6 = facts.hooks.contains(V6_CONNECT);
        for (program, name) in [&progs.v4_connect_ret, &progs.csk_accept_ret]
            .into_iter()
            .zip(CALLS)
            .chain(v6.then_some((&progs.v6_connect_ret, V6_CONNECT)))
        {
            links.push(program.attach().context(format!("attaching to {name}"))?);
        }
    }
    let state = progs.inet_sock_set_state.attach();
    links.push(state.context("attaching to inet_sock_set_state")?);
    // The kernel runs programs in the order in which they were attached.
    if facts.tracepoints_preempt {
        let state = progs.set_state_again.attach();
        links.push(state.context("attaching to inet_sock_set_state again")?);
    }
    let mut attach = |program: &libbpf_rs::ProgramImpl<'_, libbpf_rs::Mut>| match program.attach() {
        Ok(link) => {
            links.push(link);
            Ok(())
        }
        Err(error) => Err(error.to_string()),
    };
    if facts.hooks.contains("tcp_destroy_sock") {
        let failed = |error| Error::new(ErrorKind::Kernel, format!("tcp_destroy_sock: {error}"));
        attach(&progs.tcp_destroy_sock).map_err(failed)?;
        if facts.tracepoints_preempt {
            attach(&progs.destroy_again).map_err(failed)?;
        }
    }
    let segments = attach(&progs.retransmit_skb);
    let answers = attach(&progs.retransmit_synack);
    let feature = retransmits(facts, segments, answers);
    let survey = tcp.progs.survey_sockets.attach();
    let survey = survey.context(FILES)?;
    let (progs, maps) = (&tcp.progs, &tcp.maps);
    let all = match look {
        Look::Walk => Some(
            progs
                .survey_tcp
                .attach()
                .context("attaching the TCP iterator")?,
        ),
        _ => attach_optional(&progs.survey_tcp),
    };
    let link = match look {
        Look::Storage => Some(progs.look_at_storage.attach_iter(maps.sockets.as_fd())),
        Look::Table => Some(progs.look_at_table.attach_iter(maps.open_sockets.as_fd())),
        Look::Walk => None,
    };
    let sockets = Sockets {
        _links: links,
        survey,
        surveying: None,
        all,
        look,
        look_link: link.transpose().context("attaching the socket iterator")?,
        tcp,
        processes: namespaces::Processes::new(facts.roots.proc.clone()),
        told: Cell::new(false),
    };
    Ok((sockets, feature))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn refuse(part: &str) -> Error {
        Error::new(ErrorKind::Kernel, part)
    }

    /// Simulates loading on a kernel that rejects the parts for which `refuses` returns true.
    /// Returns the attempts and the result.
    fn taken(calls_are_there: bool, refuses: impl Fn(Parts) -> bool) -> (Vec<Parts>, Loaded<()>) {
        let calls = match calls_are_there {
            true => Ok(()),
            false => Err(refuse("not there")),
        };
        let tries = RefCell::new(Vec::new());
        let looks = [Look::Storage, Look::Walk];
        let loaded = load_accepted_parts(calls, &looks, |parts| {
            tries.borrow_mut().push(parts);
            match refuses(parts) {
                true => Err(refuse(&format!("try {}", tries.borrow().len()))),
                false => Ok(()),
            }
        });
        (tries.into_inner(), loaded)
    }

    const fn parts(calls: bool, look: Look) -> Parts {
        Parts { calls, look }
    }

    const FULL: Parts = parts(true, Look::Storage);

    #[test]
    fn full_program_is_loaded_once_if_accepted() {
        let (tries, loaded) = taken(true, |_| false);
        assert_eq!(tries, [FULL]);
        assert!(loaded.tcp.is_ok() && loaded.calls.is_ok() && loaded.refused.is_none());
        assert_eq!(loaded.look, Look::Storage);
    }

    #[test]
    fn only_the_rejected_programs_are_left_out() {
        let without_calls = parts(false, Look::Storage);
        let (tries, loaded) = taken(true, |parts| parts.calls);
        assert_eq!(tries, [FULL, without_calls]);
        assert_eq!(loaded.look, Look::Storage);
        assert_eq!(loaded.calls.expect_err("refused").to_string(), "try 1");

        let (_, loaded) = taken(true, |parts| parts.look == Look::Storage);
        assert_eq!(loaded.look, Look::Walk);
        assert!(loaded.tcp.is_ok() && loaded.calls.is_ok());
        assert_eq!(loaded.refused.expect("refused").to_string(), "try 2");

        let (tries, loaded) = taken(true, |parts| parts.calls || parts.look == Look::Storage);
        assert_eq!(
            tries[2..],
            [parts(true, Look::Walk), parts(false, Look::Walk)]
        );
        assert_eq!(loaded.look, Look::Walk);
        assert!(loaded.tcp.is_ok() && loaded.calls.is_err());
    }

    #[test]
    fn missing_call_hooks_are_not_tried() {
        let (tries, loaded) = taken(false, |_| false);
        assert_eq!(tries, [parts(false, Look::Storage)]);
        assert_eq!(loaded.calls.expect_err("why").to_string(), "not there");
    }

    #[test]
    fn reported_error_is_the_first_without_calls() {
        let (tries, loaded) = taken(true, |_| true);
        assert_eq!(tries.len(), 4);
        assert_eq!(loaded.tcp.expect_err("refused").to_string(), "try 2");
    }
}
