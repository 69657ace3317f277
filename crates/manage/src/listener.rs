//! Accepts connections. Their number is bounded, and so are the time and memory of each.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tower::ServiceExt;
use weir_serve::places::Claim;

use crate::access::Peer;
use crate::places::{Connections, ListenerConnection};

/// The limits of a request's head: the time for its arrival, and its length in bytes.
const HEAD: Duration = Duration::from_secs(5);
const HEAD_BYTES: usize = 16 << 10;
/// The maximum lifetime of a connection that does not stream events. It covers all requests of the
/// connection.
const LIFE: Duration = Duration::from_mins(1);

/// Serves every client that `accept` returns, together with the beginning of its connection: a
/// handshake, which identifies it.
pub(crate) async fn run<S, A, F, B>(accept: A, router: Router)
where
    A: Fn() -> F,
    F: Future<Output = std::io::Result<(B, Claim)>>,
    B: Future<Output = Option<(S, Peer)>> + Send + 'static,
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let connections = Arc::new(Connections::new());
    loop {
        let Ok((begin, claim)) = accept().await else {
            // Probably no descriptors are left. A pause prevents a busy loop.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let connection = loop {
            match connections.take(&claim) {
                Ok(connection) => break connection,
                Err(wait) => tokio::time::sleep(wait).await,
            }
        };
        let (known, router) = (connection.clone(), router.clone());
        let served = async {
            // A handshake that does not end keeps its place no longer than a head.
            if let Ok(Some((socket, peer))) = tokio::time::timeout(HEAD, begin).await {
                serve(socket, peer, known, router).await;
            }
        };
        connection.served_by(tokio::spawn(served).abort_handle());
    }
}

/// Serves one client until it disconnects or its time is over.
async fn serve<S>(socket: S, peer: Peer, connection: ListenerConnection, router: Router)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let known = connection.clone();
    let service = hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
        // The connection counts as working until its response is ready.
        let working = known.work();
        let mut request: Request = request.map(Body::new);
        // Handlers find the client and its connection in the extensions.
        request.extensions_mut().insert(peer.clone());
        request.extensions_mut().insert(known.clone());
        let answered = router.clone().oneshot(request);
        async move {
            let answer: Result<_, Infallible> = answered.await;
            drop(working);
            answer
        }
    });
    let http = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(socket), service);
    let over = async {
        loop {
            tokio::time::sleep(LIFE).await;
            if !connection.is_stream() {
                break;
            }
        }
    };
    tokio::select! {
        // Errors of a client that does not speak HTTP are not worth logging.
        _ = http => {}
        () = over => {}
    }
}
