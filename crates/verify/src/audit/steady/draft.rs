//! A scene of contracts while it is drawn: a drive, and clients that are added one by one while
//! some capacity is left to promise.

use super::kinds::{LINK, base, greedy, link, share};
use super::{SceneClient, SceneWatch, SteadyScene};
use crate::audit::random::{DecisionSource, RandomDecisions};
use weir_core::elevator::contract;
use weir_core::{Capacity, Class, Contract, GroupId, Max, ROOT, Span};

/// The part of the drive that may be promised, in millionths.
pub(super) const PROMISABLE: u64 = 900_000;
/// The largest promise to a client with one request at a time, in requests per second. A drive that
/// takes 30 us and the link's time for each request leaves others some of its time.
pub(super) const ONE_AT_A_TIME: u64 = 4_000;

/// Request sizes for which the drive reaches its stated bytes per second, and which take it only a
/// short time.
pub(super) const FITTING: &[u32] = &[16 << 10];

/// A scene while it is drawn, with the part of the drive that may still be promised.
pub(super) struct SceneDraft<'a> {
    pub(super) random: &'a mut RandomDecisions,
    pub(super) scene: SteadyScene,
    capacity: Capacity,
    /// The part of the drive that may still be promised, in millionths.
    pub(super) left: u64,
}

impl<'a> SceneDraft<'a> {
    /// Begins a scene with a drive that reaches `speed` hundredths of its stated capacity.
    pub(super) fn new(random: &'a mut RandomDecisions, speed: u64, watch: Vec<SceneWatch>) -> Self {
        let config = contract::Config::default()
            .excess(random.pick(&[contract::Excess::Time, contract::Excess::Bytes]));
        let mut scene = base(random, config, SceneWatch::Idle);
        // With both variants, 4 KiB take no longer than a request at the stated rate: 40,000/s or
        // 20,000/s at 250 or 125 MB/s.
        let (write, iops) = random.pick(&[(LINK, 40_000), (LINK / 2, 20_000)]);
        let capacity = Capacity::NONE.read(LINK).write(write).iops(iops);
        scene.watch = watch;
        scene.config.sizes.streams = 64;
        scene.config.sizes.groups = 64;
        scene.config.drive.tags = 32;
        scene.config.drive.capacity = Some(capacity);
        scene.duration = Span::from_millis(2_500);
        scene.drive.service = Span::from_micros(30);
        scene.drive.read_ns_per_kib = link(capacity.read) * 100 / speed;
        scene.drive.write_ns_per_kib = link(capacity.write) * 100 / speed;
        scene.drive.request_ns = 1_000_000_000 / capacity.iops * 100 / speed;
        Self {
            random,
            scene,
            capacity,
            left: PROMISABLE,
        }
    }

    /// Takes a part of the capacity that may still be promised, at most `most` millionths of the
    /// drive.
    pub(super) fn take(&mut self, most: u64) -> u64 {
        let part = self.random.below(most.min(self.left) + 1);
        self.left -= part;
        part
    }

    pub(super) fn bytes(&self, part: u64) -> u64 {
        self.capacity.read.min(self.capacity.write) / 1_000_000 * part
    }

    pub(super) fn iops(&self, part: u64) -> u64 {
        self.capacity.iops * part / 1_000_000
    }

    pub(super) fn group(&mut self, parent: GroupId, contract: Contract) -> GroupId {
        self.scene.groups.push((parent, contract));
        GroupId(self.scene.groups.len() as u32)
    }

    /// Adds a client that reads, writes, or does both.
    pub(super) fn client(&mut self, group: GroupId, size: u32, depth: u32) -> &mut SceneClient {
        let write_in = self.random.pick(&[0, 0, 1, 2, 8]);
        let random = self.random.once_in(2);
        self.scene.clients.push(SceneClient {
            group: group.0,
            size,
            depth,
            random,
            write_in,
            ..SceneClient::default()
        });
        self.scene.clients.last_mut().expect("it was just added")
    }

    /// Adds a client with several long requests outstanding.
    pub(super) fn streams(&mut self, group: GroupId) -> &mut SceneClient {
        let size = self.random.pick(&[64 << 10, 128 << 10]);
        let depth = 3 + self.random.below(3) as u32;
        self.client(group, size, depth)
    }

    /// Adds a client that always has more requests than the drive takes, in a group of its own.
    pub(super) fn greedy_below(&mut self, parent: GroupId) {
        let contract = self.share();
        let group = self.group(parent, contract);
        self.greedy(group);
    }

    /// Adds a client that always has more requests than the drive takes.
    pub(super) fn greedy(&mut self, group: GroupId) {
        let client = greedy(self.random, group.0, 32);
        self.scene.clients.push(client);
    }

    /// Draws a typical share, from 50 to 149.
    pub(super) fn share(&mut self) -> Contract {
        share(50 + self.random.below(100))
    }

    /// Adds a client with a min in bytes and several requests outstanding.
    pub(super) fn promised_stream(&mut self, most: u64) {
        let min = self.take(most);
        let contract = self.share().min(self.bytes(min));
        let group = self.group(ROOT, contract);
        self.streams(group);
    }

    /// Adds a client with a min in requests, with a queue depth of `depth`.
    pub(super) fn promised_requests(&mut self, most: u64, depth: u32) {
        let most = if depth == 1 {
            most.min(1_000_000 * ONE_AT_A_TIME / self.capacity.iops)
        } else {
            most
        };
        let min = self.take(most);
        let contract = self.share().min_iops(self.iops(min));
        let group = self.group(ROOT, contract);
        // The drive's rate of requests is stated for requests of this size.
        self.client(group, 4096, depth);
    }

    /// Adds a realtime client with a max in requests or in bytes, and a queue depth of up to 8.
    pub(super) fn realtime(&mut self, most: u64, burst: Span, sizes: &[u32]) {
        let part = self.take(most).max(10_000);
        let (max, size) = if self.random.once_in(2) {
            let bandwidth = self.bytes(part);
            let max = Max::NONE.bandwidth(bandwidth).burst(burst);
            (max, self.random.pick(sizes))
        } else {
            let iops = self.iops(part);
            let max = Max::NONE.iops(iops).burst(burst);
            (max, 4096)
        };
        let contract = self.share().max(max).class(Class::Realtime);
        let group = self.group(ROOT, contract);
        let depth = 1 + self.random.below(8) as u32;
        self.client(group, size, depth);
    }

    pub(super) fn idle(&mut self, parent: GroupId) {
        let contract = self.share().class(Class::Idle);
        let group = self.group(parent, contract);
        self.greedy(group);
    }

    pub(super) fn watch_realtime(&mut self) {
        // The bound is the time that the drive needs for a full queue and a piece of each promised
        // client. Pieces are at most 128 KiB long.
        let pieces = u64::from(self.scene.config.drive.tags) + self.scene.groups.len() as u64;
        let drive = &self.scene.drive;
        let piece = 128 * drive.read_ns_per_kib.max(drive.write_ns_per_kib);
        let bound = drive.service.as_nanos() + pieces * piece;
        let bound = Span::from_nanos(bound);
        self.scene.watch.push(SceneWatch::Realtime { bound });
    }
}
