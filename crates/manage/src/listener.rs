//! Lets clients in: a bounded number of them, each with bounded time and memory.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::AbortHandle;
use tower::ServiceExt;

use crate::access::Peer;

/// Connections of one listener at a time.
const CONNECTIONS: usize = 128;
/// The head of a request: time for it, and bytes.
const HEAD: Duration = Duration::from_secs(5);
const HEAD_BYTES: usize = 16 << 10;
/// How long a connection that listens to no events may take for all of its requests.
const LIFE: Duration = Duration::from_mins(1);

/// What is known of a connection; those that were let in once stay when there are too many.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    trusted: Arc<AtomicBool>,
    streams: Arc<AtomicBool>,
}

impl Known {
    /// A request of it was permitted.
    pub(crate) fn trust(&self) {
        self.trusted.store(true, Ordering::Relaxed);
    }

    /// It listens to events, for as long as it likes.
    pub(crate) fn stream(&self) {
        self.streams.store(true, Ordering::Relaxed);
    }
}

/// The connections of a listener.
#[derive(Debug, Default)]
struct Places(Mutex<VecDeque<(Known, AbortHandle)>>);

impl Places {
    /// Whether there is room for one more; where there is none, the oldest that was not let in yet goes.
    fn make_room(&self) -> bool {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        places.retain(|(_, task)| !task.is_finished());
        if places.len() < CONNECTIONS {
            return true;
        }
        let strange = |(known, _): &(Known, AbortHandle)| !known.trusted.load(Ordering::Relaxed);
        let Some(at) = places.iter().position(strange) else {
            return false;
        };
        if let Some((_, task)) = places.remove(at) {
            task.abort();
        }
        true
    }

    fn take(&self, known: Known, task: AbortHandle) {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        places.push_back((known, task));
    }
}

/// Serves every client that `accept` lets in.
pub(crate) async fn run<S, A, F>(accept: A, router: Router)
where
    A: Fn() -> F,
    F: Future<Output = std::io::Result<(S, Peer)>>,
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let places = Places::default();
    loop {
        let Ok((socket, peer)) = accept().await else {
            // Out of descriptors, say: not in a loop.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        if places.make_room() {
            let known = Known::default();
            let served = serve(socket, peer, known.clone(), router.clone());
            places.take(known, tokio::spawn(served).abort_handle());
        }
    }
}

/// Serves one client, until it goes or its time is over.
async fn serve<S>(socket: S, peer: Peer, known: Known, router: Router)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let streams = Arc::clone(&known.streams);
    let service = hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
        let mut request: Request = request.map(Body::new);
        request.extensions_mut().insert(peer.clone());
        request.extensions_mut().insert(known.clone());
        let answered = router.clone().oneshot(request);
        async move {
            let answer: Result<_, Infallible> = answered.await;
            answer
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(socket), service);
    let over = async {
        loop {
            tokio::time::sleep(LIFE).await;
            if !streams.load(Ordering::Relaxed) {
                break;
            }
        }
    };
    tokio::select! {
        // A client that speaks something else is not worth a word.
        _ = connection => {}
        () = over => {}
    }
}
