//! Tests of TLS, passwords and client certificates (`--web-config`), and of a socket passed by
//! systemd.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::support::agent::Agent;
use crate::support::prometheus::{Prometheus, free_address};
use crate::support::tls::{Authority, curl};
use crate::support::{self, NOCTULE, StopAtEnd, wait_until};

/// bcrypt hash of `secret`, cost 10.
const HASH: &str = "$2b$10$7YaY/0yV7XFuwujnBiBOEO0.h0rWIliHbcqg4idcT7RPOCLjyVUjO";
/// `scraper:secret`
const SCRAPER: &str = "Basic c2NyYXBlcjpzZWNyZXQ=";

fn start(config: &std::path::Path) -> Agent {
    let mut command = Command::new(NOCTULE);
    command.args(["run", "--listen", "127.0.0.1:0", "--web-config"]);
    command.arg(config);
    Agent::start_unready(command, Stdio::inherit()).0
}

/// Returns a refusal count from a page.
fn refused(page: &str, reason: &str) -> f64 {
    let start = format!("noctule_self_web_refused_total{{reason=\"{reason}\"}} ");
    let line = page.lines().find_map(|line| line.strip_prefix(&start));
    let line = line.unwrap_or_else(|| panic!("no {start}: {page}"));
    line.parse().expect("a number")
}

/// Returns the minimum of `up` since the server was ready, and the number of its samples.
fn ups(server: &Prometheus) -> (f64, f64) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("later");
    let value = |query: &str| {
        let results = server.query(query, now.as_secs_f64());
        let text = results.first().and_then(|it| it["value"][1].as_str());
        text.map_or(0.0, |text| text.parse().expect("a number"))
    };
    (
        value("min_over_time(up[10m])"),
        value("count_over_time(up[10m])"),
    )
}

