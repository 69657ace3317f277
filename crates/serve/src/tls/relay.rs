//! The threads of encrypted connections. Each relays between an encrypted connection and a socket
//! pair, whose other end a shard serves like an unencrypted connection.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{AddressFamily, SendFlags, Shutdown, SocketFlags, SocketType};

use super::buffer::TransferBuffer;
use super::stream::TlsSession;

/// The sizes of the buffers in bytes. A transfer wakes another thread, so it should be large.
const REQUESTS: usize = 128 << 10;
const REPLIES: usize = 64 << 10;
/// The number of transfers in one direction before the other direction is served.
const TRANSFERS: usize = 16;
/// The time for the last replies after the shard has closed its socket. A client that reads slower
/// loses them.
const LAST_REPLIES: Duration = Duration::from_secs(5);
/// The stack of a thread in bytes. The cryptography needs a few KiB.
const STACK: usize = 256 << 10;

/// The threads of a server.
#[derive(Debug)]
pub(super) struct RelayThreads {
    /// A token, of which each thread holds a reference.
    running: Arc<()>,
    /// The maximum number of threads. Connections that have ended in the shard still count until
    /// their last replies are sent.
    most: usize,
}

impl RelayThreads {
    pub(super) fn new(connections: usize) -> Self {
        Self {
            running: Arc::new(()),
            most: 2 * connections,
        }
    }

    pub(super) fn count(&self) -> usize {
        Arc::strong_count(&self.running) - 1
    }

    /// Starts a thread. Returns the socket for the shard.
    pub(super) fn start(&self, client: OwnedFd, session: TlsSession) -> io::Result<OwnedFd> {
        if self.count() >= self.most {
            return Err(io::Error::other(
                "too many TLS connections are still ending",
            ));
        }
        let token = Arc::clone(&self.running);
        start(client, session, move |_| drop(token))
    }

    pub(super) fn wait(&self, within: Duration) {
        let begun = Instant::now();
        while self.count() > 0 && begun.elapsed() < within {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Starts a thread that relays between an encrypted connection and a socket pair. Returns the other
/// end of the pair. The thread passes its result to `ended`.
pub(super) fn start(
    client: OwnedFd,
    session: TlsSession,
    ended: impl FnOnce(io::Result<()>) + Send + 'static,
) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (own, shard) =
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let relay = Relay {
        client,
        session,
        shard: own,
        requests: TransferBuffer::new(REQUESTS),
        replies: TransferBuffer::new(REPLIES),
        client_ended: false,
        shard_ended: false,
        deadline: None,
    };
    let thread = std::thread::Builder::new()
        .name("weir-tls".to_owned())
        .stack_size(STACK);
    thread.spawn(move || ended(relay.run()))?;
    Ok(shard)
}

/// The state of one thread.
struct Relay {
    client: OwnedFd,
    session: TlsSession,
    shard: OwnedFd,
    requests: TransferBuffer,
    replies: TransferBuffer,
    /// True if no further requests are passed on.
    client_ended: bool,
    /// True if the shard has closed its socket and all replies were read from it.
    shard_ended: bool,
    /// The time at which unsent replies are discarded, after the shard has closed its socket.
    deadline: Option<Instant>,
}

/// The state of a direction after some transfers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Transferred {
    /// The direction waits for an event, or has ended.
    All,
    /// The direction can continue at once.
    Some,
}

impl Relay {
    /// Relays until the end of the connection. An error means that the other side has disconnected
    /// or has violated TLS. Either end of the connection notices that this thread closes its
    /// sockets.
    fn run(mut self) -> io::Result<()> {
        while self.turn()? {}
        Ok(())
    }

    /// Transfers as much as is possible, and waits for the next event. Returns false at the end of
    /// the connection.
    fn turn(&mut self) -> io::Result<bool> {
        let requests = self.pass_requests()?;
        let replies = self.pass_replies()?;
        let all_sent = self.replies.is_empty() && !self.session.has_unsent();
        if self.shard_ended && all_sent {
            self.session.close(&self.client);
            return Ok(false);
        }
        if self.deadline.is_some_and(|at| at <= Instant::now()) {
            return Ok(false);
        }
        if requests == Transferred::All && replies == Transferred::All {
            self.wait()?;
        }
        Ok(true)
    }

