use proptest::prelude::*;

use super::*;
use crate::nbd::flags::ExtentFlags;
use crate::nbd::reply::{
    append_block_status, append_error, encode_data_header, encode_error, encode_error_offset,
    encode_hole, encode_none, encode_simple_reply,
};

/// Random replies with the bytes that the server sends for them, without payload.
fn replies() -> impl Strategy<Value = (Reply, Vec<u8>)> {
    let errno = prop::sample::select(vec![Errno::Perm, Errno::Io, Errno::Inval, Errno::NoSpc]);
    let numbers = (any::<u64>(), any::<u64>(), 1..=u32::MAX - 8, any::<bool>());
    (0..8, numbers, errno, "\\PC{0,40}", 1..20u32).prop_map(
        |(kind, (cookie, offset, length, done), error, message, extents)| match kind {
            0 => simple(cookie, None),
            1 => simple(cookie, Some(error)),
            2 => (
                Reply::Data {
                    cookie,
                    offset,
                    length,
                    done,
                },
                encode_data_header(cookie, offset, length, done).to_vec(),
            ),
            3 => (
                Reply::Hole {
                    cookie,
                    offset,
                    length,
                    done,
                },
                encode_hole(cookie, offset, length, done).to_vec(),
            ),
            4 => (Reply::None { cookie }, encode_none(cookie).to_vec()),
            5 if message.is_empty() => (
                Reply::Error {
                    cookie,
                    error,
                    offset: None,
                    message,
                    done,
                },
                encode_error(cookie, error, done).to_vec(),
            ),
            5 => {
                let mut bytes = Vec::new();
                append_error(&mut bytes, cookie, error, &message, done);
                (
                    Reply::Error {
                        cookie,
                        error,
                        offset: None,
                        message,
                        done,
                    },
                    bytes,
                )
            }
            6 => (
                Reply::Error {
                    cookie,
                    error,
                    offset: Some(offset),
                    message: String::new(),
                    done,
                },
                encode_error_offset(cookie, error, offset, done).to_vec(),
            ),
            _ => block_status(cookie, extents, done),
        },
    )
}

fn simple(cookie: u64, error: Option<Errno>) -> (Reply, Vec<u8>) {
    let bytes = encode_simple_reply(cookie, error).to_vec();
    (Reply::Simple { cookie, error }, bytes)
}

fn block_status(cookie: u64, extents: u32, done: bool) -> (Reply, Vec<u8>) {
    let list = vec![
        Extent {
            length: 512,
            flags: ExtentFlags::HOLE
        };
        extents as usize
    ];
    let mut bytes = Vec::new();
    append_block_status(&mut bytes, cookie, 1, &list, done);
    // The extents are payload, which the parser leaves to the caller.
    bytes.truncate(CHUNK_HEADER_LEN + 4);
    (
        Reply::BlockStatus {
            cookie,
            context: 1,
            extents,
            done,
        },
        bytes,
    )
}

proptest! {
    /// Encoded replies are parsed back, in parts of any size, and exactly their bytes are consumed.
    #[test]
    fn replies_round_trip(
        replies in prop::collection::vec(replies(), 1..6),
        piece in 1..50usize,
    ) {
        let stream: Vec<u8> = replies.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
        let mut parser = ReplyParser::new();
        let (mut at, mut heads, mut ends) = (0, Vec::new(), Vec::new());
        while at < stream.len() {
            let end = stream.len().min(at + piece);
            let (used, reply) = parser.feed(&stream[at..end]).expect("our server");
            prop_assert!(used > 0);
            prop_assert!(reply.is_some() || used == end - at);
            at += used;
            if let Some(reply) = reply {
                heads.push(reply);
                ends.push(at);
            }
        }
        prop_assert_eq!(parser.feed(&[]), Ok((0, None)));
        let mut expected_end = 0;
        for (index, (reply, bytes)) in replies.iter().enumerate() {
            expected_end += bytes.len();
            prop_assert_eq!(&heads[index], reply);
            prop_assert_eq!(ends[index], expected_end);
        }
    }
}

/// Encodes a chunk with the cookie 1.
fn chunk(flags: u16, kind: u16, length: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = STRUCTURED_REPLY_MAGIC.to_be_bytes().to_vec();
    bytes.extend_from_slice(&flags.to_be_bytes());
    bytes.extend_from_slice(&kind.to_be_bytes());
    bytes.extend_from_slice(&1u64.to_be_bytes());
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(body);
    bytes
}

