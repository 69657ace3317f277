//! One client's connection in the transmission phase.

use std::collections::VecDeque;

use weir_core::{Instant, StreamId};
use weir_uring::{Buf, Handle, OpId, Payload, Segment};
use weir_wire::nbd::{Request, Rules};

use crate::acceptor::Ticket;

/// Bytes of a receive buffer at first.
pub(crate) const INPUT: usize = 8 << 10;
/// Bytes of the receive buffer of a connection that fills a small one with requests.
pub(crate) const INPUT_LARGE: usize = 64 << 10;

/// After so many receives in a row that it would have done for, a small buffer is enough again.
pub(crate) const SPARSE: u32 = 32;

/// Where a connection stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Requests come and go.
    Open,
    /// No further request is taken; what was taken is answered, then the connection ends.
    Leaving,
    /// The client is not there any more, or broke the protocol: nothing is sent, what has not reached the drive is given up.
    Gone,
}

/// Why no request was taken from the input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stop {
    /// There is no whole one.
    Input,
    /// A bound is reached, or the core said to pause.
    Blocked,
    /// None will be taken any more.
    Ended,
}

/// A client and what it has under way.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) id: u64,
    pub(crate) peer: String,
    pub(crate) drive: usize,
    pub(crate) space: u32,
    pub(crate) stream: StreamId,
    pub(crate) socket: Handle,
    pub(crate) rules: Rules,
    pub(crate) structured: bool,
    pub(crate) state: State,
    pub(crate) input: Input,
    pub(crate) gather: Option<Gather>,
    /// Bytes of a refused request's payload that are still to come.
    pub(crate) skip: u32,
    /// Requests the core had no room for, in their order.
    pub(crate) queue: VecDeque<u32>,
    /// The core said so.
    pub(crate) paused: bool,
    /// The core was told that the answers are not read.
    pub(crate) held: bool,
    /// It stopped at a bound; whatever frees something looks at it again.
    pub(crate) blocked: bool,
    /// It is in the shard's list of connections to look at.
    pub(crate) ready: bool,
    /// It is in the shard's list of connections with answers to send.
    pub(crate) dirty: bool,
    /// It waits for memory in the shard's list.
    pub(crate) waiting: bool,
    /// When it last took answers or sent something.
    pub(crate) moved: Instant,
    pub(crate) receiving: Option<OpId>,
    pub(crate) output: Output,
    /// Requests taken whose answer has not been sent.
    pub(crate) outstanding: u32,
    /// Of these, those that are not over: in the core, in its queue, or with the backend.
    pub(crate) live: u32,
    /// Of these, those that count for promises.
    pub(crate) asking: u32,
    /// Bytes reserved.
    pub(crate) used: u64,
    /// Requests taken since the input was looked at for the size of its buffer.
    pub(crate) taken: u32,
    /// The last receive filled its buffers.
    pub(crate) filled: bool,
    /// How many receives in a row a small buffer would have done for.
    pub(crate) sparse: u32,
    /// A small vector for receiving into several buffers.
    pub(crate) spare: Vec<Buf>,
    pub(crate) ticket: Ticket,
}

/// Answers on their way. One send at a time; what comes meanwhile is collected for the next.
#[derive(Debug, Default)]
pub(crate) struct Output {
    pub(crate) next: Vec<Segment>,
    pub(crate) next_load: Load,
    pub(crate) sending: Option<OpId>,
    pub(crate) load: Load,
    /// The vector that is not in use.
    pub(crate) spare: Vec<Segment>,
}

/// What is given back when answers have been sent.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Load {
    pub(crate) requests: u32,
    pub(crate) bytes: u64,
}

impl Output {
    /// Nothing is being sent and nothing is to be.
    pub(crate) fn is_idle(&self) -> bool {
        self.sending.is_none() && self.next.is_empty()
    }

    /// Bytes reserved for answers that have not been sent.
    pub(crate) fn unsent(&self) -> u64 {
        self.next_load.bytes + self.load.bytes
    }
}

/// The payload of a write as it arrives.
#[derive(Debug)]
pub(crate) struct Gather {
    pub(crate) request: Request,
    /// Bytes reserved for it.
    pub(crate) cost: u64,
    /// The buffers; each window ends where its part of the payload ends and begins at 0 unless it is being received into.
    pub(crate) bufs: Vec<Buf>,
    /// The buffer that is next, and how much of it is there.
    pub(crate) at: usize,
    pub(crate) filled: usize,
    /// Bytes still to come.
    pub(crate) left: usize,
}

impl Gather {
    /// Takes what the input has.
    pub(crate) fn take(&mut self, input: &mut Input) {
        while self.left > 0 && !input.is_empty() {
            let bytes = input.bytes();
            let buf = &mut self.bufs[self.at];
            let count = bytes.len().min(buf.len() - self.filled);
            buf[self.filled..self.filled + count].copy_from_slice(&bytes[..count]);
            input.advance(count);
            self.advance(count);
        }
    }

