//! The channel between a server and its successor: a stream of messages with descriptors.
//!
//! A message begins with three lengths: of its JSON, of the bytes that follow the JSON, and of the
//! list of descriptors. Each end waits only up to a deadline, because the other process may hang.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg,
};

use super::interrupt::UpgradeInterrupt;
use super::record::UpgradeMessage;

/// The length of the beginning of a message in bytes.
const HEAD: usize = 24;
/// The largest number of descriptors beside one byte. The kernel permits 253 (`SCM_MAX_FD`).
const DESCRIPTORS: usize = 128;
/// The largest sizes that are accepted: of the JSON, of the bytes, and of the list of descriptors.
const LARGEST: [u64; 3] = [1 << 30, 8 << 30, 1 << 16];

/// A message as it is received, with its descriptors and bytes.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) message: UpgradeMessage,
    pub(crate) descriptors: Vec<OwnedFd>,
    pub(crate) bytes: Vec<u8>,
}

/// One end of the channel.
#[derive(Debug)]
pub(crate) struct UpgradeChannel {
    socket: OwnedFd,
    deadline: Instant,
    /// Ends each wait once it is interrupted.
    interrupt: Option<UpgradeInterrupt>,
}

impl UpgradeChannel {
    /// Creates both ends. The second is for the successor.
    ///
    /// # Errors
    /// Returns the error of socketpair(2).
    pub(crate) fn pair() -> io::Result<(Self, OwnedFd)> {
        let (own, other) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        Ok((Self::new(own), other))
    }

