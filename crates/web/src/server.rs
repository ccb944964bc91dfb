//! The listener and its thread.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::connection::{self, Limits};
use crate::routes::{Handlers, router};

/// Connections at a time; more wait in the kernel's queue.
const CONNECTIONS: usize = 64;

/// How long a stop waits for answers that are under way.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// A listener that does not answer yet.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
}

/// Takes the address, so that "in use" and "not permitted" are known before anything else starts.
/// Clients that connect from here on wait for [`Bound::serve`].
pub fn bind(address: SocketAddr) -> io::Result<Bound> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    Ok(Bound { listener, address })
}

/// A running server. Dropping it stops it, as [`Server::stop`] does.
#[derive(Debug)]
pub struct Server {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Bound {
    /// The address that is served; tells the port when 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Starts answering, on a thread of its own. Fails when there is no thread, timer or poller to
    /// be had.
    pub fn serve(self, handlers: Handlers) -> io::Result<Server> {
        self.serve_within(handlers, CONNECTIONS, Limits::DEFAULT)
    }

    fn serve_within(
        self,
        handlers: Handlers,
        connections: usize,
        limits: Limits,
    ) -> io::Result<Server> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()?;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(self.listener)?
        };
        let (stop, stopped) = watch::channel(false);
        let router = router(handlers);
        let thread = std::thread::Builder::new()
            .name("noctule-web".into())
            .spawn(move || {
                runtime.block_on(accept(listener, router, connections, limits, stopped));
            })?;
        Ok(Server {
            stop,
            thread: Some(thread),
        })
    }
}

impl Server {
    /// Closes the listener, lets answers that are under way end, and returns after a second or so
    /// at the latest, whatever clients do. A handler that blocks is the only thing it waits for.
    pub fn stop(self) {
        drop(self);
    }

    /// Whether the server still answers. It ends by itself only by a fault of its own.
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|t| !t.is_finished())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // A panic was reported by the panic hook already.
            let _ = thread.join();
        }
    }
}

async fn accept(
    listener: tokio::net::TcpListener,
    router: Router,
    connections: usize,
    limits: Limits,
    stopped: watch::Receiver<bool>,
) {
    let room = Arc::new(Semaphore::new(connections));
    let mut open = JoinSet::new();
    let mut watching = stopped.clone();
    let mut stop = std::pin::pin!(watching.wait_for(|stop| *stop));
    loop {
        // The place comes first: what is not accepted costs no memory here.
        let next = async {
            let place = room.clone().acquire_owned().await;
            (listener.accept().await, place)
        };
        let (accepted, place) = tokio::select! {
            _ = &mut stop => break,
            next = next => next,
        };
        // Forget the connections that have ended.
        while open.try_join_next().is_some() {}
        let Ok((stream, _)) = accepted else {
            // Most likely out of descriptors; they come back when connections end.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        let serve = connection::serve(stream, router.clone(), limits, stopped.clone());
        open.spawn(async move {
            serve.await;
            drop(place);
        });
    }
    drop(listener);
    let all = async { while open.join_next().await.is_some() {} };
    let _ = timeout(STOP_GRACE, all).await;
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;
    use crate::Page;

    /// Far longer than anything here takes: a test that waits so long fails, none passes by it.
    const WATCHDOG: Duration = Duration::from_secs(60);
    const NEVER: Duration = Duration::from_secs(3600);
    const SOON: Duration = Duration::from_millis(50);
    const PATIENT: Limits = Limits {
        header: NEVER,
        life: NEVER,
        last_answer: NEVER,
    };

    /// A server with a body that no socket buffer holds.
    fn serve(connections: usize, limits: Limits) -> (Server, SocketAddr) {
        let bound = bind(([127, 0, 0, 1], 0).into()).unwrap();
        let address = bound.address();
        let page = || Page {
            content_type: "text/plain",
            body: "x".repeat(64 << 20),
        };
        let handlers = Handlers {
            metrics: Arc::new(move |_| Some(page())),
            ready: Arc::new(|| Ok(())),
        };
        let server = bound.serve_within(handlers, connections, limits).unwrap();
        (server, address)
    }

    fn client(address: SocketAddr, sent: &str) -> TcpStream {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(WATCHDOG)).unwrap();
        stream.write_all(sent.as_bytes()).unwrap();
        stream
    }

    /// Waits until the server closes the connection.
    fn rest(mut stream: TcpStream) -> Vec<u8> {
        let mut bytes = Vec::new();
        match stream.read_to_end(&mut bytes) {
            Err(e) if e.kind() != io::ErrorKind::ConnectionReset => panic!("not closed: {e}"),
            _ => bytes,
        }
    }

    fn first_bytes(stream: &mut TcpStream) -> [u8; 12] {
        let mut bytes = [0; 12];
        stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    const LIVEZ: &str = "GET /livez HTTP/1.1\r\nhost: x\r\n\r\n";
    const METRICS: &str = "GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n";

    #[test]
    fn a_header_that_never_ends_is_given_up() {
        let limits = Limits {
            header: SOON,
            ..PATIENT
        };
        let (_server, address) = serve(1, limits);
        rest(client(address, "GET /livez HTTP/1.1\r\nhost:"));
        rest(client(address, ""));
        // An idle connection is one whose next header does not come.
        assert!(rest(client(address, LIVEZ)).starts_with(b"HTTP/1.1 200"));
    }

    #[test]
    fn an_answer_that_nobody_reads_is_given_up() {
        let limits = Limits {
            life: SOON,
            last_answer: SOON,
            ..PATIENT
        };
        let (_server, address) = serve(1, limits);
        let deaf = client(address, METRICS);
        // There is one place; who gets an answer has got the place of the deaf one.
        assert!(rest(client(address, LIVEZ)).starts_with(b"HTTP/1.1 200"));
        assert!(rest(deaf).len() < 64 << 20);
    }

    #[test]
    fn who_finds_no_place_waits_for_one() {
        let (_server, address) = serve(2, PATIENT);
        let hanging = [client(address, "GET"), client(address, "GET")];
        let mut waiting = client(address, LIVEZ);
        waiting.set_read_timeout(Some(SOON)).unwrap();
        assert!(waiting.read(&mut [0]).is_err(), "answered without a place");
        drop(hanging);
        waiting.set_read_timeout(Some(WATCHDOG)).unwrap();
        assert_eq!(&first_bytes(&mut waiting), b"HTTP/1.1 200");
    }

    #[test]
    fn a_stop_waits_for_no_client() {
        let (server, address) = serve(2, PATIENT);
        let mut deaf = client(address, METRICS);
        assert_eq!(&first_bytes(&mut deaf), b"HTTP/1.1 200");
        let hanging = client(address, "GET / HTTP/1.1\r\nx-slow: ");
        let waiting = client(address, LIVEZ);
        assert!(server.is_running());
        let (done, stopped) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            server.stop();
            let _ = done.send(());
        });
        stopped.recv_timeout(WATCHDOG).unwrap();
        drop((deaf, hanging, waiting));
    }
}
