//! The listener and the server thread.

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

/// Size of the send buffer of each connection, which limits how many bytes the kernel holds for a
/// client that does not read. The kernel doubles the value. Without a limit the buffer grows to 4
/// MiB, which counts as the agent's memory.
const SEND_BYTES: usize = 64 * 1024;

/// Number of `/metrics` pages made at a time. The threads have the privileges of the server thread.
pub(crate) const RENDERERS: usize = 2;
/// Number of API responses made at a time. API responses have a thread in addition to those for
/// `/metrics` pages, so a slow query delays other queries but no scraper.
pub(crate) const ANSWERERS: usize = 1;
/// Number of passwords checked at a time, on a separate thread.
const CHECKERS: usize = 1;
/// How long idle threads are kept (a year), because the process table may be full when the next
/// page is requested.
const KEEP_RENDERERS: Duration = Duration::from_secs(365 * 24 * 3600);
/// How long to wait for the threads to start.
const RENDERER_START: Duration = Duration::from_secs(1);

/// Maximum number of connections of all kinds.
const MOST_CONNECTIONS: usize = 192;

/// How long `stop` waits for responses that are being sent.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// A listener that does not serve requests yet.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
    /// Accepted host names. `None` accepts every name, for addresses that clients reach under
    /// unknown names.
    hosts: Option<Hosts>,
    first: fn(),
    secured: Option<Arc<Secured>>,
    refusals: Arc<Refusals>,
    most: usize,
}

/// Binds the address, so that "in use" and "not permitted" are reported before anything else
/// starts. Clients that connect before [`Bound::serve`] wait for it.
pub fn bind(address: SocketAddr) -> io::Result<Bound> {
    take(TcpListener::bind(address)?)
}

/// Like [`bind`], but with a socket that is already open.
pub fn take(listener: TcpListener) -> io::Result<Bound> {
    listener.set_nonblocking(true)?;
    // Accepted connections inherit the size.
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

/// A running server. Dropping it stops the server, as [`Server::stop`] does.
#[derive(Debug)]
pub struct Server {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Bound {
    /// Returns the address being served, with the actual port if 0 was requested.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Also accepts these host names on a loopback address, in addition to `localhost` and
    /// addresses.
    #[must_use]
    pub fn named(self, names: impl IntoIterator<Item = String>) -> Self {
        let hosts = self.hosts.map(|_| Hosts::new(names));
        Self { hosts, ..self }
    }

    /// Applies TLS, passwords and headers from `secured`.
    #[must_use]
    pub fn secured(self, secured: Arc<Secured>) -> Self {
        Self {
            secured: Some(secured),
            ..self
        }
    }

    /// Counts refusals in `refusals`.
    #[must_use]
    pub fn counting(self, refusals: Arc<Refusals>) -> Self {
        Self { refusals, ..self }
    }

    /// Limits the number of connections, because each takes a file descriptor.
    #[must_use]
    pub fn at_most(self, connections: usize) -> Self {
        Self {
            most: self.most.min(connections),
            ..self
        }
    }

    /// Runs `first` on the server thread before it serves, for example to drop privileges.
    #[must_use]
    pub fn on_thread(self, first: fn()) -> Self {
        Self { first, ..self }
    }

    /// Starts serving on a new thread. Fails if a thread, timer or poller cannot be created.
    pub fn serve(self, handlers: Handlers) -> io::Result<Server> {
        let routes =
            router(handlers, self.hosts.clone()).merge(ui::routes(Arc::new(Hosts::default())));
        self.serve_within(routes, 0, Room::DEFAULT, Limits::DEFAULT)
    }

    /// Like [`Bound::serve`], with the JSON API.
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
                // The receiver no longer exists if the process is exiting.
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
                "cannot start the threads that render pages",
            )),
        }
    }
}

/// Checks that another thread can start. The runtime panics if it cannot start any thread.
fn room_for_one() -> io::Result<()> {
    let one = std::thread::Builder::new().name("noctule-render".into());
    // The thread does nothing and cannot panic.
    let _ = one.spawn(|| ())?.join();
    Ok(())
}

