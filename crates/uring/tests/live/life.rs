//! Tests of waits, wake-ups, memory and the end of a ring, which must behave identically on both
//! rings.

use crate::common;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

use crate::common::{config, filled, next, open, pair, pending, recv};
use weir_uring::{
    AnyRing, Backend, FillMode, Header, IoRingConfig, Registration, Ring, RingOpenError,
};

on_both_rings!(
    a_timeout_ends_the_wait_and_not_too_early,
    another_thread_wakes_the_ring,
    a_wake_up_before_the_wait_is_not_lost,
    wake_ups_come_one_by_one,
    an_exhausted_arena_has_memory_again_after_a_buffer_is_dropped,
    dropping_a_ring_ends_operations_in_flight,
    buffers_outlive_their_ring,
    forgetting_a_ring_leaks_and_corrupts_nothing,
    a_buffer_of_another_arena_works,
    an_operation_of_another_ring_is_not_cancelled_here,
);

fn a_timeout_ends_the_wait_and_not_too_early(mut ring: AnyRing) {
    weir_uring::precise_timers().unwrap();
    let (socket, _peer) = pair();
    recv(&mut ring, 0, &socket, 10, FillMode::Any);
    for micros in [0, 1, 30, 500, 5000, 20_000] {
        let timeout = Duration::from_micros(micros);
        let start = Instant::now();
        ring.submit_and_wait(Some(timeout)).unwrap();
        assert!(
            start.elapsed() >= timeout,
            "{:?} of {timeout:?}",
            start.elapsed()
        );
        assert!(ring.pop().is_none() && !ring.take_woken());
    }
}

fn an_operation_of_another_ring_is_not_cancelled_here(mut ring: AnyRing) {
    // There are as many operations in the other ring, so that every slot of this ring has a
    // counterpart there.
    let mut other = AnyRing::open(&config(Backend::Poll)).unwrap();
    let pairs: Vec<_> = (0..4).map(|_| pair()).collect();
    for (socket, _) in &pairs {
        ring.poll_readable(1, socket).unwrap();
        let foreign = other.poll_readable(2, socket).unwrap();
        ring.cancel(foreign);
    }
    ring.waker().wake();
    while !ring.take_woken() {
        ring.submit_and_wait(Some(Duration::from_secs(5))).unwrap();
        assert!(ring.pop().is_none(), "nothing was cancelled");
    }
    pending(&mut ring);
    assert_eq!(ring.in_flight(), 4);
}

fn another_thread_wakes_the_ring(mut ring: AnyRing) {
    let waker = ring.waker();
    let thread = std::thread::spawn(move || waker.wake());
    ring.submit_and_wait(None).unwrap();
    while !ring.take_woken() {
        ring.submit_and_wait(None).unwrap();
        assert!(ring.pop().is_none());
    }
    thread.join().unwrap();
    assert!(!ring.take_woken());
}

fn a_wake_up_before_the_wait_is_not_lost(mut ring: AnyRing) {
    for _ in 0..3 {
        ring.waker().wake();
        ring.waker().wake();
        loop {
            ring.submit_and_wait(None).unwrap();
            assert!(ring.pop().is_none());
            if ring.take_woken() {
                break;
            }
        }
        ring.submit_and_wait(Some(Duration::ZERO)).unwrap();
        assert!(ring.pop().is_none() && !ring.take_woken());
    }
}

/// Every message is received although the ring waits without a timeout, so no wake-up is lost.
fn wake_ups_come_one_by_one(mut ring: AnyRing) {
    let waker = ring.waker();
    let (to_ring, inbox) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        for message in 0..2000 {
            to_ring.send(message).unwrap();
            waker.wake();
            // The pauses vary whether several messages share a wake-up.
            if message % 7 == 0 {
                std::thread::yield_now();
            }
        }
    });
    let mut expected = 0;
    while expected < 2000 {
        ring.submit_and_wait(None).unwrap();
        assert!(ring.pop().is_none());
        if ring.take_woken() {
            for message in inbox.try_iter() {
                assert_eq!(message, expected);
                expected += 1;
            }
        }
    }
    thread.join().unwrap();
}

fn an_exhausted_arena_has_memory_again_after_a_buffer_is_dropped(mut ring: AnyRing) {
    let (socket, mut peer) = pair();
    let mut bufs: Vec<_> = std::iter::from_fn(|| ring.arena().alloc(1 << 16)).collect();
    // The arena of 4 MiB has room for 64 buffers of 64 KiB, and the ring itself may use one of
    // them.
    assert!(bufs.len() >= 63 && ring.arena().alloc(1 << 16).is_none());
    // A buffer in flight is not free. It is free after its completion has been dropped.
    ring.recv(0, &socket, bufs.pop().unwrap(), FillMode::Any)
        .unwrap();
    assert!(ring.arena().alloc(1 << 16).is_none());
    peer.write_all(b"x").unwrap();
    let received = next(&mut ring);
    assert!(ring.arena().alloc(1 << 16).is_none());
    drop(received);
    assert!(ring.arena().alloc(1 << 16).is_some());
}

