//! Tests a whole story: a shell in a container downloads a program, runs it and deletes it.

use std::fs;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::number;
use super::support;
use super::support::container::{Wish, busybox, hex_id, runc};
use super::support::stream::Stream;

/// A file server, ended when dropped.
struct Server {
    child: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Server {
    /// Serves one file: a program named `id`.
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::copy(busybox(), folder.path().join("id")).expect("busybox is installed");
        // The kernel reuses the most recently used port last, so the port stays free for a while.
        let free = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
        let port = free.expect("a free port").port();
        let child = Command::new(busybox())
            .args(["httpd", "-f", "-p", &format!("127.0.0.1:{port}"), "-h"])
            .arg(folder.path())
            .stdin(Stdio::null())
            .spawn()
            .expect("a server");
        support::wait_until("the server listens", || {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Self {
            child,
            port,
            _folder: folder,
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A user gets a shell in a container, downloads a program, runs it and deletes it.
#[test]
fn shell_in_a_container_is_followed_from_start_to_end() {
    let _machine = support::shared();
    needs!("process_events", "tcp_events", "file_opens", "file_changes");
    let server = Server::start();
    let id = hex_id();
    let container = Wish {
        id: id.clone(),
        cgroup: Some(format!("/docker/{id}")),
        script: "read _ < /rest".into(),
        cpus: None,
    }
    .create();
    container.start();
    let _resting = container.rests();
    let stream = Stream::start(&["--kind", "process,tcp,file", "--container", &id]);
    let script = format!(
        "busybox wget -q -O /tmp/id http://127.0.0.1:{}/id; busybox chmod 755 /tmp/id; \
         /tmp/id; busybox rm /tmp/id",
        server.port
    );
    runc(&["exec", &id, "/bin/sh", "-c", &script]);

    let named = |name: &'static str| move |e: &Value| e["event.name"] == name;
    // Question 1, who did it: a shell started by runc.
    let shell = stream.wait_for("the shell", |e| {
        named("process.exec")(e) && e["process.command_args"][1] == "-c"
    });
    assert_eq!(shell["process.executable.path"], "/bin/busybox", "{shell}");
    let parent = shell["process.parent.executable.name"].as_str();
    assert!(
        parent.is_some_and(|name| name.starts_with("runc")),
        "{shell}"
    );
    let pid = &shell["process.pid"];
    // Question 2, from where: a child of the shell connects and writes the file.
    let child = |program: &'static str, at: usize| {
        stream.wait_for(program, |e| {
            named("process.exec")(e)
                && e["process.parent_pid"] == *pid
                && e["process.command_args"][at] == program
        })
    };
    let wget = child("wget", 1);
    let of = |process: &Value, name: &'static str| {
        let pid = process["process.pid"].clone();
        stream.wait_for(name, |e| named(name)(e) && e["process.pid"] == pid)
    };
    let connect = of(&wget, "tcp.connect");
    assert_eq!(connect["network.peer.port"], server.port, "{connect}");
    let open = of(&wget, "file.open");
    let close = of(&wget, "tcp.close");
    let size = fs::metadata(busybox()).expect("busybox").len();
    assert!(number(&close, "bytes_received") >= size, "{close}");
    let chmod = stream.wait_for("chmod", named("file.chmod"));
    assert_eq!(chmod["file.mode"], "0755", "{chmod}");
    // Question 3, what happened then: the downloaded program runs and is deleted.
    let ran = child("/tmp/id", 0);
    assert_eq!(ran["process.executable.path"], "/tmp/id", "{ran}");
    let ended = of(&ran, "process.exit");
    assert_eq!(ended["process.exit.code"], 0, "{ended}");
    let delete = stream.wait_for("the delete", named("file.delete"));
    for event in [&open, &chmod, &delete] {
        assert_eq!(event["file.path"], "/tmp/id", "{event}");
    }
    let end = of(&shell, "process.exit");
    let steps = [
        &shell, &wget, &connect, &open, &chmod, &ran, &ended, &delete, &end,
    ];
    let times = steps.map(|event| number(event, "time_unix_nano"));
    assert!(times.is_sorted(), "{steps:?}");
    for event in steps.into_iter().chain([&close]) {
        assert_eq!(event["container.id"], id.as_str(), "{event}");
    }
}
