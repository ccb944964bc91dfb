//! Scenarios that need a dedicated machine: memory exhaustion, and a link with random loss. The
//! build machine is shared, and its kernel may lack netem.

use serde_json::Value;

use super::support;
use super::support::cgroup::Group;
use super::support::load::Load;
use super::support::netns::Link;
use super::support::oracle;
use super::support::stream::{Stream, is};
use super::{end, number};

/// One process uses most of the memory. Another one asks for as much, and the kernel has to kill a
/// process.
#[test]
fn the_whole_machine_runs_out_of_memory() {
    let _machine = support::alone();
    needs!("oom_events");
    needs_a_virtual_machine!();
    let stream = Stream::start(&["--kind", "process,oom"]);
    let megabytes = oracle::available_kilobytes() * 6 / 10 / 1024;
    let before = oracle::vmstat("oom_kill");
    let (first, second) = (Group::new("first"), Group::new("second"));
    let mut victim = Load::own(&first, "holder");
    let mut other = Load::own(&second, "holder");
    let (v, o) = (victim.pid(), other.pid());
    assert_eq!(victim.ask(&megabytes.to_string()), "held");
    other.say(&megabytes.to_string());
    // On a slow machine, the kernel may free the first process's memory too late for the second
    // process.
    let both = other.try_next_message().is_none();
    victim.wait_for_end();
    victim.reap();
    if both {
        other.wait_for_end();
        other.reap();
    } else {
        end(&mut other);
    }
    let exit = stream.wait_for("it has ended", |e| is(e, "process.exit", v));
    let other_exit = stream.wait_for("the other has ended", |e| is(e, "process.exit", o));
    assert_eq!(exit["process.exit.signal"], 9, "{exit}");
    if !both {
        assert_eq!(other_exit["oom_killed"], false, "{other_exit}");
        assert_eq!(other_exit["process.exit.code"], 0, "{other_exit}");
    }
    let killed = oracle::vmstat("oom_kill") - before;
    assert_eq!(killed, 1 + u64::from(both));
    let kills = stream.wait_for_all("each kill is told", killed as usize, |e| {
        e["event.name"] == "oom.kill"
    });
    assert_eq!(kills.len() as u64, killed, "{kills:?}");
    let kill = kills.iter().find(|kill| is(kill, "oom.kill", v));
    let kill = kill.unwrap_or_else(|| panic!("{kills:?}"));
    assert_eq!(kill["process.linux.cgroup"], first.path());
    // The kernel sends the signal first, so a fast exit can precede the kill event.
    let at = |event: &Value| number(event, "time_unix_nano");
    assert_eq!(exit["oom_killed"], at(kill) <= at(&exit), "{exit} {kill}");
}

/// Returns the number of segments reported as retransmitted by a process.
fn retransmits(stream: &Stream, pid: u32) -> u64 {
    let told = stream.of(|e| is(e, "tcp.retransmit", pid));
    told.iter().map(|e| number(e, "tcp.segments")).sum()
}

#[test]
fn retransmits_on_a_lossy_link_are_reported() {
    let _machine = support::shared();
    needs!("tcp_events");
    needs_a_virtual_machine!();
    let link = Link::new();
    let stream = Stream::start(&["--kind", "tcp"]);
    let mut server = Load::in_namespace(&link.near, "sockets");
    let mut client = Load::in_namespace(&link.far, "sockets");
    let (s, c) = (server.pid(), client.pid());
    let address = server.ask(&format!("listen {}:0", Link::NEAR));
    client.ask(&format!("connect {address}"));
    server.ask("accept");
    link.lose_percent(30);
    server.say("send 1000000");
    assert_eq!(client.ask("receive 1000000"), "1000000");
    assert_eq!(server.next_message(), "1000000");
    link.lose_percent(0);
    end(&mut client);
    end(&mut server);
    let close = stream.wait_for("it is closed", |e| is(e, "tcp.close", s));
    assert_eq!(number(&close, "bytes_sent"), 1_000_000, "each byte once");
    let kernel = link.near.retransmits();
    assert!(kernel > 0, "nothing was lost");
    assert_eq!(number(&close, "retransmits"), kernel);
    assert_eq!(retransmits(&stream, s), kernel);
    // Segments that the other side retransmitted belong to the other side.
    assert_eq!(retransmits(&stream, c), link.far.retransmits());
}

#[test]
fn a_link_that_loses_everything_is_a_timeout() {
    let _machine = support::shared();
    needs!("tcp_events");
    needs_a_virtual_machine!();
    let link = Link::new();
    link.near.set("ipv4/tcp_syn_retries", "2");
    let stream = Stream::start(&["--kind", "tcp"]);
    let mut client = Load::in_namespace(&link.near, "sockets");
    let pid = client.pid();
    // Both sides first learn each other's hardware address.
    let refused = client.ask(&format!("connect {}:9", Link::FAR));
    assert_eq!(refused, "error 111");
    link.lose_percent(100);
    let answer = client.ask(&format!("connect {}:9", Link::FAR));
    assert_eq!(answer, "error 110");
    end(&mut client);
    let failed = stream.wait_for_all("both fail", 2, |e| is(e, "tcp.connect_failed", pid));
    let failed = &failed[1];
    assert_eq!(failed["error.type"], "timeout", "{failed}");
    assert_eq!(failed["network.peer.address"], Link::FAR);
    // Since 6.5 the kernel retries more often than configured (tcp_syn_linear_timeouts).
    let kernel = link.near.retransmits();
    assert!(kernel >= 2, "{kernel}");
    assert_eq!(retransmits(&stream, pid), kernel);
}
