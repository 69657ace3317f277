//! A shard on its own thread, for tests of the front ends' hand-over.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use weir_uring::{AnyRing, Backend, IoRingConfig};

use crate::acceptor::VolumeExport;
use crate::clock::ServerClock;
use crate::metrics::Detail;
use crate::places::Ticket;
use crate::shard::{
    Attach, ClientArrival, HandOverError, HandedShard, Mail, ShardHandle, ShardSetup, spawn,
};

/// A substitute for a virtual machine, which the tests of a running server use as well.
#[path = "../../tests/tools/guest.rs"]
#[allow(dead_code, reason = "these tests use a part of it")]
pub(super) mod guest;

/// The size of each volume in bytes.
const SIZE: u64 = 1 << 20;

/// The patience with a shard. One that does not answer for longer counts as hung.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// An image of zeroes, which is removed at the end.
#[derive(Debug)]
pub(super) struct TestImage(PathBuf);

impl TestImage {
    pub(super) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("weir-front-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(SIZE).unwrap();
        Self(path)
    }

    /// Returns the key of the image in the configuration of a volume.
    pub(super) fn key(&self) -> String {
        format!("file = \"{}\"", self.0.display())
    }
}

impl Drop for TestImage {
    fn drop(&mut self) {
        // The result is ignored, because a failed test should not panic again.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A running shard with one volume.
#[derive(Debug)]
pub(super) struct TestShard {
    handle: ShardHandle,
    pub(super) export: VolumeExport,
    next: AtomicU64,
}

impl TestShard {
    /// Starts a shard with a volume of 1 MiB, for which `volume` contains further settings. Each
    /// client may use 64 KiB of the shard's memory.
    pub(super) fn start(volume: &str) -> Self {
        let text = format!(
            "listen.nbd = [\"unix:/run/weir.sock\"]\ndrive.d = {{}}\n\
             limits = {{ request_size = \"64KiB\", bytes_per_connection = \"64KiB\" }}\n\
             volume.v = {{ drive = \"d\", size = \"1MiB\", {volume} }}\n"
        );
        let config = weir_config::parse("test.toml", &text).unwrap();
        let mut opened = crate::setup::open(&config, &mut crate::backend::open, 1).unwrap();
        let setup = ShardSetup {
            number: 0,
            clock: ServerClock::start(),
            limits: config.limits,
            priority: config.process.priority,
            ring: IoRingConfig {
                arena_bytes: 16 << 20,
                ..IoRingConfig::default()
            },
            drives: opened.shards.remove(0),
            journal: 1 << 20,
        };
        Self {
            handle: spawn(setup).unwrap(),
            export: opened.exports.remove(0),
            next: AtomicU64::new(0),
        }
    }

    fn send(&self, mail: Mail) {
        assert!(self.handle.address().send_mail(mail), "the shard has ended");
    }

    pub(super) fn arrive(&self, front: Box<dyn Attach>) {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.send(Mail::Arrival(Box::new(ClientArrival {
            id,
            peer: String::new(),
            drive: self.export.place.drive,
            space: self.export.place.space,
            volume: self.export.name.clone(),
            front,
            ticket: Ticket::uncounted(id),
            is_inherited: false,
        })));
    }

    /// Begins a hand-over, which may take this time.
    pub(super) fn begin_hand_over(
        &self,
        within: Duration,
    ) -> Receiver<Result<HandedShard, HandOverError>> {
        let (done, handed) = channel();
        self.send(Mail::HandOver(within, done));
        handed
    }

    /// Prepares all clients for another process.
    pub(super) fn hand_over(&self) -> HandedShard {
        let handed = self.begin_hand_over(PATIENCE);
        handed.recv_timeout(2 * PATIENCE).unwrap().unwrap()
    }

    pub(super) fn resume(&self) {
        self.send(Mail::Resume);
    }

    /// Ends the shard, whose clients belong to another process.
    pub(super) fn abandon(mut self) {
        self.send(Mail::Abandon);
        assert!(self.handle.join());
    }

    /// Returns the numbers of completed requests and of connections, once the shard has processed
    /// all earlier messages.
    pub(super) fn counts(&self) -> (u64, u32) {
        let (wanted, figures) = channel();
        self.send(Mail::Snapshot(Detail::Usual, wanted));
        let figures = figures.recv_timeout(PATIENCE).expect("the shard has ended");
        let volume = &figures[0].volumes[0];
        (volume.counts.all().0, volume.connections)
    }
}

/// Waits until a condition holds. Fails if that takes longer than a working shard needs.
pub(super) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::yield_now();
    }
}

/// Returns true if `io_uring` is available, without which there are no block devices.
pub(super) fn has_uring() -> bool {
    let config = IoRingConfig {
        backend: Backend::Uring,
        arena_bytes: 1 << 20,
        ..IoRingConfig::default()
    };
    let Err(error) = AnyRing::open(&config) else {
        return true;
    };
    println!("skipped: {error}");
    assert!(std::env::var_os("WEIR_NO_SKIP").is_none_or(|v| v != "1"));
    false
}
