//! A drive of volumes in memory: what is carried out at once is carried out in parts.

use weir_core::{Op, Priority, Request, SpaceId, StreamId, StreamSpec};
use weir_uring::{AnyRing, Arena, Config};

use super::*;

/// A drive with the volumes `a` and `b`, and what a shard keeps beside it.
struct Bench {
    drive: Drive,
    ring: AnyRing,
    streams: [StreamId; 2],
    notices: Vec<Notice>,
}

impl Bench {
    fn new(size: u64) -> Self {
        let text = format!(
            "listen.nbd = [\"unix:/run/weir.sock\"]\ndrive.d.policy = \"none\"\n\
             volume.a = {{ drive = \"d\", memory = true, size = \"{size}B\" }}\n\
             volume.b = {{ drive = \"d\", memory = true, size = \"{size}B\" }}\n"
        );
        let config = weir_config::parse("test.toml", &text);
        let mut opened = crate::setup::open(&config.unwrap(), crate::backend::open, 1).unwrap();
        let setup = opened.shards.remove(0).remove(0);
        let mut drive = super::super::open_drive(setup, 0, Instant::ZERO, 1 << 20).unwrap();
        let streams = [0, 1].map(|space| {
            let group = drive.volumes[space].as_ref().unwrap().group;
            let priority = Priority::default();
            let spec = StreamSpec { group, priority };
            drive.layer.open(Instant::ZERO, spec).unwrap()
        });
        let ring = Config {
            arena_bytes: 16 << 20,
            ..Config::default()
        };
        Self {
            drive,
            ring: AnyRing::open(&ring).unwrap(),
            streams,
            notices: Vec::new(),
        }
    }

    fn submit(&mut self, space: u32, op: Op, offset: u64, length: u32) -> u32 {
        let arena: &Arena = self.ring.arena();
        let mut bufs = Vec::new();
        if op == Op::Write {
            assert!(crate::shard::memory::for_payload(arena, length, &mut bufs));
            for buf in &mut bufs {
                buf.fill(7);
            }
        }
        let flags = match op {
            Op::WriteZeroes => Flags::NO_HOLE,
            _ => Flags::NONE,
        };
        let ask = Ask {
            op,
            flags,
            offset,
            length,
            token: 0,
        };
        let mut payload = Payload::default();
        payload.fill(bufs);
        let id = self.drive.requests.insert(Pending {
            client: space,
            ask,
            cost: 0,
            payload,
            alone: false,
            untaken: weir_core::Span::ZERO,
        });
        let request = Request {
            stream: self.streams[space as usize],
            space: SpaceId(space),
            op,
            flags,
            offset,
            length,
            cookie: u64::from(id),
        };
        self.drive.layer.submit(Instant::ZERO, &[request]).unwrap();
        self.drive.touched = true;
        id
    }

    /// One turn of the shard as far as the drive is concerned; the requests that ended in it.
    fn turn(&mut self) -> Vec<u32> {
        let now = Instant::ZERO;
        self.drive.settle(&mut self.ring, now);
        if self.drive.is_due(now) {
            self.drive.turn(&mut self.ring, now, &mut self.notices);
        }
        let ended = self.notices.drain(..).filter_map(|notice| match notice {
            Notice::Done(done) => {
                assert_eq!(done.outcome, Outcome::Ok);
                Some(done.cookie as u32)
            }
            Notice::Pause(_) | Notice::Resume(_) => None,
        });
        let ended: Vec<u32> = ended.collect();
        for &id in &ended {
            self.drive.requests.remove(id).unwrap();
        }
        ended
    }

    /// Turns until all of `ids` have ended; how many that took.
    fn run(&mut self, ids: &[u32]) -> usize {
        let mut left = ids.to_vec();
        for turn in 1..100_000 {
            let ended = self.turn();
            left.retain(|id| !ended.contains(id));
            if left.is_empty() {
                return turn;
            }
        }
        panic!("{left:?} do not end");
    }
}

const LONG: u32 = 64 << 20;
const PIECE: u32 = 128 << 10;

#[test]
fn a_long_zeroing_is_done_in_parts_and_others_are_served_between() {
    let mut bench = Bench::new(u64::from(LONG));
    for offset in (0..LONG).step_by(PIECE as usize) {
        let write = bench.submit(0, Op::Write, u64::from(offset), PIECE);
        bench.run(&[write]);
    }
    let zeroing = bench.submit(0, Op::WriteZeroes, 0, LONG);
    assert!(bench.turn().is_empty());
    let mut turns = 1;
    loop {
        // Two turns at most, whatever the other volume has begun: one to be taken in, one for its turn.
        let read = bench.submit(1, Op::Read, 0, 4096);
        let mut ended = bench.turn();
        turns += 1;
        if !ended.contains(&read) {
            ended.extend(bench.turn());
            turns += 1;
            assert!(ended.contains(&read));
        }
        if ended.contains(&zeroing) {
            break;
        }
    }
    // In one turn: as much as goes to what is new, and to what was put off.
    let least = u64::from(LONG) / (2 * TURN);
    assert!(turns as u64 >= least, "{turns} turns, {least} expected");
}

#[test]
fn what_is_read_in_one_turn_is_bounded_and_everything_is_done() {
    let mut bench = Bench::new(16 << 20);
    let reads: Vec<u32> = (0..64u32)
        .map(|n| bench.submit(n % 2, Op::Read, u64::from(n) * u64::from(PIECE), PIECE))
        .collect();
    let mut ended = Vec::new();
    while ended.len() < reads.len() {
        let now = bench.turn();
        assert!(!now.is_empty(), "a turn without progress");
        // Each of the two shares may be exceeded by one piece.
        let most = 2 * (TURN / u64::from(PIECE) + 1);
        assert!(now.len() as u64 <= most, "{} in one turn", now.len());
        ended.extend(now);
    }
    ended.sort_unstable();
    ended.dedup();
    assert_eq!(ended.len(), reads.len());
}

#[test]
fn a_zeroing_of_holes_is_done_at_once() {
    let mut bench = Bench::new(u64::from(LONG));
    let zeroing = bench.submit(0, Op::WriteZeroes, 0, LONG);
    assert!(bench.run(&[zeroing]) <= 2);
    let trim = bench.submit(0, Op::Discard, 0, LONG);
    assert!(bench.run(&[trim]) <= 2);
}
