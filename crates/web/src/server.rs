//! The listener and its thread.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use axum::Router;
use rustix::net::sockopt::set_socket_send_buffer_size;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{sleep, timeout};

use crate::api::{self, Api};
use crate::connection::{self, Door, Limits};
use crate::host::Hosts;
use crate::peer::Peer;
use crate::refusals::Refusals;
use crate::routes::{Handlers, router};
use crate::seats::{Room, Seats};
use crate::secured::{Guard, Secured};
use crate::ui;

/// What the kernel keeps for a client that does not read, for each connection (it doubles the number).
/// Without a limit it is up to 4 MiB, which counts as the agent's memory.
const SEND_BYTES: usize = 64 * 1024;

/// Pages of `/metrics` that are made at a time. They run with the rights of the thread that answers.
pub(crate) const RENDERERS: usize = 2;
/// Answers of the API that are made at a time, on a thread of their own: a query that takes long holds up other
/// queries, and nobody who scrapes.
pub(crate) const ANSWERERS: usize = 1;
/// Passwords that are checked at a time, on a thread of its own.
const CHECKERS: usize = 1;
/// Their threads stay, for the process table may be full when the next page is wanted: a year.
const KEEP_RENDERERS: Duration = Duration::from_secs(365 * 24 * 3600);
/// How long their start is waited for.
const RENDERER_START: Duration = Duration::from_secs(1);

/// Connections of all kinds together.
const MOST_CONNECTIONS: usize = 192;

/// How long a stop waits for answers that are under way.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// A listener that does not answer yet.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
    /// `None`: every name, of an address that others reach under names that are not known here.
    hosts: Option<Hosts>,
    first: fn(),
    secured: Option<Arc<Secured>>,
    refusals: Arc<Refusals>,
    most: usize,
}

/// Takes the address, so that "in use" and "not permitted" are known before anything else starts.
/// Clients that connect from here on wait for [`Bound::serve`].
pub fn bind(address: SocketAddr) -> io::Result<Bound> {
    take(TcpListener::bind(address)?)
}

/// The same with a socket that somebody else has opened.
pub fn take(listener: TcpListener) -> io::Result<Bound> {
    listener.set_nonblocking(true)?;
    // Connections inherit it.
    set_socket_send_buffer_size(&listener, SEND_BYTES)?;
    let address = listener.local_addr()?;
    let hosts = address.ip().is_loopback().then(Hosts::default);
    Ok(Bound {
        listener,
        address,
        hosts,
        first: || {},
        secured: None,
        refusals: Arc::default(),
        most: MOST_CONNECTIONS,
    })
}

/// A running server. Dropping it stops it, as [`Server::stop`] does.
#[derive(Debug)]
pub struct Server {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Bound {
    /// The address that is served; it has the port when 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Names under which a loopback address is served too, beside `localhost` and addresses.
    #[must_use]
    pub fn named(self, names: impl IntoIterator<Item = String>) -> Self {
        let hosts = self.hosts.map(|_| Hosts::new(names));
        Self { hosts, ..self }
    }

    /// Asks for passwords and speaks TLS, as is said there.
    #[must_use]
    pub fn secured(self, secured: Arc<Secured>) -> Self {
        Self {
            secured: Some(secured),
            ..self
        }
    }

    /// Counts there what is refused.
    #[must_use]
    pub fn counting(self, refusals: Arc<Refusals>) -> Self {
        Self { refusals, ..self }
    }

    /// Serves so many connections at a time and no more: each takes a descriptor.
    #[must_use]
    pub fn at_most(self, connections: usize) -> Self {
        Self {
            most: self.most.min(connections),
            ..self
        }
    }

    /// What the thread that answers does first: it may give up rights.
    #[must_use]
    pub fn on_thread(self, first: fn()) -> Self {
        Self { first, ..self }
    }

    /// Starts answering, on a thread of its own. Fails when there is no thread, timer or poller to
    /// be had.
    pub fn serve(self, handlers: Handlers) -> io::Result<Server> {
        let routes =
            router(handlers, self.hosts.clone()).merge(ui::routes(Arc::new(Hosts::default())));
        self.serve_within(routes, 0, Room::DEFAULT, Limits::DEFAULT)
    }

