//! The receive side of a connection. Requests are received into a buffer of the connection, and
//! payloads of writes directly into their own buffers.

use weir_uring::{Buf, MAX_PIECES, Payload};

use crate::shard::ClientRequest;

/// The initial size of the receive buffer, in bytes.
pub(super) const INPUT: usize = 8 << 10;
/// The size of the receive buffer of a connection that fills the small one with requests, in bytes.
pub(super) const INPUT_LARGE: usize = 64 << 10;

/// The number of successive receives that fit into a small buffer after which the large buffer is
/// exchanged for a small one.
const SPARSE: u32 = 32;

/// The buffers that a connection receives into.
#[derive(Debug, Default)]
pub(super) struct Receiver {
    pub(super) input: RequestInput,
    /// The payload that is currently arriving.
    pub(super) gather: Option<PayloadAssembly>,
    /// The number of requests taken since the size of the buffer was last checked.
    taken: u32,
    /// True if the last receive filled its buffers.
    filled: bool,
    /// The number of successive receives that a small buffer would have had room for.
    sparse: u32,
    /// A short vector for receives into several buffers.
    spare: Vec<Buf>,
    /// Bytes of the client that come before those in the socket: what the process before this one
    /// had received, or what a hand-over has taken back. They are moved to the buffers step by
    /// step, because they can be longer than all buffers.
    carried: Vec<u8>,
    /// The number of carried bytes that were moved.
    moved: usize,
}

/// The buffers of a receive operation.
#[derive(Debug)]
pub(super) enum ReceiveTarget {
    One(Buf),
    Many(Vec<Buf>),
}

impl Receiver {
    pub(super) fn new(input: RequestInput) -> Self {
        Self {
            input,
            ..Self::default()
        }
    }

    /// Replaces all bytes that were received and not taken. No buffer may be lent, and no payload
    /// may be arriving.
    pub(super) fn carry(&mut self, bytes: Vec<u8>) {
        self.input.discard(usize::MAX);
        (self.carried, self.moved) = (bytes, 0);
    }

    /// Moves carried bytes to the input. Returns false if there are none, or no room for them.
    pub(super) fn move_carried(&mut self) -> bool {
        let count = self.input.append(&self.carried[self.moved..]);
        if count == 0 {
            return false;
        }
        self.moved += count;
        if self.moved == self.carried.len() {
            (self.carried, self.moved) = (Vec::new(), 0);
        }
        true
    }

    /// Returns all bytes that were received and not taken, in the order in which the client has
    /// sent them, with the request whose payload is arriving. No buffer may be lent. Nothing
    /// changes.
    pub(super) fn untaken(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if let Some(gather) = &self.gather {
            gather.append_to(&mut bytes);
        }
        bytes.extend_from_slice(self.input.bytes());
        bytes.extend_from_slice(&self.carried[self.moved..]);
        bytes
    }

    /// Consumes the header of a request that is taken.
    pub(super) fn begin(&mut self) {
        self.input.advance(weir_wire::nbd::REQUEST_LEN);
        self.taken += 1;
    }

    /// Returns the size that the buffer should have instead of its present one, if it can be
    /// exchanged now.
    pub(super) fn wanted(&mut self) -> Option<usize> {
        let taken = std::mem::take(&mut self.taken);
        let large = self.input.capacity() > INPUT;
        // One request that fills the buffer is a large write, which does not benefit from a large
        // buffer.
        let wanted = match (large, self.sparse) {
            (false, _) if self.filled && taken > 1 => INPUT_LARGE,
            (true, SPARSE..) => INPUT,
            _ => return None,
        };
        // Bytes in the buffer would have to be copied. The next check comes soon.
        self.input.is_empty().then_some(wanted)
    }

