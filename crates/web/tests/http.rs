//! Tests the server from the client's side, with real sockets and without an HTTP library.
#![allow(clippy::unwrap_used, reason = "clippy does not recognize test helpers")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use noctule_web::{Api, Handlers, Hosts, Page, Query, Refusal, Server, Shared, Ticks, bind};

struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        let pairs = self.head.lines().filter_map(|line| line.split_once(": "));
        let mut found = pairs.filter(|(key, _)| key.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value)
    }
}

/// The state that the agent publishes; a test may change it.
#[derive(Default)]
struct Agent {
    metrics: Option<String>,
    not_ready: Option<String>,
    accept: Vec<Option<String>>,
}

fn serve(agent: &Arc<Mutex<Agent>>) -> (Server, SocketAddr) {
    let bound = bind(([127, 0, 0, 1], 0).into()).unwrap();
    let address = bound.address();
    let (one, other) = (agent.clone(), agent.clone());
    let handlers = Handlers {
        metrics: Arc::new(move |wish| {
            let mut agent = one.lock().unwrap();
            agent.accept.push(wish.accept.clone());
            agent.metrics.clone().map(|body| Page {
                content_type: "text/plain; version=0.0.4; charset=utf-8",
                shared: Arc::new(Shared::new(body).unwrap()),
                own: Vec::new(),
                gzip: false,
                sent: None,
            })
        }),
        ready: Arc::new(move || match &other.lock().unwrap().not_ready {
            Some(reason) => Err(reason.clone()),
            None => Ok(()),
        }),
    };
    (bound.serve(handlers).unwrap(), address)
}

fn raw(address: SocketAddr, request: &str) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap();
    let watchdog = Some(Duration::from_secs(60));
    stream.set_read_timeout(watchdog).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    Answer {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        head: head.into(),
        body: body.into(),
    }
}

fn request(address: SocketAddr, method: &str, path: &str, headers: &str) -> Answer {
    let head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
    raw(address, &format!("{head}{headers}\r\n"))
}

fn agent() -> Arc<Mutex<Agent>> {
    Arc::default()
}

#[test]
fn metrics_are_503_before_the_first_batch_and_200_after() {
    let agent = agent();
    let (_server, address) = serve(&agent);
    let early = request(address, "GET", "/metrics", "");
    assert_eq!(early.status, 503);
    assert!(early.body.contains("no data yet"));

    agent.lock().unwrap().metrics = Some("noctule_node_cpus 4\n".into());
    let answer = request(address, "GET", "/metrics?x=1", "Accept: a/b;q=0.5\r\n");
    assert_eq!(
        (answer.status, &*answer.body),
        (200, "noctule_node_cpus 4\n")
    );
    let content_type = answer.header("content-type").unwrap();
    assert_eq!(content_type, "text/plain; version=0.0.4; charset=utf-8");
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    let accept = &agent.lock().unwrap().accept;
    assert_eq!(*accept, [None, Some("a/b;q=0.5".into())]);
}

#[test]
fn livez_is_always_ok_and_readyz_has_a_reason() {
    let agent = agent();
    agent.lock().unwrap().not_ready = Some("the first batch is late".into());
    let (_server, address) = serve(&agent);
    assert_eq!(request(address, "GET", "/livez", "").status, 200);
    let answer = request(address, "GET", "/readyz", "");
    assert_eq!(answer.status, 503);
    assert_eq!(answer.body, "not ready: the first batch is late\n");

    agent.lock().unwrap().not_ready = None;
    assert_eq!(request(address, "GET", "/readyz", "").status, 200);
}

#[test]
fn the_index_names_the_pages_and_loads_nothing_from_elsewhere() {
    let (_server, address) = serve(&agent());
    let answer = request(address, "GET", "/", "");
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    for name in ["/metrics", "/api/v1/now", "/ui/app.js"] {
        assert!(answer.body.contains(name), "{name}");
    }
    for elsewhere in ["://", "=\"//", "@import"] {
        assert!(!answer.body.contains(elsewhere), "{elsewhere}");
    }
}