    /// Uses the end that the predecessor has created.
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            deadline: Instant::now(),
            interrupt: None,
        }
    }

    /// Sets the time limit of the calls that follow, together.
    pub(crate) fn limit(&mut self, within: Duration) {
        self.deadline = Instant::now() + within;
    }

    /// Lets `interrupt` end the calls that follow, or nothing.
    pub(crate) fn set_interrupt(&mut self, interrupt: Option<UpgradeInterrupt>) {
        self.interrupt = interrupt;
    }

    /// Sends a message.
    ///
    /// # Errors
    /// Returns `TimedOut` after the time limit, `Interrupted` after an interrupt, or the error of
    /// the socket.
    pub(crate) fn send(
        &self,
        message: &UpgradeMessage,
        descriptors: &[BorrowedFd<'_>],
        bytes: &[u8],
    ) -> io::Result<()> {
        let json = serde_json::to_vec(message)?;
        let lengths = [json.len(), bytes.len(), descriptors.len()];
        let head: Vec<u8> = lengths
            .iter()
            .flat_map(|length| (*length as u64).to_le_bytes())
            .collect();
        self.send_bytes(&head)?;
        // Each part travels with a byte of its own, because descriptors arrive together with the
        // first byte that they were sent with, and the kernel limits their number.
        for some in descriptors.chunks(DESCRIPTORS) {
            self.send_some(&[0], some)?;
        }
        self.send_bytes(&json)?;
        self.send_bytes(bytes)
    }

    fn send_bytes(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let sent = self.send_some(bytes, &[])?;
            bytes = &bytes[sent..];
        }
        Ok(())
    }

    fn send_some(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        loop {
            let mut control = SendAncillaryBuffer::new(&mut space);
            if !descriptors.is_empty() {
                control.push(SendAncillaryMessage::ScmRights(descriptors));
            }
            match sendmsg(&self.socket, &[IoSlice::new(bytes)], &mut control, flags) {
                Ok(sent) => return Ok(sent),
                Err(Errno::AGAIN) => self.wait(PollFlags::OUT)?,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Receives a message.
    ///
    /// # Errors
    /// Returns `TimedOut` after the time limit, `Interrupted` after an interrupt, `UnexpectedEof`
    /// if the other process has ended, `InvalidData` if it sent nonsense, or the socket's error.
    pub(crate) fn receive(&self) -> io::Result<Received> {
        let mut head = [0; HEAD];
        let mut descriptors = Vec::new();
        self.receive_into(&mut head, &mut descriptors)?;
        let mut lengths = [0; 3];
        for (length, bytes) in lengths.iter_mut().zip(head.chunks_exact(8)) {
            *length = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
        }
        // The memory is allocated before the bytes arrive, so that a wrong length must not be
        // believed.
        if lengths
            .iter()
            .zip(LARGEST)
            .any(|(length, most)| *length > most)
        {
            return Err(io::Error::new(
                ErrorKind::InvalidData,
                "a message is too long",
            ));
        }
        let [json, bytes, count] = lengths.map(|length| length as usize);
        for _ in 0..count.div_ceil(DESCRIPTORS) {
            self.receive_into(&mut [0], &mut descriptors)?;
        }
        // The kernel drops the descriptors for which the process has no room, without an error.
        if descriptors.len() != count {
            let what = "descriptors are missing, because the limit of open files is reached";
            return Err(io::Error::other(what));
        }
        let mut text = vec![0; json];
        self.receive_into(&mut text, &mut descriptors)?;
        let mut rest = vec![0; bytes];
        self.receive_into(&mut rest, &mut descriptors)?;
        Ok(Received {
            message: serde_json::from_slice(&text)
                .map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?,
            descriptors,
            bytes: rest,
        })
    }

    fn receive_into(&self, mut into: &mut [u8], all: &mut Vec<OwnedFd>) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        while !into.is_empty() {
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let mut part = [IoSliceMut::new(&mut *into)];
            let received = match recvmsg(&self.socket, &mut part, &mut control, flags) {
                Ok(received) => received.bytes,
                Err(Errno::AGAIN) => {
                    self.wait(PollFlags::IN)?;
                    continue;
                }
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            };
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(rights) = message {
                    all.extend(rights);
                }
            }
            if received == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            into = &mut into[received..];
        }
        Ok(())
    }

    fn wait(&self, events: PollFlags) -> io::Result<()> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        let left = Timespec::try_from(left).ok();
        // A wait can end early because of a signal. The caller tries again, and returns here.
        let mut fds = vec![PollFd::from_borrowed_fd(self.socket.as_fd(), events)];
        let interrupt = self.interrupt.as_ref();
        fds.extend(interrupt.map(|i| PollFd::from_borrowed_fd(i.as_fd(), PollFlags::IN)));
        match rustix::event::poll(&mut fds, left.as_ref()) {
            Ok(_) if fds.len() > 1 && !fds[1].revents().is_empty() => {
                Err(ErrorKind::Interrupted.into())
            }
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn pair() -> (UpgradeChannel, UpgradeChannel) {
        let (mut one, other) = UpgradeChannel::pair().unwrap();
        let mut other = UpgradeChannel::new(other);
        one.limit(SECOND);
        other.limit(SECOND);
        (one, other)
    }

    #[test]
    fn messages_arrive_with_their_descriptors_and_bytes() {
        let (one, other) = pair();
        let file = File::open("/dev/null").unwrap();
        for (descriptors, bytes) in [(0, 0), (1, 10), (300, 3 << 20)] {
            let volume = format!("volume {descriptors}");
            let sent: Vec<u8> = (0..bytes).map(|n| (n >> 3) as u8).collect();
            let files = vec![file.as_fd(); descriptors];
            let message = UpgradeMessage::Storage {
                volume: volume.clone(),
            };
            let received = std::thread::scope(|scope| {
                scope.spawn(|| one.send(&message, &files, &sent).unwrap());
                other.receive().unwrap()
            });
            assert!(
                matches!(received.message, UpgradeMessage::Storage { volume: v } if v == volume)
            );
            assert_eq!(received.descriptors.len(), descriptors);
            assert!(received.bytes == sent);
        }
    }

    #[test]
    fn an_interrupt_ends_a_wait() {
        let (one, mut other) = pair();
        let interrupt = UpgradeInterrupt::new().unwrap();
        other.set_interrupt(Some(interrupt.clone()));
        interrupt.interrupt();
        assert_eq!(other.receive().unwrap_err().kind(), ErrorKind::Interrupted);
        other.set_interrupt(None);
        one.send(&UpgradeMessage::Commit, &[], &[]).unwrap();
        other.receive().unwrap();
    }

    #[test]
    fn a_process_that_is_silent_ends_or_lies_is_an_error() {
        let (one, mut other) = pair();
        other.limit(Duration::from_millis(20));
        let kind = |channel: &UpgradeChannel| channel.receive().unwrap_err().kind();
        assert_eq!(kind(&other), ErrorKind::TimedOut);
        other.limit(SECOND);
        one.send_bytes(&[0; 10]).unwrap();
        drop(one);
        assert_eq!(kind(&other), ErrorKind::UnexpectedEof);
        for head in [[u64::MAX; 3], [4, 0, 0], [0, 0, 0]] {
            let (one, other) = pair();
            let bytes: Vec<u8> = head.iter().flat_map(|n| n.to_le_bytes()).collect();
            one.send_bytes(&bytes).unwrap();
            one.send_bytes(b"nul}").unwrap();
            assert_eq!(kind(&other), ErrorKind::InvalidData, "{head:?}");
        }
        // Descriptors are announced, but do not come.
        let (one, other) = pair();
        let bytes: Vec<u8> = [4u64, 0, 1].iter().flat_map(|n| n.to_le_bytes()).collect();
        one.send_bytes(&bytes).unwrap();
        one.send_bytes(b"null").unwrap();
        assert!(other.receive().is_err());
    }
}