    /// Lends the buffers to receive into: the rest of a payload followed by the input, or only the
    /// input. Returns `None` while they are lent.
    pub(super) fn lend(&mut self) -> Option<ReceiveTarget> {
        let input = self.input.lend()?;
        let Some(gather) = self.gather.as_mut().filter(|g| g.left > 0) else {
            return Some(ReceiveTarget::One(input));
        };
        let mut bufs = std::mem::take(&mut self.spare);
        bufs.extend(gather.bufs.drain(gather.at..));
        let end = bufs[0].window().end;
        bufs[0].set_window(gather.filled..end);
        // The kernel accepts `MAX_PIECES` buffers at a time. The others wait for the next receive.
        if bufs.len() >= MAX_PIECES {
            gather.bufs.extend(bufs.drain(MAX_PIECES - 1..));
            // They are kept after `gather.at`, and `restore` inserts the lent ones in front of
            // them.
        }
        // A request after the payload thus arrives with the same system call.
        bufs.push(input);
        Some(ReceiveTarget::Many(bufs))
    }

    /// Takes the buffers back after a receive of `count` bytes, and updates the statistics for the
    /// size of the buffer.
    pub(super) fn arrived(&mut self, payload: Payload, count: usize) {
        self.filled = count == payload.bytes();
        self.sparse = if count < INPUT {
            self.sparse.saturating_add(1)
        } else {
            0
        };
        self.restore(payload, count);
    }

    /// Takes the buffers back and advances by `count` bytes.
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

/// The payload of a write while it arrives.
#[derive(Debug)]
pub(super) struct PayloadAssembly {
    pub(super) ask: ClientRequest,
    /// Bytes that are reserved for the request.
    pub(super) cost: u64,
    /// The buffers of the payload. Each window ends at the end of its part of the payload. It
    /// begins at 0 unless the buffer is being received into.
    pub(super) bufs: Vec<Buf>,
    /// The index of the current buffer, and the number of its bytes that have arrived.
    at: usize,
    filled: usize,
    /// The number of bytes that have not arrived.
    pub(super) left: usize,
}

impl PayloadAssembly {
    /// Creates the state for a payload of `left` bytes, which `bufs` must have room for.
    pub(super) fn new(ask: ClientRequest, cost: u64, bufs: Vec<Buf>, left: u32) -> Self {
        Self {
            ask,
            cost,
            bufs,
            at: 0,
            filled: 0,
            left: left as usize,
        }
    }

    /// Appends the request and the part of its payload that has arrived, as the client sent them.
    fn append_to(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&super::take::encode(&self.ask));
        // All buffers before the current one are full, and those after it are empty.
        let arrived = self.bufs.iter().zip(0..).filter(|(_, n)| *n <= self.at);
        for (buf, n) in arrived {
            let count = if n < self.at { buf.len() } else { self.filled };
            bytes.extend_from_slice(&buf[..count]);
        }
    }

    /// Takes as many bytes from the input as belong to the payload.
    pub(super) fn take(&mut self, input: &mut RequestInput) {
        while self.left > 0 && !input.is_empty() {
            let bytes = input.bytes();
            let buf = &mut self.bufs[self.at];
            let count = bytes.len().min(buf.len() - self.filled);
            buf[self.filled..self.filled + count].copy_from_slice(&bytes[..count]);
            input.advance(count);
            self.advance(count);
        }
    }

    /// Takes back lent buffers after a receive of `count` bytes. Returns the number of bytes that
    /// were for these buffers.
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

    /// Records that `count` more bytes have arrived in the buffers.
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

/// Bytes that were received and not processed yet.
#[derive(Debug, Default)]
pub(super) struct RequestInput {
    /// The buffer, or `None` while it is lent to a receive.
    buf: Option<Buf>,
    start: usize,
    end: usize,
}

impl RequestInput {
    pub(super) fn new(buf: Buf) -> Self {
        Self {
            buf: Some(buf),
            ..Self::default()
        }
    }

    /// Inserts the bytes that followed the handshake. Returns false if they do not fit.
    pub(super) fn preload(&mut self, bytes: &[u8]) -> bool {
        let Some(buf) = self.buf.as_mut().filter(|b| bytes.len() <= b.capacity()) else {
            return false;
        };
        buf.set_window(0..bytes.len());
        buf.copy_from_slice(bytes);
        self.end = bytes.len();
        true
    }

    /// Appends as many bytes as fit, and returns their number. The buffer must not be lent.
    fn append(&mut self, bytes: &[u8]) -> usize {
        if bytes.is_empty() {
            return 0;
        }
        let Some(mut buf) = self.lend() else { return 0 };
        let count = bytes.len().min(buf.len());
        buf[..count].copy_from_slice(&bytes[..count]);
        self.restore(buf, count);
        count
    }

    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Returns the bytes, or none while the buffer is lent.
    pub(super) fn bytes(&mut self) -> &[u8] {
        match &mut self.buf {
            Some(buf) => {
                buf.set_window(self.start..self.end);
                buf
            }
            None => &[],
        }
    }