    /// Passes requests from the client to the shard.
    fn pass_requests(&mut self) -> io::Result<Transferred> {
        for _ in 0..TRANSFERS {
            if self.client_ended {
                return Ok(Transferred::All);
            }
            if self.requests.is_empty() {
                let (session, client) = (&mut self.session, &self.client);
                let filled = self.requests.fill(|into| session.receive(client, into));
                if would_block(filled)?.is_none() {
                    return Ok(Transferred::All);
                }
                if self.requests.is_empty() {
                    self.client_ended = true;
                    // The shard sees the end of the stream after the requests before it.
                    let _ = rustix::net::shutdown(&self.shard, Shutdown::Write);
                    return Ok(Transferred::All);
                }
            }
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            let sent = rustix::net::send(&self.shard, self.requests.waiting(), flags);
            match would_block(sent.map_err(Into::into)) {
                Ok(None) => return Ok(Transferred::All),
                Ok(Some(count)) => self.requests.consume(count),
                // The shard has closed its socket. Its last replies are still sent.
                Err(_) => {
                    self.client_ended = true;
                    self.requests.consume(self.requests.waiting().len());
                }
            }
        }
        Ok(Transferred::Some)
    }

    /// Passes replies from the shard to the client.
    fn pass_replies(&mut self) -> io::Result<Transferred> {
        for _ in 0..TRANSFERS {
            if !self.session.flush(&self.client)? {
                return Ok(Transferred::All);
            }
            if self.replies.is_empty() {
                if self.shard_ended {
                    return Ok(Transferred::All);
                }
                let filled = self.replies.fill_from(&self.shard);
                if would_block(filled)?.is_none() {
                    return Ok(Transferred::All);
                }
                if self.replies.is_empty() {
                    self.shard_ended = true;
                    self.client_ended = true;
                    return Ok(Transferred::All);
                }
            }
            match would_block(self.session.send(&self.client, self.replies.waiting()))? {
                None => return Ok(Transferred::All),
                Some(count) => self.replies.consume(count),
            }
        }
        Ok(Transferred::Some)
    }

    /// Waits for an event by which a direction can continue.
    fn wait(&mut self) -> io::Result<()> {
        let mut of_client = PollFlags::empty();
        if !self.client_ended && self.requests.is_empty() {
            of_client |= PollFlags::IN;
        }
        if self.session.has_unsent() {
            of_client |= PollFlags::OUT;
        }
        let mut of_shard = PollFlags::empty();
        if !self.client_ended && !self.requests.is_empty() {
            of_shard |= PollFlags::OUT;
        }
        if !self.shard_ended && self.replies.is_empty() && !self.session.has_unsent() {
            of_shard |= PollFlags::IN;
        }
        let (mut fds, mut shard_at) = (Vec::with_capacity(2), None);
        // A socket on which nothing is awaited is left out, because a hang-up would end every wait.
        if !of_client.is_empty() {
            fds.push(PollFd::from_borrowed_fd(self.client.as_fd(), of_client));
        }
        // The shard can close its socket while the client does not read.
        if !of_shard.is_empty() || self.deadline.is_none() {
            shard_at = Some(fds.len());
            fds.push(PollFd::from_borrowed_fd(self.shard.as_fd(), of_shard));
        }
        let left = self
            .deadline
            .map(|at| at.saturating_duration_since(Instant::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match rustix::event::poll(&mut fds, left.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        if shard_at.is_some_and(|at| fds[at].revents().contains(PollFlags::HUP)) {
            self.deadline
                .get_or_insert_with(|| Instant::now() + LAST_REPLIES);
        }
        Ok(())
    }
}

/// Returns `None` if an operation would have to wait.
fn would_block<T>(outcome: io::Result<T>) -> io::Result<Option<T>> {
    match outcome {
        Ok(count) => Ok(Some(count)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) if error.kind() == ErrorKind::Interrupted => Ok(None),
        Err(error) => Err(error),
    }
}
