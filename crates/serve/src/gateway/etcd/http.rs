//! A call of etcd's JSON gateway: one HTTP request on its own connection.

use std::io;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::access::EtcdAccess;

/// The maximum size of a reply in bytes, enough for a table of ten thousand servers.
const ANSWER_MAX: usize = 4 << 20;

/// Sends a request to an endpoint (such as `https://127.0.0.1:2379`) and returns the reply. The
/// caller must limit the time. `token` states the user, if it has been authenticated.
///
/// # Errors
/// Returns the reason why there is no readable reply, as text.
pub(super) async fn post(
    endpoint: &str,
    (path, body): (&str, &Value),
    access: &EtcdAccess,
    token: Option<&str>,
) -> Result<(StatusCode, Value), String> {
    let (scheme, address) = endpoint.split_once("://").unwrap_or(("http", endpoint));
    let stream = TcpStream::connect(address).await;
    let stream = stream.map_err(|e| system(&e))?;
    // Without `TCP_NODELAY` the call still works, only later.
    let _ = stream.set_nodelay(true);
    let mut sender = if scheme == "https" {
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let (connector, name) = access.tls(host)?;
        let stream = connector.connect(name, stream).await;
        begin(stream.map_err(|e| system(&e))?).await?
    } else {
        begin(stream).await?
    };
    let mut request = Request::post(path)
        .header(HOST, address)
        .header(CONTENT_TYPE, "application/json");
    if let Some(token) = token {
        request = request.header(AUTHORIZATION, token);
    }
    let request = request.body(Full::new(Bytes::from(body.to_string())));
    let request = request.map_err(|e| e.to_string())?;
    let response = sender.send_request(request).await;
    let response = response.map_err(|e| reason(&e))?;
    let status = response.status();
    let body = Limited::new(response.into_body(), ANSWER_MAX).collect();
    let body = body.await.map_err(|e| e.to_string())?.to_bytes();
    // Streaming calls, such as that for keep-alive, reply with one value per line. The first value
    // is the reply.
    let mut values = serde_json::Deserializer::from_slice(&body).into_iter();
    if let Some(Ok(value)) = values.next() {
        Ok((status, value))
    } else {
        let text = String::from_utf8_lossy(&body);
        Err(format!("{status}, and not JSON: {:.200}", text.trim()))
    }
}

/// Begins HTTP on a connection.
async fn begin(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<SendRequest<Full<Bytes>>, String> {
    let connected = http1::handshake(TokioIo::new(stream)).await;
    let (sender, connection) = connected.map_err(|e| e.to_string())?;
    // The task ends with the reply, or when the request is dropped because the caller no longer
    // waits.
    drop(tokio::spawn(connection));
    Ok(sender)
}

/// Returns the reason of a failed request. If etcd refuses the certificate, the reason of TLS is
/// the source of the error.
fn reason(error: &hyper::Error) -> String {
    let source = std::error::Error::source(error);
    source.map_or_else(|| error.to_string(), ToString::to_string)
}

/// Returns the text of a system error without its number.
fn system(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error")
        .next()
        .unwrap_or(&text)
        .to_lowercase()
}