#[test]
fn certificates_and_passwords_are_required_and_renewable() {
    let _machine = support::shared();
    let authority = Authority::new();
    let stranger = Authority::new();
    authority.issue("server", 1);
    authority.issue("client", 2);
    stranger.issue("client", 3);
    let config = format!(
        "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n  \
         client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n  \
         min_version: TLS13\nbasic_auth_users:\n  scraper: {HASH}\n\
         http_server_config: {{http2: false, headers: {{Strict-Transport-Security: max-age=60}}}}\n"
    );
    let config = authority.write("web.yml", &config);
    let agent = start(&config);
    let url = format!("https://{}/metrics", agent.address());
    let ca = authority.at("ca.pem");
    let file = |of: &Authority, name: &str| of.at(name).to_str().expect("in UTF-8").to_owned();
    let own = [
        file(&authority, "client.pem"),
        file(&authority, "client.key"),
    ];
    let foreign = [file(&stranger, "client.pem"), file(&stranger, "client.key")];
    let own = ["--cert", &own[0], "--key", &own[1]];
    let foreign = ["--cert", &foreign[0], "--key", &foreign[1]];
    let ask = |who: &[&str], more: &[&str]| curl(&url, &ca, &[who, more].concat());
    let right = ["-u", "scraper:secret"];

    wait_until("it has figures", || ask(&own, &right).0 == 200);
    let (_, said) = ask(&own, &right);
    assert!(
        said.contains("strict-transport-security: max-age=60"),
        "{said}"
    );
    assert!(said.contains("TLSv1.3"), "{said}");
    assert_eq!(ask(&[], &right).0, 0);
    assert_eq!(ask(&foreign, &right).0, 0);
    assert_eq!(
        ask(&own, &["-u", "scraper:secret", "--tls-max", "1.2"]).0,
        0
    );
    let (status, said) = ask(&own, &[]);
    assert!(
        status == 401 && said.contains("www-authenticate: Basic realm"),
        "{said}"
    );
    assert_eq!(ask(&own, &["-u", "scraper:wrong"]).0, 401);
    assert_eq!(ask(&own, &["-u", "nobody:secret"]).0, 401);
    // A plain HTTP request gets a response with advice.
    let (status, said) = agent.get("/metrics", "*/*");
    assert!(
        status == 400 && said.contains("https://"),
        "{status} {said}"
    );
    let (_, page) = {
        wait_until("a batch has the counts", || {
            refused(&ask(&own, &right).1, "plain_http") == 1.0
        });
        ask(&own, &right)
    };
    assert_eq!(refused(&page, "credentials"), 2.0);
    assert_eq!(refused(&page, "no_credentials"), 1.0);
    assert_eq!(refused(&page, "client_certificate"), 2.0);
    assert_eq!(refused(&page, "tls"), 1.0);

    let options = format!(
        "scheme: https, basic_auth: {{username: scraper, password: secret}}, tls_config: \
         {{ca_file: '{}', cert_file: '{}', key_file: '{}'}}",
        ca.display(),
        own[1],
        own[3]
    );
    let server = Prometheus::scraping_by(agent.address(), &options);
    wait_until("it is scraped", || ups(&server).1 >= 3.0);
    // An invalid configuration changes nothing and is reported.
    let valid = || {
        let page = ask(&own, &right).1;
        page.contains("noctule_self_web_config_valid 1\n")
    };
    assert!(valid());
    authority.protect("server.key", 0o644);
    wait_until("the key is refused", || !valid());
    authority.protect("server.key", 0o600);
    wait_until("the key is good again", valid);
    authority.issue("server", 4);
    let serial = || {
        let words = format!(
            "openssl s_client -connect {} </dev/null 2>/dev/null | openssl x509 -noout -serial",
            agent.address()
        );
        let output = Command::new("sh")
            .args(["-c", &words])
            .output()
            .expect("a shell");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    wait_until("the new certificate is shown", || serial() == "serial=04");
    let before = ups(&server).1;
    wait_until("it is scraped again", || ups(&server).1 >= before + 3.0);
    assert_eq!(ups(&server).0, 1.0, "{}", server.target());
}

/// Tries a password and returns the response.
fn attempt(address: &str, credentials: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    let request = format!(
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Authorization: {credentials}\r\n\r\n"
    );
    stream.write_all(request.as_bytes())?;
    let mut first = [0; 12];
    stream.read_exact(&mut first)?;
    Ok(String::from_utf8_lossy(&first).into_owned())
}

#[test]
fn a_flood_of_wrong_passwords_costs_a_scraper_nothing() {
    let _machine = support::shared();
    let authority = Authority::new();
    let config = authority.write(
        "web.yml",
        &format!("basic_auth_users: {{scraper: {HASH}}}\n"),
    );
    let agent = start(&config);
    let options = "basic_auth: {username: scraper, password: secret}";
    let server = Prometheus::scraping_by(agent.address(), options);
    wait_until("it is scraped", || ups(&server) >= (1.0, 2.0));
    let (stop, tried) = (AtomicBool::new(false), AtomicU64::new(0));
    let (least, scrapes) = thread::scope(|scope| {
        for part in 0..8u32 {
            let (agent, stop, tried) = (&agent, &stop, &tried);
            scope.spawn(move || {
                // Base64 with varying bytes: `scraper:` and three letters.
                for n in 0u32.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let end = format!("{:08}", n * 8 + part);
                    let answer = attempt(agent.address(), &format!("Basic c2NyYXBlcjpz{end}"));
                    // The server may have closed the connection in favour of a newer one.
                    let answer = answer.unwrap_or_default();
                    assert!(!answer.contains(" 200"), "{answer}");
                    tried.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let _stop = StopAtEnd(&stop);
        let begun = ups(&server).1;
        wait_until("ten scrapes", || ups(&server).1 >= begun + 10.0);
        ups(&server)
    });
    assert_eq!(least, 1.0, "of {scrapes}: {}", server.target());
    let tried = tried.into_inner();
    assert!(tried > 100, "{tried}");
    let page = curl(
        &format!("http://{}/metrics", agent.address()),
        &config,
        &["-H", &format!("Authorization: {SCRAPER}")],
    );
    assert!(refused(&page.1, "busy") > 10.0, "{}", page.1);
    assert!(refused(&page.1, "credentials") > 1.0);
}

#[test]
fn unusable_settings_are_refused_without_quoting_them() {
    let _machine = support::shared();
    let authority = Authority::new();
    authority.issue("server", 1);
    authority.issue("other", 2);
    let cases = [
        ("nothing.yml", "", 0, "web configuration"),
        ("quote.yml", "hunter2\n", 0o600, "line 1 column 1"),
        ("open.yml", "{}\n", 0o666, "chmod go-w"),
        (
            "key.yml",
            "tls_server_config: {cert_file: server.pem, key_file: other.key}\n",
            0o600,
            "the key does not match the certificate",
        ),
        (
            "certificate.yml",
            "tls_server_config: {cert_file: server.key, key_file: server.key}\n",
            0o600,
            "no certificate in PEM",
        ),
        (
            "both.yml",
            "tls_server_config: {cert_file: server.pem}\n",
            0o600,
            "both needed",
        ),
    ];
    for (name, text, mode, expected) in cases {
        if mode != 0 {
            authority.write(name, text);
            authority.protect(name, mode);
        }
        let output = Command::new(NOCTULE)
            .args([
                "run",
                "--listen",
                "127.0.0.1:0",
                "--for",
                "1s",
                "--web-config",
            ])
            .arg(authority.at(name))
            .output()
            .expect("the binary can be started");
        let said = String::from_utf8_lossy(&output.stderr);
        let told = said.contains(expected) && said.contains(name) && !said.contains("hunter2");
        assert!(told && output.status.code() == Some(2), "{name}: {said}");
    }
}

#[test]
fn systemd_socket_is_accepted() {
    let _machine = support::shared();
    let address = free_address();
    let mut command = Command::new("systemd-socket-activate");
    command.args(["-l", &address, NOCTULE, "run"]);
    // systemd starts the program at the first connection.
    let knocking = address.clone();
    thread::spawn(move || {
        wait_until("somebody listens", || TcpStream::connect(&knocking).is_ok());
    });
    let (agent, _said) = Agent::start_unready(command, Stdio::null());
    assert_eq!(agent.address(), address);
    wait_until("it has figures", || agent.get("/metrics", "*/*").0 == 200);
}
