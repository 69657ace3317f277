//! Replies of the transmission phase: encoding.
//!
//! Encoders write headers only: payloads are sent by the caller from where they lie, as separate segments of a vectored
//! write. With structured replies negotiated, READ and `BLOCK_STATUS` must be answered by chunks (errors too); other
//! commands may be answered by a simple reply either way.

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
/// Longest data of one data chunk in bytes: the chunk's length field counts the offset too.
pub const MAX_CHUNK_DATA: u32 = u32::MAX - 8;
/// Most extents one `BLOCK_STATUS` chunk can hold.
pub const MAX_EXTENTS: usize = (u32::MAX as usize - 4) / Extent::LEN;

/// Writes a simple reply. A READ that succeeded without structured replies is followed by its data.
#[inline]
pub fn encode_simple_reply(out: &mut [u8; SIMPLE_REPLY_LEN], cookie: u64, error: Option<Errno>) {
    let error = error.map_or(0, Errno::to_wire);
    out[0..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    out[4..8].copy_from_slice(&error.to_be_bytes());
    out[8..16].copy_from_slice(&cookie.to_be_bytes());
}

/// Writes the header of a data chunk: `length` bytes read at `offset` follow. `done` says that no chunk of this reply
/// comes after it.
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
        length.wrapping_sub(1) < MAX_CHUNK_DATA,
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

/// Writes the chunk that ends a reply without saying anything more.
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

/// Appends an error chunk with a message for people, cut to [`MAX_STRING`] bytes at a character's boundary.
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

/// Writes an error chunk that says where in the export the error is, without a message.
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

/// Appends a `BLOCK_STATUS` chunk for the metadata context numbered `context`.
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

/// Writes the header that all chunks share; `length` is that of what follows it.
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
