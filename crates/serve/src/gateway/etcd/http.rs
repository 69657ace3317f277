//! A call of etcd's JSON gateway: one request on a connection.

use std::io;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// Most bytes of an answer: a table of ten thousand servers.
const ANSWER_MAX: usize = 4 << 20;

/// Asks an endpoint (`127.0.0.1:2379`) and returns what it answers. The time that this takes is for the caller to bound.
///
/// # Errors
/// Why there is no answer that could be read, in words.
pub(super) async fn post(
    endpoint: &str,
    path: &str,
    body: &Value,
) -> Result<(StatusCode, Value), String> {
    let stream = TcpStream::connect(endpoint).await;
    let stream = stream.map_err(|e| system(&e))?;
    let _ = stream.set_nodelay(true);
    let connected = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = connected.map_err(|e| e.to_string())?;
    let request = Request::post(path)
        .header(HOST, endpoint)
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body.to_string())))
        .map_err(|e| e.to_string())?;
    // It ends with the answer, or when nobody waits for one any more.
    drop(tokio::spawn(connection));
    let response = sender.send_request(request).await;
    let response = response.map_err(|e| e.to_string())?;
    let status = response.status();
    let body = Limited::new(response.into_body(), ANSWER_MAX).collect();
    let body = body.await.map_err(|e| e.to_string())?.to_bytes();
    // A stream is a value a line, of which the first is the answer.
    let mut values = serde_json::Deserializer::from_slice(&body).into_iter();
    match values.next() {
        Some(Ok(value)) => Ok((status, value)),
        _ => Err(format!("{status}, and what follows is not JSON")),
    }
}

/// What the system said, in its words alone.
fn system(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error")
        .next()
        .unwrap_or(&text)
        .to_lowercase()
}
