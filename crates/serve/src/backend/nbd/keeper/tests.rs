//! Random histories of a keeper and a server that loses unflushed data when it dies. A model of the
//! client checks each result.

use std::collections::{BTreeMap, BTreeSet};

use weir_core::random::Rng;
use weir_core::{Flags, Op};

use super::super::super::rmw::{LockMode, Ranges};
use super::*;

/// The number of blocks of the volume. A block holds a number, and each write has a number of its
/// own.
const BLOCKS: usize = 12;

/// A server, with the data that it holds and those that may survive its death.
struct ServerModel {
    /// For each block, all numbers that it has held since the server started. The last one is its
    /// present content.
    held: [Vec<u64>; BLOCKS],
    /// For each block, the index in `held` from which on any number may be on the medium.
    durable: [usize; BLOCKS],
    fua: bool,
    /// The received requests, which are executed in random order. With each is the index of every
    /// block's content when the request was received, because a flush covers no later content.
    received: Vec<(Sending<u64>, [usize; BLOCKS])>,
}

/// The client's knowledge of each block.
struct ClientModel {
    /// The numbers that a read of the block may return: the last one written, and those that may
    /// have been written.
    may: [BTreeSet<u64>; BLOCKS],
    /// The requests in progress, by their owner.
    under_way: BTreeMap<u32, UnderWay>,
    values: u64,
}

struct UnderWay {
    ask: RemoteRequest<u64>,
    /// For a flush, the numbers that each block may hold once the flush has completed. Later writes
    /// are added.
    after: Vec<BTreeSet<u64>>,
    begun: bool,
}

struct KeeperHistory {
    rng: Rng,
    server: ServerModel,
    client: ClientModel,
    keeper: Keeper<u64>,
    ranges: Ranges,
    ready: Vec<u32>,
    up: bool,
    /// True if flushes of the server can fail.
    failing: bool,
}

fn blocks(ask: &RemoteRequest<u64>) -> Range<usize> {
    ask.offset as usize..(ask.offset + u64::from(ask.length)) as usize
}

impl ServerModel {
    /// Executes a request, and returns its result.
    fn execute(
        &mut self,
        (ask, covers): (&RemoteRequest<u64>, [usize; BLOCKS]),
        rng: &mut Rng,
        failing: bool,
    ) -> Result<(), u16> {
        if ask.op == Op::Flush {
            if failing && rng.range(0, 9) == 0 {
                return Err(EIO);
            }
            for (durable, covered) in self.durable.iter_mut().zip(covers) {
                *durable = covered.max(*durable);
            }
            return Ok(());
        }
        for block in blocks(ask) {
            let value = match ask.op {
                Op::Write => ask.payload.unwrap(),
                Op::WriteZeroes => 0,
                Op::Discard if rng.range(0, 1) == 0 => 0,
                _ => continue,
            };
            self.held[block].push(value);
            if ask.flags.has(Flags::FUA) {
                assert!(self.fua, "it was told that there is no such thing");
                self.durable[block] = self.last()[block];
            }
        }
        Ok(())
    }

    /// Returns the index of each block's present content.
    fn last(&self) -> [usize; BLOCKS] {
        std::array::from_fn(|block| self.held[block].len() - 1)
    }

    /// Lets the server die and restart with the data on its medium.
    fn die(&mut self, rng: &mut Rng) {
        for (held, durable) in self.held.iter_mut().zip(&mut self.durable) {
            let at = rng.range(*durable as u64, held.len() as u64 - 1) as usize;
            *held = vec![held[at]];
            *durable = 0;
        }
    }
}

