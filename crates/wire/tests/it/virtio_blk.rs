//! Tests of requests of virtio's block device: the valid ways to spread them over buffers, and the
//! invalid ones.

use proptest::prelude::*;
use weir_wire::ring::plain::{Memory, Regions};
use weir_wire::ring::split::{Buffer, BufferChain};
use weir_wire::ring::{Guest, OutsideGuestError};
use weir_wire::virtio_blk::{
    BlkCommand, BlkRequest, BlkRequestError, BlkRules, DiskRange, RangeLimits, RefusedBlkRequest,
    Status,
};

const START: u64 = 0x1_0000;
const MIDDLE: u64 = START + 0x8000;
const END: u64 = START + 0x10000;

/// A guest with 64 KiB in two adjacent regions.
fn guest() -> Regions {
    let mut guest = Regions::new();
    guest.add(START, Memory::new(0x8000));
    guest.add(MIDDLE, Memory::new(0x8000));
    guest
}

fn rules() -> BlkRules {
    BlkRules {
        capacity: 2048,
        block: 512,
        read_only: false,
        segments: 8,
        length: 0x8000,
        discard: Some(RangeLimits {
            sectors: 1024,
            ranges: 2,
        }),
        write_zeroes: Some(RangeLimits {
            sectors: 64,
            ranges: 1,
        }),
    }
}

fn header(number: u32, sector: u64) -> Vec<u8> {
    let mut bytes = [number.to_le_bytes(), [0; 4]].concat();
    bytes.extend_from_slice(&sector.to_le_bytes());
    bytes
}

fn range(sector: u64, sectors: u32, flags: u32) -> Vec<u8> {
    let words = [sectors, flags].map(u32::to_le_bytes);
    [&sector.to_le_bytes()[..], words.as_flattened()].concat()
}

/// Builds a chain. `read` is written to the start of guest memory and cut into buffers of `cuts`
/// bytes each. Writable buffers with the lengths `into` follow, from the middle on.
fn chain(guest: &Regions, read: &[u8], cuts: usize, into: &[u32]) -> BufferChain {
    guest.write(START, read).expect("there is room");
    let mut chain = BufferChain::default();
    let mut address = START;
    for piece in read.chunks(cuts) {
        chain.buffers.push(Buffer {
            address,
            length: piece.len() as u32,
            writable: false,
        });
        address += piece.len() as u64;
    }
    let mut address = MIDDLE;
    for length in into {
        chain.buffers.push(Buffer {
            address,
            length: *length,
            writable: true,
        });
        address += u64::from(*length);
    }
    chain.readable = read.len() as u64;
    chain.writable = into.iter().map(|length| u64::from(*length)).sum();
    chain
}

fn parse(read: &[u8], into: &[u32], rules: &BlkRules) -> Result<BlkRequest, RefusedBlkRequest> {
    let guest = guest();
    let chain = chain(&guest, read, 16, into);
    let mut request = BlkRequest::default();
    request.parse(&chain, &guest, rules).map(|()| request)
}

/// Asserts that every case is refused for its reason, with the status for unsupported requests
/// where that applies.
fn refused(cases: &[(Vec<u8>, &[u32], BlkRequestError)]) {
    for (bytes, into, why) in cases {
        let refused = parse(bytes, into, &rules()).expect_err(&why.to_string());
        assert_eq!(refused.why, *why);
        let unknown = matches!(
            why,
            BlkRequestError::Unknown { .. } | BlkRequestError::Flags { .. }
        );
        // Commands and flags that do not exist are answered with UNSUPP, all other errors with
        // IOERR.
        assert_eq!(refused.code() == Status::Unsupported, unknown, "{why}");
        // In the only case with a buffer outside of memory, the status is outside as well.
        let outside = matches!(why, BlkRequestError::Outside(_));
        assert_eq!(refused.status.is_none(), outside, "{why}");
    }
}

fn read(sector: u64) -> Vec<u8> {
    header(0, sector)
}

fn write(bytes: usize) -> Vec<u8> {
    [header(1, 0), vec![0; bytes]].concat()
}

fn discard(ranges: &[Vec<u8>]) -> Vec<u8> {
    [header(11, 0), ranges.concat()].concat()
}

fn beyond(sector: u64, sectors: u64) -> BlkRequestError {
    BlkRequestError::BeyondEnd {
        sector,
        sectors,
        capacity: 2048,
    }
}

