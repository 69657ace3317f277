//! Tests of the continuation of short transfers, on both rings. The system rarely transfers less
//! than requested, so the operations are queued as partly done.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::operation::{Operation, OperationKind};
use crate::ring::FillMode;
use crate::{AnyRing, Backend, Buf, Handle, Header, IoRingConfig, Payload, Ring, Segment, Sync};

/// The length of a transfer, and the numbers of bytes that are already done.
const WHOLE: usize = 3000;
const DONE: [usize; 6] = [1, 511, 512, 1000, 2047, 2999];

fn pattern() -> Vec<u8> {
    (0..WHOLE).map(|at| (at % 251) as u8).collect()
}

/// Returns both rings, or only one if the system refuses `io_uring`.
fn rings() -> impl Iterator<Item = AnyRing> {
    let configs = [Backend::Uring, Backend::Poll].map(|backend| IoRingConfig {
        backend,
        arena_bytes: 1 << 20,
        in_flight: 4,
        ..IoRingConfig::default()
    });
    configs
        .into_iter()
        .filter_map(|config| AnyRing::open(&config).ok())
}

/// Executes the rest of an operation and returns its payload.
fn finish(
    ring: &mut AnyRing,
    handle: &Handle,
    kind: OperationKind,
    payload: Payload,
    done: usize,
) -> Payload {
    let mut operation = Operation::new(0, handle, kind, payload);
    operation.done = done;
    ring.queue(operation).unwrap();
    loop {
        ring.submit_and_wait(Some(Duration::from_secs(5))).unwrap();
        if let Some(completion) = ring.pop() {
            assert_eq!(completion.result, Ok(WHOLE), "{kind:?} after {done}");
            return completion.payload;
        }
    }
}

/// Returns payloads to write the pattern from: one buffer, and several segments.
fn sources(ring: &AnyRing) -> [Payload; 2] {
    let mut buf = ring.arena().alloc(WHOLE).unwrap();
    buf.copy_from_slice(&pattern());
    let shared = buf.into_shared();
    let header = Header::from_slice(&shared[..60]).unwrap();
    let segments = vec![
        Segment::from(header),
        shared.slice(60..1000).into(),
        shared.slice(1000..WHOLE).into(),
    ];
    [Payload::Shared(shared), Payload::Segments(segments)]
}

/// Returns payloads to read the pattern into: one buffer, and several.
fn targets(ring: &AnyRing) -> [Payload; 2] {
    let zeroed = |len| -> Buf {
        let mut buf = ring.arena().alloc(len).unwrap();
        buf.fill(0);
        buf
    };
    let bufs = [511, 1, 1535, 953].map(zeroed);
    [Payload::Buf(zeroed(WHOLE)), Payload::Bufs(bufs.into())]
}

/// Asserts that the target has the end of the pattern, after zeroes for the part that was already
/// done.
fn check_target(payload: Payload, done: usize) {
    let bufs = match payload {
        Payload::Buf(buf) => vec![buf],
        payload => payload.into_bufs().unwrap(),
    };
    let read: Vec<u8> = bufs.iter().flat_map(|buf| buf.to_vec()).collect();
    let expected = [&vec![0; done], &pattern()[done..]].concat();
    assert_eq!(read, expected, "after {done}");
}

fn temp_file() -> (Handle, File) {
    let name = format!("weir-uring-continuation-{:?}", std::thread::current().id());
    let path = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
    let mut options = File::options();
    let options = options.read(true).write(true).create_new(true);
    let file = options.open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    (Handle::new(file.try_clone().unwrap().into()).unwrap(), file)
}

#[test]
fn only_the_rest_is_read() {
    for mut ring in rings() {
        let (handle, mut file) = temp_file();
        // The pattern begins at offset 700 of the file.
        file.write_all(&[&[0xff; 700], &pattern()[..]].concat())
            .unwrap();
        for done in DONE {
            for payload in targets(&ring) {
                let kind = OperationKind::Read { offset: 700 };
                check_target(finish(&mut ring, &handle, kind, payload, done), done);
            }
        }
    }
}

#[test]
fn only_the_rest_is_written() {
    for mut ring in rings() {
        for done in DONE {
            for payload in sources(&ring) {
                let (handle, mut file) = temp_file();
                let kind = OperationKind::Write {
                    offset: 700,
                    sync: Sync::Data,
                };
                finish(&mut ring, &handle, kind, payload, done);
                let mut written = Vec::new();
                file.read_to_end(&mut written).unwrap();
                let expected = [&vec![0; 700 + done], &pattern()[done..]].concat();
                assert_eq!(written, expected, "after {done}");
            }
        }
    }
}

#[test]
fn only_the_rest_is_sent() {
    for mut ring in rings() {
        let (socket, mut peer) = UnixStream::pair().unwrap();
        let socket = Handle::new(socket.into()).unwrap();
        for done in DONE {
            for payload in sources(&ring) {
                finish(&mut ring, &socket, OperationKind::Send, payload, done);
                let mut got = vec![0; WHOLE - done];
                peer.read_exact(&mut got).unwrap();
                assert_eq!(got, pattern()[done..], "after {done}");
            }
        }
        drop(socket);
        // The part that counts as done must not be sent.
        assert_eq!(peer.read(&mut [0]).unwrap(), 0, "and nothing more");
    }
}

#[test]
fn only_the_rest_is_received() {
    for mut ring in rings() {
        let (socket, mut peer) = UnixStream::pair().unwrap();
        let socket = Handle::new(socket.into()).unwrap();
        for done in DONE {
            for payload in targets(&ring) {
                peer.write_all(&pattern()[done..]).unwrap();
                let kind = OperationKind::Recv(FillMode::All);
                check_target(finish(&mut ring, &socket, kind, payload, done), done);
            }
        }
    }
}
