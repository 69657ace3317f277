//! Tests of storage that hangs behind one space of a drive: the other spaces continue, and nothing
//! is lost when the storage answers again.

use super::{at, open};
use std::collections::{BTreeMap, BTreeSet};
use weir_core::elevator::{self, ElevatorKind, KINDS};
use weir_core::testing::{group, request, space};
use weir_core::{
    Completion, Config, Contract, GroupId, Layer, Op, Output, Request, Sizes, SpaceId, Span,
    StreamId, Tag, Wake,
};

const MS: u64 = 1_000;
const SECOND: u64 = 1_000 * MS;
/// The latency of a server that works, in microseconds.
const SERVICE: u64 = 1_500;

/// A drive with two spaces on separate servers, of which the first one hangs at times.
struct StallHost {
    layer: Layer,
    now: u64,
    wake: Option<Wake>,
    streams: [StreamId; 2],
    depths: [u64; 2],
    /// The cookies of the outstanding requests of each space.
    asked: [BTreeSet<u64>; 2],
    answered: [u64; 2],
    cookie: u64,
    /// For each tag in the drive, its space and the time of its dispatch.
    out: BTreeMap<u32, (u32, u64)>,
    /// The times at which pieces end, with their tags.
    ends: BTreeSet<(u64, u32)>,
    hangs: bool,
    /// True if the server was found to hang and has completed nothing since.
    silent: bool,
    /// If set, one in this number of the first space's requests is never completed.
    lost_in: Option<u64>,
}

impl StallHost {
    fn new(elevator: elevator::Config, depths: [u64; 2]) -> Self {
        let sizes = Sizes::default().scheduler_tags(64).stalled(1024);
        let mut layer = super::layer(Config::of(elevator).sizes(sizes));
        let group = |id| group(id, Contract::DEFAULT);
        let space = space(1, 1 << 30);
        layer.change(at(0), &[group(1), group(2), space]).unwrap();
        let streams = [1, 2].map(|id| open(&mut layer, GroupId(id)));
        Self {
            layer,
            now: 0,
            wake: None,
            streams,
            depths,
            asked: Default::default(),
            answered: [0; 2],
            cookie: 0,
            out: BTreeMap::new(),
            ends: BTreeSet::new(),
            hangs: false,
            silent: false,
            lost_in: None,
        }
    }

    fn request(&mut self, space: usize) -> Request {
        self.cookie += 1;
        let op = match self.cookie % 16 {
            7 => Op::Flush,
            n if n % 2 == 0 => Op::Read,
            _ => Op::Write,
        };
        let moves = u64::from(op != Op::Flush);
        request(self.streams[space], op, self.cookie, 65536 * moves as u32)
            .space(SpaceId(space as u32))
            .offset(moves * (self.cookie * 65536 % (1 << 29)))
    }

    fn submit(&mut self) {
        for space in 0..2 {
            while (self.asked[space].len() as u64) < self.depths[space] {
                let request = self.request(space);
                self.asked[space].insert(request.cookie);
                self.layer.submit(at(self.now), &[request]).unwrap();
            }
        }
    }

    fn poll(&mut self) {
        let mut out = Vec::new();
        self.wake = self.layer.poll(at(self.now), &mut out);
        for output in out {
            match output {
                Output::Dispatch(d) => {
                    let before = self.out.insert(d.tag.0, (d.space.0, self.now));
                    assert_eq!(before, None, "tag {} is out", d.tag.0);
                    let lost = self.lost_in.is_some_and(|n| d.cookie.is_multiple_of(n));
                    // Pieces of a server that hangs have no end until it recovers.
                    if d.space.0 == 1 || !self.hangs && !lost {
                        self.ends.insert((self.now + SERVICE, d.tag.0));
                    }
                }
                Output::Done(done) => {
                    let space = usize::from(done.stream == self.streams[1]);
                    assert!(self.asked[space].remove(&done.cookie), "answered twice");
                    self.answered[space] += 1;
                }
                Output::Pause(_) | Output::Resume(_) => {}
            }
        }
    }

    /// Checks for late requests, as a driver does four times per second. Requests to a server that
    /// has not answered since its last stall are late at once.
    fn look(&mut self) {
        let longest = if self.silent { 0 } else { SECOND };
        let late = |&(space, sent): &(u32, u64)| space == 0 && sent + longest <= self.now;
        if self.out.values().any(late) {
            assert!(self.layer.stall(at(self.now), SpaceId(0)));
            self.silent = true;
            for out in self.out.values_mut().filter(|out| out.0 == 0) {
                // The piece has stalled and is not checked again.
                out.1 = u64::MAX / 2;
            }
        }
    }