fn unaligned(bytes: u64, block: u32) -> BlkRequestError {
    BlkRequestError::Unaligned { bytes, block }
}

#[test]
fn invalid_headers_and_directions_have_errors_of_their_own() {
    let unknown = |number| BlkRequestError::Unknown { number };
    let direction = |command| BlkRequestError::Direction { command };
    refused(&[
        // A header that is one byte short, and one that the device can only write.
        (vec![0; 15], &[1], BlkRequestError::Header { readable: 15 }),
        (vec![], &[513], BlkRequestError::Header { readable: 0 }),
        // Number 2 is SCSI_CMD of old versions of the specification, which is not offered.
        (header(2, 0), &[1], unknown(2)),
        (header(u32::MAX, 0), &[1], unknown(u32::MAX)),
        (write(512), &[2], direction(BlkCommand::Out)),
        (write(0), &[512, 1], direction(BlkCommand::Out)),
        (
            [read(0), vec![0; 512]].concat(),
            &[1],
            direction(BlkCommand::In),
        ),
        (header(4, 0), &[512, 1], direction(BlkCommand::Flush)),
        (
            discard(&[range(0, 8, 0)]),
            &[16, 1],
            direction(BlkCommand::Discard),
        ),
    ]);
    let none = parse(&read(0), &[], &rules()).expect_err("no status");
    assert_eq!((none.why, none.status), (BlkRequestError::NoStatus, None));
}

#[test]
fn invalid_data_buffers_have_errors_of_their_own() {
    let outside = OutsideGuestError {
        address: END,
        length: 1,
    };
    let nine = BlkRequestError::TooMany { count: 9, limit: 8 };
    refused(&[
        (read(0), &[1], BlkRequestError::Empty),
        (write(0), &[1], BlkRequestError::Empty),
        (read(0), &[511, 1], unaligned(511, 512)),
        // The disk has 2048 sectors.
        (read(2048), &[512, 1], beyond(2048, 1)),
        (read(2047), &[1024, 1], beyond(2047, 2)),
        (read(u64::MAX), &[512, 1], beyond(u64::MAX, 1)),
        // 2^55 sectors are 2^64 bytes, so the multiplication overflows.
        (read(1 << 55), &[512, 1], beyond(1 << 55, 1)),
        // 0x8000 bytes from MIDDLE on fill the rest of the memory, so the status is at END.
        (read(0), &[0x8000, 1], BlkRequestError::Outside(outside)),
        (
            read(0),
            &[512, 512, 512, 512, 512, 512, 512, 512, 512, 1],
            nine,
        ),
    ]);
}

#[test]
fn invalid_ranges_have_errors_of_their_own() {
    let long = BlkRequestError::TooLong {
        length: 1025 * 512,
        limit: 1024 * 512,
    };
    let three = [range(0, 1, 0), range(1, 1, 0), range(2, 1, 0)];
    let zeroes = [header(13, 0), range(0, 8, 2)].concat();
    refused(&[
        (discard(&[]), &[1], BlkRequestError::Empty),
        (discard(&[vec![0; 8]]), &[1], unaligned(8, 16)),
        (discard(&[range(0, 0, 0)]), &[1], BlkRequestError::Empty),
        (
            // The unmap flag (1) is invalid for a discard, and 2 is unknown for WRITE_ZEROES.
            discard(&[range(0, 8, 1)]),
            &[1],
            BlkRequestError::Flags { flags: 1 },
        ),
        (discard(&[range(2040, 9, 0)]), &[1], beyond(2040, 9)),
        (discard(&[range(u64::MAX, 1, 0)]), &[1], beyond(u64::MAX, 1)),
        (discard(&[range(0, 1025, 0)]), &[1], long),
        (
            discard(&three),
            &[1],
            BlkRequestError::TooMany { count: 3, limit: 2 },
        ),
        (zeroes, &[1], BlkRequestError::Flags { flags: 2 }),
    ]);
}

