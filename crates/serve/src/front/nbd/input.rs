//! What arrives on a connection: requests in a buffer of their own, payloads of writes straight into theirs.

use weir_uring::{Buf, MAX_PIECES, Payload};

use crate::shard::Ask;

/// Bytes of a receive buffer at first.
pub(super) const INPUT: usize = 8 << 10;
/// Bytes of the receive buffer of a connection that fills a small one with requests.
pub(super) const INPUT_LARGE: usize = 64 << 10;

/// After this number of receives in a row that a small buffer would have held, a small buffer is enough again.
const SPARSE: u32 = 32;

/// What is received into.
#[derive(Debug, Default)]
pub(super) struct Receiver {
    pub(super) input: Input,
    /// The payload that is arriving.
    pub(super) gather: Option<Gather>,
    /// Requests taken since the input was looked at for the size of its buffer.
    taken: u32,
    /// The last receive filled its buffers.
    filled: bool,
    /// How many receives in a row a small buffer would have done for.
    sparse: u32,
    /// A small vector for receiving into several buffers.
    spare: Vec<Buf>,
}

/// What a receive works on.
#[derive(Debug)]
pub(super) enum Target {
    One(Buf),
    Many(Vec<Buf>),
}

impl Receiver {
    pub(super) fn new(input: Input) -> Self {
        Self {
            input,
            ..Self::default()
        }
    }

    /// A request is taken from the input: its header is consumed.
    pub(super) fn begin(&mut self) {
        self.input.advance(weir_wire::nbd::REQUEST_LEN);
        self.taken += 1;
    }

    /// The size that the buffer should have instead of its own, if it can be exchanged now.
    pub(super) fn wanted(&mut self) -> Option<usize> {
        let taken = std::mem::take(&mut self.taken);
        let large = self.input.capacity() > INPUT;
        let wanted = match (large, self.sparse) {
            (false, _) if self.filled && taken > 1 => INPUT_LARGE,
            (true, SPARSE..) => INPUT,
            _ => return None,
        };
        self.input.is_empty().then_some(wanted)
    }

    /// The buffers to receive into: the rest of a payload and the input behind it, or the input alone. `None` while they are lent.
    pub(super) fn lend(&mut self) -> Option<Target> {
        let input = self.input.lend()?;
        let Some(gather) = self.gather.as_mut().filter(|g| g.left > 0) else {
            return Some(Target::One(input));
        };
        let mut bufs = std::mem::take(&mut self.spare);
        bufs.extend(gather.bufs.drain(gather.at..));
        let end = bufs[0].window().end;
        bufs[0].set_window(gather.filled..end);
        // The kernel takes `MAX_PIECES` at a time; the rest waits for the next receive.
        if bufs.len() >= MAX_PIECES {
            gather.bufs.extend(bufs.drain(MAX_PIECES - 1..));
            // They stand behind those lent: put back in `restore` at their place.
        }
        bufs.push(input);
        Some(Target::Many(bufs))
    }

    /// Takes the buffers back after a receive of `count` bytes, and notes what that says of the size they should have.
    pub(super) fn arrived(&mut self, payload: Payload, count: usize) {
        self.filled = count == payload.bytes();
        self.sparse = if count < INPUT {
            self.sparse.saturating_add(1)
        } else {
            0
        };
        self.restore(payload, count);
    }

    /// Takes the buffers back, `count` bytes further.
    pub(super) fn restore(&mut self, payload: Payload, count: usize) {
        match payload {
            Payload::Buf(buf) => self.input.restore(buf, count),
            Payload::Bufs(mut bufs) => {
                let input = bufs.pop().expect("the input was lent as the last");
                let mut count = count;
                if let Some(gather) = &mut self.gather {
                    count -= gather.restore(&mut bufs, count);
                }
                self.spare = bufs;
                self.input.restore(input, count);
            }
            Payload::None | Payload::Shared(_) | Payload::Segments(_) | Payload::Guest(_) => {}
        }
    }
}

/// The payload of a write as it arrives.
#[derive(Debug)]
pub(super) struct Gather {
    pub(super) ask: Ask,
    /// Bytes reserved for it.
    pub(super) cost: u64,
    /// The buffers; each window ends where its part of the payload ends and begins at 0 unless it is being received into.
    pub(super) bufs: Vec<Buf>,
    /// The buffer that is next, and how much of it is there.
    at: usize,
    filled: usize,
    /// Bytes still to come.
    pub(super) left: usize,
}

impl Gather {
    /// For a payload of `left` bytes, into buffers of as many.
    pub(super) fn new(ask: Ask, cost: u64, bufs: Vec<Buf>, left: u32) -> Self {
        Self {
            ask,
            cost,
            bufs,
            at: 0,
            filled: 0,
            left: left as usize,
        }
    }

    /// Takes what the input has.
    pub(super) fn take(&mut self, input: &mut Input) {
        while self.left > 0 && !input.is_empty() {
            let bytes = input.bytes();
            let buf = &mut self.bufs[self.at];
            let count = bytes.len().min(buf.len() - self.filled);
            buf[self.filled..self.filled + count].copy_from_slice(&bytes[..count]);
            input.advance(count);
            self.advance(count);
        }
    }

    /// Takes back the buffers that were lent, of `count` bytes that arrived; says how many were for these.
    fn restore(&mut self, lent: &mut Vec<Buf>, count: usize) -> usize {
        for buf in &mut *lent {
            let end = buf.window().end;
            buf.set_window(0..end);
        }
        let room: usize = lent.iter().map(|b| b.len()).sum::<usize>() - self.filled;
        let at = self.at;
        self.bufs.splice(at..at, lent.drain(..));
        let here = count.min(room);
        self.advance(here);
        here
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
#[derive(Debug, Default)]
pub(super) struct Input {
    /// Not there while it is being received into.
    buf: Option<Buf>,
    start: usize,
    end: usize,
}

impl Input {
    pub(super) fn new(buf: Buf) -> Self {
        Self {
            buf: Some(buf),
            ..Self::default()
        }
    }

    /// Puts in what came with the handshake; false if it does not fit.
    pub(super) fn preload(&mut self, bytes: &[u8]) -> bool {
        let Some(buf) = self.buf.as_mut().filter(|b| bytes.len() <= b.capacity()) else {
            return false;
        };
        buf.set_window(0..bytes.len());
        buf.copy_from_slice(bytes);
        self.end = bytes.len();
        true
    }

    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// What is there; nothing while it is being received into.
    pub(super) fn bytes(&mut self) -> &[u8] {
        match &mut self.buf {
            Some(buf) => {
                buf.set_window(self.start..self.end);
                buf
            }
            None => &[],
        }
    }

    pub(super) fn advance(&mut self, count: usize) {
        self.start += count;
        debug_assert!(self.start <= self.end);
    }

    /// Throws up to `count` bytes away; says how many.
    pub(super) fn discard(&mut self, count: usize) -> usize {
        let count = count.min(self.end - self.start);
        self.start += count;
        count
    }

    pub(super) fn capacity(&self) -> usize {
        self.buf.as_ref().map_or(0, Buf::capacity)
    }

    /// Exchanges the buffer of an empty input.
    pub(super) fn replace(&mut self, buf: Buf) {
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
