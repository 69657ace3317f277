//! Replies of the transmission phase: encoding.
//!
//! Encoders write headers only. The caller sends payloads from where they are, as separate segments of a vectored write. With
//! structured replies negotiated, READ and `BLOCK_STATUS` must be answered with chunks (errors too); other commands may be answered
//! with a simple reply either way.

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
/// Maximum length of the data of one data chunk in bytes: the chunk's length field includes the offset.
pub const MAX_CHUNK_DATA: u32 = u32::MAX - 8;
/// Maximum number of extents in one `BLOCK_STATUS` chunk.
pub const MAX_EXTENTS: usize = (u32::MAX as usize - 4) / Extent::LEN;

/// Writes a simple reply. A READ that succeeded without structured replies is followed by its data.
#[inline]
pub fn encode_simple_reply(out: &mut [u8; SIMPLE_REPLY_LEN], cookie: u64, error: Option<Errno>) {
    let error = error.map_or(0, Errno::to_wire);
    out[0..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    out[4..8].copy_from_slice(&error.to_be_bytes());
    out[8..16].copy_from_slice(&cookie.to_be_bytes());
}

/// Writes the header of a data chunk: `length` bytes read at `offset` follow. `done` marks the last chunk of the reply.
///
/// # Panics
/// If `length` is zero or above [`MAX_CHUNK_DATA`], which the rules for requests exclude.
#[inline]
pub fn encode_data_header(
    out: &mut [u8; DATA_HEADER_LEN],
    cookie: u64,
    offset: u64,
    length: u32,
    done: bool,
) {
    assert!(
        (1..=MAX_CHUNK_DATA).contains(&length),
        "data chunk of {length} bytes"
    );
    put_chunk_header(out, cookie, CHUNK_OFFSET_DATA, length + 8, done);
    out[20..28].copy_from_slice(&offset.to_be_bytes());
}

/// Writes a hole chunk: `length` bytes at `offset` read as zeroes. `length` must not be zero.
#[inline]
pub fn encode_hole(out: &mut [u8; HOLE_LEN], cookie: u64, offset: u64, length: u32, done: bool) {
    debug_assert!(length > 0, "hole chunk of no bytes");
    put_chunk_header(out, cookie, CHUNK_OFFSET_HOLE, 12, done);
    out[20..28].copy_from_slice(&offset.to_be_bytes());
    out[28..32].copy_from_slice(&length.to_be_bytes());
}

/// Writes a chunk without content that ends a reply.
#[inline]
pub fn encode_none(out: &mut [u8; CHUNK_HEADER_LEN], cookie: u64) {
    put_chunk_header(out, cookie, CHUNK_NONE, 0, true);
}

/// Writes an error chunk without a message.
#[inline]
pub fn encode_error(out: &mut [u8; ERROR_LEN], cookie: u64, error: Errno, done: bool) {
    put_chunk_header(out, cookie, CHUNK_ERROR, 6, done);
    out[20..24].copy_from_slice(&error.to_wire().to_be_bytes());
    out[24..26].copy_from_slice(&[0, 0]);
}

/// Appends an error chunk with a message for people, truncated to [`MAX_STRING`] bytes at a character boundary.
pub fn append_error(out: &mut Vec<u8>, cookie: u64, error: Errno, message: &str, done: bool) {
    let message = &message[..message.floor_char_boundary(MAX_STRING)];
    let mut header = [0; ERROR_LEN];
    put_chunk_header(
        &mut header,
        cookie,
        CHUNK_ERROR,
        6 + message.len() as u32,
        done,
    );
    header[20..24].copy_from_slice(&error.to_wire().to_be_bytes());
    header[24..26].copy_from_slice(&(message.len() as u16).to_be_bytes());
    out.extend_from_slice(&header);
    out.extend_from_slice(message.as_bytes());
}

/// Writes an error chunk with the error's offset in the export, without a message.
#[inline]
pub fn encode_error_offset(
    out: &mut [u8; ERROR_OFFSET_LEN],
    cookie: u64,
    error: Errno,
    offset: u64,
    done: bool,
) {
    put_chunk_header(out, cookie, CHUNK_ERROR_OFFSET, 14, done);
    out[20..24].copy_from_slice(&error.to_wire().to_be_bytes());
    out[24..26].copy_from_slice(&[0, 0]);
    out[26..34].copy_from_slice(&offset.to_be_bytes());
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
    let mut header = [0; CHUNK_HEADER_LEN + 4];
    put_chunk_header(
        &mut header,
        cookie,
        CHUNK_BLOCK_STATUS,
        (4 + extents.len() * Extent::LEN) as u32,
        done,
    );
    header[20..24].copy_from_slice(&context.to_be_bytes());
    out.reserve(header.len() + extents.len() * Extent::LEN);
    out.extend_from_slice(&header);
    for extent in extents {
        out.extend_from_slice(&extent.encode());
    }
}

/// Writes the header common to all chunks; `length` is that of what follows it.
#[inline]
fn put_chunk_header<const N: usize>(
    out: &mut [u8; N],
    cookie: u64,
    kind: u16,
    length: u32,
    done: bool,
) {
    const { assert!(N >= CHUNK_HEADER_LEN) };
    let flags = if done { CHUNK_FLAG_DONE } else { 0 };
    out[0..4].copy_from_slice(&STRUCTURED_REPLY_MAGIC.to_be_bytes());
    out[4..6].copy_from_slice(&flags.to_be_bytes());
    out[6..8].copy_from_slice(&kind.to_be_bytes());
    out[8..16].copy_from_slice(&cookie.to_be_bytes());
    out[16..20].copy_from_slice(&length.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nbd::flags::ExtentFlags;

    const COOKIE: u64 = 0x0001_0203_0405_0607;

    /// The bytes given as hexadecimal digits; blanks are ignored.
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

    fn encoded<const N: usize>(encode: impl FnOnce(&mut [u8; N])) -> Vec<u8> {
        let mut out = [0xaa; N];
        encode(&mut out);
        out.to_vec()
    }

    #[test]
    fn simple_replies_in_bytes() {
        let good = encoded(|out| encode_simple_reply(out, COOKIE, None));
        assert_eq!(good, hex("67446698 00000000 0001020304050607"));
        let bad = encoded(|out| encode_simple_reply(out, COOKIE, Some(Errno::NoSpc)));
        assert_eq!(bad, hex("67446698 0000001c 0001020304050607"));
    }

    #[test]
    fn content_chunks_in_bytes() {
        let data = encoded(|out| encode_data_header(out, COOKIE, 0x1_0000_0000, 4096, true));
        let expected = "668e33ef 0001 0001 0001020304050607 00001008 0000000100000000";
        assert_eq!(data, hex(expected));
        let hole = encoded(|out| encode_hole(out, COOKIE, 8192, 512, false));
        let expected = "668e33ef 0000 0002 0001020304050607 0000000c 0000000000002000 00000200";
        assert_eq!(hole, hex(expected));
        let none = encoded(|out| encode_none(out, COOKIE));
        assert_eq!(none, hex("668e33ef 0001 0000 0001020304050607 00000000"));
    }

    #[test]
    fn error_chunks_in_bytes() {
        let error = encoded(|out| encode_error(out, COOKIE, Errno::Io, true));
        assert_eq!(
            error,
            hex("668e33ef 0001 8001 0001020304050607 00000006 00000005 0000")
        );
        let at = encoded(|out| encode_error_offset(out, COOKIE, Errno::Io, 512, false));
        let expected =
            "668e33ef 0000 8002 0001020304050607 0000000e 00000005 0000 0000000000000200";
        assert_eq!(at, hex(expected));
        let mut message = vec![0xee];
        append_error(&mut message, COOKIE, Errno::Perm, "no!", true);
        let expected = "ee 668e33ef 0001 8001 0001020304050607 00000009 00000001 0003 6e6f21";
        assert_eq!(message, hex(expected));
    }

    #[test]
    fn long_messages_are_cut_between_characters() {
        let mut out = Vec::new();
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
        let expected = "ee 668e33ef 0001 0005 0001020304050607 00000014 00000001
                        00001000 00000000 00000200 00000003";
        assert_eq!(out, hex(expected));
    }

    #[test]
    fn data_chunks_that_the_length_field_cannot_hold_are_refused() {
        let encode = |length| {
            std::panic::catch_unwind(|| encoded(|out| encode_data_header(out, 0, 0, length, true)))
        };
        assert!(encode(MAX_CHUNK_DATA).is_ok());
        assert!(encode(MAX_CHUNK_DATA + 1).is_err());
        assert!(encode(0).is_err());
    }
}
