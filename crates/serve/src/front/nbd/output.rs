//! The conversion of results into the segments of a send.

use weir_core::Op;
use weir_uring::{Arena, Buf, Header, Segment};
use weir_wire::nbd::{self, BASE_ALLOCATION_ID, Errno, ExtentFlags};

use crate::backend::{Allocation, Extent, Extents};
use crate::errno::ENOMEM;
use crate::shard::{ClientRequest, PAGE, RequestAnswer, RequestResult, cost};

/// The longest buffer for answers of another process, in bytes.
const CARRIED: usize = 64 << 10;

/// Answers that have not begun to leave. There is one send at a time, and further answers are
/// collected for the next one.
#[derive(Debug)]
pub(super) struct ReplyOutput {
    /// True if structured replies are negotiated.
    structured: bool,
    segments: Vec<Segment>,
}

impl ReplyOutput {
    pub(super) fn new(structured: bool) -> Self {
        Self {
            structured,
            segments: Vec::new(),
        }
    }

    /// Returns true if structured replies are negotiated.
    pub(super) fn is_structured(&self) -> bool {
        self.structured
    }

    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.segments.clear();
    }

    /// Takes out up to `most` segments, and returns true if these are all. `spare` must be empty,
    /// and is used for further segments.
    pub(super) fn take(&mut self, spare: Vec<Segment>, most: usize) -> (Vec<Segment>, bool) {
        let mut segments = std::mem::replace(&mut self.segments, spare);
        let all = segments.len() <= most;
        if !all {
            self.segments = segments.drain(most..).collect();
        }
        (segments, all)
    }

    /// Puts back the segments of a send that has stopped after `sent` bytes, in front of the
    /// others.
    pub(super) fn put_back(&mut self, mut segments: Vec<Segment>, mut sent: usize) {
        segments.retain_mut(|segment| {
            let gone = sent.min(segment.len());
            sent -= gone;
            let rest = match &*segment {
                Segment::Header(header) => Header::from_slice(&header[gone..]).map(Segment::from),
                Segment::Buf(buf) => Some(buf.slice(gone..buf.len()).into()),
            };
            // A part of a header is always short enough for a header, so that this never keeps the
            // whole.
            *segment = rest.unwrap_or_else(|| segment.clone());
            !segment.is_empty()
        });
        segments.append(&mut self.segments);
        self.segments = segments;
    }

    /// Returns the bytes of all answers that have not begun to leave.
    pub(super) fn bytes(&self) -> Vec<u8> {
        // All clients wait while these bytes are copied, and there can be many.
        let segments: Vec<&[u8]> = self.segments.iter().map(|segment| &**segment).collect();
        segments.concat()
    }

    /// Returns the memory that answers of another process occupy, in bytes.
    pub(super) fn memory(&self) -> u64 {
        let buffers = self.segments.iter().map(|segment| match segment {
            Segment::Header(_) => 0,
            Segment::Buf(buf) => cost(buf.len() as u32, 1),
        });
        buffers.sum()
    }

    /// Appends bytes of answers that another process has prepared. Returns false without memory.
    pub(super) fn carry(&mut self, mut bytes: &[u8], arena: &Arena) -> bool {
        while !bytes.is_empty() {
            // Buffers of a moderate size can be allocated even if the arena is fragmented.
            let Some(mut page) = arena.alloc(bytes.len().min(CARRIED)) else {
                return false;
            };
            let (here, rest) = bytes.split_at(page.len().min(bytes.len()));
            page.set_window(0..here.len());
            page.copy_from_slice(here);
            self.segments.push(Segment::from(page));
            bytes = rest;
        }
        true
    }

    /// Appends an answer. Returns true if it occupies memory until it has left.
    pub(super) fn answer(&mut self, answer: &mut RequestAnswer<'_>, arena: &Arena) -> bool {
        let ClientRequest { op, token, .. } = *answer.ask;
        let chunked = matches!(op, Op::Read | Op::Extents);
        let errno = match &mut answer.result {
            Ok(RequestResult::Done) => None,
            Ok(RequestResult::Data(payload)) => {
                self.data(answer.ask, payload.take_read());
                return true;
            }
            Ok(RequestResult::Extents(extents)) => match arena.alloc(PAGE) {
                Some(page) if !extents.extents().is_empty() => {
                    self.extents(token, extents, page);
                    return true;
                }
                _ => Some(ENOMEM),
            },
            Err(errno) => Some(*errno),
        };
        let error = errno.map(|errno| Errno::from_os(i32::from(errno)));
        self.plain(token, chunked, error);
        false
    }

    /// Appends an answer without data, which is an error or the success of a command without data.
    /// If `chunked`, it is a chunk where structured replies are negotiated.
    pub(super) fn plain(&mut self, cookie: u64, chunked: bool, error: Option<Errno>) {
        let header = match (error, self.structured && chunked) {
            (Some(error), true) => Header::new(nbd::encode_error(cookie, error, true)),
            (None, true) => Header::new(nbd::encode_none(cookie)),
            (error, false) => Header::new(nbd::encode_simple_reply(cookie, error)),
        };
        self.segments.push(Segment::Header(header));
    }

    /// Appends read data as one chunk or one simple reply, without copying it.
    fn data(&mut self, ask: &ClientRequest, read: impl Iterator<Item = Buf>) {
        let header = if self.structured {
            let bytes = nbd::encode_data_header(ask.token, ask.offset, ask.length, true);
            Header::new(bytes)
        } else {
            Header::new(nbd::encode_simple_reply(ask.token, None))
        };
        self.segments.push(Segment::Header(header));
        let before = self.segments.len();
        self.segments.extend(read.map(Segment::from));
        debug_assert_eq!(
            self.segments[before..]
                .iter()
                .map(|s| s.len())
                .sum::<usize>(),
            ask.length as usize
        );
    }

    /// Appends the extents of a range. They are written into `page`, which has room for
    /// [`crate::backend::EXTENTS_MAX`] of them.
    fn extents(&mut self, cookie: u64, extents: &Extents, mut page: Buf) {
        let extents: Vec<nbd::Extent> = extents.extents().iter().map(extent).collect();
        let mut bytes = Vec::new();
        nbd::append_block_status(&mut bytes, cookie, BASE_ALLOCATION_ID, &extents, true);
        page.set_window(0..bytes.len());
        page.copy_from_slice(&bytes);
        self.segments.push(Segment::from(page));
    }
}

