//! Tests of operations on memory that is shared with another process, and of its events, on both
//! rings.

use std::os::fd::{AsFd, OwnedFd};

use crate::common::{TempFile, next, pattern, pending};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::MemfdFlags;
use weir_uring::{AnyRing, Errno, GuestSlice, Handle, Mapping, Payload, Ring, Sync};

on_both_rings!(
    writes_from_guest_memory_are_read_back_into_guest_memory,
    memory_that_was_taken_away_is_an_error,
    a_mapping_lives_until_its_last_operation_has_ended,
    events_are_signalled_and_taken,
    an_event_that_is_full_is_waited_for,
    a_quiet_signal_has_a_completion,
);

const PAGE: u64 = 4096;

fn memory(bytes: u64) -> OwnedFd {
    let file = rustix::fs::memfd_create("guest", MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&file, bytes).unwrap();
    file
}

fn slices(mapping: &Mapping, parts: &[(u64, u32)]) -> Vec<GuestSlice> {
    let slice = |(at, bytes)| mapping.slice(at, bytes).unwrap();
    parts.iter().copied().map(slice).collect()
}

fn writes_from_guest_memory_are_read_back_into_guest_memory(mut ring: AnyRing) {
    let temp = TempFile::new(1 << 20);
    let file = temp.direct();
    let guest = Mapping::new(memory(16 * PAGE), 0, 16 * PAGE).unwrap();
    let all = guest.slice(0, 16 * PAGE as u32).unwrap();
    all.copy_from(0, &pattern(16 * PAGE as usize));
    let page = PAGE as u32;
    for sync in [Sync::No, Sync::Data] {
        // The parts are written in the order of the vector, not of their addresses.
        let from = slices(&guest, &[(2 * PAGE, page), (0, page)]);
        ring.write(3, &file, 8 * PAGE, from, sync).unwrap();
        let written = next(&mut ring);
        assert_eq!((written.user, written.result), (3, Ok(2 * PAGE as usize)));
        assert!(matches!(written.payload, Payload::Guest(from) if from.len() == 2));
    }
    let expected = pattern(16 * PAGE as usize);
    let bytes = temp.bytes();
    let (first, second) = bytes[8 * PAGE as usize..10 * PAGE as usize].split_at(PAGE as usize);
    assert_eq!(first, &expected[2 * PAGE as usize..3 * PAGE as usize]);
    assert_eq!(second, &expected[..PAGE as usize]);

    // The two pages return from the file to other places of the guest.
    let into = slices(&guest, &[(8 * PAGE, page), (12 * PAGE, page)]);
    ring.read(4, &file, 8 * PAGE, into).unwrap();
    assert_eq!(next(&mut ring).result, Ok(2 * PAGE as usize));
    let mut back = vec![0; PAGE as usize];
    all.copy_to(12 * PAGE as usize, &mut back);
    assert_eq!(back, expected[..PAGE as usize]);
}

fn memory_that_was_taken_away_is_an_error(mut ring: AnyRing) {
    let temp = TempFile::new(1 << 20);
    let file = temp.direct();
    let memory = memory(4 * PAGE);
    let guest = Mapping::new(&memory, 0, 4 * PAGE).unwrap();
    // Accesses by the kernel raise no SIGBUS, but fail.
    rustix::fs::ftruncate(&memory, 0).unwrap();
    let into = slices(&guest, &[(PAGE, PAGE as u32)]);
    ring.read(1, &file, 0, into).unwrap();
    let read = next(&mut ring);
    assert_eq!(read.result, Err(Errno::FAULT));
    let Payload::Guest(from) = read.payload else {
        panic!("{:?}", read.payload);
    };
    ring.write(2, &file, 0, from, Sync::No).unwrap();
    assert_eq!(next(&mut ring).result, Err(Errno::FAULT));
}

