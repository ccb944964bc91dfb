//! Loading and attaching the object tcp.

use std::mem::MaybeUninit;
use std::os::fd::AsFd as _;

use libbpf_rs::Link;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use noctule_model::{Feature, FeatureId};

use super::load::kinds;
use super::{EventsWanted, FILES, Sockets};
use crate::error::{Context, Error, ErrorKind};
use crate::facts::Facts;
use crate::settings::configure;
use crate::skel::lifecycle::LifecycleSkel;
use crate::skel::tcp::{TcpSkel, TcpSkelBuilder};

/// The object tcp, with the programs at calls where the kernel loads those. `None` where this kernel
/// cannot have it.
pub(super) fn load(
    facts: &Facts,
    wanted: &EventsWanted,
    lifecycle: &LifecycleSkel<'static>,
) -> Option<LoadedTcp> {
    if !wanted.tcp || tcp_impossible(facts).is_some() {
        return None;
    }
    let calls = calls_are_there(facts).and_then(|()| load_tcp(facts, wanted, lifecycle, true));
    Some(match calls {
        Ok(tcp) => LoadedTcp {
            tcp: Ok(tcp),
            calls: Ok(()),
        },
        Err(error) => LoadedTcp {
            tcp: load_tcp(facts, wanted, lifecycle, false),
            calls: Err(error),
        },
    })
}

/// The object tcp before it is attached.
pub(super) struct LoadedTcp {
    tcp: Result<TcpSkel<'static>, Error>,
    /// Whether the programs at calls are loaded.
    calls: Result<(), Error>,
}

/// Why TCP cannot be watched here.
fn tcp_impossible(facts: &Facts) -> Option<&'static str> {
    if !facts.hooks.contains("inet_sock_set_state") {
        return Some("this kernel has no inet_sock_set_state");
    }
    (!facts.task_storage).then_some(
        "programs of tracing cannot keep data with sockets and threads before Linux 5.13",
    )
}

/// Attaches what concerns TCP; whatever fails turns off only that.
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
    let calls = loaded.calls.is_ok();
    let attached = loaded.tcp.and_then(|tcp| attach_tcp(tcp, calls, facts));
    // Some kernels load programs for fexit that they do not attach.
    let (attached, calls) = match (attached, loaded.calls) {
        (Ok(attached), Ok(())) => (Ok(attached), calls_seen(facts)),
        (Err(error), Ok(())) => {
            let without = load_tcp(facts, wanted, lifecycle, false);
            let without = without.and_then(|tcp| attach_tcp(tcp, false, facts));
            (without, calls_missing(&error))
        }
        (attached, Err(error)) => (attached, calls_missing(&error)),
    };
    match attached {
        Ok((sockets, retransmits)) => {
            let reason = "inet_sock_set_state; existing sockets from the iterator of files";
            features.extend([
                Feature::on(FeatureId::TcpEvents, reason),
                calls,
                listed(facts),
                retransmits,
            ]);
            Some(sockets)
        }
        Err(error) => {
            features.push(Feature::off(
                FeatureId::TcpEvents,
                format!("{error}: {}", cause(&error)),
            ));
            None
        }
    }
}

fn cause(error: &Error) -> String {
    let source = std::error::Error::source(error);
    source.map_or_else(String::new, ToString::to_string)
}

/// Functions that show what no change of a socket's state shows.
const CALLS: [&str; 2] = ["tcp_v4_connect()", "inet_csk_accept()"];

/// The one that is not there without IPv6, or is in its module.
const V6_CONNECT: &str = "tcp_v6_connect()";

fn calls_are_there(facts: &Facts) -> Result<(), Error> {
    match CALLS.iter().find(|call| !facts.hooks.contains(*call)) {
        None => Ok(()),
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
            "{calls}; this kernel does not have {V6_CONNECT} (no IPv6, or in a module): connecting \
             by IPv6 that fails before anything is sent (no route) is not seen"
        ),
    )
}

fn calls_missing(error: &Error) -> Feature {
    Feature::degraded(
        FeatureId::TcpCalls,
        format!(
            "connecting that fails before anything is sent (no route) is not seen, and a connection \
             that comes in belongs to who listens, not to who accepts it: no fexit: {error}: {}",
            cause(error)
        ),
    )
}