fn error_of(bytes: &[u8]) -> ReplyError {
    let whole = ReplyParser::new().feed(bytes).expect_err("a broken reply");
    let mut parser = ReplyParser::new();
    let pieces = bytes.iter().find_map(|&byte| parser.feed(&[byte]).err());
    assert_eq!(pieces, Some(whole), "byte by byte");
    whole
}

#[test]
fn chunks_of_a_wrong_length_are_refused_by_their_header() {
    // Lengths slightly outside of the range of each type, and one beyond the longest error.
    for (kind, length) in [
        (CHUNK_NONE, 1),
        (CHUNK_OFFSET_DATA, 0),
        (CHUNK_OFFSET_DATA, 8),
        (CHUNK_OFFSET_HOLE, 11),
        (CHUNK_OFFSET_HOLE, 13),
        (CHUNK_BLOCK_STATUS, 4),
        (CHUNK_BLOCK_STATUS, 13),
        (CHUNK_BLOCK_STATUS, 3),
        (0x8001, 5),
        (0x8001, u32::MAX),
        (CHUNK_ERROR_OFFSET, 13),
        (0xffff, 5),
    ] {
        let error = error_of(&chunk(1, kind, length, &[]));
        assert_eq!(error, ReplyError::BadLength { kind, length });
    }
    assert_eq!(error_of(&chunk(1, 3, 0, &[])), ReplyError::UnknownChunk(3));
    assert_eq!(error_of(&[0x12; 16]), ReplyError::BadMagic(0x1212_1212));
}

#[test]
fn chunks_that_contradict_themselves_are_refused() {
    let hole = chunk(1, CHUNK_OFFSET_HOLE, 12, &[0; 12]);
    assert_eq!(error_of(&hole), ReplyError::BadChunk("a hole has no bytes"));
    assert_eq!(
        error_of(&chunk(0, CHUNK_NONE, 0, &[])),
        ReplyError::BadChunk("another chunk follows the last one")
    );
    // The length of the message in the chunk (0x1001) exceeds 4096 bytes.
    let long = [&[0, 0, 0, 5, 0x10, 1][..], &[b'x'; MAX_STRING + 1]].concat();
    for bytes in [
        chunk(1, 0x8001, long.len() as u32, &long),
        // An error value of zero, a message longer than its chunk, and an error without its offset.
        chunk(1, 0x8001, 6, &[0; 6]),
        chunk(1, 0x8001, 6, &[0, 0, 0, 5, 0, 1]),
        chunk(
            1,
            CHUNK_ERROR_OFFSET,
            14,
            &[0, 0, 0, 5, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0],
        ),
    ] {
        assert!(
            matches!(error_of(&bytes), ReplyError::BadChunk(_)),
            "{bytes:?}"
        );
    }
}

#[test]
fn errors_of_an_unknown_kind_or_value_are_errors_all_the_same() {
    // Type 0xc000 has the error bit, the error value 0x1000 is unknown, and three bytes follow the
    // message.
    let body = [0, 0, 0x10, 0, 0, 2, b'h', b'i', 9, 9, 9];
    let (used, reply) = ReplyParser::new()
        .feed(&chunk(0, 0xc000, 11, &body))
        .unwrap();
    assert_eq!(used, CHUNK_HEADER_LEN + 11);
    let expected = Reply::Error {
        cookie: 1,
        error: Errno::Inval,
        offset: None,
        message: "hi".into(),
        done: false,
    };
    assert_eq!(reply, Some(expected));
}

#[test]
fn the_longest_message_is_accepted_and_buffered_as_it_arrives() {
    let body = [&[0, 0, 0, 5, 0x10, 0][..], &[b'x'; MAX_STRING]].concat();
    let bytes = chunk(1, 0x8001, body.len() as u32, &body);
    let mut parser = ReplyParser::new();
    assert_eq!(parser.feed(&bytes[..100]), Ok((100, None)));
    assert_eq!(parser.held_bytes(), 100);
    let (_, reply) = parser.feed(&bytes[100..]).unwrap();
    assert!(
        matches!(&reply, Some(Reply::Error { message, .. }) if message.len() == MAX_STRING),
        "{reply:?}"
    );
    assert_eq!(parser.held_bytes(), 0);
}
