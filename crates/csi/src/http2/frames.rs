//! Rewrites the frames that a client sends (RFC 9113, section 4). Header blocks are decoded and
//! encoded again, and all other bytes pass unchanged.

use super::MalformedHttp2;
use super::hpack::{Decoder, MOST};

/// The length of the preface with which a client begins, in bytes (RFC 9113, section 3.4).
const PREFACE: usize = 24;
/// The length of a frame's header in bytes: length (3), type, flags, stream (4).
const HEADER: usize = 9;
/// The maximum payload of a frame, unless the server announces another (`SETTINGS_MAX_FRAME_SIZE`).
const MAX_PAYLOAD: usize = 1 << 14;
/// The types of frames that carry a header block.
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
/// The flags of `HEADERS`. `END_STREAM` is passed on. The others describe the layout of the frame,
/// which changes.
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITY: u8 = 32;
/// The length of the fields that `PRIORITY` announces, in bytes.
const PRIORITY_BYTES: usize = 5;

/// The state of a connection in the direction from the client.
#[derive(Debug)]
pub(super) struct Frames {
    /// The number of the next bytes that pass unchanged.
    pass: usize,
    /// The received part of a frame that has not arrived completely.
    partial: Vec<u8>,
    /// The unfinished header block: flags and stream of its first frame, and its bytes so far.
    block: Option<(u8, [u8; 4], Vec<u8>)>,
    decoder: Decoder,
}

impl Default for Frames {
    fn default() -> Self {
        Self {
            // The library checks the preface.
            pass: PREFACE,
            partial: Vec::new(),
            block: None,
            decoder: Decoder::default(),
        }
    }
}

impl Frames {
    /// Takes bytes from the client, and appends those for the library to `out`.
    ///
    /// # Errors
    /// Returns an error if the bytes are not HTTP/2.
    pub(super) fn take(
        &mut self,
        mut bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), MalformedHttp2> {
        while !bytes.is_empty() {
            let passed = self.pass.min(bytes.len());
            out.extend_from_slice(&bytes[..passed]);
            self.pass -= passed;
            bytes = &bytes[passed..];
            if !self.gather(HEADER, &mut bytes) {
                continue;
            }
            let length =
                u32::from_be_bytes([0, self.partial[0], self.partial[1], self.partial[2]]) as usize;
            if !matches!(self.partial[3], HEADERS | CONTINUATION) {
                // RFC 9113, section 4.3: no other frame may be between those of a header block.
                if self.block.is_some() {
                    return Err(MalformedHttp2::Frame);
                }
                out.append(&mut self.partial);
                self.pass = length;
                continue;
            }
            if length > MAX_PAYLOAD {
                return Err(MalformedHttp2::Frame);
            }
            if self.gather(HEADER + length, &mut bytes) {
                let frame = std::mem::take(&mut self.partial);
                self.fields(&frame, out)?;
            }
        }
        Ok(())
    }

    /// Moves bytes into the partial frame until it has a length. Returns true if it has.
    fn gather(&mut self, length: usize, bytes: &mut &[u8]) -> bool {
        let missing = length.saturating_sub(self.partial.len());
        let (now, rest) = bytes.split_at(missing.min(bytes.len()));
        self.partial.extend_from_slice(now);
        *bytes = rest;
        self.partial.len() >= length
    }

    /// Takes a complete frame of a header block. If it is the last frame of the block, appends the
    /// block.
    fn fields(&mut self, frame: &[u8], out: &mut Vec<u8>) -> Result<(), MalformedHttp2> {
        let (flags, mut payload) = (frame[4], &frame[HEADER..]);
        let stream = [frame[5], frame[6], frame[7], frame[8]];
        let (first, mut block) = match (frame[3], self.block.take()) {
            (HEADERS, None) => {
                payload = unpadded(flags, payload).ok_or(MalformedHttp2::Frame)?;
                (flags, Vec::new())
            }
            (CONTINUATION, Some((first, of, block))) if of == stream => (first, block),
            _ => return Err(MalformedHttp2::Frame),
        };
        block.extend_from_slice(payload);
        // A client could otherwise make the driver collect continuations without end.
        if block.len() > MOST {
            return Err(MalformedHttp2::Long);
        }
        if flags & END_HEADERS == 0 {
            self.block = Some((first, stream, block));
        } else {
            put(
                &self.decoder.without_authority(&block)?,
                first & END_STREAM,
                stream,
                out,
            );
        }
        Ok(())
    }
}