impl KeeperHistory {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        Self {
            server: ServerModel {
                held: std::array::from_fn(|_| vec![0]),
                durable: [0; BLOCKS],
                fua: rng.range(0, 1) == 0,
                received: Vec::new(),
            },
            client: ClientModel {
                may: std::array::from_fn(|_| BTreeSet::from([0])),
                under_way: BTreeMap::new(),
                values: 0,
            },
            keeper: Keeper::new(rng.range(1, 20)),
            ranges: Ranges::default(),
            ready: Vec::new(),
            up: false,
            failing: rng.range(0, 3) == 0,
            rng,
        }
    }

    fn below(&mut self, n: u64) -> u64 {
        self.rng.range(0, n - 1)
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn step(&mut self) {
        match self.below(20) {
            0..=5 if self.client.under_way.len() < 8 => self.ask(),
            6..=10 => self.send(),
            11..=16 => self.serve(),
            17 if self.one_in(3) => self.lose(),
            18 => self.connect(),
            19 if !self.up && self.one_in(6) => self.expire(),
            _ => {}
        }
    }

    fn ask(&mut self) {
        let op = [
            Op::Write,
            Op::Write,
            Op::Write,
            Op::WriteZeroes,
            Op::Discard,
            Op::Read,
            Op::Flush,
        ][self.below(7) as usize];
        let offset = self.below(BLOCKS as u64);
        let length = 1 + self.below((BLOCKS as u64 - offset).min(4)) as u32;
        self.client.values += 1;
        let fua = matches!(op, Op::Write | Op::WriteZeroes | Op::Discard) && self.one_in(4);
        let ask = RemoteRequest {
            op,
            flags: if fua { Flags::FUA } else { Flags::NONE },
            offset: if op == Op::Flush { 0 } else { offset },
            length: if op == Op::Flush { 0 } else { length },
            payload: (op == Op::Write).then_some(self.client.values),
            cost: 1,
        };
        let free = |n: &u32| !self.client.under_way.contains_key(n);
        let owner = (0..10).find(free).unwrap();
        let mut after = Vec::new();
        if op == Op::Flush {
            after = self.client.may.to_vec();
            // Changes in progress may become durable with the flush.
            for other in self.client.under_way.values().filter(|o| o.begun) {
                Self::may_be(&other.ask, &mut after);
            }
        }
        let changes = ask.changes();
        let range = ask.range();
        self.client.under_way.insert(
            owner,
            UnderWay {
                ask,
                after,
                begun: false,
            },
        );
        if !changes || self.ranges.acquire(owner, range, LockMode::Exclusive) {
            self.begin(owner);
        }
    }

    /// Passes a request on to the keeper, once it has its range.
    fn begin(&mut self, owner: u32) {
        let under_way = self.client.under_way.get_mut(&owner).unwrap();
        under_way.begun = true;
        let ask = under_way.ask.clone();
        if ask.changes() {
            for other in self.client.under_way.values_mut() {
                if other.ask.op == Op::Flush {
                    Self::may_be(&ask, &mut other.after);
                }
            }
            Self::may_be(&ask, &mut self.client.may);
        }
        self.keeper.submit(owner, ask);
    }

    /// Notes that a change may have been carried out.
    fn may_be(ask: &RemoteRequest<u64>, may: &mut [BTreeSet<u64>]) {
        for block in blocks(ask) {
            may[block].insert(ask.payload.unwrap_or(0));
        }
    }

    fn send(&mut self) {
        if let Some(sending) = self.keeper.next() {
            assert!(self.up, "nothing is sent to a server that is away");
            let changes = sending.ask.changes();
            let beside = self.server.received.iter();
            let mut beside = beside.filter(|(r, _)| r.ask.changes() && changes);
            assert!(
                !beside.any(|(r, _)| r.ask.overlaps(&sending.ask)),
                "changes that overlap"
            );
            self.server.received.push((sending, self.server.last()));
        }
    }

    /// Lets the server execute a random request and answer it.
    fn serve(&mut self) {
        if self.server.received.is_empty() {
            return;
        }
        let at = self.below(self.server.received.len() as u64) as usize;
        let (sending, covers) = self.server.received.swap_remove(at);
        let asked = (&sending.ask, covers);
        let result = self.server.execute(asked, &mut self.rng, self.failing);
        if sending.ask.op == Op::Read && !matches!(sending.id, Id::Kept(_)) {
            for block in blocks(&sending.ask) {
                let found = *self.server.held[block].last().unwrap();
                assert!(
                    self.client.may[block].contains(&found),
                    "block {block} reads as {found}"
                );
            }
        }
        if let Some(ended) = self.keeper.answered(sending.id, result) {
            self.end(ended);
        }
    }

    fn end(&mut self, (owner, result): EndedRequest) {
        let UnderWay { ask, after, .. } = self.client.under_way.remove(&owner).unwrap();
        if ask.changes() {
            if result.is_ok() {
                for block in blocks(&ask) {
                    let before = std::mem::take(&mut self.client.may[block]);
                    self.client.may[block].insert(ask.payload.unwrap_or(0));
                    if ask.op == Op::Discard {
                        self.client.may[block].extend(before);
                    }
                }
            }
            let mut granted = Vec::new();
            self.ranges.release(owner, &mut granted);
            self.ready.extend(granted);
        }
        // A discard may leave the data unchanged, and then adds nothing to their durability.
        if ask.flags.has(Flags::FUA) && result.is_ok() && ask.op != Op::Discard {
            self.is_durable(blocks(&ask), &self.client.may.clone());
        }
        if ask.op == Op::Flush && result.is_ok() {
            self.is_durable(0..BLOCKS, &after);
        }
        while let Some(next) = self.ready.pop() {
            self.begin(next);
        }
    }

    /// Checks that every number that would be on the medium if the server died now is among the
    /// permitted ones.
    fn is_durable(&self, range: Range<usize>, may: &[BTreeSet<u64>]) {
        for block in range {
            let durable = &self.server.held[block][self.server.durable[block]..];
            let may = &may[block];
            let known = durable.iter().all(|value| may.contains(value));
            assert!(known, "block {block}: {durable:?}, not {may:?}");
        }
    }

    /// Ends the session. The server dies, or only its connections end. In the second case it may
    /// have executed unanswered requests.
    fn lose(&mut self) {
        if !self.up {
            return;
        }
        for (sending, covers) in std::mem::take(&mut self.server.received) {
            if self.one_in(2) {
                let asked = (&sending.ask, covers);
                let _ = self.server.execute(asked, &mut self.rng, self.failing);
            }
        }
        if !self.one_in(4) {
            self.server.die(&mut self.rng);
        }
        if self.keeper.has_failed() {
            // No flush has succeeded since one failed, so any earlier data may be lost.
            for (may, held) in self.client.may.iter_mut().zip(&self.server.held) {
                may.extend(held);
            }
        }
        self.up = false;
        self.keeper.lost();
    }

    fn connect(&mut self) {
        if !self.up {
            self.up = true;
            // The server may return with other flags.
            self.server.fua = self.one_in(2);
            self.keeper.connected(self.server.fua);
        }
    }

    fn expire(&mut self) {
        for ended in self.keeper.expire() {
            self.end(ended);
        }
    }

    /// Checks that nothing is forgotten: a server that stays available gets all requests, and ends
    /// with permitted data.
    fn settle(&mut self) {
        self.connect();
        self.failing = false;
        for _ in 0..10_000 {
            self.send();
            self.serve();
        }
        assert!(self.client.under_way.is_empty(), "something is never done");
        for block in 0..BLOCKS {
            let found = *self.server.held[block].last().unwrap();
            assert!(
                self.client.may[block].contains(&found),
                "block {block} is {found}"
            );
        }
    }
}

