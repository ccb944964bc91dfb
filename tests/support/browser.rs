//! A headless browser, driven through the WebDriver protocol.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use data_encoding::BASE64;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// A Chromium window, closed when dropped.
pub(crate) struct Browser {
    driver: Child,
    address: String,
    session: String,
    /// The browser process.
    process: Option<Pid>,
}

impl Browser {
    /// Opens a window of this size in pixels.
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
            process: None,
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
        let process = answer["capabilities"]["goog:processID"].as_i64();
        // On a busy machine some scripts take longer than the default of half a minute.
        this.ask("/timeouts", &json!({"script": 110_000}));
        this.process = process.and_then(|pid| Pid::from_raw(pid as i32));
        this
    }

    /// Loads a page.
    pub(crate) fn go(&self, url: &str) {
        self.ask("/url", &json!({ "url": url }));
    }

    /// Returns the result of a script.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.ask("/execute/sync", &json!({"script": script, "args": []}))
    }

    /// Minimizes the window, which hides its page.
    pub(crate) fn hide(&self) {
        self.ask("/window/minimize", &json!({}));
    }

    /// Restores the window.
    pub(crate) fn show(&self) {
        self.ask("/window/rect", &json!({"x": 0, "y": 0}));
    }

    /// Presses a key while nothing is focused.
    pub(crate) fn press(&self, key: &str) {
        let act = |kind| json!({"type": kind, "value": key});
        let actions =
            json!([{"type": "key", "id": "keys", "actions": [act("keyDown"), act("keyUp")]}]);
        self.ask("/actions", &json!({ "actions": actions }));
    }

    /// Drags the mouse from one position to another, in pixels of the window.
    pub(crate) fn drag(&self, from: (u32, u32), to: (u32, u32)) {
        let to_place = |(x, y), ms| json!({"type": "pointerMove", "duration": ms, "x": x, "y": y});
        let actions = json!([{
            "type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"},
            "actions": [
                to_place(from, 0), {"type": "pointerDown", "button": 0},
                to_place(to, 100), {"type": "pointerUp", "button": 0},
            ],
        }]);
        self.ask("/actions", &json!({ "actions": actions }));
    }

    /// Moves the mouse to a position, in pixels of the window.
    pub(crate) fn hover(&self, (x, y): (u32, u32)) {
        let to_place = json!({"type": "pointerMove", "duration": 0, "x": x, "y": y});
        let actions = json!([{
            "type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"},
            "actions": [to_place],
        }]);
        self.ask("/actions", &json!({ "actions": actions }));
    }

    /// Sets the size of the window, and the theme: `light` or `dark`.
    pub(crate) fn set_appearance(&self, width: u32, height: u32, theme: &str) {
        self.command(
            "Emulation.setDeviceMetricsOverride",
            &json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}),
        );
        let theme = json!([{"name": "prefers-color-scheme", "value": theme}]);
        self.command("Emulation.setEmulatedMedia", &json!({ "features": theme }));
    }

    /// Saves a screenshot of the whole page in the target directory.
    pub(crate) fn picture(&self, name: &str) {
        let options = json!({"format": "png", "captureBeyondViewport": true});
        let picture = self.command("Page.captureScreenshot", &options);
        let picture = picture["data"].as_str().expect("a picture").as_bytes();
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pictures");
        fs::create_dir_all(&folder).expect("a folder");
        let bytes = BASE64.decode(picture).expect("base64");
        fs::write(folder.join(format!("{name}.png")), bytes).expect("a file");
    }

    /// Returns the serious and critical accessibility faults that axe-core finds.
    pub(crate) fn barriers(&self) -> Vec<String> {
        if self.run("return typeof axe === 'undefined'") == true {
            let source = fs::read_to_string(axe()).expect("axe-core");
            self.run(&source);
        }
        let script = "const done = arguments[arguments.length - 1]; \
             axe.run({resultTypes: ['violations'], rules: {'target-size': {enabled: true}}}).then((found) => done(found.violations \
             .filter((it) => ['serious', 'critical'].includes(it.impact)) \
             .map((it) => `${it.id}: ${it.nodes.map((node) => node.html).join(' ')}`)))";
        let found = self.ask("/execute/async", &json!({"script": script, "args": []}));
        let found = found.as_array().expect("a list").iter();
        found
            .map(|it| it.as_str().unwrap_or_default().to_owned())
            .collect()
    }

    /// Sends a command of the Chrome DevTools protocol.
    fn command(&self, name: &str, parameters: &Value) -> Value {
        let body = json!({"cmd": name, "params": parameters});
        self.ask("/goog/cdp/execute", &body)
    }

    /// Returns the console's warnings and errors since the last call.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let entries = self.ask("/se/log", &json!({"type": "browser"}));
        let entries = entries.as_array().expect("a list").iter();
        let bad = entries.filter(|it| it["level"] != "INFO" && it["level"] != "DEBUG");
        bad.map(|it| it["message"].to_string()).collect()
    }

    /// Returns the address of each request since the last call.
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
        // The server keeps the connection open regardless of headers.
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

/// Returns the script of axe-core, downloaded from the npm registry if needed.
fn axe() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent();
    let target = target.expect("the target folder");
    let script = target.join("page/node_modules/axe-core/axe.min.js");
    if !script.exists() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let install = Command::new(root.join("scripts/page.sh"))
            .arg("--install")
            .env("CARGO_TARGET_DIR", target)
            .status();
        assert!(
            install.expect("bash").success(),
            "scripts/page.sh --install"
        );
    }
    script
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() && !thread::panicking() {
            self.request("DELETE", &self.session, &json!({}));
        } else if let Some(process) = self.process {
            // If only the driver were killed, the browser would continue.
            let _ = kill_process(process, Signal::KILL);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