/// Returns the header block in the payload of a `HEADERS` frame, without padding and priority.
fn unpadded(flags: u8, mut payload: &[u8]) -> Option<&[u8]> {
    if flags & PADDED != 0 {
        let (&padding, rest) = payload.split_first()?;
        payload = rest.get(..rest.len().checked_sub(usize::from(padding))?)?;
    }
    if flags & PRIORITY != 0 {
        payload = payload.get(PRIORITY_BYTES..)?;
    }
    Some(payload)
}

/// Appends a header block as one or more frames.
fn put(block: &[u8], end_stream: u8, stream: [u8; 4], out: &mut Vec<u8>) {
    let (mut kind, mut flags, mut left) = (HEADERS, end_stream, block);
    loop {
        let (now, rest) = left.split_at(left.len().min(MAX_PAYLOAD));
        if rest.is_empty() {
            flags |= END_HEADERS;
        }
        out.extend_from_slice(&(now.len() as u32).to_be_bytes()[1..]);
        out.extend_from_slice(&[kind, flags]);
        out.extend_from_slice(&stream);
        out.extend_from_slice(now);
        if rest.is_empty() {
            return;
        }
        // END_STREAM is not a flag of CONTINUATION (RFC 9113, section 6.10).
        (kind, flags, left) = (CONTINUATION, 0, rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of stream 1.
    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
        frame.extend_from_slice(&[kind, flags, 0, 0, 0, 1]);
        frame.extend_from_slice(payload);
        frame
    }

    #[test]
    fn frames_arrive_in_any_pieces_and_leave_without_the_authority() {
        let data = frame(0, END_STREAM, b"abc");
        // `:method: POST` and `:authority: /s`, in two frames with padding and priority.
        let padded = [&[2, 0, 0, 0, 0, 16, 0x83, 0x41][..], &[0, 0]].concat();
        let sent = [
            vec![b'P'; PREFACE],
            frame(HEADERS, END_STREAM | PADDED | PRIORITY, &padded),
            frame(CONTINUATION, END_HEADERS, b"\x02/s"),
            data.clone(),
        ]
        .concat();
        let expected = [
            vec![b'P'; PREFACE],
            frame(HEADERS, END_STREAM | END_HEADERS, &[0x83]),
            data,
        ]
        .concat();
        for piece in 1..sent.len() {
            let (mut frames, mut out) = (Frames::default(), Vec::new());
            for bytes in sent.chunks(piece) {
                frames.take(bytes, &mut out).expect("HTTP/2");
            }
            assert_eq!(out, expected, "in pieces of {piece} bytes");
        }
    }

    #[test]
    fn a_block_longer_than_a_frame_leaves_in_several() {
        let mut out = Vec::new();
        put(
            &vec![7; MAX_PAYLOAD + 1],
            END_STREAM,
            [0, 0, 0, 1],
            &mut out,
        );
        let rest = out.split_off(HEADER + MAX_PAYLOAD);
        // MAX_PAYLOAD is 0x4000.
        assert_eq!(out[..HEADER], [0, 0x40, 0, HEADERS, END_STREAM, 0, 0, 0, 1]);
        assert_eq!(rest, frame(CONTINUATION, END_HEADERS, &[7]));
    }

    #[test]
    fn frames_out_of_order_and_too_long_are_refused() {
        let begun = frame(HEADERS, 0, &[0x83]);
        let refused = |frames: &[&[u8]]| {
            let sent = [&[0; PREFACE], frames.concat().as_slice()].concat();
            Frames::default().take(&sent, &mut Vec::new())
        };
        for second in [frame(0, 0, b""), begun.clone(), frame(HEADERS, 0, &[])] {
            assert_eq!(refused(&[&begun, &second]), Err(MalformedHttp2::Frame));
        }
        assert_eq!(
            refused(&[&frame(CONTINUATION, 0, b"")]),
            Err(MalformedHttp2::Frame)
        );
        assert_eq!(
            refused(&[&frame(HEADERS, PADDED, &[1])]),
            Err(MalformedHttp2::Frame)
        );
        let full = frame(CONTINUATION, 0, &[0; MAX_PAYLOAD]);
        let blocks: Vec<_> = std::iter::repeat_n(full.as_slice(), MOST / MAX_PAYLOAD + 1).collect();
        let long = [&[begun.as_slice()], blocks.as_slice()].concat();
        assert_eq!(refused(&long), Err(MalformedHttp2::Long));
    }
}