/// The status on looking at the sockets that are there.
fn listed(facts: &Facts) -> Feature {
    let way = match facts.socket_storage_iterates {
        true => "the iterator of socket storage",
        false => {
            "a table: this kernel can crash in its iterator of socket storage, which is not used"
        }
    };
    Feature::on(FeatureId::TcpSockets, way)
}

/// The status on what was sent again, by what could be attached.
fn retransmits(
    facts: &Facts,
    segments: Result<(), String>,
    answers: Result<(), String>,
) -> Feature {
    let why = |hook: &str, error: String| match facts.hooks.contains(hook) {
        true => format!("{hook}: {error}"),
        false => format!("this kernel has no {hook}"),
    };
    match (segments, answers) {
        (Ok(()), Ok(())) => {
            Feature::on(FeatureId::TcpRetransmits, "tcp_retransmit_skb and _synack")
        }
        (Ok(()), Err(error)) => Feature::degraded(
            FeatureId::TcpRetransmits,
            format!(
                "{}: repeated answers to connection requests do not count",
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
    calls: bool,
) -> Result<TcpSkel<'static>, Error> {
    let storage = Box::leak(Box::new(MaybeUninit::uninit()));
    let mut open = TcpSkelBuilder::default()
        .open(storage)
        .context("opening the BPF object tcp")?;
    if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
        rodata.stream_kinds = kinds(wanted.stream);
        rodata.filter_processes = wanted.filter_processes;
        rodata.filter_cgroups = wanted.filter_cgroups;
        rodata.calls_are_seen = calls;
        rodata.v6_connects_are_seen = calls && facts.hooks.contains(V6_CONNECT);
    }
    configure!(open, facts).context("setting up the BPF object tcp")?;
    let has = |hook| facts.hooks.contains(hook);
    open.progs
        .retransmit_skb
        .set_autoload(has("tcp_retransmit_skb"));
    open.progs
        .retransmit_synack
        .set_autoload(has("tcp_retransmit_synack"));
    open.progs
        .look_at_storage
        .set_autoload(facts.socket_storage_iterates);
    open.progs
        .look_at_table
        .set_autoload(!facts.socket_storage_iterates);
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
        maps.open_sockets
            .set_autocreate(!facts.socket_storage_iterates),
        maps.tcp_rows.set_max_entries(wanted.cgroups),
        maps.connect_time_rows.set_max_entries(wanted.cgroups),
        maps.destinations.set_max_entries(wanted.destinations),
        maps.other_destinations.set_max_entries(wanted.cgroups),
    ];
    sizes
        .into_iter()
        .collect::<Result<(), _>>()
        .context("sizing the maps")?;
    open.load().context("loading the BPF object tcp")
}

/// The iterator of TCP, where there is one: without it sockets that are in no file are not found at the
/// start.
fn attach_optional(program: &libbpf_rs::ProgramImpl<'_, libbpf_rs::Mut>) -> Option<Link> {
    let link = program.attach();
    link.inspect_err(|error| tracing::debug!(%error, "no iterator of TCP"))
        .ok()
}

fn attach_tcp(
    tcp: TcpSkel<'static>,
    calls: bool,
    facts: &Facts,
) -> Result<(Sockets, Feature), Error> {
    let progs = &tcp.progs;
    // Calls first: without them a connection that comes in would wait for somebody to accept it.
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
    // The kernel runs them in the order in which they were attached.
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
    let look = match facts.socket_storage_iterates {
        true => tcp
            .progs
            .look_at_storage
            .attach_iter(tcp.maps.sockets.as_fd()),
        false => tcp
            .progs
            .look_at_table
            .attach_iter(tcp.maps.open_sockets.as_fd()),
    };
    let sockets = Sockets {
        _links: links,
        survey,
        surveying: None,
        all: attach_optional(&tcp.progs.survey_tcp),
        look: look.context("the iterator of sockets")?,
        tcp,
        proc: facts.roots.proc.clone(),
    };
    Ok((sockets, feature))
}
