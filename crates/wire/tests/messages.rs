//! What errors say: the words end up in logs and in front of users.

use weir_wire::nbd::{
    Errno, Fatal, HandshakeError, RequestError,
    client::{HandshakeError as ClientHandshakeError, ReplyError},
};

#[test]
fn what_a_server_says() {
    for (error, words) in [
        (
            HandshakeError::ClientFlags(0x14),
            "client flags 0x14 have bits that were not offered",
        ),
        (
            HandshakeError::NotFixedNewstyle,
            "client does not speak the fixed newstyle handshake",
        ),
        (
            HandshakeError::BadMagic(0xab),
            "option starts with 0x00000000000000ab instead of the magic number",
        ),
        (
            HandshakeError::OptionTooLong {
                option: 7,
                length: 70_000,
                limit: 65_536,
            },
            "option 7 with 70000 bytes of data, more than the limit of 65536",
        ),
        (
            HandshakeError::TooManyOptions { limit: 64 },
            "more than 64 options in one handshake",
        ),
        (
            HandshakeError::BadName,
            "export name is too long or not UTF-8",
        ),
        (
            HandshakeError::UnknownExport("x".into()),
            "no export named \"x\"",
        ),
        (
            HandshakeError::BlockSizeRequired("x".into()),
            "export \"x\" needs a client that asks for its block sizes",
        ),
        (HandshakeError::Refused("full"), "full"),
    ] {
        assert_eq!(error.to_string(), words);
    }
    let long = Fatal::PayloadTooLong {
        length: 9,
        limit: 8,
    };
    assert_eq!(
        long.to_string(),
        "write of 9 bytes, more than the limit of 8"
    );
    let magic = Fatal::BadMagic { found: 1 };
    assert_eq!(
        magic.to_string(),
        "request starts with 0x00000001 instead of 0x25609513"
    );
    assert_eq!(RequestError::Empty.to_string(), "length is zero");
    assert_eq!(Errno::NoSpc.to_string(), "no space left on device");
}

#[test]
fn what_a_client_says() {
    for (error, words) in [
        (
            ClientHandshakeError::NotFixedNewstyle,
            "not an NBD server with the fixed newstyle handshake",
        ),
        (
            ClientHandshakeError::BadMagic(1),
            "option reply starts with 0x0000000000000001 instead of the magic number",
        ),
        (
            ClientHandshakeError::WrongOption { sent: 7, found: 3 },
            "reply to option 3, but option 7 was sent",
        ),
        (
            ClientHandshakeError::ReplyTooLong {
                length: 9,
                limit: 8,
            },
            "option reply of 9 bytes, more than the limit of 8",
        ),
        (
            ClientHandshakeError::TooManyReplies { limit: 2 },
            "more than 2 option replies",
        ),
        (
            ClientHandshakeError::BadReply("why"),
            "malformed option reply: why",
        ),
    ] {
        assert_eq!(error.to_string(), words);
    }
    for (error, words) in [
        (
            ReplyError::BadMagic(1),
            "reply starts with 0x00000001 instead of a magic number",
        ),
        (ReplyError::UnknownChunk(3), "chunk of unknown type 3"),
        (
            ReplyError::BadLength { kind: 1, length: 2 },
            "chunk of type 1 with a length of 2 bytes",
        ),
        (ReplyError::BadChunk("why"), "malformed chunk: why"),
    ] {
        assert_eq!(error.to_string(), words);
    }
}
