//! Tests with malicious clients, which send no request or never read the response.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use crate::support::agent::Agent;
use crate::support::cgroup::Group;
use crate::support::{self, oracle, wait_until};

/// Minimum size of the page. This size exceeds what the kernel buffers for a connection, so clients
/// that do not read keep the page in memory. One copy per client would be easy to notice.
const PAGE_BYTES: usize = 2 << 20;

fn connect(agent: &Agent, sent: &str) -> TcpStream {
    let mut stream = TcpStream::connect(agent.address()).expect("the agent listens");
    stream.write_all(sent.as_bytes()).expect("it is sent");
    stream
}

/// 64 copies of a 2.7 MB page once took 1.1 GB with their buffers, and the kernel killed the agent.
#[test]
fn clients_that_never_read_share_one_page() {
    let _machine = support::shared_but(&[support::Part::Groups]);
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("noctule.toml");
    std::fs::write(&config, "[metrics]\ndetail = \"full\"\n").expect("our file");
    let config = config.to_str().expect("in UTF-8");
    let agent = Agent::start(&["--interval", "1s", "--config", config]);
    // Groups that ran something have series.
    let groups: Vec<Group> = (0..500).map(|n| Group::new(&format!("page-{n}"))).collect();
    for group in &groups {
        let ran = group.command("true").status().expect("it can be started");
        assert!(ran.success());
    }
    wait_until("the page is large", || {
        agent.get("/metrics", "*/*").1.len() > PAGE_BYTES
    });
    let before = oracle::resident_mib(agent.pid());
    let deaf: Vec<TcpStream> = (0..64)
        .map(|_| {
            let mut stream = connect(&agent, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
            let mut first = [0; 12];
            stream.read_exact(&mut first).expect("an answer begins");
            assert_eq!(&first, b"HTTP/1.1 200");
            stream
        })
        .collect();
    let grown = oracle::resident_mib(agent.pid()) - before;
    let apart = ((deaf.len() * PAGE_BYTES) >> 20) as f64;
    assert!(grown < apart / 2.0, "{grown:.1} MiB more");
    // During the attack, a scraper that reads gets its response.
    assert_eq!(agent.get("/metrics", "*/*").0, 200);
}

#[test]
fn endless_requests_do_not_block_a_scraper() {
    let _machine = support::shared();
    let agent = Agent::start(&[]);
    let hanging: Vec<TcpStream> = (0..260)
        .map(|_| connect(&agent, "GET /metrics HTTP/1.1\r\nHost:"))
        .collect();
    for _ in 0..5 {
        assert_eq!(agent.get("/metrics", "*/*").0, 200);
    }
    drop(hanging);
}
