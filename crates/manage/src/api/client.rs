//! A client of the management server over its Unix socket, with one connection for each request.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, IF_MATCH};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use tokio::runtime::Runtime;

use crate::api::change::Refusal;
use crate::api::event::Event;

/// The time that a server has to reply. A change waits for the clients of removed volumes, which
/// can take some seconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// A client of a management server. Calls block until the reply, for at most 30 s.
#[derive(Debug)]
pub struct ManagementClient {
    socket: PathBuf,
    runtime: Runtime,
}

/// The reason why a request has no usable reply.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The socket has no listener, or this process may not connect.
    #[error("cannot connect to the server at {}: {error}", socket.display())]
    Connect {
        /// The path of the socket.
        socket: PathBuf,
        /// The error that the system returned.
        error: io::Error,
    },
    /// The server refused the request and changed nothing.
    #[error("{}", refusal.error)]
    Refused {
        /// The HTTP status, for example 409.
        status: u16,
        /// The reason in the server's words.
        refusal: Refusal,
    },
    /// The connection ended early, or there was no reply in time.
    #[error("the server at {} does not respond: {reason}", socket.display())]
    Silent {
        /// The path of the socket.
        socket: PathBuf,
        /// A description of the failure.
        reason: String,
    },
    /// The reply is not one of this interface.
    #[error("the server at {} sent an unexpected reply: {reason}", socket.display())]
    Strange {
        /// The path of the socket.
        socket: PathBuf,
        /// A description of the difference.
        reason: String,
    },
}

impl ManagementClient {
    /// Creates a client of the server at a socket, without connecting to it.
    ///
    /// # Errors
    /// Returns an error if the system has no descriptors left.
    pub fn new(socket: &Path) -> io::Result<Self> {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        Ok(Self {
            socket: socket.to_owned(),
            runtime: runtime.enable_all().build()?,
        })
    }

    /// Requests a value with `GET`.
    ///
    /// # Errors
    /// Returns the errors described at [`Error`].
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        let body = self.call(Method::GET, path, Vec::new(), None)?;
        self.read(&body)
    }

    /// Requests a text with `GET`.
    ///
    /// # Errors
    /// Returns the errors described at [`Error`].
    pub fn text(&self, path: &str) -> Result<String, Error> {
        let body = self.call(Method::GET, path, Vec::new(), None)?;
        String::from_utf8(body.to_vec()).map_err(|_| self.strange("a text that is not UTF-8"))
    }

    /// Sends a request with a body. `method` is `POST`, `PUT`, `PATCH` or `DELETE`. If `etag` is
    /// given, the server refuses the request unless the state still has this tag.
    ///
    /// # Errors
    /// Returns the errors described at [`Error`].
    pub fn send<T: DeserializeOwned>(
        &self,
        method: &str,
        path: &str,
        body: &impl Serialize,
        etag: Option<&str>,
    ) -> Result<T, Error> {
        let method = method.parse().map_err(|_| self.strange("unknown method"))?;
        let body = serde_json::to_vec(body).map_err(|e| self.strange(&e.to_string()))?;
        let answer = self.call(method, path, body, etag)?;
        self.read(&answer)
    }

    /// Subscribes to the events of the server from now on.
    ///
    /// # Errors
    /// Returns the errors described at [`Error`].
    pub fn events(&self) -> Result<EventStream<'_>, Error> {
        let path = "/v1/events";
        let response = self.waited(self.request(Method::GET, path, Vec::new(), None))?;
        if response.status() != StatusCode::OK {
            let status = response.status();
            let body = self.waited(self.body(response))?;
            return Err(self.refused(status, &body));
        }
        Ok(EventStream {
            client: self,
            body: response.into_body(),
            pending: Vec::new(),
        })
    }

    /// Sends a request, and returns the body of a successful response.
    fn call(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
        etag: Option<&str>,
    ) -> Result<Bytes, Error> {
        let (status, body) = self.waited(async {
            let response = self.request(method, path, body, etag).await?;
            Ok((response.status(), self.body(response).await?))
        })?;
        if status.is_success() {
            Ok(body)
        } else {
            Err(self.refused(status, &body))
        }
    }

    /// Waits for a future on the client's runtime, for at most [`PATIENCE`].
    fn waited<T>(&self, asked: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        // The timer can only be created inside the runtime.
        let answer = async { tokio::time::timeout(PATIENCE, asked).await };
        let answer = self.runtime.block_on(answer);
        answer.unwrap_or_else(|_| Err(self.silent("no reply within 30 s")))
    }

    /// Connects and sends a request. Returns the response without its body.
    async fn request(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
        etag: Option<&str>,
    ) -> Result<Response<Incoming>, Error> {
        let stream = UnixStream::connect(&self.socket).await;
        let stream = stream.map_err(|error| Error::Connect {
            socket: self.socket.clone(),
            error,
        })?;
        let connected = http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = connected.map_err(|e| self.silent(&e.to_string()))?;
        // The task ends with the response, or with the runtime of this client.
        drop(tokio::spawn(connection));
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            // HTTP/1.1 requires the header. The server checks it only for browsers.
            .header(HOST, "localhost")
            .header(ACCEPT, "application/json");
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if let Some(etag) = etag {
            request = request.header(IF_MATCH, etag);
        }
        let request = request.body(Full::new(Bytes::from(body)));
        let request = request.map_err(|e| self.strange(&e.to_string()))?;
        let response = sender.send_request(request).await;
        response.map_err(|e| self.silent(&e.to_string()))
    }

    async fn body(&self, response: Response<Incoming>) -> Result<Bytes, Error> {
        let body = response.into_body().collect().await;
        Ok(body.map_err(|e| self.silent(&e.to_string()))?.to_bytes())
    }

    fn read<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, Error> {
        serde_json::from_slice(body).map_err(|e| self.strange(&e.to_string()))
    }

    fn refused(&self, status: StatusCode, body: &[u8]) -> Error {
        // Errors of the HTTP library itself have no message.
        match serde_json::from_slice(body) {
            Ok(refusal) => Error::Refused {
                status: status.as_u16(),
                refusal,
            },
            Err(_) => self.strange(&format!("status {status} without a message")),
        }
    }

    fn silent(&self, reason: &str) -> Error {
        Error::Silent {
            socket: self.socket.clone(),
            reason: reason.to_owned(),
        }
    }

    fn strange(&self, reason: &str) -> Error {
        Error::Strange {
            socket: self.socket.clone(),
            reason: reason.to_owned(),
        }
    }
}

