//! Tests of random operations on both rings against a model, in which a file and a stream are
//! sequences of bytes.

use std::collections::VecDeque;
use std::time::Duration;

use crate::common::{TempFile, next, open, pair};
use proptest::prelude::*;
use weir_uring::{
    AnyRing, Backend, Buf, Errno, Fallocate, FillMode, Handle, Header, IoRingConfig, OpId,
    RejectReason, Ring, Segment, Sync,
};

/// The size of the file, and the unit of offsets, in bytes.
const SIZE: usize = 256 << 10;
const BLOCK: usize = 512;

#[derive(Clone, Copy, Debug)]
enum FileVerb {
    Read,
    Readv,
    Write(Sync),
    Writev(Sync),
    Punch,
    Flush,
}

/// An operation on `blocks` blocks, which begins `gap` blocks after the end of the previous one in
/// its batch.
#[derive(Clone, Copy, Debug)]
struct FileStep {
    verb: FileVerb,
    gap: usize,
    blocks: usize,
    split: usize,
    fill: u8,
}

fn verb() -> impl Strategy<Value = FileVerb> {
    prop_oneof![
        3 => Just(FileVerb::Read),
        2 => Just(FileVerb::Readv),
        3 => prop_oneof![Just(Sync::No), Just(Sync::Data)].prop_map(FileVerb::Write),
        2 => Just(FileVerb::Writev(Sync::No)),
        1 => Just(FileVerb::Punch),
        1 => Just(FileVerb::Flush),
    ]
}

fn step() -> impl Strategy<Value = FileStep> {
    (verb(), 0..60usize, 1..100usize, 0..100usize, any::<u8>()).prop_map(
        |(verb, gap, blocks, split, fill)| FileStep {
            verb,
            gap,
            blocks,
            split,
            fill,
        },
    )
}

fn rings() -> impl Strategy<Value = IoRingConfig> {
    let registered = prop_oneof![Just(0), Just(128 << 10), Just(usize::MAX)];
    (
        1..12usize,
        registered,
        prop_oneof![Just(Backend::Uring), Just(Backend::Poll)],
        prop_oneof![Just(0), Just(50)].prop_map(Duration::from_micros),
    )
        .prop_map(
            |(in_flight, registered_bytes, backend, spin)| IoRingConfig {
                backend,
                arena_bytes: 1 << 20,
                in_flight,
                registered_bytes,
                spin,
            },
        )
}

/// Allocates two buffers that have `bytes` in total, cut after `split` blocks.
fn two(ring: &AnyRing, bytes: usize, split: usize) -> Option<Vec<Buf>> {
    let cut = (split * BLOCK)
        .clamp(BLOCK, bytes.max(2 * BLOCK) - BLOCK)
        .min(bytes);
    let sizes = [cut, bytes - cut].into_iter().filter(|size| *size > 0);
    sizes.map(|size| ring.arena().alloc(size)).collect()
}

/// Queues a step at offset `at`. Returns `false` if the ring or the arena is full.
fn queue(ring: &mut AnyRing, file: &Handle, user: u64, step: FileStep, at: usize) -> bool {
    let bytes = step.blocks * BLOCK;
    let offset = at as u64;
    let queued = match step.verb {
        FileVerb::Read => {
            let Some(buf) = ring.arena().alloc(bytes) else {
                return false;
            };
            ring.read(user, file, offset, buf)
        }
        FileVerb::Readv => {
            let Some(bufs) = two(ring, bytes, step.split) else {
                return false;
            };
            ring.read(user, file, offset, bufs)
        }
        FileVerb::Write(sync) => {
            let Some(mut buf) = ring.arena().alloc(bytes) else {
                return false;
            };
            buf.fill(step.fill);
            ring.write(user, file, offset, buf.into_shared(), sync)
        }
        FileVerb::Writev(sync) => {
            let Some(mut bufs) = two(ring, bytes, step.split) else {
                return false;
            };
            for buf in &mut bufs {
                buf.fill(step.fill);
            }
            let segments: Vec<_> = bufs.into_iter().map(Segment::from).collect();
            ring.write(user, file, offset, segments, sync)
        }
        FileVerb::Punch => ring.fallocate(user, file, Fallocate::PunchHole, offset, bytes as u64),
        FileVerb::Flush => ring.fsync(user, file, true),
    };
    match queued {
        Ok(_) => true,
        Err(rejected) => {
            assert_eq!(rejected.reason, RejectReason::Full);
            false
        }
    }
}

