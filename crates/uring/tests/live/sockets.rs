//! Tests of socket operations, which must behave identically on both rings.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use crate::common::{filled, next, pair, pattern, pending, recv};
use weir_uring::{AnyRing, Errno, FillMode, Handle, Header, RejectReason, Ring, Segment};

on_both_rings!(
    sent_bytes_are_received,
    a_full_window_is_waited_for,
    the_end_of_the_stream_is_zero_bytes,
    a_reply_is_a_header_and_data,
    tcp_works_as_well,
    a_quiet_send_has_a_completion,
    a_quiet_send_without_room_is_continued,
    a_peer_that_went_is_an_error,
    a_socket_has_at_most_one_operation_per_direction,
    a_pending_receive_is_cancelled,
    a_pending_send_is_cancelled,
    an_old_id_cancels_no_operation,
    shutdown_ends_a_pending_receive,
    a_socket_stays_open_for_its_pending_operations,
    readiness_is_reported_once,
    a_non_blocking_socket_is_waited_for,
);

fn sent_bytes_are_received(mut ring: AnyRing) {
    let (socket, mut peer) = pair();
    let mut buf = filled(&ring, 4096, 0);
    buf.set_window(100..200);
    ring.recv(5, &socket, buf, FillMode::Any).unwrap();
    pending(&mut ring);
    peer.write_all(b"hello").unwrap();
    let received = next(&mut ring);
    assert_eq!((received.user, received.result), (5, Ok(5)));
    let mut buf = received.payload.into_buf().unwrap();
    assert_eq!((&buf[..6], buf.window()), (&b"hello\0"[..], 100..200));
    buf.set_window(0..4096);
    assert!(buf[..100].iter().all(|byte| *byte == 0));
}

fn a_full_window_is_waited_for(mut ring: AnyRing) {
    let (socket, mut peer) = pair();
    let writer = std::thread::spawn(move || {
        // The data arrives in many small parts, followed by other data that must not be received
        // with it.
        for part in pattern(300_000).chunks(7001) {
            peer.write_all(part).unwrap();
        }
        peer.write_all(b"the next header").unwrap();
    });
    let bufs = vec![
        filled(&ring, 1, 0),
        filled(&ring, 199_999, 0),
        filled(&ring, 100_000, 0),
    ];
    ring.recvv(0, &socket, bufs, FillMode::All).unwrap();
    let received = next(&mut ring);
    assert_eq!(received.result, Ok(300_000));
    let bufs = received.payload.into_bufs().unwrap();
    assert_eq!(
        bufs.iter().flat_map(|buf| buf.to_vec()).collect::<Vec<_>>(),
        pattern(300_000)
    );
    recv(&mut ring, 0, &socket, 15, FillMode::All);
    assert_eq!(
        next(&mut ring).payload.into_buf().unwrap()[..],
        *b"the next header"
    );
    writer.join().unwrap();
}

fn the_end_of_the_stream_is_zero_bytes(mut ring: AnyRing) {
    let (socket, mut peer) = pair();
    peer.write_all(&[1; 10]).unwrap();
    drop(peer);
    // The stream ends before the window is full.
    recv(&mut ring, 0, &socket, 100, FillMode::All);
    assert_eq!(next(&mut ring).result, Ok(10));
    for fill in [FillMode::Any, FillMode::All] {
        recv(&mut ring, 0, &socket, 100, fill);
        assert_eq!(next(&mut ring).result, Ok(0));
    }
}

fn a_reply_is_a_header_and_data(mut ring: AnyRing) {
    let (socket, mut peer) = pair();
    let mut first = ring.arena().alloc(8192).unwrap();
    first.copy_from_slice(&pattern(8192));
    first.set_window(100..300);
    let segments = vec![
        Header::new(*b"one").into(),
        first.into(),
        Header::from_slice(b"").unwrap().into(),
        Header::new(*b"two").into(),
        filled(&ring, 10, b'x').into(),
    ];
    ring.send(1, &socket, segments).unwrap();
    let sent = next(&mut ring);
    // 3 + 200 + 0 + 3 + 10 bytes.
    assert_eq!(sent.result, Ok(216));
    assert_eq!(sent.payload.into_segments().unwrap().len(), 5);
    // Single segments take another path in the ring, and must work as well.
    ring.send(2, &socket, vec![Header::new(*b"three").into()])
        .unwrap();
    assert_eq!(next(&mut ring).result, Ok(5));
    ring.send(3, &socket, vec![filled(&ring, 4, b'y').into()])
        .unwrap();
    assert_eq!(next(&mut ring).result, Ok(4));
    drop((socket, ring));
    let mut all = Vec::new();
    peer.read_to_end(&mut all).unwrap();
    let expected = [b"one", &pattern(8192)[100..300], b"twoxxxxxxxxxxthreeyyyy"].concat();
    assert_eq!(all, expected);
}

