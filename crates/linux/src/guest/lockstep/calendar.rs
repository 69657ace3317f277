//! The clock of a kernel that is a program (User-mode Linux with `CONFIG_UML_TIME_TRAVEL_SUPPORT`).
//!
//! The kernel requests the time at which it wants to run next, waits, and runs when it is told to.
//! While it runs, it may advance time up to an instant that it was granted, without asking. The
//! messages are those of `include/uapi/linux/um_timetravel.h`.

use rustix::event::{PollFd, PollFlags, poll};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use weir_core::{Instant, Span};

// The operations of `enum um_timetravel_ops`.
const ACK: u32 = 0;
const START: u32 = 1;
const REQUEST: u32 = 2;
const WAIT: u32 = 3;
const GET: u32 = 4;
const UPDATE: u32 = 5;
const RUN: u32 = 6;
const FREE_UNTIL: u32 = 7;
const GET_TOD: u32 = 8;

/// The date at which kernels boot, 2026-01-01, in nanoseconds since 1970.
const BOOTED_AT: u64 = 1_767_225_600_000_000_000;

/// The longest time for which a kernel runs before it asks again. It seldom runs for so long
/// without waiting, because its processors take no time. No drive completes a request so soon, so
/// that a request seldom shortens the grant, which would cost a message and an interrupt.
const STRETCH: Span = Span::from_micros(10);

/// The length of `struct um_timetravel_msg`.
const MESSAGE_LEN: usize = 16;

/// A message: its operation, the number that the reply repeats, and a time in nanoseconds.
type ClockMessage = (u32, u32, u64);

fn encode((op, number, time): ClockMessage) -> [u8; MESSAGE_LEN] {
    let mut message = [0; MESSAGE_LEN];
    message[..4].copy_from_slice(&op.to_ne_bytes());
    message[4..8].copy_from_slice(&number.to_ne_bytes());
    message[8..].copy_from_slice(&time.to_ne_bytes());
    message
}

/// The clock of one kernel, as seen by the host.
#[derive(Debug)]
pub(super) struct Calendar {
    kernel: UnixStream,
    /// The present time, as far as the kernel has reported it.
    now: Instant,
    /// The time at which the kernel wants to run next, if it has requested one.
    wanted: Option<Instant>,
    /// The instant up to which the kernel may advance time without asking.
    granted: Instant,
    waits: bool,
    number: u32,
}

impl Calendar {
    pub(super) fn new(kernel: UnixStream) -> Self {
        Self {
            kernel,
            now: Instant::ZERO,
            wanted: None,
            granted: Instant::ZERO,
            waits: false,
            number: 0,
        }
    }

    pub(super) fn now(&self) -> Instant {
        self.now
    }

    /// Returns true if the kernel waits to be run.
    pub(super) fn is_waiting(&self) -> bool {
        self.waits
    }

    /// Returns the time at which the kernel wants to run next, or `None` if it only waits for
    /// interrupts.
    pub(super) fn wanted(&self) -> Option<Instant> {
        self.wanted
    }

    /// Advances time while the kernel waits.
    pub(super) fn advance_to(&mut self, to: Instant) {
        self.now = self.now.max(to);
    }

    /// Receives one message, and replies to it.
    pub(super) fn receive_message(&mut self) -> io::Result<()> {
        let message = self.receive()?;
        self.answer(message)
    }

    fn answer(&mut self, (op, number, time): ClockMessage) -> io::Result<()> {
        let time = Instant::from_nanos(time);
        let answer = match op {
            START => 0,
            REQUEST => {
                self.wanted = Some(time);
                0
            }
            WAIT => {
                self.waits = true;
                0
            }
            GET => self.now.as_nanos(),
            UPDATE => {
                self.now = self.now.max(time);
                0
            }
            // The kernel requests the time of day at its boot.
            GET_TOD => BOOTED_AT,
            other => {
                let what = format!("the kernel's clock says {other}, which has no meaning");
                return Err(io::Error::other(what));
            }
        };
        self.kernel.write_all(&encode((ACK, number, answer)))
    }

    /// Shortens the time that a running kernel was granted, so that it ends at `until`. Does
    /// nothing if the kernel waits, or if its grant already ends before that.
    pub(super) fn limit(&mut self, until: Option<Instant>) -> io::Result<()> {
        let sooner = until.filter(|until| !self.waits && *until < self.granted);
        let Some(until) = sooner else { return Ok(()) };
        self.granted = until;
        self.tell(&[(FREE_UNTIL, until)])
    }

    /// Runs a waiting kernel from the instant that it wants, until `until` or for [`STRETCH`],
    /// whichever is sooner.
    pub(super) fn run(&mut self, until: Option<Instant>) -> io::Result<()> {
        let at = self.wanted.take().unwrap_or(self.now).max(self.now);
        self.now = at;
        let most = at + STRETCH;
        self.granted = until.map_or(most, |until| until.min(most));
        self.waits = false;
        // The kernel runs as soon as it has received RUN, so that the grant has to precede it.
        self.tell(&[(FREE_UNTIL, self.granted), (RUN, at)])
    }

    /// Sends several messages with one write, and handles the kernel's messages until it has
    /// acknowledged all of them.
    fn tell(&mut self, what: &[(u32, Instant)]) -> io::Result<()> {
        let (mut bytes, first) = (
            Vec::with_capacity(MESSAGE_LEN * what.len()),
            self.number + 1,
        );
        for (op, time) in what {
            self.number += 1;
            bytes.extend(encode((*op, self.number, time.as_nanos())));
        }
        self.kernel.write_all(&bytes)?;
        for number in first..=self.number {
            // The kernel can send messages of its own before it acknowledges ours, and waits for
            // replies.
            loop {
                match self.receive()? {
                    (ACK, answered, _) if answered == number => break,
                    (ACK, ..) => {
                        let what = "the kernel's clock answers what was not said";
                        return Err(io::Error::other(what));
                    }
                    message => self.answer(message)?,
                }
            }
        }
        Ok(())
    }

    fn receive(&mut self) -> io::Result<ClockMessage> {
        let mut message = [0; MESSAGE_LEN];
        self.kernel.read_exact(&mut message)?;
        let word = |at: usize| u32::from_ne_bytes(message[at..at + 4].try_into().expect("four"));
        let time = u64::from_ne_bytes(message[8..].try_into().expect("eight"));
        Ok((word(0), word(4), time))
    }

    /// Serves the clock until `other` is readable.
    pub(super) fn serve_until(&mut self, other: BorrowedFd<'_>) -> io::Result<()> {
        loop {
            let mut both = [
                PollFd::from_borrowed_fd(other, PollFlags::IN),
                PollFd::new(&self.kernel, PollFlags::IN),
            ];
            match poll(&mut both, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let [there, clock] = both.map(|fd| !fd.revents().is_empty());
            if clock {
                // The clock comes first: the kernel blocks until its message has a reply.
                self.receive_message()?;
            } else if there {
                return Ok(());
            }
        }
    }
}

impl AsFd for Calendar {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.kernel.as_fd()
    }
}