/// Converts an extent into that of the context `base:allocation`.
fn extent(extent: &Extent) -> nbd::Extent {
    let flags = match extent.allocation {
        Allocation::Data => ExtentFlags::EMPTY,
        Allocation::Hole => ExtentFlags::HOLE | ExtentFlags::ZERO,
    };
    nbd::Extent {
        length: extent.length,
        flags,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_send_that_stops_anywhere_leaves_exactly_the_rest() {
        let arena = Arena::new(1 << 20).unwrap();
        let segments = || {
            let mut buf = arena.alloc(PAGE).unwrap();
            buf.set_window(0..100);
            for (byte, n) in buf.iter_mut().zip(0..) {
                *byte = n;
            }
            let header = |n| Segment::Header(Header::new([n; 16]));
            vec![header(200), Segment::from(buf), header(201)]
        };
        let mut after = ReplyOutput::new(false);
        after.plain(7, false, None);
        let all: Vec<u8> = segments().iter().flat_map(|s| s.to_vec()).collect();
        for sent in 0..=all.len() {
            let mut output = ReplyOutput::new(false);
            output.plain(7, false, None);
            output.put_back(segments(), sent);
            assert_eq!(output.bytes(), [&all[sent..], &after.bytes()].concat());
            // Another process sends the same bytes.
            let mut other = ReplyOutput::new(false);
            assert!(other.carry(&output.bytes(), &arena));
            assert_eq!(other.bytes(), output.bytes());
        }
    }

    #[test]
    fn answers_without_memory_for_them_are_refused() {
        let arena = Arena::new(64 << 10).unwrap();
        assert!(!ReplyOutput::new(true).carry(&vec![0; 256 << 10], &arena));
    }
}
