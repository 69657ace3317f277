//! Tests of file operations, which must behave identically on both rings.

use crate::common;
use crate::common::{TempFile, filled, next, pattern};
use weir_uring::{AnyRing, Errno, Fallocate, Header, RejectReason, Ring, Segment, Sync};

on_both_rings!(
    writes_are_read_back,
    parts_of_one_buffer_are_written_at_the_same_time,
    a_read_ends_where_the_file_ends,
    ranges_are_zeroed_and_kept,
    flushes_complete,
    a_failed_operation_returns_its_buffer,
    an_invalid_operation_is_rejected_with_its_buffer,
    a_full_ring_rejects_operations_until_a_completion,
    a_file_stays_open_for_its_queued_operations,
);

fn writes_are_read_back(mut ring: AnyRing) {
    let temp = TempFile::new(1 << 20);
    let file = temp.direct();
    // The last write is beyond the end of the file, which grows.
    for (at, sync) in [(0, Sync::No), (8192, Sync::Data), (1 << 20, Sync::No)] {
        let mut buf = ring.arena().alloc(12288).unwrap();
        buf.copy_from_slice(&pattern(12288));
        buf.set_window(4096..12288);
        ring.write(7, &file, at, buf.into_shared(), sync).unwrap();
        let written = next(&mut ring);
        assert_eq!((written.user, written.result), (7, Ok(8192)));
        let buf = written.payload.into_shared().unwrap();
        assert_eq!(buf[..], pattern(12288)[4096..]);
        assert_eq!(temp.bytes()[at as usize..][..8192], pattern(12288)[4096..]);

        let mut buf = filled(&ring, 16384, 0xee);
        buf.set_window(4096..12288);
        ring.read(8, &file, at, buf).unwrap();
        let read = next(&mut ring);
        assert_eq!((read.user, read.result), (8, Ok(8192)));
        let mut buf = read.payload.into_buf().unwrap();
        assert_eq!(buf[..], pattern(12288)[4096..]);
        buf.set_window(0..16384);
        assert!(
            // Bytes outside of the window are not touched.
            buf[..4096]
                .iter()
                .chain(&buf[12288..])
                .all(|byte| *byte == 0xee)
        );
    }
}

fn parts_of_one_buffer_are_written_at_the_same_time(mut ring: AnyRing) {
    let temp = TempFile::new(0);
    let file = temp.direct();
    let mut whole = ring.arena().alloc(1 << 20).unwrap();
    whole.copy_from_slice(&pattern(1 << 20));
    let whole = whole.into_shared();
    for part in 0..8 {
        let at = part << 17;
        let window = whole.slice(at..at + (1 << 17));
        ring.write(part as u64, &file, at as u64, window, Sync::No)
            .unwrap();
    }
    // The operations keep the buffer alive.
    drop(whole);
    for _ in 0..8 {
        assert_eq!(next(&mut ring).result, Ok(1 << 17));
    }
    assert_eq!(temp.bytes(), pattern(1 << 20));
}

fn a_read_ends_where_the_file_ends(mut ring: AnyRing) {
    let temp = TempFile::new(0);
    temp.put(&pattern(5000));
    let file = temp.direct();
    // The file has 5000 bytes, so 904 follow offset 4096, and none offset 8192.
    for (at, expected) in [(0, 5000), (4096, 904), (8192, 0)] {
        ring.read(0, &file, at, filled(&ring, 16384, 0)).unwrap();
        let read = next(&mut ring);
        assert_eq!(read.result, Ok(expected), "at {at}");
        let buf = read.payload.into_buf().unwrap();
        let end = (at as usize + expected).max(at as usize);
        assert_eq!(buf[..expected], pattern(16384)[at as usize..end]);
    }
}

fn ranges_are_zeroed_and_kept(mut ring: AnyRing) {
    let temp = TempFile::new(0);
    temp.put(&[1; 4 * 4096]);
    let file = temp.direct();
    ring.fallocate(1, &file, Fallocate::PunchHole, 4096, 4096)
        .unwrap();
    let punched = next(&mut ring);
    if punched.result == Err(Errno::OPNOTSUPP) {
        eprintln!("SKIPPED: this file system punches no holes");
        return;
    }
    assert_eq!((punched.user, punched.result), (1, Ok(0)));
    // Allocating beyond the end must not change the size.
    ring.fallocate(2, &file, Fallocate::KeepSize, 4096, 8 * 4096)
        .unwrap();
    assert_eq!(next(&mut ring).result, Ok(0));
    let mut expected = vec![1; 4 * 4096];
    expected[4096..8192].fill(0);
    assert_eq!(temp.bytes(), expected);
    ring.fallocate(3, &file, Fallocate::ZeroRange, 8192, 4096)
        .unwrap();
    if next(&mut ring).result != Err(Errno::OPNOTSUPP) {
        expected[8192..12288].fill(0);
        assert_eq!(temp.bytes(), expected);
    }
}

