//! Serves one connection within limits.

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::peer::Peer;
use crate::refusals::Refused;
use crate::routes::{ClientAddress, Held, busy};
use crate::seats::{Kept, Noted, Seat};
use crate::secured::Guard;

/// Time limits for clients.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Time limit for a complete request header, from the moment the server waits for it. Also the
    /// limit of idle time.
    pub(crate) header: Duration,
    /// Time after which the connection closes once the current response is sent.
    pub(crate) life: Duration,
    /// Time limit for the last response of a connection. The limit applies to the whole response
    /// rather than to each write, because a client that reads one byte at a time lets every single
    /// write succeed.
    pub(crate) last_answer: Duration,
}

impl Limits {
    /// By default, Prometheus waits 10 s for a response, and reconnects if a connection was closed.
    /// The last response may be a stream of events.
    pub(crate) const DEFAULT: Self = Self {
        header: Duration::from_secs(5),
        life: Duration::from_secs(30),
        last_answer: Duration::from_secs(30),
    };
}

/// More than any scraper sends in a header. The minimum of hyper is half of this value.
const BUFFER_BYTES: usize = 16 * 1024;

/// State shared by all connections.
pub(crate) struct Door {
    pub(crate) router: Router,
    pub(crate) guard: Guard,
    pub(crate) limits: Limits,
}

/// Serves the connection until the client ends it, a limit is reached, the connection must make
/// room for another, or `stop` changes.
pub(crate) async fn serve(
    stream: TcpStream,
    from: IpAddr,
    door: Arc<Door>,
    seat: Arc<Seat>,
    mut stop: watch::Receiver<bool>,
) {
    let Some(tls) = door.guard.secured.now().tls.clone() else {
        return talk(stream, from, door, seat, stop).await;
    };
    let opened = tokio::select! {
        opened = timeout(door.limits.header, tls.accept(stream)) => opened,
        () = seat.closed() => return door.guard.refusals.count(Refused::Crowded),
        _ = stop.wait_for(|stop| *stop) => return,
    };
    match opened {
        Ok(Ok(stream)) => talk(stream, from, door, seat, stop).await,
        Ok(Err(why)) => door.guard.refusals.count(why),
        Err(_) => door.guard.refusals.count(Refused::Tls),
    }
}

pub(crate) async fn talk<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    from: IpAddr,
    door: Arc<Door>,
    seat: Arc<Seat>,
    mut stop: watch::Receiver<bool>,
) {
    let (limits, answering, inside) = (door.limits, seat.clone(), door.clone());
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Peer::from_address(from));
        request.extensions_mut().insert(ClientAddress(from));
        let answer = answering.ask();
        let door = inside.clone();
        async move {
            let Some(answer) = answer else {
                door.guard.refusals.count(Refused::Crowded);
                let mut response = busy();
                door.guard.complete(&mut response);
                return Ok(response.map(|body| Kept {
                    body,
                    answer: None,
                    sent: None,
                }));
            };
            let mut response = match door.guard.admit(request.headers(), from).await {
                Ok(()) => {
                    let router = TowerToHyperService::new(door.router.clone());
                    router.call(request).await?
                }
                Err(refusal) => refusal,
            };
            door.guard.complete(&mut response);
            let held = response.extensions().get();
            answer.begin(held.map(|Held(page)| page));
            let sent = response.extensions_mut().remove();
            Ok::<_, Infallible>(response.map(|body| Kept {
                body,
                answer: Some(answer),
                sent,
            }))
        }
    });
    let stream = Noted {
        stream,
        seat: seat.clone(),
    };
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header)
        .max_buf_size(BUFFER_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let crowded = || door.guard.refusals.count(Refused::Crowded);
    // Errors at the end of a connection concern only the client.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = seat.closed() => return crowded(),
        _ = stop.wait_for(|stop| *stop) => {}
        () = sleep(limits.life) => {}
    }
    connection.as_mut().graceful_shutdown();
    tokio::select! {
        _ = timeout(limits.last_answer, connection) => {}
        () = seat.closed() => crowded(),
    }
}