/// Builds segments of `bytes` bytes of the pattern, in parts of odd lengths. Short parts are
/// headers.
fn segments(ring: &AnyRing, bytes: usize) -> Vec<Segment> {
    let pattern = pattern(bytes);
    let mut segments = Vec::new();
    let mut at = 0;
    for size in [16, 60_001, 64, 100_003, 1, 200_000].into_iter().cycle() {
        let end = bytes.min(at + size);
        let piece = &pattern[at..end];
        segments.push(Header::from_slice(piece).map_or_else(
            || {
                let mut buf = ring.arena().alloc(piece.len()).unwrap();
                buf.copy_from_slice(piece);
                buf.into()
            },
            Segment::from,
        ));
        at = end;
        if at == bytes {
            return segments;
        }
    }
    unreachable!("the sizes repeat for ever")
}

fn tcp_works_as_well(mut ring: AnyRing) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let socket = Handle::new(listener.accept().unwrap().0.into()).unwrap();
    let reader = std::thread::spawn(move || {
        let mut got = vec![0; 2_000_000];
        peer.read_exact(&mut got).unwrap();
        peer.write_all(&got[..300_000]).unwrap();
        got
    });
    recv(&mut ring, 1, &socket, 300_000, FillMode::All);
    // 2 MB exceed the buffers of the socket, so the send must be continued.
    ring.send(2, &socket, segments(&ring, 2_000_000)).unwrap();
    let sent = next(&mut ring);
    assert_eq!((sent.user, sent.result), (2, Ok(2_000_000)));
    let received = next(&mut ring);
    assert_eq!((received.user, received.result), (1, Ok(300_000)));
    assert!(received.payload.into_buf().unwrap()[..] == pattern(300_000));
    assert!(reader.join().unwrap() == pattern(2_000_000));
}

fn a_quiet_send_has_a_completion(mut ring: AnyRing) {
    let (socket, mut peer) = pair();
    let echo = std::thread::spawn(move || {
        let mut bytes = [0; 1000];
        peer.read_exact(&mut bytes).unwrap();
        peer.write_all(&bytes).unwrap();
        bytes
    });
    recv(&mut ring, 1, &socket, 1000, FillMode::All);
    pending(&mut ring);
    ring.send_quietly(2, &socket, segments(&ring, 1000))
        .unwrap();
    if matches!(ring, AnyRing::Uring(_)) {
        // The wait lasts until the peer has received the bytes and has replied.
        ring.submit_and_wait(None).unwrap();
        assert_eq!(ring.pop().map(|received| received.user), Some(1));
        let sent = ring.pop().unwrap();
        assert_eq!((sent.user, sent.result, sent.quiet), (2, Ok(1000), true));
        assert_eq!(sent.payload.bytes(), 1000);
    } else {
        let mut all = [next(&mut ring), next(&mut ring)].map(|done| (done.user, done.quiet));
        all.sort_unstable();
        assert_eq!(all, [(1, false), (2, false)]);
    }
    assert_eq!(ring.in_flight(), 0);
    assert_eq!(echo.join().unwrap()[..], pattern(1000));
}

fn a_quiet_send_without_room_is_continued(mut ring: AnyRing) {
    for fills in [false, true] {
        let (socket, mut peer) = pair();
        let mut before = 0;
        if fills {
            // The socket has no room for a single byte.
            let flags = rustix::net::SendFlags::DONTWAIT;
            while let Ok(bytes) = rustix::net::send(&socket, &[7; 4096], flags) {
                before += bytes;
            }
        }
        ring.send_quietly(1, &socket, segments(&ring, 1_000_000))
            .unwrap();
        pending(&mut ring);
        let reader = std::thread::spawn(move || {
            let mut all = vec![0; before + 1_000_000];
            peer.read_exact(&mut all).unwrap();
            all.split_off(before)
        });
        // The completion of the rest ends a wait.
        let sent = next(&mut ring);
        assert_eq!((sent.result, sent.quiet), (Ok(1_000_000), false));
        assert!(reader.join().unwrap() == pattern(1_000_000));
    }
}

fn a_peer_that_went_is_an_error(mut ring: AnyRing) {
    let (socket, peer) = pair();
    drop(peer);
    for send in [AnyRing::send, AnyRing::send_quietly] {
        let segments = segments(&ring, 100_000);
        send(&mut ring, 0, &socket, segments).unwrap();
        let sent = next(&mut ring);
        assert_eq!((sent.result, sent.quiet), (Err(Errno::PIPE), false));
        assert_eq!(sent.payload.bytes(), 100_000);
    }
}

