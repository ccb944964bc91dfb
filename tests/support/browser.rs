//! A browser without a screen, driven over the WebDriver protocol.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// One window of Chromium; closed when it is dropped.
pub(crate) struct Browser {
    driver: Child,
    address: String,
    session: String,
}

impl Browser {
    /// A window of this many pixels.
    pub(crate) fn open(width: u32, height: u32) -> Self {
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver, which scripts/deps.sh test installs");
        let mut lines = BufReader::new(driver.stdout.take().expect("piped")).lines();
        let port = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let (_, rest) = line.split_once("successfully on port ")?;
            rest.trim_end_matches('.').parse::<u16>().ok()
        });
        let port = port.expect("chromedriver says its port");
        thread::spawn(move || lines.for_each(drop));
        let mut this = Self {
            driver,
            address: format!("127.0.0.1:{port}"),
            session: String::new(),
        };
        let size = format!("--window-size={width},{height}");
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            &size,
        ];
        let answer = this.request(
            "POST",
            "/session",
            &json!({"capabilities": {"alwaysMatch": {
                "browserName": "chrome",
                "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
                "goog:chromeOptions": {"args": arguments},
            }}}),
        );
        let session = answer["sessionId"].as_str().expect("a session");
        this.session = format!("/session/{session}");
        this
    }

    /// Loads a page.
    pub(crate) fn go(&self, url: &str) {
        self.ask("/url", &json!({ "url": url }));
    }

    /// What a script returns.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.ask("/execute/sync", &json!({"script": script, "args": []}))
    }

    /// Presses a key, as if nothing had the focus.
    pub(crate) fn press(&self, key: &str) {
        let act = |kind| json!({"type": kind, "value": key});
        let actions =
            json!([{"type": "key", "id": "keys", "actions": [act("keyDown"), act("keyUp")]}]);
        self.ask("/actions", &json!({ "actions": actions }));
    }

    /// What the console has said since it was asked before, warnings and errors.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let entries = self.ask("/se/log", &json!({"type": "browser"}));
        let entries = entries.as_array().expect("a list").iter();
        let bad = entries.filter(|it| it["level"] != "INFO" && it["level"] != "DEBUG");
        bad.map(|it| it["message"].to_string()).collect()
    }

    /// The address of each request since it was asked before.
    pub(crate) fn requests(&self) -> Vec<String> {
        let entries = self.ask("/se/log", &json!({"type": "performance"}));
        let entries = entries.as_array().expect("a list").iter();
        let sent = entries.filter_map(|entry| {
            let message: Value = serde_json::from_str(entry["message"].as_str()?).ok()?;
            let message = &message["message"];
            let sent = message["method"] == "Network.requestWillBeSent";
            let url = message["params"]["request"]["url"].as_str()?;
            sent.then(|| url.to_owned())
        });
        sent.collect()
    }

    fn ask(&self, path: &str, body: &Value) -> Value {
        self.request("POST", &format!("{}{path}", self.session), body)
    }

    fn request(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = body.to_string();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        let mut stream = TcpStream::connect(&self.address).expect("chromedriver listens");
        let patience = Some(Duration::from_secs(120));
        stream.set_read_timeout(patience).expect("a time-out");
        let request = [head.as_bytes(), body.as_bytes()].concat();
        stream.write_all(&request).expect("it is sent");
        // It keeps the connection open, whatever it is asked.
        let mut lines = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let read = lines.read_line(&mut head).expect("an answer");
            assert!(read > 0, "{path}: no answer");
        }
        let lower = head.to_ascii_lowercase();
        let length = lower
            .lines()
            .find_map(|line| line.strip_prefix("content-length:"));
        let length = length.expect("a length").trim().parse().expect("a number");
        let mut bytes = vec![0; length];
        lines.read_exact(&mut bytes).expect("an answer");
        let body = String::from_utf8(bytes).expect("UTF-8");
        assert!(head.contains(" 200 "), "{path}: {body}");
        let mut answer: Value = serde_json::from_str(&body).expect("JSON");
        answer["value"].take()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() && !thread::panicking() {
            self.request("DELETE", &self.session, &json!({}));
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