#[test]
fn unknown_paths_and_methods_are_refused() {
    let (_server, address) = serve(&agent());
    for path in ["/metric", "/metrics/", "/livez/x", "/../etc/passwd"] {
        assert_eq!(request(address, "GET", path, "").status, 404, "{path}");
    }
    for path in ["/", "/metrics", "/livez", "/readyz"] {
        for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
            let answer = request(address, method, path, "content-length: 0\r\n");
            assert_eq!(answer.status, 405, "{method} {path}");
            assert_eq!(answer.header("allow"), Some("GET,HEAD"));
        }
    }
}

#[test]
fn unknown_host_name_is_refused() {
    let (_server, address) = serve(&agent());
    let ask = |host: &str| {
        let head = format!("GET /livez HTTP/1.1\r\n{host}connection: close\r\n\r\n");
        raw(address, &head).status
    };
    assert_eq!(ask("host: rebind.example:9470\r\n"), 421);
    assert_eq!(ask("host: localhost\r\nhost: rebind.example\r\n"), 400);
    assert_eq!(ask(""), 400);
    assert_eq!(ask(&format!("host: {address}\r\n")), 200);
    let bound = bind(([127, 0, 0, 1], 0).into()).unwrap();
    let address = bound.address();
    let handlers = Handlers {
        metrics: Arc::new(|_| None),
        ready: Arc::new(|| Ok(())),
    };
    let _server = bound
        .named(["node.example".into()])
        .serve(handlers)
        .unwrap();
    let named = "GET /livez HTTP/1.1\r\nhost: node.example\r\nconnection: close\r\n\r\n";
    assert_eq!(raw(address, named).status, 200);
}

#[test]
fn head_returns_the_headers_of_get_without_a_body() {
    let agent = agent();
    agent.lock().unwrap().metrics = Some("12345\n".into());
    let (_server, address) = serve(&agent);
    for path in ["/", "/metrics", "/livez", "/readyz", "/nothing"] {
        let (head, get) = (
            request(address, "HEAD", path, ""),
            request(address, "GET", path, ""),
        );
        assert_eq!((head.status, &*head.body), (get.status, ""), "{path}");
        for name in ["content-length", "content-type"] {
            assert_eq!(head.header(name), get.header(name), "{path}");
        }
    }
}

#[test]
fn one_connection_carries_several_requests() {
    let (_server, address) = serve(&agent());
    let one = "GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let last = "GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let answer = raw(address, &format!("{one}{last}"));
    assert!(answer.body.contains("HTTP/1.1 200 OK"), "{}", answer.body);
}

