//! A client of the management server over its Unix socket or over TLS, with one connection for each
//! request.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, IF_MATCH};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::Runtime;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::{self, pki_types::ServerName};
use weir_serve::TlsClient;

use crate::api::change::Refusal;
use crate::api::event::Event;

/// The time that a server has to reply. A change waits for the clients of removed volumes, which
/// can take some seconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// A client of a management server. Calls block until the reply, for at most 30 s.
#[derive(Debug)]
pub struct ManagementClient {
    address: ManagementAddress,
    runtime: Runtime,
}

/// The address of a management server.
#[derive(Debug)]
enum ManagementAddress {
    Socket(PathBuf),
    Tls {
        /// The host and the port.
        server: String,
        name: ServerName<'static>,
        client: TlsClient,
    },
}

impl fmt::Display for ManagementAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => path.display().fmt(f),
            Self::Tls { server, .. } => server.fmt(f),
        }
    }
}

/// The reason why a request has no usable reply.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address has no listener, or this process may not connect.
    #[error("cannot connect to the server at {server}: {error}")]
    Connect {
        /// The path of the socket, or the host and the port.
        server: String,
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
    /// TLS failed.
    #[error("TLS with the server at {server} failed: {reason}")]
    Tls {
        /// The host and the port.
        server: String,
        /// A description of the failure.
        reason: String,
    },
    /// The connection ended early, or there was no reply in time.
    #[error("the server at {server} does not respond: {reason}")]
    Silent {
        /// The path of the socket, or the host and the port.
        server: String,
        /// A description of the failure.
        reason: String,
    },
    /// The reply is not one of this interface.
    #[error("the server at {server} sent an unexpected reply: {reason}")]
    Strange {
        /// The path of the socket, or the host and the port.
        server: String,
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
        Self::at(ManagementAddress::Socket(socket.to_owned()))
    }

    /// Creates a client of the server at `manage.https`, such as `server.example:9811`, without
    /// connecting to it. The directory has the authority of the server and the client's certificate
    /// ([`TlsClient::read`]).
    ///
    /// # Errors
    /// Returns the first problem of the address or the files, and what to do.
    pub fn over_tls(server: &str, certificates: &Path) -> Result<Self, String> {
        let server = server.strip_prefix("https://").unwrap_or(server);
        let server = server.strip_suffix('/').unwrap_or(server).to_owned();
        let host = server
            .rsplit_once(':')
            .filter(|(_, port)| port.parse::<u16>().is_ok());
        let Some((host, _)) = host else {
            return Err(format!(
                "{server:?} has no port; write for example server.example:9811"
            ));
        };
        let name = TlsClient::server_name(host)?;
        let client = TlsClient::read(certificates)?;
        Self::at(ManagementAddress::Tls {
            server,
            name,
            client,
        })
        .map_err(|e| e.to_string())
    }

    fn at(address: ManagementAddress) -> io::Result<Self> {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        Ok(Self {
            address,
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
        let mut sender = self.connect().await?;
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            // HTTP/1.1 requires the header. The server checks it only for browsers.
            .header(HOST, self.host())
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
        response.map_err(|e| self.failed(&e))
    }

    /// Connects to the server.
    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, Error> {
        let refused = |error| Error::Connect {
            server: self.address.to_string(),
            error,
        };
        match &self.address {
            ManagementAddress::Socket(path) => {
                self.begin(UnixStream::connect(path).await.map_err(refused)?)
                    .await
            }
            ManagementAddress::Tls {
                server,
                name,
                client,
            } => {
                let stream = TcpStream::connect(server).await.map_err(refused)?;
                let connector = TlsConnector::from(client.settings());
                let stream = connector.connect(name.clone(), stream).await;
                self.begin(stream.map_err(|error| self.failed(&error))?)
                    .await
            }
        }
    }

    /// Begins HTTP on a connection.
    async fn begin(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> Result<SendRequest<Full<Bytes>>, Error> {
        let connected = http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = connected.map_err(|e| self.failed(&e))?;
        // The task ends with the response, or with the runtime of this client.
        drop(tokio::spawn(connection));
        Ok(sender)
    }

    /// Returns the host for the head of a request.
    fn host(&self) -> &str {
        match &self.address {
            ManagementAddress::Socket(_) => "localhost",
            ManagementAddress::Tls { server, .. } => server,
        }
    }

    /// Returns the error for a connection that has failed. If the server refuses a certificate, the
    /// reason arrives after the handshake of TLS 1.3, below errors of HTTP.
    fn failed(&self, error: &(dyn std::error::Error + 'static)) -> Error {
        let mut causes = std::iter::successors(Some(error), |error| {
            // The standard library does not count the inner error of an I/O error as its source.
            let inner = error
                .downcast_ref::<io::Error>()
                .and_then(io::Error::get_ref);
            inner
                .map(|inner| inner as &(dyn std::error::Error + 'static))
                .or_else(|| error.source())
        });
        match causes.find_map(|cause| cause.downcast_ref::<rustls::Error>()) {
            Some(cause) => Error::Tls {
                server: self.address.to_string(),
                reason: cause.to_string(),
            },
            None => self.silent(&error.to_string()),
        }
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
            server: self.address.to_string(),
            reason: reason.to_owned(),
        }
    }

    fn strange(&self, reason: &str) -> Error {
        Error::Strange {
            server: self.address.to_string(),
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
