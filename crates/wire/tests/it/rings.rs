//! Tests of the rings on one thread: order, bounds, wrapping indices, and hostile sides.

use proptest::prelude::*;
use std::collections::VecDeque;
use weir_wire::ring::plain::{Memory, Regions};
use weir_wire::ring::split::{
    Areas, Buffer, BufferChain, ChainError, Descriptor, Device, Driver, LayoutError,
    QueueError as QueueBroken, Settings, TableError, TakeError, write_table,
};
use weir_wire::ring::xen::{
    Rearm, Response, RingError as RingBroken, XenBackEnd, XenFrontEnd, XenOperation, XenRefusal,
    XenRequest, XenSegment, XenStatus, init, init_at, slots,
};
use weir_wire::ring::{Guest, Load, Shared, Store, crossed16, crossed32};

const TABLES: u64 = 0x10000;

/// A guest with 64 KiB of memory at [`TABLES`].
fn guest() -> Regions {
    let mut guest = Regions::new();
    guest.add(TABLES, Memory::new(0x10000));
    guest
}

fn buffer(length: u32, writable: bool) -> Buffer {
    Buffer {
        address: 0x4000,
        length,
        writable,
    }
}

/// A queue whose driver has written `descriptors` to the table from index 0 on, and head 0 to the
/// available ring.
fn hostile(settings: Settings, descriptors: &[Descriptor]) -> Device<Memory> {
    let areas = Areas::new(settings.size);
    for (index, descriptor) in descriptors.iter().enumerate() {
        areas.descriptors.write(16 * index, &descriptor.encode());
    }
    areas.available.store16(2, 1, Store::Release);
    Device::new(areas, settings, 0).expect("it fits")
}