    /// The same, with the API.
    pub fn serve_with_api(self, handlers: Handlers, api: Api) -> io::Result<Server> {
        let page = ui::routes(api.hosts.clone());
        let routes = router(handlers, self.hosts.clone())
            .merge(page)
            .merge(api::routes(api));
        self.serve_within(routes, ANSWERERS, Room::DEFAULT, Limits::DEFAULT)
    }

    fn serve_within(
        self,
        router: Router,
        answerers: usize,
        room: Room,
        limits: Limits,
    ) -> io::Result<Server> {
        let checkers = if self.secured.is_some() { CHECKERS } else { 0 };
        let threads = RENDERERS + answerers + checkers;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(threads)
            .thread_keep_alive(KEEP_RENDERERS)
            .thread_name("noctule-render")
            .build()?;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(self.listener)?
        };
        let (started, starts) = mpsc::channel();
        let (stop, stopped) = watch::channel(false);
        let door = Door {
            router,
            guard: Guard::new(self.secured.unwrap_or_default(), self.refusals),
            limits,
        };
        let thread = std::thread::Builder::new()
            .name("noctule-web".into())
            .spawn(move || {
                (self.first)();
                let tried = room_for_one();
                let can_work = tried.is_ok();
                if can_work {
                    start_renderers(&runtime, threads);
                }
                // Nobody waits any more if the process ends.
                let _ = started.send(tried);
                if !can_work {
                    return;
                }
                runtime.block_on(accept(listener, Arc::new(door), room, self.most, stopped));
            })?;
        let server = Server {
            stop,
            thread: Some(thread),
        };
        match starts.recv() {
            Ok(tried) => tried.map(|()| server),
            Err(_) => Err(io::Error::other(
                "the threads that make pages could not start",
            )),
        }
    }
}

/// Whether one more thread can be started: the runtime panics where it can start none at all.
fn room_for_one() -> io::Result<()> {
    let one = std::thread::Builder::new().name("noctule-render".into());
    // It does nothing, and cannot fail.
    let _ = one.spawn(|| ())?.join();
    Ok(())
}

