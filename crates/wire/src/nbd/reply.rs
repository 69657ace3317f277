//! Encoders for replies of the transmission phase.
//!
//! The encoders write headers only. The caller sends payloads from where they are, as separate
//! segments of a vectored write. If structured replies were negotiated, READ and `BLOCK_STATUS`
//! must be answered with chunks. Errors of READ must also be chunks, and those of `BLOCK_STATUS`
//! should be. Other commands may be answered with a simple reply in either case.

use super::constants::{
    CHUNK_BLOCK_STATUS, CHUNK_ERROR, CHUNK_ERROR_OFFSET, CHUNK_FLAG_DONE, CHUNK_HEADER_LEN,
    CHUNK_NONE, CHUNK_OFFSET_DATA, CHUNK_OFFSET_HOLE, MAX_STRING, SIMPLE_REPLY_LEN,
    SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC,
};
use super::errno::Errno;
use super::meta::Extent;

/// Length of a data chunk without its data, in bytes.
pub const DATA_HEADER_LEN: usize = CHUNK_HEADER_LEN + 8;
/// Length of a hole chunk in bytes.
pub const HOLE_LEN: usize = CHUNK_HEADER_LEN + 12;
/// Length of an error chunk without a message, in bytes.
pub const ERROR_LEN: usize = CHUNK_HEADER_LEN + 6;
/// Length of an error-at-offset chunk without a message, in bytes.
pub const ERROR_OFFSET_LEN: usize = CHUNK_HEADER_LEN + 14;
/// Maximum length of the data of one data chunk, in bytes. The chunk's length field also counts the
/// 8 bytes of the offset.
pub const MAX_CHUNK_DATA: u32 = u32::MAX - 8;
/// Maximum number of extents in one `BLOCK_STATUS` chunk.
// The chunk's length field also counts the 4 bytes of the context ID.
pub const MAX_EXTENTS: usize = (u32::MAX as usize - 4) / Extent::LEN;

