//! Tests of a receiver with TLS that also requires a client certificate.

use std::fs;
use std::process::Command;

use super::super::support::receiver::Receiver;
use super::super::support::tls::Authority;
use super::super::support::{self, wait_until};
use super::{Sending, assert_equal_to_metrics, start_to, start_with};

/// Creates an authority with certificates for a receiver on 127.0.0.1 and for the agent.
fn authority() -> Authority {
    let authority = Authority::new();
    authority.issue("receiver", 1);
    authority.issue("agent", 2);
    authority
}

/// Returns the options for files of authorities.
fn options(trusted: &Authority, own: &Authority) -> String {
    format!(
        "ca_file = {:?}\ncert_file = {:?}\nkey_file = {:?}\n",
        trusted.at("ca.pem"),
        own.at("agent.pem"),
        own.at("agent.key")
    )
}

#[test]
fn figures_are_equal_with_tls() {
    let _machine = support::shared();
    let authority = authority();
    for grpc in [false, true] {
        let receiver = Receiver::start_tls(&authority);
        let mut sending = start_to(receiver, grpc, "https", &options(&authority, &authority));
        // The second collection follows the first immediately and is not sent.
        wait_until("it sends each collection", || {
            sending.receiver.points().len() > 2
        });
        assert_equal_to_metrics(&sending);
        let path = sending.receiver.requests("metrics")[0]["how"]["path"].clone();
        assert_eq!(path, if grpc { "grpc" } else { "/v1/metrics" });
        // After the receiver closes the connection, the agent reconnects over TLS.
        sending.receiver.stop();
        let had = sending.receiver.points().len();
        sending.receiver.start_again();
        wait_until("more comes", || sending.receiver.points().len() > had);
        assert_eq!(sending.lost("refused") + sending.lost("queue_full"), 0.0);
        sending.assert_sound();
    }
}

#[test]
fn untrusted_receiver_gets_nothing() {
    let _machine = support::shared();
    let (authority, other) = (authority(), Authority::new());
    let receiver = Receiver::start_tls(&authority);
    let sending = start_to(receiver, false, "https", &options(&other, &authority));
    wait_until("it was tried again", || sending.retries() >= 2.0);
    assert!(sending.receiver.requests("metrics").is_empty());
    let waiting = sending.count("queue_items", &[("signal", "metrics")]);
    assert!(
        waiting > 0.0 && sending.lost("refused") == 0.0,
        "it is kept: {waiting}"
    );
}

#[test]
fn certificates_are_renewed_without_a_restart() {
    let _machine = support::shared();
    let (first, second) = (authority(), authority());
    for grpc in [false, true] {
        let files = Authority::new();
        let take = |from: &Authority, names: &[&str]| {
            for name in names {
                let text = fs::read_to_string(from.at(name)).expect("a file");
                files.write(name, &text);
            }
        };
        let receiver = Receiver::start_tls(&first);
        let all = ["ca.pem", "agent.pem", "agent.key"];
        take(&first, &all);
        let log = files.write("log", "");
        let errors = fs::File::create(&log).expect("our file");
        let with = options(&files, &files);
        let mut sending = start_with(receiver, grpc, "https", &with, errors.into());
        let points = |sending: &Sending| sending.receiver.points().len();
        wait_until("it sends", || points(&sending) > 0);

        // The receiver now has a certificate of another authority, and accepts only clients of that
        // authority.
        sending.receiver.stop();
        sending.receiver.take_tls(&second);
        sending.receiver.start_again();
        let had = points(&sending);
        let before = sending.retries();
        wait_until("it was tried again", || sending.retries() >= before + 2.0);
        assert_eq!(points(&sending), had, "it is not trusted");
        // An unusable file changes nothing and is reported.
        files.write("ca.pem", "no certificate\n");
        wait_until("the log has it", || {
            let said = fs::read_to_string(&log).expect("our file");
            said.contains("otlp.ca_file") && said.contains("stay in effect")
        });
        take(&second, &all);
        wait_until("more comes", || points(&sending) > had);
        assert_eq!(sending.lost("refused") + sending.lost("queue_full"), 0.0);
        sending.assert_sound();
    }
}