fn refused(settings: Settings, descriptors: &[Descriptor], guest: &Regions) -> ChainError {
    let mut device = hostile(settings, descriptors);
    let mut chain = BufferChain::default();
    match device.take(guest, &mut chain) {
        Err(TakeError::Chain { head: 0, why }) => {
            // The head returns to the driver, and the queue continues.
            device.finish(0, 0);
            assert!(device.publish());
            assert_eq!((device.in_flight(), device.poll_available()), (0, Ok(0)));
            why
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn invalid_chains_have_errors_of_their_own() {
    let (settings, guest) = (Settings::new(4), guest());
    let read = Descriptor::of(buffer(1, false));
    let write = Descriptor::of(buffer(1, true));
    let full = Descriptor::of(buffer(u32::MAX, true));
    // 16 bytes from 2^64 − 15 on end one byte beyond the address space.
    let beyond = Descriptor {
        address: u64::MAX - 14,
        length: 16,
        ..read
    };
    let cases: [(&[Descriptor], ChainError); 7] = [
        // A loop of one descriptor, and a loop that does not contain the head.
        (&[read.then(0)], ChainError::Loop { descriptors: 4 }),
        (
            &[read.then(1), read.then(2), read.then(1)],
            ChainError::Loop { descriptors: 4 },
        ),
        (
            &[read.then(4)],
            ChainError::Next {
                next: 4,
                descriptors: 4,
            },
        ),
        (&[Descriptor::of(buffer(0, true))], ChainError::EmptyBuffer),
        (
            &[beyond],
            ChainError::Overflow {
                address: beyond.address,
                length: 16,
            },
        ),
        (&[write.then(1), read], ChainError::Order),
        // 2^32 − 1 + 1 + 1 bytes exceed 2^32 by one.
        (
            &[full.then(1), write.then(2), write],
            ChainError::TooLong {
                bytes: (1 << 32) + 1,
            },
        ),
    ];
    for (descriptors, why) in cases {
        assert_eq!(refused(settings, descriptors, &guest), why);
    }
    // 2^32 bytes are exactly permitted.
    let most = [full.then(1), write];
    let mut chain = BufferChain::default();
    assert_eq!(
        hostile(settings, &most).take(&guest, &mut chain),
        Ok(Some(0))
    );
    assert_eq!(chain.writable, 1 << 32);
}

#[test]
fn invalid_tables_have_errors_of_their_own() {
    let (settings, guest) = (Settings::new(4), guest());
    let buffers = [buffer(1, false), buffer(1, true)];
    write_table(&guest, TABLES, &buffers).expect("it is the guest's");
    let table = Descriptor::table(TABLES, 2);
    let of = |descriptor, error| {
        let why = refused(settings, &[descriptor], &guest);
        assert_eq!(why, ChainError::Table(error));
    };
    let longer = |length| Descriptor { length, ..table };
    let at = |address| Descriptor { address, ..table };
    of(table.then(1), TableError::Next);
    of(longer(0), TableError::Empty);
    of(longer(1025 * 16), TableError::TooLong { descriptors: 1025 });
    // 24 bytes are one and a half descriptors, and an address of 8 modulo 16 is not aligned.
    for (address, length) in [(TABLES, 24), (TABLES + 8, 32)] {
        let descriptor = Descriptor {
            address,
            length,
            ..table
        };
        of(descriptor, TableError::Misaligned { address, length });
    }
    // The addresses are before, partly before, and beyond the end of the guest's memory.
    for address in [0, TABLES - 16, u64::MAX - 15] {
        let why = refused(settings, &[at(address)], &guest);
        assert!(
            matches!(why, ChainError::Table(TableError::Outside(_))),
            "{why}"
        );
    }
    let without = Settings {
        indirect: false,
        ..settings
    };
    assert_eq!(
        refused(without, &[table], &guest),
        ChainError::Table(TableError::NotAgreed)
    );
    let nested = Descriptor::table(TABLES, 1);
    guest.write(TABLES + 32, &nested.encode()).expect("there");
    // Tables must not contain tables.
    of(at(TABLES + 32), TableError::Nested);
    let circle = Descriptor::of(buffer(1, false)).then(0);
    guest.write(TABLES + 64, &circle.encode()).expect("there");
    assert_eq!(
        refused(settings, &[at(TABLES + 64)], &guest),
        ChainError::Loop { descriptors: 2 }
    );
    // A valid chain: a descriptor of the queue, then a table with the rest.
    let chained = [Descriptor::of(buffer(7, false)).then(1), table];
    let mut chain = BufferChain::default();
    let head = hostile(settings, &chained).take(&guest, &mut chain);
    assert_eq!(head, Ok(Some(0)));
    assert_eq!(
        (chain.buffers.len(), chain.readable, chain.writable),
        (3, 8, 1)
    );
}

#[test]
fn a_chain_that_was_put_back_is_taken_again_but_not_from_the_ring() {
    let (guest, mut chain) = (guest(), BufferChain::default());
    let mut device = hostile(Settings::new(4), &[Descriptor::of(buffer(1, false))]);
    assert_eq!(device.take(&guest, &mut chain), Ok(Some(0)));
    device.put_back(0);
    assert_eq!((device.in_flight(), device.base()), (0, 1));
    assert_eq!(device.take(&guest, &mut chain), Ok(None));
    assert_eq!(device.retake(0, &guest, &mut chain), Ok(()));
    assert_eq!((device.in_flight(), chain.readable), (1, 1));
    device.finish(0, 0);
    assert!(device.publish());
    assert_eq!(device.used_index(), 1);
}

#[test]
fn a_broken_queue_stays_broken() {
    let settings = Settings::new(4);
    let read = Descriptor::of(buffer(1, false));
    let mut chain = BufferChain::default();
    let guest = guest();

    // With 4 entries, the index may be at most 4 ahead of 0. 0x8000 and 65,535 are jumps backwards.
    for found in [5, 0x8000, u16::MAX] {
        let mut device = hostile(settings, &[read]);
        let areas = Areas::new(4);
        areas.available.store16(2, found, Store::Release);
        let mut jumped = Device::new(areas.clone(), settings, 0).expect("it fits");
        let broken = QueueBroken::Index {
            found,
            taken: 0,
            size: 4,
        };
        assert_eq!(jumped.take(&guest, &mut chain), Err(broken.into()));
        areas.available.store16(2, 1, Store::Release);
        assert_eq!(jumped.poll_available(), Err(broken), "it stays broken");
        assert_eq!(jumped.arm(), Err(broken), "it stays broken");
        assert_eq!(device.take(&guest, &mut chain), Ok(Some(0)));
    }

    // The same head twice in the available ring.
    let twice = Areas::new(4);
    twice.descriptors.write(0, &read.encode());
    twice.available.store16(2, 2, Store::Release);
    let mut device = Device::new(twice, settings, 0).expect("it fits");
    assert_eq!(device.take(&guest, &mut chain), Ok(Some(0)));
    let broken = QueueBroken::HeadTwice { head: 0 };
    assert_eq!(device.take(&guest, &mut chain), Err(broken.into()));
    assert_eq!(device.in_flight(), 1);
    let retaken = device.retake(1, &guest, &mut chain);
    assert_eq!(retaken, Err(broken.into()), "it stays broken");

    // Head 4 does not exist in a queue of 4.
    let beyond = Areas::new(4);
    beyond.available.store16(4, 4, Store::Relaxed);
    beyond.available.store16(2, 1, Store::Release);
    let mut device = Device::new(beyond, settings, 0).expect("it fits");
    let broken = QueueBroken::Head { head: 4, size: 4 };
    assert_eq!(device.take(&guest, &mut chain), Err(broken.into()));
}

#[test]
fn an_index_that_goes_back_breaks_the_queue() {
    let areas = Areas::new(4);
    let settings = Settings::new(4);
    areas.available.store16(2, 2, Store::Release);
    areas.available.store16(6, 1, Store::Relaxed);
    for descriptor in 0..2 {
        let read = Descriptor::of(buffer(1, false));
        areas.descriptors.write(16 * descriptor, &read.encode());
    }
    let mut device = Device::new(areas.clone(), settings, 0).expect("it fits");
    let mut chain = BufferChain::default();
    assert_eq!(device.take(&guest(), &mut chain), Ok(Some(0)));
    assert_eq!(device.take(&guest(), &mut chain), Ok(Some(1)));
    // Both chains are taken, and then the driver moves its index from 2 back to 1.
    areas.available.store16(2, 1, Store::Release);
    let broken = QueueBroken::Index {
        found: 1,
        taken: 2,
        size: 4,
    };
    assert_eq!(device.poll_available(), Err(broken));
}

#[test]
fn sizes_and_areas_are_checked() {
    // 0x8001 is larger than the maximum, but not a power of two either.
    for size in [0, 3, 6, 0x8001] {
        let error = Device::new(Areas::new(8), Settings::new(size), 0).err();
        assert_eq!(error, Some(LayoutError::Size { size }));
    }
    // The used ring of 8 entries needs 6 + 8 · 8 = 70 bytes.
    let mut short = Areas::new(8);
    short.used = Memory::new(5 + 64);
    let error = Device::new(short, Settings::new(8), 0).err();
    let expected = LayoutError::TooShort {
        area: "used",
        length: 69,
        needed: 70,
    };
    assert_eq!(error, Some(expected));
    // The header has 64 bytes and a slot 112. 4096 bytes have room for 36 slots, and 32 is the
    // largest power of two.
    let pages = [175, 176, 4096, 8192, 16384, 32768];
    let fit = pages.map(|length| slots(length).ok());
    assert_eq!(
        fit,
        [None, Some(1), Some(32), Some(64), Some(128), Some(256)]
    );
}

#[test]
fn invalid_xen_indices_break_the_ring() {
    // With 32 slots, the index may be at most 32 ahead of 0.
    for found in [33, 1 << 31, u32::MAX] {
        let page = Memory::new(4096);
        init(&page);
        page.store32(0, found, Store::Release);
        let mut back = XenBackEnd::new(page.clone(), Rearm::Drained).expect("it fits");
        let broken = RingBroken {
            found,
            least: 0,
            most: 32,
        };
        assert_eq!(back.poll_requests(), Err(broken));
        // Restoring a valid index does not repair the ring.
        page.store32(0, 1, Store::Release);
        assert_eq!(back.arm(), Err(broken), "it stays broken");
        assert!(back.take().is_none());

        init(&page);
        page.store32(8, found, Store::Release);
        let mut front = XenFrontEnd::new(page).expect("it fits");
        front.push(&XenRequest::flush(1)).expect("there is room");
        let _ = front.publish();
        assert!(front.poll_responses().is_err());
    }
}

#[test]
fn invalid_xen_requests_have_errors_of_their_own() {
    let segment = |first, last| XenSegment {
        grant: 1,
        first,
        last,
    };
    let read = |segments: &[XenSegment]| XenRequest::new(XenOperation::Read, 9, 0, segments);
    let mut too_many = read(&[segment(0, 7)]).encode();
    too_many[1] = 12;
    // Operation 6 (indirect segments) is not offered.
    let mut unknown = read(&[]).encode();
    unknown[0] = 6;
    for (bytes, why, status) in [
        (read(&[]).encode(), XenRefusal::NoSegments, XenStatus::Error),
        (
            too_many,
            XenRefusal::TooManySegments { count: 12 },
            XenStatus::Error,
        ),
        (
            unknown,
            XenRefusal::UnknownOperation,
            XenStatus::NotSupported,
        ),
        (
            read(&[segment(0, 7), segment(3, 2)]).encode(),
            XenRefusal::BadSegment {
                index: 1,
                first: 3,
                last: 2,
            },
            XenStatus::Error,
        ),
        (
            read(&[segment(0, 8)]).encode(),
            XenRefusal::BadSegment {
                index: 0,
                first: 0,
                last: 8,
            },
            XenStatus::Error,
        ),
    ] {
        let refused = XenRequest::decode(&bytes).expect_err("it makes no sense");
        assert_eq!((refused.why, refused.id), (why, 9));
        assert_eq!(refused.response().status, status);
    }
}

#[test]
fn the_old_xen_rule_reports_a_request_after_the_request_in_flight() {
    // The drive has the first request when the second is pushed. Only with `Drained` has the back
    // end requested an event for it.
    for (rearm, told) in [(Rearm::Answered, false), (Rearm::Drained, true)] {
        let page = Memory::new(4096);
        init(&page);
        let mut front = XenFrontEnd::new(page.clone()).expect("it fits");
        let mut back = XenBackEnd::new(page, rearm).expect("it fits");
        front.push(&XenRequest::flush(1)).expect("there is room");
        assert!(front.publish(), "the first request is told of");
        assert_eq!(back.poll_requests(), Ok(1));
        let first = back.take().expect("there is one").expect("it makes sense");
        assert_eq!(back.on_drained(), Ok(false));
        // The first request is in the drive when the second one is pushed.
        front.push(&XenRequest::flush(2)).expect("there is room");
        assert_eq!(front.publish(), told, "{rearm:?}");
        // With either rule, the second request is found after the first one is answered.
        back.answer(&Response::to(&first, XenStatus::Okay));
        let _ = back.publish();
        let more = back.on_answered().expect("the ring goes on");
        assert!(more || back.poll_requests() == Ok(1), "{rearm:?}");
    }
}

proptest! {
    #[test]
    fn xen_requests_and_responses_survive_encoding(
        number in prop::sample::select(vec![0u8, 1, 2, 3]),
        id: u64,
        sector: u64,
        drawn in prop::collection::vec((any::<u32>(), 0u8..8, 0u8..8), 1..=11),
    ) {
        let segments: Vec<_> = drawn
            .iter()
            .map(|&(grant, a, b)| XenSegment { grant, first: a.min(b), last: a.max(b) })
            .collect();
        let request = XenRequest::new(XenOperation::from_wire(number), id, sector, &segments);
        prop_assert_eq!(XenRequest::decode(&request.encode()), Ok(request));
        let sectors: usize = segments.iter().map(|s| usize::from(s.last) + 1 - usize::from(s.first)).sum();
        prop_assert_eq!(request.sectors() as usize, sectors);
        let barrier = XenRequest::new(XenOperation::WriteBarrier, id, sector, &[]);
        prop_assert_eq!(XenRequest::decode(&barrier.encode()), Ok(barrier));
        let discard = XenRequest::discard(id, sector, u64::from(segments[0].grant));
        prop_assert_eq!(XenRequest::decode(&discard.encode()), Ok(discard));
        let response = Response::to(&request, XenStatus::NotSupported);
        prop_assert_eq!(Response::decode(&response.encode()), response);
    }

    /// An event is crossed exactly if one of the steps of the index reaches it, which the test
    /// finds out by walking.
    #[test]
    fn an_event_is_crossed_when_a_step_reaches_it(event: u32, back in 0u32..64, steps in 0u32..64) {
        let old = event.wrapping_sub(back);
        let walked = (1..=steps).any(|step| old.wrapping_add(step) == event);
        prop_assert_eq!(crossed32(event, old, old.wrapping_add(steps)), walked);
    }

    /// Requests arrive once and in the order in which they were pushed, across the wrap, whatever
    /// is published and checked at which time.
    #[test]
    fn xen_keeps_the_order_across_the_wrap(
        start in (u32::MAX - 40)..=u32::MAX,
        moves in prop::collection::vec(0u8..6, 1..400),
    ) {
        let page = Memory::new(4096);
        init_at(&page, start);
        let mut front = XenFrontEnd::at(page.clone(), start).expect("it fits");
        let mut back = XenBackEnd::at(page, Rearm::Drained, start).expect("it fits");
        let (mut pushed, mut taken, mut answered) = (0u64, 0u64, 0u64);
        let mut in_drive = VecDeque::new();
        for step in moves {
            match step {
                0 if front.free() > 0 => {
                    front.push(&XenRequest::flush(pushed)).expect("there is room");
                    pushed += 1;
                }
                1 => { let _ = front.publish(); }
                2 if back.poll_requests().expect("it goes on") > 0 => {
                    let request = back.take().expect("counted").expect("it makes sense");
                    prop_assert_eq!(request.id, taken);
                    taken += 1;
                    in_drive.push_back(request);
                }
                3 => if let Some(request) = in_drive.pop_front() {
                    back.answer(&Response::to(&request, XenStatus::Okay));
                },
                4 => { let _ = back.publish(); }
                5 if front.poll_responses().expect("it goes on") > 0 => {
                    prop_assert_eq!(front.take().map(|r| r.id), Some(answered));
                    answered += 1;
                }
                _ => {}
            }
            // The page has 32 slots.
            prop_assert!(front.in_flight() <= 32 && back.in_flight() <= 32);
            prop_assert!(answered <= taken && taken <= pushed);
        }
    }

    /// Heads return as they were added, across the wrap, with tables and without, out of order.
    #[test]
    fn split_returns_every_head_across_the_wrap(
        start: u16,
        event_idx: bool,
        moves in prop::collection::vec((0u8..6, any::<u16>()), 1..400),
    ) {
        let settings = Settings { event_idx, ..Settings::new(8) };
        let (areas, guest) = (Areas::new(8), guest());
        let mut driver = Driver::at(areas.clone(), settings, start).expect("it fits");
        let mut device = Device::new(areas, settings, start).expect("it fits");
        let in_table = [buffer(16, false), buffer(1, true)];
        write_table(&guest, TABLES, &in_table).expect("it is there");
        let (mut given, mut in_device, mut back) = (VecDeque::new(), Vec::new(), VecDeque::new());
        let (mut chain, mut taken) = (BufferChain::default(), start);
        for (step, drawn) in moves {
            match step {
                0 => {
                    let length = u32::from(drawn) + 1;
                    let buffers = [buffer(16, false), buffer(length, true)];
                    let head = if drawn % 2 == 0 {
                        driver.add(&buffers)
                    } else {
                        driver.add_table(TABLES, 2)
                    };
                    given.extend(head.map(|head| (head, length)));
                }
                1 => { let _ = driver.publish(); }
                2 => if let Some(head) = device.take(&guest, &mut chain).expect("it makes sense") {
                    prop_assert_eq!(given.pop_front().map(|(head, _)| head), Some(head));
                    prop_assert_eq!(chain.readable, 16);
                    in_device.push(head);
                    taken = taken.wrapping_add(1);
                },
                3 if !in_device.is_empty() => {
                    let head = in_device.swap_remove(usize::from(drawn) % in_device.len());
                    device.finish(head, u32::from(drawn));
                    back.push_back((head, u32::from(drawn)));
                }
                4 => { let _ = device.publish(); }
                5 => if let Some(used) = driver.take().expect("it makes sense") {
                    prop_assert_eq!(back.pop_front(), Some((used.head, used.written)));
                },
                _ => {}
            }
            prop_assert_eq!(device.in_flight() as usize, in_device.len());
            prop_assert_eq!(device.base(), taken);
        }
    }
}

#[test]
fn every_16_bit_event_is_crossed_when_a_step_reaches_it() {
    for steps in [0u16, 1, 2, 3, 255, 256, 0x7fff, 0x8000, u16::MAX] {
        for old in [0u16, 1, 0x7fff, 0x8000, 0xfffe, 0xffff] {
            let mut reached = vec![false; 1 << 16];
            // Virtio's rule: the entries from `old` up to, but not including, `new` are passed.
            for step in 0..steps {
                reached[usize::from(old.wrapping_add(step))] = true;
            }
            for event in 0..=u16::MAX {
                let crossed = crossed16(event, old, old.wrapping_add(steps));
                assert_eq!(
                    crossed,
                    reached[usize::from(event)],
                    "{event} {old} {steps}"
                );
            }
        }
    }
}

#[test]
fn a_first_publication_calls_and_an_empty_one_never() {
    let mut device = hostile(Settings::new(4), &[Descriptor::of(buffer(1, true))]);
    // No entry was returned yet, so there is nothing to publish.
    assert!(!device.publish());
    let mut chain = BufferChain::default();
    let taken = device.take(&guest(), &mut chain);
    assert_eq!(taken, Ok(Some(0)));
    // A taken head is not visible in the used ring before it is finished and published.
    assert_eq!(device.areas().used.load16(2, Load::Relaxed), 0);
    device.finish(0, 1);
    assert!(device.publish());
    assert_eq!(device.areas().used.load16(2, Load::Acquire), 1);
    assert!(!device.publish());
}