/// Takes one completion, compares it with the model, and applies writes to the model.
fn settle(ring: &mut AnyRing, model: &mut [u8], batch: &mut [Option<(FileStep, usize)>]) {
    let completion = next(ring);
    let (step, at) = batch[completion.user as usize]
        .take()
        .expect("each completes once");
    let range = at..at + step.blocks * BLOCK;
    match step.verb {
        FileVerb::Read => {
            assert_eq!(completion.result, Ok(range.len()));
            assert!(completion.payload.into_buf().unwrap()[..] == model[range]);
        }
        FileVerb::Readv => {
            assert_eq!(completion.result, Ok(range.len()));
            let bufs = completion.payload.into_bufs().unwrap();
            let read: Vec<u8> = bufs.iter().flat_map(|buf| buf.to_vec()).collect();
            assert!(read == model[range]);
        }
        FileVerb::Write(_) | FileVerb::Writev(_) => {
            assert_eq!(completion.result, Ok(range.len()));
            model[range].fill(step.fill);
        }
        FileVerb::Punch if completion.result == Err(Errno::OPNOTSUPP) => {}
        FileVerb::Punch => {
            assert_eq!(completion.result, Ok(0));
            model[range].fill(0);
        }
        FileVerb::Flush => assert_eq!(completion.result, Ok(0)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// A file has the bytes of the model. The ranges of a batch are disjoint, because operations
    /// are not ordered.
    #[test]
    fn file_operations_agree_with_a_model_of_bytes(
        config in rings(),
        batches in proptest::collection::vec(proptest::collection::vec(step(), 1..16), 1..8),
    ) {
        let Some(mut ring) = open(&config) else { return Ok(()) };
        let temp = TempFile::new(SIZE as u64);
        let file = temp.direct();
        let mut model = vec![0; SIZE];
        for steps in batches {
            let mut batch: Vec<Option<(FileStep, usize)>> = vec![None; steps.len()];
            let mut at = 0;
            for (user, step) in steps.into_iter().enumerate() {
                at += step.gap * BLOCK;
                if at + step.blocks * BLOCK > SIZE {
                    break;
                }
                // A full ring or arena is not an error: complete an operation and try again.
                while !queue(&mut ring, &file, user as u64, step, at) {
                    prop_assert!(ring.in_flight() > 0, "a step fits an empty ring");
                    settle(&mut ring, &mut model, &mut batch);
                }
                batch[user] = Some((step, at));
                at += step.blocks * BLOCK;
            }
            while ring.in_flight() > 0 {
                settle(&mut ring, &mut model, &mut batch);
            }
            prop_assert!(batch.iter().all(Option::is_none));
        }
        drop(ring);
        prop_assert!(temp.bytes() == model);
    }
}

/// Random sends, each with a number of bytes, the length of its segments, and true if it is quiet.
fn sends() -> impl Strategy<Value = Vec<(usize, usize, bool)>> {
    proptest::collection::vec((1..150_000usize, 1..40_000usize, any::<bool>()), 1..6)
}

/// Builds segments of the stream's bytes from `at` on, as many as fit into the arena. Returns them
/// and their end.
fn segments(ring: &AnyRing, at: usize, bytes: usize, piece: usize) -> (Vec<Segment>, usize) {
    let mut segments = Vec::new();
    let mut from = at;
    while from < at + bytes && segments.len() < 1024 {
        let len = piece.min(at + bytes - from);
        let content = (from..from + len).map(|place| (place % 251) as u8);
        let segment = if len <= Header::MAX {
            let content: Vec<u8> = content.collect();
            Header::from_slice(&content).unwrap().into()
        } else {
            let Some(mut buf) = ring.arena().alloc(len) else {
                break;
            };
            buf.iter_mut()
                .zip(content)
                .for_each(|(to, byte)| *to = byte);
            buf.into()
        };
        segments.push(segment);
        from += len;
    }
    (segments, from)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Both ends are on one ring, the socket buffers are small, and receives are cancelled in
    /// flight.
    #[test]
    fn a_stream_arrives_in_order_and_once(
        config in rings(),
        sends in sends(),
        windows in proptest::collection::vec((1..9000usize, any::<bool>(), 0..8u8), 1..20),
        buffer in 0..40_000usize,
    ) {
        let config = IoRingConfig { in_flight: config.in_flight.max(2), ..config };
        let Some(mut ring) = open(&config) else { return Ok(()) };
        let (from, to) = {
            let (ours, theirs) = pair();
            (ours, Handle::new(theirs.into()).unwrap())
        };
        rustix::net::sockopt::set_socket_send_buffer_size(&from, buffer).unwrap();
        let mut sends = VecDeque::from(sends);
        let mut windows = windows.into_iter().cycle();
        let (mut sent, mut received) = (0, 0);
        let (mut sending, mut receiving): (bool, Option<OpId>) = (false, None);
        while sending || received < sent || !sends.is_empty() {
            if !sending && let Some((bytes, piece, quiet)) = sends.pop_front() {
                let (segments, end) = segments(&ring, sent, bytes, piece);
                let send = if quiet { AnyRing::send_quietly } else { AnyRing::send };
                sending = !segments.is_empty() && send(&mut ring, 0, &from, segments).is_ok();
                if sending {
                    sent = end;
                }
            }
            let (window, all, mood) = windows.next().expect("a cycle");
            if receiving.is_none() && let Some(buf) = ring.arena().alloc(window) {
                // A receive of everything must not wait for bytes that are not sent yet.
                let fill = if all && window <= sent - received { FillMode::All } else { FillMode::Any };
                receiving = ring.recv(1 + u64::from(fill == FillMode::All), &to, buf, fill).ok();
            } else if mood == 0 && !all && let Some(op) = receiving {
                ring.cancel(op);
            }
            ring.submit_and_wait(Some(Duration::from_millis(1))).unwrap();
            while let Some(completion) = ring.pop() {
                if completion.user == 0 {
                    prop_assert_eq!(completion.result, Ok(completion.payload.bytes()));
                    sending = false;
                    continue;
                }
                receiving = None;
                let filled = completion.user == 2;
                let buf = completion.payload.into_buf().unwrap();
                match completion.result {
                    Ok(bytes) => {
                        prop_assert!(bytes > 0 && (!filled || bytes == buf.len()));
                        for (place, byte) in (received..).zip(&buf[..bytes]) {
                            prop_assert_eq!(*byte, (place % 251) as u8);
                        }
                        received += bytes;
                    }
                    Err(errno) => {
                        prop_assert_eq!(errno, Errno::CANCELED);
                        // A cancelled receive of everything does not tell how much it has received,
                        // so the case cannot be judged.
                        prop_assume!(!filled);
                    }
                }
            }
        }
        prop_assert_eq!(received, sent);
    }
}