/// Starts the threads that make pages, and waits until they run. A blocked task keeps its thread,
/// so the next task starts another thread. If only one thread starts, that thread makes all pages.
fn start_renderers(runtime: &Runtime, threads: usize) {
    let (begun, begins) = mpsc::channel();
    let mut gates = Vec::new();
    for _ in 0..threads {
        let (gate, opened) = mpsc::channel::<()>();
        gates.push(gate);
        let begun = begun.clone();
        runtime.spawn_blocking(move || {
            // The caller may have stopped waiting. The gate opens when it is dropped.
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
    /// Closes the listener, lets current responses finish, and returns after at most about a
    /// second, whatever clients do. Only a handler that blocks delays the return further.
    pub fn stop(self) {
        drop(self);
    }

    /// Returns whether the server is still running. A server ends by itself only because of a
    /// defect.
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|t| !t.is_finished())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // The panic hook has already reported a panic.
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
        // Reaps connections that have ended.
        while open.try_join_next().is_some() {}
        let Ok((stream, from)) = accepted else {
            // Most likely the process has no free file descriptors. Some descriptors become free
            // when connections end.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        // At the limit, waits for a task to end, because a closed connection holds its file
        // descriptor until then.
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
        // A flood of new connections must not starve the existing ones.
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
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Mutex, Weak};
    use std::time::Instant;

    use super::*;
    use crate::page::tests::noise;
    use crate::{Page, Sent, Shared};

    /// Far longer than any step of a test. A test that reaches this time has failed.
    const WATCHDOG: Duration = Duration::from_secs(60);
    const NEVER: Duration = Duration::from_secs(3600);
    const SOON: Duration = Duration::from_millis(50);
    const PATIENT: Limits = Limits {
        header: NEVER,
        life: NEVER,
        last_answer: NEVER,
    };

    /// A function that returns the page for each request.
    type Pages = dyn Fn() -> Page + Send + Sync;

    /// Returns a page that is larger than any socket buffer.
    fn page(shared: Arc<Shared>) -> Page {
        Page {
            content_type: "text/plain",
            shared,
            own: b"the end".to_vec(),
            gzip: false,
            sent: None,
        }
    }

    fn large(bytes: usize) -> Arc<Shared> {
        Arc::new(Shared::new("x".repeat(bytes)).unwrap())
    }

    /// Returns a page that cannot be compressed, so that it takes as much memory as it has bytes.
    fn incompressible(bytes: usize) -> Arc<Shared> {
        // Deflate finds no match at a distance of more than 32 KiB.
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

    /// Reads until the server closes the connection.
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
        // A connection becomes idle when it waits for its next header.
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
        // This test holds one reference, and the server holds another.
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
        // The oldest connection was closed without a response.
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

    #[test]
    fn only_an_answer_that_was_sent_whole_counts_as_sent() {
        let shared = large(16 << 20);
        let count: Arc<AtomicUsize> = Arc::default();
        let pages = {
            let count = count.clone();
            Arc::new(move || {
                let count = count.clone();
                Page {
                    sent: Some(Sent::new(move || {
                        count.fetch_add(1, Ordering::Relaxed);
                    })),
                    ..page(shared.clone())
                }
            })
        };
        let (server, address) = serve_pages(Room::DEFAULT, PATIENT, pages);
        let mut gone = client(address, METRICS);
        assert_eq!(&first_bytes(&mut gone), b"HTTP/1.1 200");
        drop(gone);
        let close = METRICS.replace("host:", "connection: close\r\nhost:");
        rest(client(address, &close.replace("GET", "HEAD")));
        assert!(rest(client(address, &close)).len() > 16 << 20);
        server.stop();
        assert_eq!(count.load(Ordering::Relaxed), 1);
    }

    /// Each response has a different page, as if a new snapshot preceded each.
    #[test]
    fn clients_that_never_read_hold_bounded_memory() {
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
        // The newest page, the page before, the pages for which there is room, and one that is
        // being released.
        assert!(
            held <= 2 + (Room::DEFAULT.old_bytes >> 22) + 1,
            "{held} of 4 MiB"
        );
        assert_eq!(made.len(), 20);
    }

    /// Each scraper receives a different page, as if a new snapshot preceded each scrape.
    #[test]
    fn two_scrapers_get_whole_pages_of_any_size() {
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