fn flushes_complete(mut ring: AnyRing) {
    let file = TempFile::new(4096).direct();
    for datasync in [false, true] {
        ring.fsync(3, &file, datasync).unwrap();
        let flushed = next(&mut ring);
        assert_eq!((flushed.user, flushed.result), (3, Ok(0)));
    }
}

fn a_failed_operation_returns_its_buffer(mut ring: AnyRing) {
    let file = TempFile::new(4096).write_only();
    ring.read(1, &file, 0, filled(&ring, 4096, 5)).unwrap();
    let read = next(&mut ring);
    assert_eq!((read.user, read.result), (1, Err(Errno::BADF)));
    assert_eq!(read.payload.into_buf().unwrap()[..], [5; 4096]);
    let (socket, _peer) = common::pair();
    // A socket cannot be flushed.
    ring.fsync(2, &socket, true).unwrap();
    assert_eq!(next(&mut ring).result, Err(Errno::INVAL));
}

fn an_invalid_operation_is_rejected_with_its_buffer(mut ring: AnyRing) {
    let file = TempFile::new(4096).direct();
    let mut empty = filled(&ring, 4096, 0);
    empty.set_window(5..5);
    let rejected = ring.read(0, &file, 0, empty).unwrap_err();
    assert_eq!(rejected.reason, RejectReason::Invalid);
    assert_eq!(rejected.payload.into_buf().unwrap().window(), 5..5);

    // The kernel treats the offset −1 as the current position.
    for offset in [u64::MAX, 1 << 63, i64::MAX as u64] {
        let rejected = ring
            .read(0, &file, offset, filled(&ring, 512, 0))
            .unwrap_err();
        assert_eq!(rejected.reason, RejectReason::Invalid);
    }
    // One segment more than the kernel's maximum of 1024.
    let many = vec![Segment::from(Header::new([0])); 1025];
    let rejected = ring.write(0, &file, 0, many, Sync::No).unwrap_err();
    assert_eq!(rejected.reason, RejectReason::Invalid);
    assert_eq!(rejected.payload.into_segments().unwrap().len(), 1025);
    let rejected = ring
        .fallocate(0, &file, Fallocate::KeepSize, 0, 0)
        .unwrap_err();
    assert_eq!(rejected.reason, RejectReason::Invalid);
    assert_eq!(ring.in_flight(), 0);
}

fn a_full_ring_rejects_operations_until_a_completion(mut ring: AnyRing) {
    let temp = TempFile::new(64 * 4096);
    let file = temp.direct();
    // Fill the ring, whose capacity is 32.
    for user in 0..ring.capacity() as u64 {
        ring.write(
            user,
            &file,
            user * 4096,
            filled(&ring, 4096, user as u8).into_shared(),
            Sync::No,
        )
        .unwrap();
    }
    let rejected = ring.fsync(99, &file, true).unwrap_err();
    assert_eq!(
        (rejected.reason, ring.in_flight()),
        (RejectReason::Full, 32)
    );
    let mut seen = [false; 32];
    // Each completion that is popped makes room for one operation.
    for left in (0..32).rev() {
        let written = next(&mut ring);
        assert_eq!(written.result, Ok(4096));
        assert!(!std::mem::replace(&mut seen[written.user as usize], true));
        assert_eq!(ring.in_flight(), left);
    }
    ring.fsync(99, &file, true).unwrap();
    assert_eq!(next(&mut ring).user, 99);
    assert!((0..32).all(|block| temp.bytes()[block * 4096] == block as u8));
}

fn a_file_stays_open_for_its_queued_operations(mut ring: AnyRing) {
    let temp = TempFile::new(0);
    let file = temp.direct();
    ring.write(0, &file, 0, filled(&ring, 4096, 1).into_shared(), Sync::No)
        .unwrap();
    drop(file);
    // The next file would get the same descriptor number if it were free.
    let other = TempFile::new(0);
    let _file = other.direct();
    assert_eq!(next(&mut ring).result, Ok(4096));
    assert_eq!((temp.bytes().len(), other.bytes().len()), (4096, 0));
}
