//! Tests of the protocol's bytes, of every error, and of random addresses.

use proptest::prelude::*;

use super::*;

fn message(code: MessageCode, flags: u32, payload: &[u8]) -> Vec<u8> {
    let words = [code.0, flags, payload.len() as u32].map(u32::to_ne_bytes);
    [words.as_flattened(), payload].concat()
}

/// Parses one message that arrives with the descriptors 0, 1, 2 and so on.
fn understand(bytes: &[u8], descriptors: u32) -> Result<Option<Message<u32>>, FrameError> {
    let mut assembler = Assembler::default();
    let mut at = 0;
    let mut descriptors = Some(descriptors);
    loop {
        let room = assembler.room();
        let count = room.len().min(bytes.len() - at);
        room[..count].copy_from_slice(&bytes[at..at + count]);
        at += count;
        let message = assembler.on_received(count, 0..descriptors.take().unwrap_or(0))?;
        if message.is_some() || at == bytes.len() {
            return Ok(message);
        }
    }
}

fn request(
    code: MessageCode,
    payload: &[u8],
    descriptors: u32,
) -> Result<VhostRequest<u32>, MessageError> {
    let understood = understand(&message(code, 1, payload), descriptors);
    understood.unwrap().expect("a whole message").request
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_ne_bytes()).collect()
}

fn doubles(doubles: &[u64]) -> Vec<u8> {
    doubles.iter().flat_map(|w| w.to_ne_bytes()).collect()
}

const REGION: Region = Region {
    guest: 0x1000,
    size: 0x2000,
    user: 0x7f00_0000_0000,
    offset: 0x3000,
};

fn region_bytes() -> Vec<u8> {
    doubles(&[0x1000, 0x2000, 0x7f00_0000_0000, 0x3000])
}

/// Another process can continue after any byte of a message.
#[test]
fn a_message_may_be_received_by_two_processes() {
    let payload = [words(&[1, 0]), region_bytes()].concat();
    let bytes = message(MessageCode::SET_MEM_TABLE, 1, &payload);
    let whole = understand(&bytes, 1);
    for end in 1..bytes.len() {
        let mut first = Assembler::<u32>::default();
        assert!(first.resume(&bytes[..end], [0]));
        let (have, descriptors) = first.partial();
        assert_eq!((have, descriptors), (&bytes[..end], &[0][..]));
        let mut second = Assembler::default();
        assert!(second.resume(have, descriptors.iter().copied()));
        let mut message = Ok(None);
        for byte in &bytes[end..] {
            assert_eq!(message, Ok(None));
            second.room()[0] = *byte;
            message = second.on_received(1, []);
        }
        assert_eq!(message, whole);
    }
    // A message that is complete, invalid or has too many descriptors is not a beginning.
    assert!(!Assembler::default().resume(&bytes, [0]));
    assert!(!Assembler::<u32>::default().resume(&[0xff; HEADER_LEN], []));
    assert!(!Assembler::default().resume(&bytes[..20], 0..100));
    assert!(Assembler::<u32>::default().resume(&[], []));
}

