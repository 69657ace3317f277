//! Helpers for the tests of both rings.
#![allow(dead_code, unreachable_pub)]

use std::fs::{File, OpenOptions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use weir_uring::{
    AnyRing, Backend, Buf, FillMode, Handle, IoRingConfig, Ring, RingCompletion, RingOpenError,
};

/// Opens a ring. Returns `None` with a message on standard error if the system refuses `io_uring`.
pub fn open(config: &IoRingConfig) -> Option<AnyRing> {
    match AnyRing::open(config) {
        Ok(ring) => Some(ring),
        Err(RingOpenError::Uring(error)) => {
            eprintln!("SKIPPED: no io_uring here: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

pub fn config(backend: Backend) -> IoRingConfig {
    IoRingConfig {
        backend,
        arena_bytes: 4 << 20,
        in_flight: 32,
        ..IoRingConfig::default()
    }
}

/// Waits for the next completion. If one is lost, the test fails here instead of hanging.
pub fn next(ring: &mut impl Ring) -> RingCompletion {
    let deadline = Instant::now() + Duration::from_secs(20);
    while Instant::now() < deadline {
        if let Some(completion) = ring.pop() {
            return completion;
        }
        ring.submit_and_wait(Some(Duration::from_secs(1))).unwrap();
    }
    panic!("an operation did not complete");
}

/// Submits all queued operations, none of which may complete yet.
pub fn pending(ring: &mut impl Ring) {
    ring.submit_and_wait(Some(Duration::ZERO)).unwrap();
    assert!(ring.pop().is_none());
}

/// Queues a receive of up to `len` bytes.
pub fn recv(ring: &mut impl Ring, user: u64, socket: &Handle, len: usize, fill: FillMode) {
    let buf = filled(ring, len, 0);
    ring.recv(user, socket, buf, fill).unwrap();
}

pub fn pair() -> (Handle, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    (Handle::new(ours.into()).unwrap(), theirs)
}

pub fn filled(ring: &impl Ring, len: usize, byte: u8) -> Buf {
    let mut buf = ring.arena().alloc(len).unwrap();
    buf.fill(byte);
    buf
}

/// Returns bytes that depend on their offset, so that misplaced data is noticed.
pub fn pattern(len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8)
        .collect()
}

/// A temporary file, which is removed when this is dropped.
pub struct TempFile(PathBuf);

impl TempFile {
    pub fn new(bytes: u64) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("weir-uring-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        File::create_new(&path).unwrap().set_len(bytes).unwrap();
        Self(path)
    }

    /// Opens the file with `O_DIRECT` if the file system supports it.
    pub fn direct(&self) -> Handle {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        let direct = rustix::fs::OFlags::DIRECT.bits().cast_signed();
        let file = options.clone().custom_flags(direct).open(&self.0);
        let file = file.or_else(|_| options.open(&self.0)).unwrap();
        Handle::new(OwnedFd::from(file)).unwrap()
    }

    /// Opens the file for writing only.
    pub fn write_only(&self) -> Handle {
        let file = OpenOptions::new().write(true).open(&self.0).unwrap();
        Handle::new(OwnedFd::from(file)).unwrap()
    }

    pub fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.0).unwrap()
    }

    pub fn put(&self, bytes: &[u8]) {
        std::fs::write(&self.0, bytes).unwrap();
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Runs each test function with both backends.
#[macro_export]
macro_rules! on_both_rings {
    ($($test:ident),* $(,)?) => {
        mod uring {
            $(#[test] fn $test() {
                if let Some(ring) = $crate::common::open(&$crate::common::config(weir_uring::Backend::Uring)) {
                    super::$test(ring);
                }
            })*
        }
        mod poll {
            $(#[test] fn $test() {
                let config = $crate::common::config(weir_uring::Backend::Poll);
                super::$test($crate::common::open(&config).unwrap());
            })*
        }
    };
}
