//! A call of etcd's JSON gateway: one HTTP request on its own connection.

use std::io;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// The maximum size of a reply in bytes, enough for a table of ten thousand servers.
const ANSWER_MAX: usize = 4 << 20;

/// Sends a request to an endpoint (such as `127.0.0.1:2379`) and returns the reply. The caller must
/// limit the time.
///
/// # Errors
/// Returns the reason why there is no readable reply, as text.
pub(super) async fn post(
    endpoint: &str,
    path: &str,
    body: &Value,
) -> Result<(StatusCode, Value), String> {
    let stream = TcpStream::connect(endpoint).await;
    let stream = stream.map_err(|e| system(&e))?;
    // Without `TCP_NODELAY` the call still works, only later.
    let _ = stream.set_nodelay(true);
    let connected = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = connected.map_err(|e| e.to_string())?;
    let request = Request::post(path)
        .header(HOST, endpoint)
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body.to_string())))
        .map_err(|e| e.to_string())?;
    // The task ends with the reply, or when the request is dropped because the caller no longer
    // waits.
    drop(tokio::spawn(connection));
    let response = sender.send_request(request).await;
    let response = response.map_err(|e| e.to_string())?;
    let status = response.status();
    let body = Limited::new(response.into_body(), ANSWER_MAX).collect();
    let body = body.await.map_err(|e| e.to_string())?.to_bytes();
    // Streaming calls, such as that for keep-alive, reply with one value per line. The first value
    // is the reply.
    let mut values = serde_json::Deserializer::from_slice(&body).into_iter();
    match values.next() {
        Some(Ok(value)) => Ok((status, value)),
        _ => Err(format!("{status}, and what follows is not JSON")),
    }
}

/// Returns the text of a system error without its number.
fn system(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error")
        .next()
        .unwrap_or(&text)
        .to_lowercase()
}