#[test]
fn malformed_requests_are_refused() {
    let (_server, address) = serve(&agent());
    assert_eq!(raw(address, "\x16\x03\x01 nonsense\r\n\r\n").status, 400);
    let long = format!("x-long: {}\r\n", "x".repeat(100_000));
    let mut stream = TcpStream::connect(address).unwrap();
    // The server may close before it has read everything, so sending may fail.
    let _ = stream.write_all(format!("GET / HTTP/1.1\r\n{long}\r\n").as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/1.1 200"));
    assert_eq!(request(address, "GET", "/livez", "").status, 200);
}

#[test]
fn panicking_handler_ends_only_its_connection() {
    let bound = bind(([127, 0, 0, 1], 0).into()).unwrap();
    let address = bound.address();
    let handlers = Handlers {
        metrics: Arc::new(|_| panic!("a panic made by this test")),
        ready: Arc::new(|| Ok(())),
    };
    let server = bound.serve(handlers).unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert_eq!(answer, b"");
    assert_eq!(request(address, "GET", "/livez", "").status, 200);
    assert!(server.is_running());
}

#[test]
fn bind_reports_an_address_in_use() {
    let bound = bind(([127, 0, 0, 1], 0).into()).unwrap();
    let error = bind(bound.address()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
}

#[test]
fn the_address_is_free_again_after_a_stop() {
    // An address that only this test uses, so that no other test takes the port once it is free.
    let bound = bind(([127, 83, 0, 1], 0).into()).unwrap();
    let address = bound.address();
    let handlers = Handlers {
        metrics: Arc::new(|_| None),
        ready: Arc::new(|| Ok(())),
    };
    let server = bound.serve(handlers).unwrap();
    assert_eq!(request(address, "GET", "/livez", "").status, 200);
    server.stop();
    TcpStream::connect(address).unwrap_err();
    bind(address).unwrap();
}

#[test]
fn a_compressed_page_is_one_gzip_stream_with_its_own_end() {
    let text: String = (0..100_000)
        .map(|n| format!("a_total{{n=\"{n}\"}} 1\n"))
        .collect();
    let bound = bind(([127, 0, 0, 1], 0).into()).unwrap();
    let address = bound.address();
    let whole = text.clone();
    let handlers = Handlers {
        metrics: Arc::new(move |wish| {
            Some(Page {
                content_type: "text/plain; version=0.0.4; charset=utf-8",
                shared: Arc::new(Shared::new(&whole).unwrap()),
                own: b"# the end\n".to_vec(),
                gzip: wish.gzip,
                sent: None,
            })
        }),
        ready: Arc::new(|| Ok(())),
    };
    let _server = bound.serve(handlers).unwrap();
    let ask = |encoding: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        let head = format!(
            "GET /metrics HTTP/1.0\r\nhost: localhost\r\naccept-encoding: {encoding}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n");
        let body = answer.split_off(end.unwrap() + 4);
        (String::from_utf8(answer).unwrap().to_lowercase(), body)
    };
    let (head, plain) = ask("identity");
    assert!(!head.contains("content-encoding"), "{head}");
    assert_eq!(plain, format!("{text}# the end\n").as_bytes());
    let (head, packed) = ask("gzip");
    assert!(head.contains("content-encoding: gzip"), "{head}");
    assert!(head.contains("vary: accept, accept-encoding"), "{head}");
    assert!(packed.len() < plain.len() / 4, "{} bytes", packed.len());
    // The body is a single gzip stream, so a client that stops when the stream ends has read
    // everything.
    let mut decoder = flate2::bufread::GzDecoder::new(&*packed);
    let mut unpacked = Vec::new();
    decoder.read_to_end(&mut unpacked).unwrap();
    assert_eq!(unpacked, plain);
    assert_eq!(decoder.into_inner(), b"", "nothing follows");
}

/// An agent that answers a query only when the test allows it.
struct Slow {
    begun: mpsc::SyncSender<()>,
    gate: Mutex<mpsc::Receiver<()>>,
}

impl noctule_web::Agent for Slow {
    fn published(&self) -> Option<u64> {
        Some(1)
    }

    fn answer(&self, _: &str, _: &Query) -> Result<String, Refusal> {
        self.begun.send(()).unwrap();
        // The channel is closed if the test has ended.
        let _ = self.gate.lock().unwrap().recv();
        Ok("{}".into())
    }
}

#[test]
fn slow_query_does_not_block_metrics() {
    let (begun, begins) = mpsc::sync_channel(16);
    let (open, gate) = mpsc::channel();
    let gate = Mutex::new(gate);
    let bound = bind(([127, 0, 0, 1], 0).into()).unwrap();
    let address = bound.address();
    let page = || Page {
        content_type: "text/plain",
        shared: Arc::new(Shared::new("up 1").unwrap()),
        own: Vec::new(),
        gzip: false,
        sent: None,
    };
    let handlers = Handlers {
        metrics: Arc::new(move |_| Some(page())),
        ready: Arc::new(|| Ok(())),
    };
    let api = Api {
        agent: Arc::new(Slow { begun, gate }),
        ticks: Ticks::default(),
        hosts: Arc::new(Hosts::default()),
        start: 1,
    };
    let _server = bound.serve_with_api(handlers, api).unwrap();
    let query = |number: usize| {
        let path = format!("/api/v1/events?limit={number}");
        std::thread::spawn(move || request(address, "GET", &path, "").status)
    };
    let queries: Vec<_> = (1..5).map(query).collect();
    begins.recv().unwrap();
    assert_eq!(request(address, "GET", "/metrics", "").status, 200);
    assert_eq!(request(address, "GET", "/livez", "").status, 200);
    // Queries are answered one by one.
    assert!(begins.try_recv().is_err());
    for _ in &queries {
        open.send(()).unwrap();
    }
    for query in queries {
        assert_eq!(query.join().unwrap(), 200);
    }
}