#[test]
fn flushed_data_survives_any_behaviour_of_the_server() {
    let histories = std::env::var("WEIR_DRAWS").map_or(3_000, |n| n.parse().unwrap());
    for seed in 0..histories {
        let mut history = KeeperHistory::new(seed);
        for _ in 0..400 {
            history.step();
        }
        history.settle();
    }
}

fn ask(op: Op, offset: u64, payload: Option<u64>) -> RemoteRequest<u64> {
    RemoteRequest {
        op,
        flags: Flags::NONE,
        offset,
        length: u32::from(op != Op::Flush),
        payload,
        cost: 1,
    }
}

#[test]
fn kept_changes_are_replayed_before_unanswered_requests() {
    let mut keeper = Keeper::new(100);
    keeper.connected(true);
    for (owner, offset) in [(0, 5), (1, 6), (2, 7)] {
        keeper.submit(owner, ask(Op::Write, offset, Some(offset)));
    }
    let sent: Vec<_> = (0..3).map(|_| keeper.next().unwrap()).collect();
    assert_eq!(keeper.answered(sent[1].id, Ok(())), Some((1, Ok(()))));
    assert_eq!(keeper.answered(sent[0].id, Ok(())), Some((0, Ok(()))));
    keeper.submit(3, ask(Op::Flush, 0, None));
    assert_eq!(keeper.next().unwrap().ask.op, Op::Flush);
    // The server dies while the flush and the third write are in progress, and again in the middle
    // of the replay.
    for most in [1, 2] {
        keeper.lost();
        assert!(keeper.next().is_none());
        keeper.connected(true);
        for (offset, at) in [(6, 0), (5, 1)].into_iter().take(most) {
            let again = keeper.next().unwrap();
            assert_eq!((again.id, again.ask.offset), (Id::Kept(at), offset));
            assert_eq!(keeper.answered(again.id, Ok(())), None);
        }
    }
    // The kept changes are followed by the unanswered requests in their original order. The flush
    // then makes everything durable.
    let rest: Vec<_> = (0..2).map(|_| keeper.next().unwrap()).collect();
    assert_eq!((rest[0].ask.offset, rest[1].ask.op), (7, Op::Flush));
    assert_eq!(keeper.answered(rest[1].id, Ok(())), Some((3, Ok(()))));
    assert_eq!(keeper.kept_bytes(), 0);
}

#[test]
fn kept_changes_trigger_a_flush_and_a_failed_one_is_final() {
    let mut keeper = Keeper::new(2);
    keeper.connected(true);
    for offset in 0..2 {
        keeper.submit(0, ask(Op::Write, offset, Some(offset)));
        let sent = keeper.next().unwrap();
        keeper.answered(sent.id, Ok(()));
    }
    // Two kept changes with a cost of 1 reach the limit of 2, so the keeper's own flush precedes
    // the requested one. Its failure also fails the requested one.
    keeper.submit(1, ask(Op::Flush, 0, None));
    let (own, asked) = (keeper.next().unwrap(), keeper.next().unwrap());
    assert_eq!((own.ask.op, asked.ask.op), (Op::Flush, Op::Flush));
    assert_eq!(keeper.answered(own.id, Err(EIO)), None);
    assert_eq!(keeper.answered(asked.id, Ok(())), Some((1, Err(EIO))));
    assert!(keeper.has_failed());
}