    /// Consumes `count` bytes, which must have been received.
    pub(super) fn advance(&mut self, count: usize) {
        self.start += count;
        debug_assert!(self.start <= self.end);
    }

    /// Discards up to `count` bytes and returns their number.
    pub(super) fn discard(&mut self, count: usize) -> usize {
        let count = count.min(self.end - self.start);
        self.start += count;
        count
    }

    /// Returns the size of the buffer, or 0 while it is lent.
    pub(super) fn capacity(&self) -> usize {
        self.buf.as_ref().map_or(0, Buf::capacity)
    }

    /// Replaces the buffer of an empty input.
    pub(super) fn replace(&mut self, buf: Buf) {
        debug_assert!(self.is_empty());
        *self = Self::new(buf);
    }

    /// Lends the buffer with its free part as the window. If less than half is free, the bytes are
    /// moved to the front before that.
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

    /// Takes the buffer back with `count` more received bytes.
    fn restore(&mut self, buf: Buf, count: usize) {
        self.buf = Some(buf);
        self.end += count;
    }
}

#[cfg(test)]
mod tests {
    use weir_core::random::Rng;
    use weir_core::{Flags, Op};
    use weir_uring::Arena;

    use super::*;

    /// The bytes of a receiver at any point are what the client has sent from there on, whatever
    /// has arrived and been taken, and however often they are handed over.
    #[test]
    fn untaken_bytes_are_carried_without_loss() {
        let arena = Arena::new(4 << 20).unwrap();
        let mut rng = Rng::new(11);
        for round in 0..200 {
            let length = rng.range(1, 3 * INPUT as u64) as usize;
            let stream: Vec<u8> = (0..length).map(|n| (n * 7 + round) as u8).collect();
            let mut receiver = receiver(&arena);
            receiver.carry(stream.clone());
            let mut taken = Vec::new();
            while taken.len() < length {
                if rng.range(0, 3) == 0 {
                    let rest = receiver.untaken();
                    assert_eq!(rest, stream[taken.len()..], "round {round}");
                    receiver = self::receiver(&arena);
                    receiver.carry(rest);
                }
                receiver.move_carried();
                let bytes = receiver.input.bytes();
                let count = bytes.len().min(rng.range(1, 200) as usize);
                taken.extend_from_slice(&bytes[..count]);
                receiver.input.advance(count);
            }
            assert_eq!(taken, stream);
            assert!(!receiver.move_carried());
        }
    }

    #[test]
    fn a_payload_that_is_arriving_is_carried_with_its_request() {
        let arena = Arena::new(4 << 20).unwrap();
        let ask = ClientRequest {
            op: Op::Write,
            flags: Flags::NONE,
            offset: 4096,
            length: 5000,
            token: 3,
        };
        for arrived in [0, 1, 4096, 4999] {
            let mut receiver = receiver(&arena);
            receiver.carry((0..arrived).map(|n| n as u8).collect());
            let bufs = vec![arena.alloc(4096).unwrap(), arena.alloc(904).unwrap()];
            let mut gather = PayloadAssembly::new(ask, 0, bufs, 5000);
            for (buf, length) in gather.bufs.iter_mut().zip([4096, 904]) {
                buf.set_window(0..length);
            }
            receiver.gather = Some(gather);
            while receiver.move_carried() {
                let Receiver { gather, input, .. } = &mut receiver;
                gather.as_mut().unwrap().take(input);
            }
            let untaken = receiver.untaken();
            let (head, payload) = untaken.split_at(weir_wire::nbd::REQUEST_LEN);
            assert_eq!(head, super::super::take::encode(&ask));
            assert!(payload.iter().zip(0..).all(|(byte, n)| *byte == n as u8));
            assert_eq!(payload.len(), arrived);
        }
    }

    fn receiver(arena: &Arena) -> Receiver {
        Receiver::new(RequestInput::new(arena.alloc(INPUT).unwrap()))
    }
}