fn a_mapping_lives_until_its_last_operation_has_ended(mut ring: AnyRing) {
    let temp = TempFile::new(1 << 20);
    let file = temp.direct();
    let memory = memory(PAGE);
    let guest = Mapping::new(&memory, 0, PAGE).unwrap();
    let into = slices(&guest, &[(0, PAGE as u32)]);
    temp.put(&[5; PAGE as usize]);
    ring.read(1, &file, 0, into).unwrap();
    // The slice in the operation keeps the mapping alive.
    drop(guest);
    assert_eq!(next(&mut ring).result, Ok(PAGE as usize));
    let mut bytes = [0; 4];
    rustix::io::pread(&memory, &mut bytes, 100).unwrap();
    assert_eq!(bytes, [5; 4]);
}

fn events_are_signalled_and_taken(mut ring: AnyRing) {
    for flags in [EventfdFlags::CLOEXEC, EventfdFlags::NONBLOCK] {
        let event = eventfd(0, flags).unwrap();
        let before = rustix::fs::fcntl_getfl(&event).unwrap();
        let handle = Handle::from_shared(event.as_fd().try_clone_to_owned().unwrap());
        assert_eq!(handle.take_event(), Ok(false));
        ring.poll_readable(1, &handle).unwrap();
        pending(&mut ring);
        for _ in 0..2 {
            ring.signal(2, &handle).unwrap();
        }
        let mut users = [(); 3].map(|()| next(&mut ring).user);
        users.sort_unstable();
        // The poll completes once, and both signals complete.
        assert_eq!(users, [1, 2, 2]);
        // Both signals were taken at once.
        assert_eq!(handle.take_event(), Ok(true));
        assert_eq!(handle.take_event(), Ok(false));
        // The flags of a descriptor that others share must not change.
        assert_eq!(rustix::fs::fcntl_getfl(&event).unwrap(), before);
    }
    let file = Handle::from_shared(memory(PAGE));
    assert!(file.take_event().is_err(), "no eventfd");
}

fn a_quiet_signal_has_a_completion(mut ring: AnyRing) {
    for flags in [EventfdFlags::CLOEXEC, EventfdFlags::NONBLOCK] {
        let event = Handle::from_shared(eventfd(0, flags).unwrap());
        let other = Handle::from_shared(eventfd(1, EventfdFlags::CLOEXEC).unwrap());
        ring.signal_quietly(1, &event).unwrap();
        ring.poll_readable(2, &other).unwrap();
        let mut all = [next(&mut ring), next(&mut ring)].map(|done| (done.user, done.quiet));
        all.sort_unstable();
        let quiet = matches!(ring, AnyRing::Uring(_)) && flags == EventfdFlags::NONBLOCK;
        assert_eq!(all, [(1, quiet), (2, false)]);
        assert_eq!(event.take_event(), Ok(true));
    }
    // The counter is at its maximum, so that the signal waits until it is taken.
    let full = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
    rustix::io::write(&full, &(u64::MAX - 1).to_ne_bytes()).unwrap();
    let full = Handle::from_shared(full);
    ring.signal_quietly(3, &full).unwrap();
    pending(&mut ring);
    assert_eq!(full.take_event(), Ok(true));
    let done = next(&mut ring);
    assert_eq!((done.result, done.quiet), (Ok(0), false));
    assert_eq!(full.take_event(), Ok(true));
}

fn an_event_that_is_full_is_waited_for(mut ring: AnyRing) {
    let event = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    // The counter is at its maximum, so one more would block.
    rustix::io::write(&event, &(u64::MAX - 1).to_ne_bytes()).unwrap();
    let handle = Handle::from_shared(event);
    let id = ring.signal(1, &handle).unwrap();
    let wait = std::time::Duration::from_millis(50);
    ring.submit_and_wait(Some(wait)).unwrap();
    assert!(ring.pop().is_none(), "nobody has taken anything");
    // Operations on other descriptors are not delayed by it.
    let other = Handle::from_shared(eventfd(0, EventfdFlags::CLOEXEC).unwrap());
    ring.signal(2, &other).unwrap();
    assert_eq!(next(&mut ring).user, 2);
    ring.cancel(id);
    assert_eq!(next(&mut ring).user, 1);
}
