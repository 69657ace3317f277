//! One plain thread that answers `GET /metrics`: one request a connection, small and soon, or it is closed.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags};

use super::text;
use crate::shard::{Address, Mail};

/// Longest request, bytes.
const REQUEST_MAX: usize = 8 << 10;
/// How long a client may take with its request, and again with the answer.
const PATIENCE: Duration = Duration::from_secs(2);

const OK: &str = "200 OK";
const CONTENT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The running thread as others see it.
#[derive(Debug)]
pub(crate) struct Handle {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    pub(crate) address: SocketAddr,
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

/// Listens, and answers from what the shards say when they are asked.
pub(crate) fn spawn(address: SocketAddr, shards: Vec<Address>) -> io::Result<Handle> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let stop = Arc::new(rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?);
    let stopped = Arc::clone(&stop);
    let thread = std::thread::Builder::new()
        .name("weir-metrics".to_owned())
        .spawn(move || serve(&listener, &stopped, &shards))?;
    Ok(Handle {
        stop,
        thread: Some(thread),
        address,
    })
}

fn serve(listener: &TcpListener, stop: &OwnedFd, shards: &[Address]) {
    loop {
        let mut fds = [
            PollFd::new(stop, PollFlags::IN),
            PollFd::new(listener, PollFlags::IN),
        ];
        match rustix::event::poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                tracing::error!(%error, "metrics end");
                return;
            }
        }
        if !fds[0].revents().is_empty() {
            return;
        }
        match listener.accept() {
            // A client that goes away, or is slow, has nothing to be told.
            Ok((stream, _)) => drop(answer(stream, shards)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // Out of descriptors, say: not in a loop.
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

fn answer(mut stream: TcpStream, shards: &[Address]) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let request = head(&mut stream)?;
    let (status, kind, body) = match &request[..] {
        [method, path] if method == "GET" && path == "/metrics" => match snapshots(shards) {
            Some(drives) => (OK, CONTENT, text::render(&drives)),
            None => (
                "503 Service Unavailable",
                "text/plain",
                "a shard does not answer\n".to_owned(),
            ),
        },
        [method, _] if method == "GET" => {
            ("404 Not Found", "text/plain", "see /metrics\n".to_owned())
        }
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
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

/// Method and path of the request; nothing if it is malformed. Reads up to the end of its head, so that closing the connection
/// does not cut the answer off.
fn head(stream: &mut TcpStream) -> io::Result<Vec<String>> {
    let deadline = Instant::now() + PATIENCE;
    let mut bytes = Vec::new();
    let mut part = [0; 1024];
    while !bytes.windows(4).any(|w| w == b"\r\n\r\n") {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || bytes.len() > REQUEST_MAX {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut part)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => bytes.extend_from_slice(&part[..count]),
        }
    }
    let text = String::from_utf8_lossy(&bytes);
    let mut words = text.lines().next().unwrap_or("").split(' ');
    match (words.next(), words.next(), words.next(), words.next()) {
        (Some(method), Some(path), Some(version), None) if version.starts_with("HTTP/1.") => {
            Ok(vec![method.to_owned(), path.to_owned()])
        }
        _ => Ok(Vec::new()),
    }
}

/// Asks every shard, all at once.
fn snapshots(shards: &[Address]) -> Option<Vec<super::DriveSnapshot>> {
    let (sender, receiver) = channel();
    for shard in shards {
        shard.tell(Mail::Snapshot(sender.clone()));
    }
    drop(sender);
    let mut drives = Vec::new();
    for _ in shards {
        drives.extend(receiver.recv_timeout(PATIENCE).ok()?);
    }
    drives.sort_by(|a: &super::DriveSnapshot, b| a.name.cmp(&b.name));
    Some(drives)
}