/// A stream of events from the server.
#[derive(Debug)]
pub struct EventStream<'a> {
    client: &'a ManagementClient,
    body: Incoming,
    /// The received part of the next event.
    pending: Vec<u8>,
}

impl EventStream<'_> {
    /// Returns the next event, or `None` if none arrives within `patience`.
    ///
    /// # Errors
    /// Returns an error if the stream has ended, or if an event is invalid.
    pub fn next(&mut self, patience: Duration) -> Result<Option<Event>, Error> {
        let client = self.client;
        client.runtime.block_on(async {
            let next = tokio::time::timeout(patience, self.read());
            // A timeout is not an error of the stream.
            next.await.map_or(Ok(None), |event| event.map(Some))
        })
    }

    async fn read(&mut self) -> Result<Event, Error> {
        loop {
            // Server-sent events end with an empty line.
            while let Some(end) = self.pending.windows(2).position(|w| w == b"\n\n") {
                let event: Vec<u8> = self.pending.drain(..end + 2).collect();
                if let Some(event) = self.event(&String::from_utf8_lossy(&event))? {
                    return Ok(event);
                }
            }
            let frame = self.body.frame().await;
            let frame = frame.ok_or_else(|| self.client.silent("the server has ended"))?;
            let frame = frame.map_err(|e| self.client.silent(&e.to_string()))?;
            // A frame without data has trailers, which are ignored.
            if let Ok(data) = frame.into_data() {
                self.pending.extend_from_slice(&data);
            }
        }
    }

    /// Parses an event of the stream. Returns `None` for a comment, and for an event that only a
    /// newer server has.
    fn event(&self, text: &str) -> Result<Option<Event>, Error> {
        let field = |name: &str| {
            let mut lines = text.lines();
            lines.find_map(|line| Some(line.strip_prefix(name)?.trim_start()))
        };
        let (Some(name), Some(data)) = (field("event:"), field("data:")) else {
            return Ok(None);
        };
        let read = |e: serde_json::Error| self.client.strange(&e.to_string());
        Ok(Some(match name {
            "second" => Event::Second(serde_json::from_str(data).map_err(read)?),
            "short" => Event::Short(serde_json::from_str(data).map_err(read)?),
            "change" => Event::Change(serde_json::from_str(data).map_err(read)?),
            _ => return Ok(None),
        }))
    }
}
