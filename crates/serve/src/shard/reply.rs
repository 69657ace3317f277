//! Answers: from the outcome of a request to the segments of a send.

use weir_uring::{Header, Segment, SharedBuf};
use weir_wire::nbd::{
    self, BASE_ALLOCATION_ID, CHUNK_HEADER_LEN, Command, DATA_HEADER_LEN, ERROR_LEN, Errno,
    ExtentFlags, SIMPLE_REPLY_LEN,
};

use super::connection::Output;
use super::drive::Pending;
use crate::backend::{Allocation, Extent, Extents};

impl Output {
    /// Appends the answer to a request without data: to a command that has none, or an error.
    pub(crate) fn answer(
        &mut self,
        structured: bool,
        request: &nbd::Request,
        error: Option<Errno>,
    ) {
        let chunked = structured && matches!(request.command, Command::Read | Command::BlockStatus);
        let header = match (error, chunked) {
            (Some(error), true) => {
                let mut bytes = [0; ERROR_LEN];
                nbd::encode_error(&mut bytes, request.cookie, error, true);
                Header::new(bytes)
            }
            (None, true) => {
                let mut bytes = [0; CHUNK_HEADER_LEN];
                nbd::encode_none(&mut bytes, request.cookie);
                Header::new(bytes)
            }
            (error, false) => {
                let mut bytes = [0; SIMPLE_REPLY_LEN];
                nbd::encode_simple_reply(&mut bytes, request.cookie, error);
                Header::new(bytes)
            }
        };
        self.next.push(Segment::Header(header));
        self.next_load.requests += 1;
    }

    /// Appends what was read: one chunk or one reply, from where it lies.
    pub(crate) fn data(&mut self, structured: bool, pending: &mut Pending) {
        let nbd::Request {
            cookie,
            offset,
            length,
            ..
        } = pending.request;
        let header = if structured {
            let mut bytes = [0; DATA_HEADER_LEN];
            nbd::encode_data_header(&mut bytes, cookie, offset, length, true);
            Header::new(bytes)
        } else {
            let mut bytes = [0; SIMPLE_REPLY_LEN];
            nbd::encode_simple_reply(&mut bytes, cookie, None);
            Header::new(bytes)
        };
        self.next.push(Segment::Header(header));
        if pending.parts.len() > 1 {
            pending.parts.sort_unstable_by_key(|(within, _)| *within);
        }
        debug_assert_eq!(
            pending.parts.iter().map(|(_, b)| b.len()).sum::<usize>(),
            length as usize
        );
        let parts = pending.parts.drain(..);
        self.next.extend(parts.map(|(_, buf)| Segment::from(buf)));
        self.next_load.requests += 1;
        self.next_load.bytes += pending.cost;
    }

    /// Appends the extents of a range, written into `page`, which holds [`crate::backend::EXTENTS_MAX`] of them.
    pub(crate) fn extents(
        &mut self,
        request: &nbd::Request,
        extents: &Extents,
        mut page: weir_uring::Buf,
    ) {
        let extents: Vec<nbd::Extent> = extents.extents().iter().map(extent).collect();
        let mut bytes = Vec::new();
        nbd::append_block_status(
            &mut bytes,
            request.cookie,
            BASE_ALLOCATION_ID,
            &extents,
            true,
        );
        page.set_window(0..bytes.len());
        page.copy_from_slice(&bytes);
        let page: SharedBuf = page.into_shared();
        self.next.push(Segment::Buf(page));
        self.next_load.requests += 1;
    }
}

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