/// Starts the threads that make pages, and returns when they run. A task that waits keeps its thread, so
/// the next one gets another. Without a second thread the first makes all pages.
fn start_renderers(runtime: &Runtime, threads: usize) {
    let (begun, begins) = mpsc::channel();
    let mut gates = Vec::new();
    for _ in 0..threads {
        let (gate, opened) = mpsc::channel::<()>();
        gates.push(gate);
        let begun = begun.clone();
        runtime.spawn_blocking(move || {
            // The caller may wait no longer; the gate opens when it is dropped.
            let _ = begun.send(());
            let _ = opened.recv();
        });
    }
    let deadline = Instant::now() + RENDERER_START;
    for _ in &gates {
        let left = deadline.saturating_duration_since(Instant::now());
        if begins.recv_timeout(left).is_err() {
            break;
        }
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
    door: Arc<Door>,
    room: Room,
    most: usize,
    stopped: watch::Receiver<bool>,
) {
    let seats = Seats::new(room);
    let mut open = JoinSet::new();
    let mut watching = stopped.clone();
    let mut stop = std::pin::pin!(watching.wait_for(|stop| *stop));
    loop {
        let accepted = tokio::select! {
            _ = &mut stop => break,
            accepted = listener.accept() => accepted,
        };
        // Forget the connections that have ended.
        while open.try_join_next().is_some() {}
        let Ok((stream, from)) = accepted else {
            // Most likely out of descriptors; they come back when connections end.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        // A connection that is closed has its descriptor until its task has ended.
        while open.len() >= most {
            seats.close_one();
            open.join_next().await;
        }
        let seat = seats.take(Peer::from_address(from.ip()));
        open.spawn(connection::serve(
            stream,
            from.ip(),
            door.clone(),
            seat,
            stopped.clone(),
        ));
        // A flood of connections must not keep those that are there from being served.
        yield_now().await;
    }
    drop(listener);
    let all = async { while open.join_next().await.is_some() {} };
    let _ = timeout(STOP_GRACE, all).await;
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::sync::{Mutex, Weak};
    use std::time::Instant;

    use super::*;
    use crate::page::tests::noise;
    use crate::{Page, Shared};

    /// Far longer than anything here takes: a test that waits so long fails, none passes by it.
    const WATCHDOG: Duration = Duration::from_secs(60);
    const NEVER: Duration = Duration::from_secs(3600);
    const SOON: Duration = Duration::from_millis(50);
    const PATIENT: Limits = Limits {
        header: NEVER,
        life: NEVER,
        last_answer: NEVER,
    };

    /// What makes the pages of a server.
    type Pages = dyn Fn() -> Page + Send + Sync;

    /// A page that no socket buffer holds.
    fn page(shared: Arc<Shared>) -> Page {
        Page {
            content_type: "text/plain",
            shared,
            own: b"the end".to_vec(),
            gzip: false,
        }
    }

    fn large(bytes: usize) -> Arc<Shared> {
        Arc::new(Shared::new("x".repeat(bytes)).unwrap())
    }

    /// The same of a page that takes as much memory as it has bytes.
    fn incompressible(bytes: usize) -> Arc<Shared> {
        // Deflate finds no match that is further away than 32 KiB.
        let block = noise(64 << 10);
        Arc::new(Shared::new(block.repeat(bytes / block.len())).unwrap())
    }

    fn serve(room: Room, limits: Limits) -> (Server, SocketAddr) {
        let shared = large(64 << 20);
        serve_pages(room, limits, Arc::new(move || page(shared.clone())))
    }

    fn serve_pages(room: Room, limits: Limits, pages: Arc<Pages>) -> (Server, SocketAddr) {
        let bound = bind(([127, 0, 0, 1], 0).into()).unwrap();
        let address = bound.address();
        let handlers = Handlers {
            metrics: Arc::new(move |_| Some(pages())),
            ready: Arc::new(|| Ok(())),
        };
        let server = bound
            .serve_within(router(handlers, None), 0, room, limits)
            .unwrap();
        (server, address)
    }

    fn room(each: usize) -> Room {
        Room {
            waiting: each,
            answering: each,
            ..Room::DEFAULT
        }
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

    const LIVEZ: &str = "GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n";
    const METRICS: &str = "GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n";

    #[test]
    fn endless_header_times_out() {
        let limits = Limits {
            header: SOON,
            ..PATIENT
        };
        let (_server, address) = serve(room(1), limits);
        rest(client(address, "GET /livez HTTP/1.1\r\nhost:"));
        rest(client(address, ""));
        // An idle connection is one whose next header does not come.
        assert!(rest(client(address, LIVEZ)).starts_with(b"HTTP/1.1 200"));
    }

    #[test]
    fn unread_answer_times_out() {
        let limits = Limits {
            life: SOON,
            last_answer: SOON,
            ..PATIENT
        };
        let shared = large(64 << 20);
        let pages = {
            let shared = shared.clone();
            Arc::new(move || page(shared.clone()))
        };
        let (_server, address) = serve_pages(Room::DEFAULT, limits, pages);
        let mut deaf = client(address, METRICS);
        assert_eq!(&first_bytes(&mut deaf), b"HTTP/1.1 200");
        let begun = Instant::now();
        // The one here and the one of the server.
        while Arc::strong_count(&shared) > 2 {
            assert!(begun.elapsed() < WATCHDOG, "the page is still held");
            std::thread::yield_now();
        }
        assert!(rest(deaf).len() < 64 << 20);
        assert!(rest(client(address, LIVEZ)).starts_with(b"HTTP/1.1 200"));
    }

    #[test]
    fn endless_requests_do_not_block_new_clients() {
        let (_server, address) = serve(room(2), PATIENT);
        let hanging: Vec<_> = (0..5).map(|_| client(address, "GET")).collect();
        let mut answered = client(address, LIVEZ);
        assert_eq!(&first_bytes(&mut answered), b"HTTP/1.1 200");
        // The oldest gave way, without an answer.
        for gone in hanging.into_iter().take(3) {
            assert_eq!(rest(gone), b"");
        }
    }

    #[test]
    fn unread_answers_do_not_block_new_clients() {
        let (_server, address) = serve(room(2), PATIENT);
        let mut deaf: Vec<_> = (0..5).map(|_| client(address, METRICS)).collect();
        for stream in &mut deaf[3..] {
            assert_eq!(&first_bytes(stream), b"HTTP/1.1 200");
        }
        let mut answered = client(address, LIVEZ);
        assert_eq!(&first_bytes(&mut answered), b"HTTP/1.1 200");
        assert!(rest(deaf.remove(0)).len() < 64 << 20);
    }

    #[test]
    fn reading_client_always_gets_its_whole_page() {
        const PAGE: usize = 16 << 20;
        let shared = large(PAGE);
        let pages = Arc::new(move || page(shared.clone()));
        let (_server, address) = serve_pages(room(2), PATIENT, pages);
        let close = METRICS.replace("host:", "connection: close\r\nhost:");
        let mut scraper = client(address, &close);
        let mut read = vec![0; 4 << 20];
        scraper.read_exact(&mut read).unwrap();
        let deaf: Vec<TcpStream> = (0..20)
            .map(|_| {
                let mut deaf = client(address, METRICS);
                assert_eq!(&first_bytes(&mut deaf), b"HTTP/1.1 200");
                deaf
            })
            .collect();
        assert!(read.len() + rest(scraper).len() > PAGE);
        drop(deaf);
    }

    #[test]
    fn page_arrives_with_shared_and_own_part() {
        let shared = large(1 << 20);
        let pages = Arc::new(move || page(shared.clone()));
        let (_server, address) = serve_pages(Room::DEFAULT, PATIENT, pages);
        let close = METRICS.replace("host:", "connection: close\r\nhost:");
        let answer = String::from_utf8(rest(client(address, &close))).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("content-length: 1048583"), "{head}");
        assert!(body == format!("{}the end", "x".repeat(1 << 20)));
    }

    /// Each answer has a page of its own here, as when there is a new snapshot for each.
    #[test]
    fn clients_that_do_not_read_hold_a_bounded_number_of_bytes() {
        let made: Arc<Mutex<Vec<Weak<Shared>>>> = Arc::default();
        let pages = {
            let made = made.clone();
            Arc::new(move || {
                let shared = incompressible(4 << 20);
                made.lock().unwrap().push(Arc::downgrade(&shared));
                page(shared)
            })
        };
        let (_server, address) = serve_pages(Room::DEFAULT, PATIENT, pages);
        let mut deaf = Vec::new();
        for _ in 0..20 {
            let mut stream = client(address, METRICS);
            assert_eq!(&first_bytes(&mut stream), b"HTTP/1.1 200");
            deaf.push(stream);
        }
        let made = made.lock().unwrap();
        let held = made.iter().filter(|page| page.strong_count() > 0).count();
        // The newest and the one before, those for which there is room, and one that is being let go.
        assert!(
            held <= 2 + (Room::DEFAULT.old_bytes >> 22) + 1,
            "{held} of 4 MiB"
        );
        assert_eq!(made.len(), 20);
    }

    /// With a page of its own each, as when there is a new snapshot between two scrapes.
    #[test]
    fn two_scrapers_at_a_time_get_whole_pages_of_any_size() {
        const PAGE: usize = 2 * Room::DEFAULT.old_bytes;
        let pages = Arc::new(move || page(incompressible(PAGE)));
        let (_server, address) = serve_pages(Room::DEFAULT, PATIENT, pages);
        let close = METRICS.replace("host:", "connection: close\r\nhost:");
        let mut first = client(address, &close);
        assert_eq!(&first_bytes(&mut first), b"HTTP/1.1 200");
        let second = client(address, &close);
        for stream in [second, first] {
            assert!(rest(stream).len() > PAGE);
        }
    }

    #[test]
    fn stop_does_not_wait_for_clients() {
        let (server, address) = serve(room(2), PATIENT);
        let mut deaf = client(address, METRICS);
        assert_eq!(&first_bytes(&mut deaf), b"HTTP/1.1 200");
        let hanging = client(address, "GET / HTTP/1.1\r\nx-slow: ");
        let waiting = client(address, LIVEZ);
        assert!(server.is_running());
        let (done, stopped) = mpsc::channel();
        std::thread::spawn(move || {
            server.stop();
            let _ = done.send(());
        });
        stopped.recv_timeout(WATCHDOG).unwrap();
        drop((deaf, hanging, waiting));
    }
}