fn a_socket_has_at_most_one_operation_per_direction(mut ring: AnyRing) {
    let (socket, mut peer) = pair();
    recv(&mut ring, 1, &socket, 10, FillMode::Any);
    let rejected = ring
        .recv(2, &socket, filled(&ring, 10, 3), FillMode::Any)
        .unwrap_err();
    assert_eq!(rejected.reason, RejectReason::Busy);
    assert_eq!(rejected.payload.into_buf().unwrap()[..], [3; 10]);
    // The other direction is free, and a clone of the handle counts as the same socket.
    ring.send(3, &socket, vec![Header::new([1]).into()])
        .unwrap();
    let clone = socket.clone();
    let rejected = ring
        .send(4, &clone, vec![Header::new([1]).into()])
        .unwrap_err();
    assert_eq!(rejected.reason, RejectReason::Busy);
    peer.write_all(b"x").unwrap();
    let mut users = [next(&mut ring).user, next(&mut ring).user];
    users.sort_unstable();
    assert_eq!(users, [1, 3]);
    recv(&mut ring, 5, &clone, 10, FillMode::Any);
}

fn a_pending_receive_is_cancelled(mut ring: AnyRing) {
    let (socket, mut peer) = pair();
    // With and without the operation in the kernel.
    for submitted in [true, false] {
        let recv = ring
            .recv(1, &socket, filled(&ring, 4096, 4), FillMode::Any)
            .unwrap();
        if submitted {
            pending(&mut ring);
        }
        ring.cancel(recv);
        ring.cancel(recv);
        let cancelled = next(&mut ring);
        assert_eq!(
            (cancelled.user, cancelled.result),
            (1, Err(Errno::CANCELED))
        );
        assert_eq!(cancelled.payload.into_buf().unwrap().len(), 4096);
        assert_eq!(ring.in_flight(), 0);
    }
    peer.write_all(b"later").unwrap();
    recv(&mut ring, 2, &socket, 4096, FillMode::Any);
    assert_eq!(next(&mut ring).result, Ok(5));
}

fn a_pending_send_is_cancelled(mut ring: AnyRing) {
    let (socket, mut peer) = pair();
    // The peer does not read, so the send cannot complete.
    let send = ring.send(1, &socket, segments(&ring, 1_000_000)).unwrap();
    pending(&mut ring);
    ring.cancel(send);
    let cancelled = next(&mut ring);
    assert_eq!(cancelled.user, 1);
    assert_eq!(cancelled.payload.bytes(), 1_000_000);
    // The result is the number of bytes that the peer can receive.
    let sent = cancelled.result.unwrap();
    assert!((1..1_000_000).contains(&sent), "{sent}");
    drop((socket, ring));
    let mut received = Vec::new();
    peer.read_to_end(&mut received).unwrap();
    assert_eq!(received.len(), sent);
}

fn an_old_id_cancels_no_operation(mut ring: AnyRing) {
    let (socket, mut peer) = pair();
    let old = ring
        .send(1, &socket, vec![Header::new([1]).into()])
        .unwrap();
    next(&mut ring);
    recv(&mut ring, 2, &socket, 10, FillMode::Any);
    // The receive uses the slot of the completed send, but has another generation.
    ring.cancel(old);
    pending(&mut ring);
    peer.write_all(b"y").unwrap();
    assert_eq!(next(&mut ring).result, Ok(1));
}

fn shutdown_ends_a_pending_receive(mut ring: AnyRing) {
    let (socket, mut peer) = pair();
    recv(&mut ring, 1, &socket, 10, FillMode::Any);
    pending(&mut ring);
    socket.shutdown().unwrap();
    assert_eq!(next(&mut ring).result, Ok(0));
    assert_eq!(peer.read(&mut [0]).unwrap(), 0);
}

fn a_socket_stays_open_for_its_pending_operations(mut ring: AnyRing) {
    let (socket, mut peer) = pair();
    recv(&mut ring, 1, &socket, 10, FillMode::Any);
    drop(socket);
    pending(&mut ring);
    peer.write_all(b"still").unwrap();
    assert_eq!(next(&mut ring).result, Ok(5));
    // The receive was the last reference, so the socket is closed now.
    assert_eq!(peer.read(&mut [0]).unwrap(), 0);
}

fn readiness_is_reported_once(mut ring: AnyRing) {
    let (socket, mut peer) = pair();
    ring.poll_readable(1, &socket).unwrap();
    pending(&mut ring);
    peer.write_all(b"z").unwrap();
    let ready = next(&mut ring);
    assert_eq!((ready.user, ready.result), (1, Ok(0)));
    pending(&mut ring);
    drop(peer);
    ring.poll_readable(2, &socket).unwrap();
    assert_eq!(next(&mut ring).result, Ok(0));
}

fn a_non_blocking_socket_is_waited_for(mut ring: AnyRing) {
    let (ours, mut peer) = std::os::unix::net::UnixStream::pair().unwrap();
    // `Handle::new` clears this flag.
    ours.set_nonblocking(true).unwrap();
    let socket = Handle::new(ours.into()).unwrap();
    recv(&mut ring, 1, &socket, 10, FillMode::Any);
    pending(&mut ring);
    peer.write_all(b"late").unwrap();
    assert_eq!(next(&mut ring).result, Ok(4));
}
