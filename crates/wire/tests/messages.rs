//! What errors say: the words end up in logs and in front of users.

use weir_wire::nbd::{
    Errno, Fatal, HandshakeError, RequestError,
    client::{HandshakeError as ClientHandshakeError, ReplyError},
};
use weir_wire::ring::split::{
    self, ChainError, DriverError, LayoutError, NoRoom, TableError, TakeError,
};
use weir_wire::ring::{Outside, xen};
use weir_wire::vhost::{self, FrameError, MessageError, RegionError};
use weir_wire::virtio_blk;

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

/// Each error says these words.
fn say(errors: &[(&dyn std::fmt::Display, &str)]) {
    for (error, words) in errors {
        assert_eq!(error.to_string(), *words);
    }
}

#[test]
fn what_a_virtqueue_says() {
    let outside = Outside {
        address: 0x1000,
        length: 7,
    };
    let broken = split::Broken::Index {
        found: 9,
        taken: 3,
        size: 4,
    };
    let head = ChainError::Loop { descriptors: 4 };
    say(&[
        (&outside, "7 bytes at 0x1000 are not all the guest's"),
        (
            &LayoutError::Size { size: 3 },
            "a queue of 3 entries: it has to be a power of two, at most 32768",
        ),
        (
            &LayoutError::TooShort {
                area: "used ring",
                length: 4,
                needed: 6,
            },
            "the area of the queue's used ring has 4 bytes, it needs 6",
        ),
        (
            &TakeError::Broken(broken),
            "the available index is 9 after 3 in a queue of 4: it jumped or went back",
        ),
        (
            &split::Broken::HeadTwice { head: 2 },
            "head 2 is in flight already",
        ),
        (
            &TakeError::Chain { head: 1, why: head },
            "head 1: the chain has more than 4 descriptors: it goes round in a circle",
        ),
        (
            &ChainError::Table(TableError::Outside(outside)),
            "table of descriptors: 7 bytes at 0x1000 are not all the guest's",
        ),
        (&NoRoom, "there are not enough free descriptors"),
        (
            &DriverError::Head { head: 5 },
            "head 5 came back and is not in flight",
        ),
    ]);
}

#[test]
fn what_a_ring_of_xen_says() {
    let unknown = xen::Refused {
        operation: xen::Operation::from_wire(9),
        id: 1,
        why: xen::Refusal::UnknownOperation,
    };
    let broken = xen::Broken {
        found: 9,
        least: 1,
        most: 3,
    };
    say(&[
        (
            &xen::TooSmall { length: 3 },
            "3 bytes are too few for a ring",
        ),
        (
            &broken,
            "the other side's index is 9, not within 1 to 3: it jumped or went back",
        ),
        (&xen::Full, "every slot of the ring is taken"),
        (&unknown, "operation 9 is not offered"),
    ]);
}

#[test]
fn what_is_said_of_a_disks_requests() {
    let why = virtio_blk::RequestError::TooLong {
        length: 9,
        limit: 8,
    };
    let refused = virtio_blk::Refused { why, status: None };
    say(&[
        (&refused, "9 bytes, more than 8"),
        (
            &virtio_blk::RequestError::ReadOnly,
            "the disk can only be read",
        ),
    ]);
}

#[test]
fn what_is_said_to_a_monitor() {
    say(&[
        (
            &FrameError::Version { flags: 2 },
            "a message with flags 0x2 is not of version 1",
        ),
        (
            &FrameError::TooLong {
                code: vhost::Code::GET_FEATURES,
                length: 9_000,
            },
            "GET_FEATURES of 9000 bytes, more than the 268 that any message has",
        ),
        (&MessageError::Regions(9), "has 9 regions, not 1 to 8"),
        (&MessageError::Unknown, "is not offered"),
        (&RegionError::Empty, "a region of memory has no bytes"),
        (&RegionError::TooMany(2), "more than 2 regions of memory"),
    ]);
}