#[cfg(target_endian = "little")]
#[test]
fn messages_have_the_bytes_of_the_protocol() {
    // SET_VRING_ENABLE (18) with version 1 and NEED_REPLY (bit 3), 8 bytes: queue 2, enabled.
    let bytes = [18, 0, 0, 0, 9, 0, 0, 0, 8, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0];
    let understood = understand(&bytes, 0).unwrap().unwrap();
    assert_eq!(understood.code, MessageCode::SET_VRING_ENABLE);
    assert!(understood.needs_reply);
    let enable = VhostRequest::SetVringEnable {
        queue: 2,
        enabled: true,
    };
    assert_eq!(understood.request, Ok(enable));

    // Replies have version 1 and REPLY (bit 2), hence flags of 5.
    let mut out = Vec::new();
    VhostReply::Value(0x0102).append(MessageCode::GET_FEATURES, &mut out);
    let value = [1, 0, 0, 0, 5, 0, 0, 0, 8, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0];
    assert_eq!(out, value);
    out.clear();
    // ADD_MEM_REG (37) is answered with 1, because zero means success.
    VhostReply::Ack { done: false }.append(MessageCode::ADD_MEM_REG, &mut out);
    let refused = [37, 0, 0, 0, 5, 0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(out, refused);
    out.clear();
    let base = VhostReply::Base {
        queue: 3,
        base: 0xfffe,
    };
    // GET_VRING_BASE (11): the index of 16 bits is sent in 32 bits.
    base.append(MessageCode::GET_VRING_BASE, &mut out);
    let stopped = [
        11, 0, 0, 0, 5, 0, 0, 0, 8, 0, 0, 0, 3, 0, 0, 0, 0xfe, 0xff, 0, 0,
    ];
    assert_eq!(out, stopped);
    out.clear();
    // The back end's own message 2 is neither a reply nor does it request one.
    append_config_changed(&mut out);
    assert_eq!(out, [2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn a_configuration_space_is_answered_with_its_place_or_with_nothing() {
    let mut out = Vec::new();
    let config = VhostReply::Config {
        offset: 4,
        data: Some(&[1, 2, 3]),
    };
    config.append(MessageCode::GET_CONFIG, &mut out);
    // The reply has a header of 12 bytes (offset, size, flags) and the three bytes.
    let expected = [words(&[24, 5, 15, 4, 3, 0]), vec![1, 2, 3]].concat();
    assert_eq!(out, expected);
    out.clear();
    let none = VhostReply::Config {
        offset: 4,
        data: None,
    };
    none.append(MessageCode::GET_CONFIG, &mut out);
    // An empty payload reports that there is no such range.
    assert_eq!(out, words(&[24, 5, 0]));
}

#[test]
fn a_reply_about_in_flight_memory_has_the_length_of_its_request() {
    let inflight = Inflight {
        size: 4096,
        offset: 0,
        queues: 2,
        queue_size: 128,
    };
    // 20 bytes of fields, or 24 if the compiler of the front end pads the structure.
    for length in [20, 24] {
        let mut out = Vec::new();
        VhostReply::Inflight { inflight, length }.append(MessageCode::GET_INFLIGHT_FD, &mut out);
        assert_eq!(out.len(), HEADER_LEN + length as usize);
        assert_eq!(out[8..12], length.to_ne_bytes());
        let payload = &out[HEADER_LEN..];
        let asked = request(MessageCode::GET_INFLIGHT_FD, payload, 0);
        assert_eq!(asked, Ok(VhostRequest::GetInflightFd(inflight)));
        let given = request(MessageCode::SET_INFLIGHT_FD, payload, 1);
        assert_eq!(given, Ok(VhostRequest::SetInflightFd(inflight, 0)));
    }
}

#[test]
fn every_message_without_a_payload_is_understood() {
    for (code, expected) in [
        (MessageCode::GET_FEATURES, VhostRequest::GetFeatures),
        (MessageCode::SET_OWNER, VhostRequest::SetOwner),
        (MessageCode::RESET_OWNER, VhostRequest::ResetOwner),
        (
            MessageCode::GET_PROTOCOL_FEATURES,
            VhostRequest::GetProtocolFeatures,
        ),
        (MessageCode::GET_QUEUE_NUM, VhostRequest::GetQueueNum),
        (MessageCode::RESET_DEVICE, VhostRequest::ResetDevice),
        (MessageCode::GET_MAX_MEM_SLOTS, VhostRequest::GetMaxMemSlots),
    ] {
        assert_eq!(request(code, &[], 0), Ok(expected), "{code}");
        let long = request(code, &[0], 0);
        assert_eq!(long, Err(MessageError::Length(1)), "{code}");
        let descriptors = request(code, &[], 1);
        assert_eq!(descriptors, Err(MessageError::Descriptors(1)), "{code}");
    }
}

/// Asserts that each message is parsed as the given request.
fn assert_understood<const N: usize>(rows: [(MessageCode, Vec<u8>, u32, VhostRequest<u32>); N]) {
    for (code, payload, descriptors, expected) in rows {
        assert_eq!(request(code, &payload, descriptors), Ok(expected), "{code}");
    }
}

/// Asserts that each message is refused with its error.
fn assert_refused<const N: usize>(rows: [(MessageCode, Vec<u8>, u32, MessageError); N]) {
    for (code, payload, descriptors, error) in rows {
        let refused = request(code, &payload, descriptors);
        assert_eq!(refused, Err(error), "{code}: {error}");
    }
}

#[test]
fn features_and_the_configuration_space_are_understood() {
    let (offset, size, data) = (32, 60, vec![1]);
    let get = [words(&[0, 60, 0]), vec![0; 60]].concat();
    let set = [words(&[32, 1, 0]), vec![1]].concat();
    assert_understood([
        (
            MessageCode::SET_FEATURES,
            doubles(&[5]),
            0,
            VhostRequest::SetFeatures(5),
        ),
        (
            MessageCode::SET_PROTOCOL_FEATURES,
            doubles(&[6]),
            0,
            VhostRequest::SetProtocolFeatures(6),
        ),
        (
            MessageCode::SET_BACKEND_REQ_FD,
            vec![],
            1,
            VhostRequest::SetBackendReqFd(0),
        ),
        (
            MessageCode::GET_CONFIG,
            get,
            0,
            VhostRequest::GetConfig { offset: 0, size },
        ),
        (
            MessageCode::SET_CONFIG,
            set,
            0,
            VhostRequest::SetConfig { offset, data },
        ),
    ]);
}

#[test]
fn regions_of_memory_are_understood() {
    let slot = [vec![0; 8], region_bytes()].concat();
    let table = [words(&[2, 0]), region_bytes(), region_bytes()].concat();
    let both = vec![(REGION, 0), (REGION, 1)];
    let (add, remove) = (MessageCode::ADD_MEM_REG, MessageCode::REM_MEM_REG);
    assert_understood([
        (
            MessageCode::SET_MEM_TABLE,
            table,
            2,
            VhostRequest::SetMemTable(both),
        ),
        (add, slot.clone(), 1, VhostRequest::AddMemReg(REGION, 0)),
        (remove, slot.clone(), 0, VhostRequest::RemMemReg(REGION)),
        (remove, slot, 1, VhostRequest::RemMemReg(REGION)),
    ]);
}

#[test]
fn settings_of_queues_are_parsed() {
    let (queue, size, base) = (7, 128, 0xffff);
    let addresses = RingAddresses {
        queue,
        logged: false,
        descriptors: 1,
        used: 2,
        available: 3,
        log: u64::MAX,
    };
    // Queue and flags, then the addresses of descriptors, used ring, available ring and log.
    let place = [words(&[queue, 0]), doubles(&[1, 2, 3, u64::MAX])].concat();
    assert_understood([
        (
            MessageCode::SET_VRING_NUM,
            words(&[queue, 128]),
            0,
            VhostRequest::SetVringNum { queue, size },
        ),
        (
            MessageCode::SET_VRING_BASE,
            words(&[queue, 0xffff]),
            0,
            VhostRequest::SetVringBase { queue, base },
        ),
        (
            MessageCode::GET_VRING_BASE,
            words(&[queue, 9]),
            0,
            VhostRequest::GetVringBase { queue },
        ),
        (
            MessageCode::SET_VRING_ADDR,
            place,
            0,
            VhostRequest::SetVringAddr(addresses),
        ),
    ]);
}

#[test]
fn descriptors_of_queues_may_be_missing_if_that_is_said() {
    // Bit 8 states that no descriptor comes with the message.
    let none = doubles(&[1 << 8 | 3]);
    let one = doubles(&[3]);
    let queue = 3;
    let descriptor = Some(0);
    for code in [
        MessageCode::SET_VRING_KICK,
        MessageCode::SET_VRING_CALL,
        MessageCode::SET_VRING_ERR,
    ] {
        let given = request(code, &one, 1).unwrap();
        let expected = match code {
            MessageCode::SET_VRING_KICK => VhostRequest::SetVringKick { queue, descriptor },
            MessageCode::SET_VRING_CALL => VhostRequest::SetVringCall { queue, descriptor },
            _ => VhostRequest::SetVringErr { queue, descriptor },
        };
        assert_eq!(given, expected);
        assert!(request(code, &none, 0).is_ok());
        for (payload, count) in [(&none, 1), (&one, 0), (&one, 2)] {
            let error = MessageError::Descriptors(count as usize);
            assert_refused([(code, payload.clone(), count, error)]);
        }
    }
}

#[test]
fn invalid_messages_have_errors_of_their_own() {
    use MessageError::*;
    let two = [words(&[2, 0]), region_bytes(), region_bytes()].concat();
    assert_refused([
        // Code 26 is not in the table, and SET_LOG_BASE is known but not offered.
        (MessageCode(26), vec![], 0, Unknown),
        (MessageCode::SET_LOG_BASE, vec![0; 16], 1, Unknown),
        (MessageCode::SET_FEATURES, vec![0; 7], 0, Length(7)),
        (MessageCode::SET_FEATURES, vec![0; 8], 1, Descriptors(1)),
        (MessageCode::SET_MEM_TABLE, vec![0; 4], 0, Length(4)),
        (MessageCode::SET_MEM_TABLE, vec![0; 8], 0, Regions(0)),
        // Nine regions are one more than a table may have.
        (
            MessageCode::SET_MEM_TABLE,
            [words(&[9, 0]), vec![0; 260 - 8]].concat(),
            8,
            Regions(9),
        ),
        (MessageCode::SET_MEM_TABLE, two.clone(), 1, Descriptors(1)),
        (MessageCode::SET_MEM_TABLE, two.clone(), 3, Descriptors(3)),
        // A table of two regions has 8 + 2 · 32 = 72 bytes, so the last byte is missing.
        (
            MessageCode::SET_MEM_TABLE,
            two[..71].to_vec(),
            2,
            Length(71),
        ),
        (MessageCode::SET_VRING_NUM, words(&[0, 0]), 0, QueueSize(0)),
        // 96 is not a power of two, and 65,536 is one but exceeds the maximum of 32,768.
        (
            MessageCode::SET_VRING_NUM,
            words(&[0, 96]),
            0,
            QueueSize(96),
        ),
        (
            MessageCode::SET_VRING_NUM,
            words(&[0, 65_536]),
            0,
            QueueSize(65_536),
        ),
        (
            MessageCode::SET_VRING_BASE,
            words(&[0, 65_536]),
            0,
            QueueBase(65_536),
        ),
        (MessageCode::SET_VRING_ENABLE, words(&[0, 2]), 0, Enable(2)),
        (MessageCode::SET_VRING_ADDR, vec![0; 32], 0, Length(32)),
        (MessageCode::SET_BACKEND_REQ_FD, vec![], 0, Descriptors(0)),
    ]);
}

#[test]
fn invalid_ranges_in_messages_have_errors_of_their_own() {
    use MessageError::*;
    // Ranges without bytes, with an overflow, and that end at byte 257 of 256.
    let place = |offset, size| (words(&[offset, size, 0]), Config { offset, size });
    for (code, (payload, error)) in [
        (MessageCode::GET_CONFIG, place(0, 0)),
        (MessageCode::GET_CONFIG, place(u32::MAX, 2)),
        (MessageCode::SET_CONFIG, place(250, 7)),
    ] {
        assert_refused([(code, payload, 0, error)]);
    }
    assert_refused([
        (MessageCode::GET_CONFIG, vec![0; 11], 0, Length(11)),
        (MessageCode::SET_CONFIG, words(&[0, 4, 0]), 0, Length(12)),
        (MessageCode::GET_INFLIGHT_FD, vec![0; 21], 0, Length(21)),
        (MessageCode::GET_INFLIGHT_FD, vec![0; 20], 1, Descriptors(1)),
        (MessageCode::SET_INFLIGHT_FD, vec![0; 20], 0, Descriptors(0)),
        (MessageCode::ADD_MEM_REG, vec![0; 40], 0, Descriptors(0)),
        (MessageCode::ADD_MEM_REG, vec![0; 32], 1, Length(32)),
        (MessageCode::REM_MEM_REG, vec![0; 40], 2, Descriptors(2)),
    ]);
}

#[test]
fn a_foreign_stream_is_refused_with_its_header() {
    let get = MessageCode::GET_FEATURES;
    for (bytes, error) in [
        // Versions 0 and 2, then a reply (bit 2).
        (message(get, 0, &[]), FrameError::Version { flags: 0 }),
        (message(get, 2, &[]), FrameError::Version { flags: 2 }),
        (message(get, 5, &[]), FrameError::Reply(get)),
        (
            // The longest payload has 12 + 256 = 268 bytes.
            words(&[1, 1, 269]),
            FrameError::TooLong {
                code: get,
                length: 269,
            },
        ),
        (
            words(&[1, 1, u32::MAX]),
            FrameError::TooLong {
                code: get,
                length: u32::MAX,
            },
        ),
    ] {
        assert_eq!(understand(&bytes, 0), Err(error), "{error}");
    }
    assert_eq!(
        // A message has at most eight descriptors.
        understand(&message(get, 1, &[]), 9),
        Err(FrameError::Descriptors)
    );
}

#[test]
fn invalid_regions_have_errors_of_their_own() {
    let check =
        |region: Region, others: &[Region]| check_joining(&region, others.iter().copied(), 2);
    let moved = |guest: u64, user: u64| Region {
        guest: REGION.guest + guest,
        user: REGION.user + user,
        ..REGION
    };
    let far = moved(1 << 20, 1 << 20);
    assert_eq!(check(REGION, &[]), Ok(()));
    assert_eq!(check(REGION, &[far]), Ok(()));
    // Adjacent regions do not overlap.
    assert_eq!(check(REGION, &[moved(0x2000, 0x2000)]), Ok(()));
    // The regions overlap in guest addresses, in user addresses, and in both.
    for other in [moved(0x1fff, 1 << 20), moved(1 << 20, 0x1fff), REGION] {
        assert_eq!(check(REGION, &[other]), Err(RegionError::Overlap(other)));
        assert_eq!(check(other, &[REGION]), Err(RegionError::Overlap(REGION)));
    }
    let third = moved(1 << 30, 1 << 30);
    assert_eq!(check(third, &[REGION, far]), Err(RegionError::TooMany(2)));
    let empty = Region { size: 0, ..REGION };
    assert_eq!(check(empty, &[]), Err(RegionError::Empty));
    // The last byte would be beyond 2^64 in guest addresses, in user addresses, beyond 2^63 in the
    // file, and everywhere.
    for over in [
        Region {
            guest: u64::MAX - 0x1ffe,
            ..REGION
        },
        Region {
            user: u64::MAX,
            ..REGION
        },
        Region {
            offset: i64::MAX as u64,
            ..REGION
        },
        Region {
            size: u64::MAX,
            ..REGION
        },
    ] {
        assert_eq!(check(over, &[]), Err(RegionError::Overflow), "{over:?}");
    }
    // The last byte of this region is the last one of the address space, which is permitted.
    let last = Region {
        guest: u64::MAX - 0x1fff,
        ..REGION
    };
    assert_eq!(
        check(last, &[REGION]).err(),
        Some(RegionError::Overlap(REGION))
    );
    let last = Region { user: 0, ..last };
    assert_eq!(check(last, &[REGION]), Ok(()));
}

proptest! {
    /// An address is found in a region exactly if all of its bytes are in the region.
    #[test]
    fn an_address_is_found_only_in_a_region_with_all_its_bytes(
        user in any::<u64>(), size in 1u64.., address in any::<u64>(), length in any::<u64>(),
    ) {
        let region = Region { guest: 0, size, user, offset: 0 };
        let found = region.find_user(address, length);
        let (start, end) = (u128::from(address), u128::from(address) + u128::from(length));
        let (first, last) = (u128::from(user), u128::from(user) + u128::from(size));
        let within = start >= first && start < last && end <= last;
        prop_assert_eq!(found, within.then(|| address - user));
    }
}

/// The numbers of the bits are those of the protocol.
#[test]
fn features_are_bits() {
    let features = [
        (feature::MQ, 0),
        (feature::REPLY_ACK, 3),
        (feature::BACKEND_REQ, 5),
        (feature::CONFIG, 9),
        (feature::INFLIGHT_SHMFD, 12),
        (feature::RESET_DEVICE, 13),
        (feature::CONFIGURE_MEM_SLOTS, 15),
        (PROTOCOL_FEATURES, 30),
    ];
    for (mask, bit) in features {
        assert_eq!(mask, 2_u64.pow(bit), "bit {bit}");
    }
    assert_eq!(QUEUE_SIZE_MAX, 32_768);
}

#[test]
fn a_reply_is_needed_only_if_it_is_requested() {
    for (flags, needs_reply) in [(1, false), (9, true)] {
        let bytes = message(MessageCode::SET_OWNER, flags, &[]);
        let understood = understand(&bytes, 0).unwrap().unwrap();
        assert_eq!(understood.needs_reply, needs_reply);
    }
}

#[test]
fn the_longest_message_is_not_too_long() {
    let header = |length: usize| {
        let bytes = message(MessageCode::SET_CONFIG, 1, &vec![0; length]);
        understand(&bytes[..HEADER_LEN], 0)
    };
    assert!(matches!(header(PAYLOAD_MAX), Ok(None)));
    assert!(matches!(
        header(PAYLOAD_MAX + 1),
        Err(FrameError::TooLong { .. })
    ));
}

#[test]
fn regions_that_touch_do_not_overlap() {
    let region = |guest, size, user| Region {
        guest,
        size,
        user,
        offset: 0,
    };
    // Adjacent on either side, then overlapping by one byte on either side in one of the two
    // address spaces.
    let here = region(0x4000, 0x2000, 0x9000);
    for (other, joins) in [
        (region(0x6000, 0x1000, 0xb000), true),
        (region(0x3000, 0x1000, 0x8000), true),
        (region(0x5fff, 0x1000, 0xb000), false),
        (region(0x3001, 0x1000, 0x8000), false),
        (region(0x6000, 0x1000, 0xafff), false),
        (region(0x3000, 0x1000, 0x8001), false),
    ] {
        assert_eq!(check_joining(&other, [here], 8).is_ok(), joins, "{other:?}");
        assert_eq!(check_joining(&here, [other], 8).is_ok(), joins, "{other:?}");
    }
    assert_eq!(here.find_user(0xafff, 1), Some(0x1fff));
    assert_eq!(here.find_user(0xb000, 0), None);
}