/// Returns what `noctule doctor` prints about the receiver, and its exit status.
fn doctor(endpoint: &str, grpc: bool, options: &str) -> (String, Option<i32>) {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("noctule.toml");
    let protocol = if grpc { "grpc" } else { "http/protobuf" };
    let text = format!("[otlp]\nendpoint = \"{endpoint}\"\nprotocol = \"{protocol}\"\n{options}");
    fs::write(&config, text).expect("a file");
    let output = Command::new(env!("CARGO_BIN_EXE_noctule"))
        .arg("doctor")
        .arg("--config")
        .arg(&config)
        .output()
        .expect("the binary");
    let all = [output.stdout, output.stderr].concat();
    let all = String::from_utf8(all).expect("text");
    let about = all.lines().filter(|line| line.contains("otlp"));
    (about.collect::<Vec<_>>().join("\n"), output.status.code())
}

#[test]
fn tls_failures_name_their_cause_and_fix() {
    let _machine = support::shared();
    let (authority, other) = (authority(), authority());
    let receiver = Receiver::start_tls(&authority);
    let plain = Receiver::start();
    let good = options(&authority, &authority);
    authority.issue_expired("old", 7);
    let expired = Receiver::start_tls_as(&authority, "old");
    let expired_own = good.replace("agent.", "old.");
    let no_certificate = format!("ca_file = {:?}\n", authority.at("ca.pem"));
    let (http, grpc) = (receiver.http, receiver.grpc);
    let at = |port: u16| format!("https://127.0.0.1:{port}");
    let wrong_name = format!("https://localhost:{http}");
    // The connection may end before the agent has read the alert. The agent then only knows that
    // the receiver asked for a certificate.
    let cases = [
        (at(http), false, good.clone(), "accepts them"),
        (at(grpc), true, good.clone(), "accepts them"),
        (
            at(http),
            false,
            options(&other, &authority),
            "set otlp.ca_file",
        ),
        (
            at(grpc),
            true,
            options(&other, &authority),
            "set otlp.ca_file",
        ),
        // The test's authority is not among the system's authorities.
        (at(http), false, String::new(), "otlp.ca_file"),
        (
            wrong_name,
            false,
            good.clone(),
            "not valid for localhost, only for 127.0.0.1:",
        ),
        (
            at(http),
            false,
            options(&authority, &other),
            "otlp.cert_file",
        ),
        (
            at(expired.http),
            false,
            good.clone(),
            "certificate has expired",
        ),
        (
            at(expired.grpc),
            true,
            good.clone(),
            "certificate has expired",
        ),
        (at(http), false, expired_own, "otlp.cert_file"),
        (at(http), false, no_certificate.clone(), "otlp.cert_file"),
        (at(grpc), true, no_certificate, "otlp.cert_file"),
        (at(http), true, good.clone(), "does not offer HTTP/2"),
        (
            at(plain.http),
            false,
            good.clone(),
            "this port does not speak TLS",
        ),
    ];
    for (endpoint, grpc, options, words) in cases {
        let (said, _) = doctor(&endpoint, grpc, &options);
        let place = format!("otlp metrics: {endpoint} ");
        assert!(
            said.contains(&place) && said.contains(words),
            "{words}: {said}"
        );
    }
}

#[test]
fn unusable_files_are_errors_at_the_start() {
    let _machine = support::shared();
    let (authority, other) = (authority(), authority());
    let ca = authority.at("ca.pem");
    let certificate = authority.at("agent.pem");
    let foreign = other.at("agent.key");
    let nothing = authority.write("nothing.pem", "no certificate\n");
    authority.write(
        "shown.key",
        &fs::read_to_string(authority.at("agent.key")).expect("a key"),
    );
    authority.protect("shown.key", 0o644);
    let shown = authority.at("shown.key");
    let pair = |key| format!("ca_file = {ca:?}\ncert_file = {certificate:?}\nkey_file = {key:?}\n");
    let cases = [
        (
            "ca_file = \"/no/such/file\"\n".to_owned(),
            "otlp.ca_file /no/such/file: No such file",
        ),
        (
            format!("ca_file = {nothing:?}\n"),
            "the file contains no certificate in PEM",
        ),
        (pair(&foreign), "the key does not match the certificate"),
        (
            pair(&shown),
            "can be read by every user (mode 644): chmod 640",
        ),
        (pair(&nothing), "the file contains no private key in PEM"),
    ];
    for (options, words) in cases {
        let (said, code) = doctor("https://127.0.0.1:1", false, &options);
        assert!(said.contains(words), "{words}: {said}");
        assert_eq!(code, Some(2), "{said}");
    }
}