    /// `count` bytes more have arrived in the buffers.
    fn advance(&mut self, mut count: usize) {
        self.left -= count;
        while count > 0 {
            let room = self.bufs[self.at].len() - self.filled;
            let here = count.min(room);
            count -= here;
            self.filled += here;
            if here == room {
                self.at += 1;
                self.filled = 0;
            }
        }
    }
}

/// Bytes received and not looked at yet.
#[derive(Debug)]
pub(crate) struct Input {
    /// Not there while it is being received into.
    buf: Option<Buf>,
    start: usize,
    end: usize,
}

impl Input {
    pub(crate) fn new(buf: Buf) -> Self {
        Self {
            buf: Some(buf),
            start: 0,
            end: 0,
        }
    }

    /// Puts in what came with the handshake; false if it does not fit.
    pub(crate) fn preload(&mut self, bytes: &[u8]) -> bool {
        let Some(buf) = self.buf.as_mut().filter(|b| bytes.len() <= b.capacity()) else {
            return false;
        };
        buf.set_window(0..bytes.len());
        buf.copy_from_slice(bytes);
        self.end = bytes.len();
        true
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// What is there; nothing while it is being received into.
    pub(crate) fn bytes(&mut self) -> &[u8] {
        match &mut self.buf {
            Some(buf) => {
                buf.set_window(self.start..self.end);
                buf
            }
            None => &[],
        }
    }

    pub(crate) fn advance(&mut self, count: usize) {
        self.start += count;
        debug_assert!(self.start <= self.end);
    }

    /// Throws up to `count` bytes away; says how many.
    pub(crate) fn discard(&mut self, count: usize) -> usize {
        let count = count.min(self.end - self.start);
        self.start += count;
        count
    }

    pub(crate) fn capacity(&self) -> usize {
        self.buf.as_ref().map_or(0, Buf::capacity)
    }

    /// Exchanges the buffer of an empty input.
    pub(crate) fn replace(&mut self, buf: Buf) {
        debug_assert!(self.is_empty());
        *self = Self::new(buf);
    }

    /// The buffer, its window the free part behind what is there, which is moved to the front where little is free.
    fn lend(&mut self) -> Option<Buf> {
        let mut buf = self.buf.take()?;
        let capacity = buf.capacity();
        if self.is_empty() {
            (self.start, self.end) = (0, 0);
        } else if capacity - self.end < capacity / 2 {
            buf.set_window(0..self.end);
            buf.copy_within(self.start.., 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        buf.set_window(self.end..capacity);
        Some(buf)
    }

    fn restore(&mut self, buf: Buf, count: usize) {
        self.buf = Some(buf);
        self.end += count;
    }
}

/// What a receive works on.
#[derive(Debug)]
pub(crate) enum Target {
    One(Buf),
    Many(Vec<Buf>),
}

impl Connection {
    /// The buffers to receive into: the rest of a payload and the input behind it, or the input alone.
    pub(crate) fn lend(&mut self) -> Option<Target> {
        let input = self.input.lend()?;
        let Some(gather) = self.gather.as_mut().filter(|g| g.left > 0) else {
            return Some(Target::One(input));
        };
        let mut bufs = std::mem::take(&mut self.spare);
        bufs.extend(gather.bufs.drain(gather.at..));
        let end = bufs[0].window().end;
        bufs[0].set_window(gather.filled..end);
        // The kernel takes so many at a time; the rest waits for the next receive.
        if bufs.len() >= weir_uring::MAX_PIECES {
            gather.bufs.extend(bufs.drain(weir_uring::MAX_PIECES - 1..));
            // They stand behind those lent: put back in `restore` at their place.
        }
        bufs.push(input);
        Some(Target::Many(bufs))
    }

    /// It has sent or taken something.
    pub(crate) fn move_on(&mut self, now: Instant) {
        self.moved = now;
        self.ticket.moved(now);
    }

    /// Notes what a receive of `count` bytes into buffers for `room` says of the size they should have.
    pub(crate) fn arrived(&mut self, count: usize, room: usize) {
        self.filled = count == room;
        self.sparse = if count < INPUT {
            self.sparse.saturating_add(1)
        } else {
            0
        };
    }

    /// Takes the buffers back, `count` bytes further.
    pub(crate) fn restore(&mut self, payload: Payload, count: usize) {
        match payload {
            Payload::Buf(buf) => self.input.restore(buf, count),
            Payload::Bufs(mut bufs) => {
                let input = bufs.pop().expect("the input was lent as the last");
                let mut count = count;
                if let Some(gather) = &mut self.gather {
                    for buf in &mut bufs {
                        let end = buf.window().end;
                        buf.set_window(0..end);
                    }
                    let lent: usize = bufs.iter().map(|b| b.len()).sum::<usize>() - gather.filled;
                    let at = gather.at;
                    gather.bufs.splice(at..at, bufs.drain(..));
                    let here = count.min(lent);
                    gather.advance(here);
                    count -= here;
                }
                self.spare = bufs;
                self.input.restore(input, count);
            }
            Payload::None | Payload::Shared(_) | Payload::Segments(_) => {}
        }
    }

    /// Nothing of it is left anywhere.
    pub(crate) fn is_over(&self) -> bool {
        self.receiving.is_none() && self.output.sending.is_none() && self.live == 0
    }
}
