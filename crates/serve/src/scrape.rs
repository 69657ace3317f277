//! One plain thread that answers `GET /metrics`, and `GET /config` with the configuration in force: several clients at a time, one request each, small and soon, or they are closed.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};

use crate::metrics::{CONTENT_TYPE, Detail, DriveSnapshot, text};
use crate::shard::{Address, Mail};

/// Longest request, bytes.
const REQUEST_MAX: usize = 8 << 10;
/// How long a client may take with its request and the answer together.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long the shards may take to say how things stand.
const SHARDS: Duration = Duration::from_secs(1);
/// Clients at a time; when there are more, the one that came first is closed.
const CLIENTS: usize = 32;

const OK: &str = "200 OK";

/// The running thread as others see it.
#[derive(Debug)]
pub(crate) struct Handle {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    pub(crate) address: SocketAddr,
    /// The configuration in force, as a file.
    config: Arc<Mutex<String>>,
}

impl Handle {
    /// From now on, this is the configuration in force.
    pub(crate) fn set_config(&self, config: &weir_config::Server) {
        *self.config.lock().unwrap_or_else(PoisonError::into_inner) = config.to_string();
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // The counter cannot overflow; nothing else can fail.
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Answers every client that comes to `listener`, which does not block, from what the shards say when they are asked.
pub(crate) fn spawn(
    listener: TcpListener,
    shards: Vec<Address>,
    config: &weir_config::Server,
) -> io::Result<Handle> {
    let address = listener.local_addr()?;
    let stop = Arc::new(rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?);
    let stopped = Arc::clone(&stop);
    let config = Arc::new(Mutex::new(config.to_string()));
    let told = Told {
        shards,
        config: Arc::clone(&config),
    };
    let thread = std::thread::Builder::new()
        .name("weir-metrics".to_owned())
        .spawn(move || serve(&listener, &stopped, &told))?;
    Ok(Handle {
        stop,
        thread: Some(thread),
        address,
        config,
    })
}

/// Where what is asked for is known.
struct Told {
    shards: Vec<Address>,
    config: Arc<Mutex<String>>,
}

fn serve(listener: &TcpListener, stop: &OwnedFd, told: &Told) {
    let mut clients: Vec<Client> = Vec::new();
    loop {
        let now = Instant::now();
        clients.retain(|client| client.deadline > now);
        let next = clients.iter().map(|client| client.deadline - now).min();
        let timeout = next.and_then(|next| Timespec::try_from(next).ok());
        let mut fds = vec![
            PollFd::new(stop, PollFlags::IN),
            PollFd::new(listener, PollFlags::IN),
        ];
        fds.extend(clients.iter().map(Client::interest));
        match rustix::event::poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                tracing::error!(
                    error = weir_config::os_error::message(&error.into()),
                    "metrics end"
                );
                return;
            }
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        if ready[0] {
            return;
        }
        let mut those = ready[2..].iter();
        // A client that goes away or is slow is told nothing.
        clients.retain_mut(|client| !those.next().is_some_and(|r| *r) || client.advance(told));
        if ready[1] {
            accept(listener, &mut clients);
        }
    }
}

fn accept(listener: &TcpListener, clients: &mut Vec<Client>) {
    match listener.accept() {
        Ok((stream, _)) if stream.set_nonblocking(true).is_ok() => {
            if clients.len() >= CLIENTS {
                clients.remove(0);
            }
            clients.push(Client {
                stream,
                deadline: Instant::now() + PATIENCE,
                request: Vec::new(),
                answer: Vec::new(),
            });
        }
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
        // Out of descriptors, say: not in a loop.
        Err(_) => std::thread::sleep(Duration::from_millis(100)),
    }
}

/// A client that asks.
struct Client {
    stream: TcpStream,
    deadline: Instant,
    /// What has come of the request.
    request: Vec<u8>,
    /// What has not been sent of the answer; empty before there is one.
    answer: Vec<u8>,
}

impl Client {
    fn interest(&self) -> PollFd<'_> {
        let flags = if self.answer.is_empty() {
            PollFlags::IN
        } else {
            PollFlags::OUT
        };
        PollFd::new(&self.stream, flags)
    }

    /// Goes on as far as it goes without waiting; false if it is over.
    fn advance(&mut self, told: &Told) -> bool {
        match self.try_advance(told) {
            Ok(over) => !over,
            Err(error) => matches!(
                error.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
            ),
        }
    }

    /// True when the answer has been sent.
    fn try_advance(&mut self, told: &Told) -> io::Result<bool> {
        while self.answer.is_empty() {
            let mut part = [0; 1024];
            match self.stream.read(&mut part)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self.request.extend_from_slice(&part[..count]),
            }
            // Up to the end of its head, so that closing the connection does not cut the answer off.
            if self.request.windows(4).any(|w| w == b"\r\n\r\n") {
                self.answer = answer(&self.request, told);
            } else if self.request.len() > REQUEST_MAX {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        while !self.answer.is_empty() {
            let count = self.stream.write(&self.answer)?;
            self.answer.drain(..count);
        }
        Ok(true)
    }
}

fn answer(request: &[u8], told: &Told) -> Vec<u8> {
    let (status, kind, body) = match &head(request)[..] {
        [method, path] if method == "GET" && Detail::asked(path).is_some() => {
            match snapshots(&told.shards) {
                Some(drives) => {
                    let detail = Detail::asked(path).unwrap_or_default();
                    (OK, CONTENT_TYPE, text::render(&drives, detail))
                }
                None => (
                    "503 Service Unavailable",
                    "text/plain",
                    "a shard does not answer\n".to_owned(),
                ),
            }
        }
        [method, path] if method == "GET" && path == "/config" => {
            let config = told.config.lock().unwrap_or_else(PoisonError::into_inner);
            (OK, "application/toml", config.clone())
        }
        [method, _] if method == "GET" => (
            "404 Not Found",
            "text/plain",
            "see /metrics and /config\n".to_owned(),
        ),
        [_, _] => (
            "405 Method Not Allowed",
            "text/plain",
            "only GET\n".to_owned(),
        ),
        _ => ("400 Bad Request", "text/plain", "not HTTP\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    (head + &body).into_bytes()
}

/// Method and path of the request; nothing if it is malformed.
fn head(request: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(request);
    let mut words = text.lines().next().unwrap_or("").split(' ');
    match (words.next(), words.next(), words.next(), words.next()) {
        (Some(method), Some(path), Some(version), None) if version.starts_with("HTTP/1.") => {
            vec![method.to_owned(), path.to_owned()]
        }
        _ => Vec::new(),
    }
}

/// Asks every shard, all at once.
fn snapshots(shards: &[Address]) -> Option<Vec<DriveSnapshot>> {
    let (sender, receiver) = channel();
    for shard in shards {
        shard.tell(Mail::Snapshot(sender.clone()));
    }
    drop(sender);
    let deadline = Instant::now() + SHARDS;
    let mut drives = Vec::new();
    for _ in shards {
        let left = deadline.saturating_duration_since(Instant::now());
        drives.extend(receiver.recv_timeout(left).ok()?);
    }
    drives.sort_by(|a: &DriveSnapshot, b| a.name.cmp(&b.name));
    Some(drives)
}