/// Encodes a simple reply. Without structured replies, the data of a successful READ follows.
#[inline]
pub fn encode_simple_reply(cookie: u64, error: Option<Errno>) -> [u8; SIMPLE_REPLY_LEN] {
    let error = error.map_or(0, Errno::to_wire);
    let mut out = [0; SIMPLE_REPLY_LEN];
    out[0..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    out[4..8].copy_from_slice(&error.to_be_bytes());
    out[8..16].copy_from_slice(&cookie.to_be_bytes());
    out
}

/// Encodes the header of a data chunk, which `length` bytes read at `offset` must follow. `done`
/// marks the last chunk of the reply.
///
/// # Panics
/// If `length` is zero or above [`MAX_CHUNK_DATA`]. The rules for requests exclude both.
#[inline]
pub fn encode_data_header(
    cookie: u64,
    offset: u64,
    length: u32,
    done: bool,
) -> [u8; DATA_HEADER_LEN] {
    assert!(
        (1..=MAX_CHUNK_DATA).contains(&length),
        "data chunk of {length} bytes"
    );
    let mut out = chunk_header(cookie, CHUNK_OFFSET_DATA, length + 8, done);
    out[20..28].copy_from_slice(&offset.to_be_bytes());
    out
}

/// Encodes a hole chunk: `length` bytes at `offset` read as zeroes. `length` must not be zero.
#[inline]
pub fn encode_hole(cookie: u64, offset: u64, length: u32, done: bool) -> [u8; HOLE_LEN] {
    debug_assert!(length > 0, "hole chunk of no bytes");
    let mut out = chunk_header(cookie, CHUNK_OFFSET_HOLE, 12, done);
    out[20..28].copy_from_slice(&offset.to_be_bytes());
    out[28..32].copy_from_slice(&length.to_be_bytes());
    out
}

/// Encodes a chunk without content, which ends a reply.
#[inline]
pub fn encode_none(cookie: u64) -> [u8; CHUNK_HEADER_LEN] {
    chunk_header(cookie, CHUNK_NONE, 0, true)
}

/// Encodes an error chunk without a message.
#[inline]
pub fn encode_error(cookie: u64, error: Errno, done: bool) -> [u8; ERROR_LEN] {
    let mut out = chunk_header(cookie, CHUNK_ERROR, 6, done);
    out[20..24].copy_from_slice(&error.to_wire().to_be_bytes());
    out
}

/// Appends an error chunk with a message for people, which is truncated to [`MAX_STRING`] bytes at
/// a character boundary.
pub fn append_error(out: &mut Vec<u8>, cookie: u64, error: Errno, message: &str, done: bool) {
    // `proto.md` (Conventions) limits strings to 4096 bytes, and they must be valid UTF-8 after the
    // cut.
    let message = &message[..message.floor_char_boundary(MAX_STRING)];
    let mut header = encode_error(cookie, error, done);
    header[16..20].copy_from_slice(&(6 + message.len() as u32).to_be_bytes());
    header[24..26].copy_from_slice(&(message.len() as u16).to_be_bytes());
    out.extend_from_slice(&header);
    out.extend_from_slice(message.as_bytes());
}

/// Encodes an error chunk with the error's offset in the export, without a message.
#[inline]
pub fn encode_error_offset(
    cookie: u64,
    error: Errno,
    offset: u64,
    done: bool,
) -> [u8; ERROR_OFFSET_LEN] {
    let mut out = chunk_header(cookie, CHUNK_ERROR_OFFSET, 14, done);
    out[20..24].copy_from_slice(&error.to_wire().to_be_bytes());
    out[26..34].copy_from_slice(&offset.to_be_bytes());
    out
}

/// Appends a `BLOCK_STATUS` chunk for the metadata context with the ID `context`.
///
/// # Panics
/// If there is no extent, or more than [`MAX_EXTENTS`].
pub fn append_block_status(
    out: &mut Vec<u8>,
    cookie: u64,
    context: u32,
    extents: &[Extent],
    done: bool,
) {
    assert!(
        (1..=MAX_EXTENTS).contains(&extents.len()),
        "block status of {} extents",
        extents.len()
    );
    let length = (4 + extents.len() * Extent::LEN) as u32;
    let mut header: [u8; CHUNK_HEADER_LEN + 4] =
        chunk_header(cookie, CHUNK_BLOCK_STATUS, length, done);
    header[20..24].copy_from_slice(&context.to_be_bytes());
    out.reserve(header.len() + extents.len() * Extent::LEN);
    out.extend_from_slice(&header);
    for extent in extents {
        out.extend_from_slice(&extent.encode());
    }
}

/// Encodes the header that all chunks share, followed by zeroes. `length` is the length of the
/// chunk's content in bytes.
#[inline]
fn chunk_header<const N: usize>(cookie: u64, kind: u16, length: u32, done: bool) -> [u8; N] {
    const { assert!(N >= CHUNK_HEADER_LEN) };
    let mut out = [0; N];
    let flags = if done { CHUNK_FLAG_DONE } else { 0 };
    out[0..4].copy_from_slice(&STRUCTURED_REPLY_MAGIC.to_be_bytes());
    out[4..6].copy_from_slice(&flags.to_be_bytes());
    out[6..8].copy_from_slice(&kind.to_be_bytes());
    out[8..16].copy_from_slice(&cookie.to_be_bytes());
    out[16..20].copy_from_slice(&length.to_be_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nbd::flags::ExtentFlags;

    const COOKIE: u64 = 0x0001_0203_0405_0607;

    /// Decodes hexadecimal digits. Blanks are ignored.
    fn hex(digits: &str) -> Vec<u8> {
        let digits: Vec<char> = digits
            .chars()
            .filter(|digit| !digit.is_whitespace())
            .collect();
        let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16);
        digits
            .chunks(2)
            .map(|pair| byte(pair).expect("hexadecimal"))
            .collect()
    }

    #[test]
    fn simple_replies_in_bytes() {
        let good = encode_simple_reply(COOKIE, None);
        assert_eq!(good[..], hex("67446698 00000000 0001020304050607"));
        // ENOSPC is 28, or 0x1c.
        let bad = encode_simple_reply(COOKIE, Some(Errno::NoSpc));
        assert_eq!(bad[..], hex("67446698 0000001c 0001020304050607"));
    }

    #[test]
    fn content_chunks_in_bytes() {
        // The length counts 8 bytes of the offset: 4096 + 8 = 0x1008.
        let data = encode_data_header(COOKIE, 0x1_0000_0000, 4096, true);
        let expected = "668e33ef 0001 0001 0001020304050607 00001008 0000000100000000";
        assert_eq!(data[..], hex(expected));
        // The length of a hole chunk is always 12: offset and hole size.
        let hole = encode_hole(COOKIE, 8192, 512, false);
        let expected = "668e33ef 0000 0002 0001020304050607 0000000c 0000000000002000 00000200";
        assert_eq!(hole[..], hex(expected));
        let none = encode_none(COOKIE);
        assert_eq!(
            none[..],
            hex("668e33ef 0001 0000 0001020304050607 00000000")
        );
    }

    #[test]
    fn error_chunks_in_bytes() {
        let error = encode_error(COOKIE, Errno::Io, true);
        assert_eq!(
            error[..],
            hex("668e33ef 0001 8001 0001020304050607 00000006 00000005 0000")
        );
        // The length is 14: error, length of the message (0), offset.
        let at = encode_error_offset(COOKIE, Errno::Io, 512, false);
        let expected =
            "668e33ef 0000 8002 0001020304050607 0000000e 00000005 0000 0000000000000200";
        assert_eq!(at[..], hex(expected));
        let mut message = vec![0xee];
        append_error(&mut message, COOKIE, Errno::Perm, "no!", true);
        // 6 bytes and a message of 3 bytes have a length of 9.
        let expected = "ee 668e33ef 0001 8001 0001020304050607 00000009 00000001 0003 6e6f21";
        assert_eq!(message, hex(expected));
    }

    #[test]
    fn long_messages_are_cut_between_characters() {
        let mut out = Vec::new();
        // The last character has two bytes, of which only one would fit.
        let long = "x".repeat(MAX_STRING - 1) + "\u{e9}";
        append_error(&mut out, COOKIE, Errno::Io, &long, true);
        assert_eq!(out.len(), ERROR_LEN + MAX_STRING - 1);
        assert_eq!(out[24..26], (MAX_STRING as u16 - 1).to_be_bytes());
        assert_eq!(out[16..20], (6 + MAX_STRING as u32 - 1).to_be_bytes());
    }

    #[test]
    fn block_status_in_bytes() {
        let extents = [
            Extent {
                length: 4096,
                flags: ExtentFlags::EMPTY,
            },
            Extent {
                length: 512,
                flags: ExtentFlags::HOLE | ExtentFlags::ZERO,
            },
        ];
        let mut out = vec![0xee];
        append_block_status(&mut out, COOKIE, 1, &extents, true);
        // The context ID and two extents of 8 bytes have a length of 20 (0x14).
        let expected = "ee 668e33ef 0001 0005 0001020304050607 00000014 00000001
                        00001000 00000000 00000200 00000003";
        assert_eq!(out, hex(expected));
    }

    #[test]
    fn data_chunks_that_the_length_field_cannot_hold_are_refused() {
        let encode = |length| std::panic::catch_unwind(|| encode_data_header(0, 0, length, true));
        assert!(encode(MAX_CHUNK_DATA).is_ok());
        assert!(encode(MAX_CHUNK_DATA + 1).is_err());
        assert!(encode(0).is_err());
    }
}