fn dropping_a_ring_ends_operations_in_flight(mut ring: AnyRing) {
    let arena = ring.arena().clone();
    // An unused ring of the same kind tells how much of an arena a ring itself uses.
    let before = {
        let other = open(&config(match ring {
            AnyRing::Uring(_) => Backend::Uring,
            AnyRing::Poll(_) => Backend::Poll,
        }));
        let other = other.unwrap().arena().clone();
        other.available()
    };
    let mut peers = Vec::new();
    for submitted in [true, false] {
        for _ in 0..5 {
            let (socket, peer) = pair();
            recv(&mut ring, 0, &socket, 4096, FillMode::Any);
            let big = filled(&ring, 1 << 19, 0).into_shared();
            let segments = vec![Header::new([7; 16]).into(), big.clone().into(), big.into()];
            ring.send(0, &socket, segments).map_or_else(drop, drop);
            peers.push(peer);
            if arena.available() < 1 << 20 {
                break;
            }
        }
        if submitted {
            ring.submit_and_wait(Some(Duration::ZERO)).unwrap();
        }
    }
    drop(ring);
    // All buffers have returned, and the sockets are closed.
    assert_eq!(arena.available(), before);
    for mut peer in peers {
        let mut sent = Vec::new();
        match peer.read_to_end(&mut sent) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
        }
    }
}

fn buffers_outlive_their_ring(ring: AnyRing) {
    let mut buf = filled(&ring, 1 << 20, 1);
    let shared = filled(&ring, 4096, 2).into_shared();
    drop(ring);
    buf.fill(3);
    assert!(buf.iter().all(|byte| *byte == 3) && shared.iter().all(|byte| *byte == 2));
}

fn forgetting_a_ring_leaks_and_corrupts_nothing(mut ring: AnyRing) {
    let arena = ring.arena().clone();
    let (socket, mut peer) = pair();
    recv(&mut ring, 0, &socket, 4096, FillMode::Any);
    pending(&mut ring);
    std::mem::forget(ring);
    let mut others: Vec<_> = std::iter::from_fn(|| arena.alloc(4096)).collect();
    for other in &mut others {
        other.fill(9);
    }
    peer.write_all(&[1; 4096]).unwrap();
    // The kernel may receive the data in any system call of this thread.
    std::thread::sleep(Duration::from_millis(1));
    assert!(
        others
            .iter()
            .all(|other| other.iter().all(|byte| *byte == 9))
    );
}

fn a_buffer_of_another_arena_works(mut ring: AnyRing) {
    let other = weir_uring::Arena::new(8192).unwrap();
    let (socket, mut peer) = pair();
    let mut buf = other.alloc(4096).unwrap();
    buf.fill(5);
    ring.send(0, &socket, vec![buf.into()]).unwrap();
    assert_eq!(next(&mut ring).result, Ok(4096));
    let mut got = [0; 4096];
    peer.read_exact(&mut got).unwrap();
    assert_eq!(got, [5; 4096]);
    let file = common::TempFile::new(4096).direct();
    ring.read(0, &file, 0, other.alloc(4096).unwrap()).unwrap();
    assert_eq!(next(&mut ring).result, Ok(4096));
}

#[test]
fn the_backend_is_chosen() {
    let auto = open(&config(Backend::Auto)).unwrap();
    let uring = open(&config(Backend::Uring));
    assert_eq!(matches!(auto, AnyRing::Uring(_)), uring.is_some());
    assert_eq!(auto.refusal().is_none(), uring.is_some());
    let poll = open(&config(Backend::Poll)).unwrap();
    assert!(matches!(poll, AnyRing::Poll(_)) && poll.refusal().is_none());
    // The limits are 1 and 16,384 operations.
    for in_flight in [0, IoRingConfig::MAX_IN_FLIGHT + 1] {
        let refused = AnyRing::open(&IoRingConfig {
            in_flight,
            ..config(Backend::Auto)
        });
        assert!(matches!(refused, Err(RingOpenError::InFlight(n)) if n == in_flight));
    }
    for (backend, in_flight) in [
        (Backend::Uring, 1),
        (Backend::Uring, IoRingConfig::MAX_IN_FLIGHT),
    ] {
        let ring = open(&IoRingConfig {
            in_flight,
            ..config(backend)
        });
        assert!(ring.is_none_or(|ring| ring.capacity() == in_flight));
    }
}

#[test]
fn the_configured_amount_of_memory_is_registered() {
    for (bytes, expected) in [
        (usize::MAX, Registration::Full),
        // The arena has 4 MiB, so 1 MiB is a part of it.
        (1 << 20, Registration::Partial(1 << 20)),
        (0, Registration::None),
    ] {
        let ring = open(&IoRingConfig {
            registered_bytes: bytes,
            ..config(Backend::Uring)
        });
        let Some(ring) = ring else { return };
        assert!(
            [expected, Registration::None].contains(&ring.registration()),
            "{ring:?}"
        );
    }
}