    /// Runs until `end` and returns the number of requests that completed in each space.
    fn run_until(&mut self, end: u64) -> [u64; 2] {
        let before = self.answered;
        while self.now < end {
            self.poll();
            self.submit();
            self.poll();
            let look = (self.now / (250 * MS) + 1) * 250 * MS;
            let wake = self.wake.map(|w| w.at.as_nanos().div_ceil(1_000));
            let ended = self.ends.first().map(|e| e.0);
            // The next check, wake-up or completion.
            let next = [Some(look), wake, ended].into_iter().flatten().min();
            self.now = next.unwrap().max(self.now + 1);
            if self.now == look {
                self.look();
            }
            while let Some(&(time, tag)) = self.ends.first().filter(|e| e.0 <= self.now) {
                self.ends.remove(&(time, tag));
                let (space, _) = self.out.remove(&tag).unwrap();
                self.silent &= space == 1;
                self.layer
                    .complete(at(self.now), &[Completion::ok(Tag(tag))]);
            }
        }
        [0, 1].map(|space| self.answered[space] - before[space])
    }

    /// Lets the first server complete all its requests and work again.
    fn recover(&mut self) {
        (self.hangs, self.lost_in) = (false, None);
        for (&tag, _) in self.out.iter().filter(|(_, out)| out.0 == 0) {
            self.ends.insert((self.now + SERVICE, tag));
        }
    }
}

/// Returns true if the elevator serves one queue at a time, and waits for that queue's requests in
/// the drive.
fn waits_for_one(kind: &ElevatorKind) -> bool {
    matches!(kind.name, "bfq" | "cfq")
}

#[test]
fn a_hanging_server_does_not_slow_a_neighbour_down() {
    for kind in KINDS {
        // The rate of the second client without the first one, per second.
        let alone = StallHost::new((kind.default)(), [0, 16]).run_until(2 * SECOND)[1] / 2;
        for deep in [1, 64, 250] {
            let mut host = StallHost::new((kind.default)(), [deep, 16]);
            let before = host.run_until(2 * SECOND)[0] / 2;
            host.hangs = true;
            // The first seconds contain the detection of the stall, which takes up to 1.25 s.
            host.run_until(5 * SECOND);
            for second in 6..12 {
                let [_, got] = host.run_until(second * SECOND);
                // 90 % of the rate without the other client, in every second.
                assert!(
                    got >= alone * 9 / 10,
                    "{}, {deep}: {got} of {alone} in second {second}",
                    kind.name
                );
            }
            host.recover();
            host.run_until(14 * SECOND);
            let after = host.run_until(16 * SECOND)[0] / 2;
            assert!(
                after >= before * if waits_for_one(kind) { 3 } else { 9 } / 10,
                "{}, {deep}: {after} of {before}",
                kind.name
            );
            // With no new requests, every outstanding one must complete.
            host.depths = [0, 0];
            host.run_until(18 * SECOND);
            assert_eq!(host.asked, <[BTreeSet<u64>; 2]>::default(), "{}", kind.name);
            assert_eq!(host.layer.live() + host.layer.in_flight(), 0);
        }
    }
}

#[test]
fn a_server_that_loses_requests_leaves_most_to_a_neighbour() {
    for kind in KINDS.iter().filter(|kind| !waits_for_one(kind)) {
        let alone = StallHost::new((kind.default)(), [0, 16]).run_until(2 * SECOND)[1] / 2;
        for lost_in in [10, 1_000] {
            let mut elevator = (kind.default)();
            if let elevator::Config::Contract(contract) = &mut elevator {
                // The server is remote, so latency is not attributed to the neighbour.
                contract.remote = Span::from_millis(40);
            }
            // 250 requests are close to the default of 256 for each stream.
            let mut host = StallHost::new(elevator, [250, 16]);
            host.lost_in = Some(lost_in);
            host.run_until(10 * SECOND);
            let got = host.run_until(20 * SECOND)[1] / 10;
            assert!(
                got >= alone * 7 / 10,
                "{}, one in {lost_in}: {got} of {alone}",
                kind.name
            );
        }
    }
}
