//! One connection, with limits on everything.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::routes::Held;
use crate::seats::{Kept, Seat};

/// How long clients may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// To send a whole header, counted from when we wait for it: also the longest idle time.
    pub(crate) header: Duration,
    /// After this the connection is closed with the answer that is under way.
    pub(crate) life: Duration,
    /// For that answer. One limit on the whole life, rather than one on each write, because a
    /// client that takes a byte at a time makes every single write succeed.
    pub(crate) last_answer: Duration,
}

impl Limits {
    /// Prometheus gives an answer 10 s by default, and connects anew when a connection is gone.
    pub(crate) const DEFAULT: Self = Self {
        header: Duration::from_secs(5),
        life: Duration::from_secs(30),
        last_answer: Duration::from_secs(10),
    };
}

/// More than any scraper sends in a header, and the least that hyper takes is half of it.
const BUFFER_BYTES: usize = 16 * 1024;

/// Serves the connection until the client ends it, a limit is reached, it has to give way to another, or
/// `stop` changes.
pub(crate) async fn serve(
    stream: TcpStream,
    router: Router,
    seat: Arc<Seat>,
    limits: Limits,
    mut stop: watch::Receiver<bool>,
) {
    let answering = seat.clone();
    let service = service_fn(move |request| {
        let answer = answering.answer();
        let response = TowerToHyperService::new(router.clone()).call(request);
        async move {
            let response = response.await?;
            if let Some(Held(page)) = response.extensions().get() {
                answer.holds(page);
            }
            Ok::<_, Infallible>(response.map(|body| Kept {
                body,
                _answer: answer,
            }))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header)
        .max_buf_size(BUFFER_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    // How a connection ends is the client's business: errors are of no use to anybody here.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = seat.closed() => return,
        _ = stop.wait_for(|stop| *stop) => {}
        () = sleep(limits.life) => {}
    }
    connection.as_mut().graceful_shutdown();
    tokio::select! {
        _ = timeout(limits.last_answer, connection) => {}
        () = seat.closed() => {}
    }
}