#[test]
fn limits_that_the_driver_was_told_hold() {
    // Each stage tightens one rule: the length, the block size, read-only, and the support of
    // discards.
    let into: &[u32] = &[4096, 1];
    let strict = BlkRules {
        length: 2048,
        ..rules()
    };
    let why = parse(&header(0, 0), into, &strict)
        .expect_err("too long")
        .why;
    let expected = BlkRequestError::TooLong {
        length: 4096,
        limit: 2048,
    };
    assert_eq!(why, expected);
    let blocks = BlkRules {
        block: 4096,
        ..rules()
    };
    let why = parse(&header(0, 7), into, &blocks)
        .expect_err("unaligned")
        .why;
    // Sector 7 begins within a block of 8 sectors, and sector 8 with the next block.
    let (bytes, block) = (7 * 512, 4096);
    assert_eq!(why, BlkRequestError::Unaligned { bytes, block });
    assert!(parse(&header(0, 8), into, &blocks).is_ok());
    let read_only = BlkRules {
        read_only: true,
        ..rules()
    };
    // WRITE, DISCARD and WRITE_ZEROES.
    for number in [1, 11, 13] {
        let bytes = [header(number, 0), range(0, 1, 0)].concat();
        let why = parse(&bytes, &[1], &read_only).expect_err("read-only").why;
        assert_eq!(why, BlkRequestError::ReadOnly);
    }
    assert!(parse(&header(0, 0), into, &read_only).is_ok());
    assert!(parse(&header(4, 0), &[1], &read_only).is_ok());
    let bare = BlkRules {
        discard: None,
        ..rules()
    };
    let refused = parse(&[header(11, 0), range(0, 1, 0)].concat(), &[1], &bare);
    assert_eq!(
        refused.expect_err("not offered").code(),
        Status::Unsupported
    );
}

#[test]
fn the_last_sector_can_be_read() {
    let request = parse(&header(0, 2047), &[512, 1], &rules()).expect("it is on the disk");
    assert_eq!((request.offset, request.length), (2047 * 512, 512));
    assert_eq!((request.written(), request.status), (513, MIDDLE + 512));
}

#[test]
fn the_sector_of_a_get_id_or_a_flush_is_ignored() {
    // The sector of these commands has no meaning, so it is not checked.
    let request = parse(&header(8, u64::MAX), &[20, 1], &rules()).expect("a name");
    assert_eq!(
        (request.command, request.written()),
        (BlkCommand::GetId, 21)
    );
    let request = parse(&header(4, u64::MAX), &[1], &rules()).expect("a flush");
    assert_eq!((request.command, request.written()), (BlkCommand::Flush, 1));
}

#[test]
fn ranges_are_read_in_order() {
    let bytes = [header(11, 0), range(8, 8, 0), range(2040, 8, 0)].concat();
    let request = parse(&bytes, &[1], &rules()).expect("two ranges");
    let of = |sector: u64| DiskRange {
        offset: sector * 512,
        length: 4096,
        unmap: false,
    };
    assert_eq!(request.ranges, [of(8), of(2040)]);
    let bytes = [header(13, 0), range(8, 8, 1)].concat();
    let request = parse(&bytes, &[1], &rules()).expect("one range");
    assert_eq!(
        request.ranges,
        [DiskRange {
            unmap: true,
            ..of(8)
        }]
    );
}

proptest! {
    /// Header, data and status are cut into buffers of different lengths. The data of the request
    /// is the bytes between header and status.
    #[test]
    fn a_request_is_the_same_however_its_buffers_are_cut(
        sector in 0u64..2040,
        blocks in 1usize..4,
        cuts in prop::sample::select(vec![1usize, 3, 15, 16, 17, 500, 4096]),
        // The buffers start at the beginning of a region, or span both regions.
        at in prop::sample::select(vec![START, MIDDLE - 700]),
    ) {
        let rules = BlkRules { segments: 4096, ..rules() };
        let guest = guest();
        let payload: Vec<u8> = (0..512 * blocks).map(|i| (i % 251) as u8).collect();
        let bytes = [header(1, sector), payload.clone()].concat();
        let mut chain = chain(&guest, &bytes, cuts, &[1]);
        guest.write(at, &bytes).expect("there is room");
        for buffer in chain.buffers.iter_mut().filter(|buffer| !buffer.writable) {
            buffer.address = buffer.address - START + at;
        }
        let mut request = BlkRequest::default();
        prop_assert_eq!(request.parse(&chain, &guest, &rules), Ok(()));
        prop_assert_eq!(request.offset, sector * 512);
        prop_assert_eq!(request.length as usize, payload.len());
        let mut found = Vec::new();
        for buffer in &request.data {
            let mut piece = vec![0; buffer.length as usize];
            guest.read(buffer.address, &mut piece).expect("it was checked");
            found.extend(piece);
        }
        prop_assert_eq!(found, payload);
    }
}
