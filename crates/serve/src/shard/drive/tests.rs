//! Tests of a drive with volumes in memory: work that is carried out immediately is divided among
//! turns, and remote servers that hang do not occupy the drive.

use crate::shard::front::ClientRequest;
use crate::shard::payload::RequestPayload;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_core::{Op, Priority, Span, StreamId, StreamSpec};
use weir_uring::{AnyRing, Arena, IoRingConfig};

use super::super::asked::ResponseTimes;
use super::super::take::request;
use super::*;

/// A drive with the volumes `a` and `b`, and the parts of a shard that it needs.
struct DriveBench {
    drive: ShardDrive,
    ring: AnyRing,
    streams: [StreamId; 2],
    notices: Vec<Output>,
}

impl DriveBench {
    fn new(size: u64) -> Self {
        let text = format!(
            "listen.nbd = [\"unix:/run/weir.sock\"]\ndrive.d.policy = \"none\"\n\
             volume.a = {{ drive = \"d\", memory = true, size = \"{size}B\" }}\n\
             volume.b = {{ drive = \"d\", memory = true, size = \"{size}B\" }}\n"
        );
        let config = weir_config::parse("test.toml", &text);
        let mut opened =
            crate::setup::open(&config.unwrap(), &mut crate::backend::open, 1).unwrap();
        let setup = opened.shards.remove(0).remove(0);
        let mut drive = super::super::open_drive(setup, 0, Instant::ZERO, 1 << 20).unwrap();
        let streams = [0, 1].map(|space| {
            let group = drive.volumes[space].as_ref().unwrap().group;
            let priority = Priority::default();
            let spec = StreamSpec { group, priority };
            drive.layer.open(Instant::ZERO, spec).unwrap()
        });
        let ring = IoRingConfig {
            arena_bytes: 16 << 20,
            ..IoRingConfig::default()
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
            assert!(crate::shard::memory::allocate_payload_buffers(
                arena, length, &mut bufs
            ));
            for buf in &mut bufs {
                buf.fill(7);
            }
        }
        let flags = match op {
            Op::WriteZeroes => Flags::NO_HOLE,
            _ => Flags::NONE,
        };
        let ask = ClientRequest {
            op,
            flags,
            offset,
            length,
            token: 0,
        };
        let mut payload = RequestPayload::default();
        payload.fill(bufs);
        let id = self.drive.requests.insert(QueuedRequest {
            client: space,
            ask,
            cost: 0,
            payload,
            alone: false,
            untaken: Span::ZERO,
        });
        let request = request(self.streams[space as usize], space, &ask, id);
        self.drive.layer.submit(Instant::ZERO, &[request]).unwrap();
        self.drive.touched = true;
        id
    }

    /// Does one turn of the shard for the drive. Returns the requests that completed in it.
    fn turn(&mut self) -> Vec<u32> {
        self.turn_at(Instant::ZERO)
    }

    fn turn_at(&mut self, now: Instant) -> Vec<u32> {
        self.drive.settle(&mut self.ring, now);
        if self.drive.is_due(now) {
            self.drive.turn(&mut self.ring, now, &mut self.notices);
        }
        let ended = self.notices.drain(..).filter_map(|notice| match notice {
            Output::Done(done) => {
                assert_eq!(done.outcome, Outcome::Ok);
                Some(done.cookie as u32)
            }
            Output::Dispatch(_) | Output::Pause(_) | Output::Resume(_) => None,
        });
        let ended: Vec<u32> = ended.collect();
        for &id in &ended {
            self.drive.requests.remove(id).unwrap();
        }
        ended
    }

    /// Does turns until all requests in `ids` have completed. Returns the number of turns.
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

/// The size of a volume, and of a request that takes many turns.
const LONG: u32 = 64 << 20;
/// The size of a piece, which equals the budget of a visit.
const PIECE: u32 = 128 << 10;

#[test]
fn a_long_zeroing_is_done_in_parts_and_others_are_served_between() {
    let mut bench = DriveBench::new(u64::from(LONG));
    // Chunks that were never written are holes, and zeroing them costs nothing. Data makes the
    // zeroing touch memory.
    for offset in (0..LONG).step_by(PIECE as usize) {
        let write = bench.submit(0, Op::Write, u64::from(offset), PIECE);
        bench.run(&[write]);
    }
    let zeroing = bench.submit(0, Op::WriteZeroes, 0, LONG);
    assert!(bench.turn().is_empty());
    let mut turns = 1;
    loop {
        // A read takes at most two turns whatever the other volume has begun. It is dispatched in
        // the first, and carried out in the second.
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
    // One turn touches `TURN` bytes for new pieces and as much for deferred ones.
    let least = u64::from(LONG) / (2 * TURN);
    assert!(turns as u64 >= least, "{turns} turns, {least} expected");
}

#[test]
fn reads_per_turn_are_bounded_and_all_complete() {
    let mut bench = DriveBench::new(16 << 20);
    let reads: Vec<u32> = (0..64u32)
        .map(|n| bench.submit(n % 2, Op::Read, u64::from(n) * u64::from(PIECE), PIECE))
        .collect();
    let mut ended = Vec::new();
    while ended.len() < reads.len() {
        let now = bench.turn();
        assert!(!now.is_empty(), "a turn without progress");
        // Each of the two budgets can be exceeded by one piece.
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
    let mut bench = DriveBench::new(u64::from(LONG));
    // Nothing was written, so there is no memory to touch.
    let zeroing = bench.submit(0, Op::WriteZeroes, 0, LONG);
    assert!(bench.run(&[zeroing]) <= 2);
    let trim = bench.submit(0, Op::Discard, 0, LONG);
    assert!(bench.run(&[trim]) <= 2);
}

/// A remote server that does not answer before `answers` is set.
#[derive(Debug)]
struct HangingBackend {
    /// Jobs that are answered when the backend is woken, if `answers` is set.
    jobs: Vec<BackendJob>,
    answers: Arc<AtomicBool>,
}

impl Backend for HangingBackend {
    fn submit(&mut self, job: BackendJob, _cx: &mut Context<'_>) {
        self.jobs.push(job);
    }

    fn completed(
        &mut self,
        _op: u32,
        _completion: weir_uring::RingCompletion,
        _cx: &mut Context<'_>,
    ) {
    }

    fn size(&self, _wanted: Option<u64>) -> std::io::Result<u64> {
        Ok(0)
    }

    fn woken(&mut self, cx: &mut Context<'_>) {
        if self.answers.load(Ordering::Relaxed) {
            for job in self.jobs.drain(..) {
                cx.finish(job.tag, Ok(()), job.data);
            }
        }
    }
}

#[test]
fn a_hanging_remote_server_does_not_block_other_volumes() {
    let at = |ms| Instant::ZERO + Span::from_millis(ms);
    let mut bench = DriveBench::new(16 << 20);
    let answers = Arc::new(AtomicBool::new(false));
    let volume = bench.drive.volumes[0].as_mut().unwrap();
    volume.remote = Some(ResponseTimes::default());
    volume.backend = Box::new(HangingBackend {
        jobs: Vec::new(),
        answers: Arc::clone(&answers),
    });
    let submit_all = |bench: &mut DriveBench| -> Vec<u32> {
        let ops = [Op::Read, Op::Write, Op::Flush, Op::WriteZeroes];
        let each = ops.into_iter().cycle().take(60);
        each.map(|op| match op {
            Op::Flush => bench.submit(0, op, 0, 0),
            op => bench.submit(0, op, 0, 65536),
        })
        .collect()
    };
    // Stage 1: the requests of volume 0 take all places of the drive.
    let mut hung = submit_all(&mut bench);
    bench.turn_at(at(0));
    let tags = u32::from(bench.drive.layer.layer().config().drive.tags);
    assert_eq!(bench.drive.layer.layer().in_flight(), tags);
    let read = bench.submit(1, Op::Read, 0, 65536);
    assert!(bench.turn_at(at(999)).is_empty(), "the drive is full");
    // Stage 2: the drive detects the hang by itself. The limit of 1 s has passed at the first check
    // after that, at most 250 ms later, and the places of volume 0 become free for volume 1.
    let look = bench.drive.next_due().unwrap();
    assert!(look <= at(1_249));
    assert_eq!(bench.turn_at(at(1_250)), [read]);
    // Stage 3: further requests of volume 0 do not occupy the drive, whatever they are. All reads
    // of volume 1 complete.
    hung.extend(submit_all(&mut bench));
    for second in 2..60 {
        let reads: Vec<u32> = (0..16)
            .map(|_| bench.submit(1, Op::Read, 0, 65536))
            .collect();
        let mut ended = bench.turn_at(at(1_000 * second + 300));
        ended.extend(bench.turn_at(at(1_000 * second + 600)));
        assert_eq!(ended, reads, "second {second}");
    }
    // A few requests of volume 0 are still sent, to find out whether its server answers again.
    let out = bench.drive.layer.layer().in_flight();
    assert!(out <= tags + 8, "{out} requests are there");
    // Stage 4: the server answers, and each request completes exactly once.
    answers.store(true, Ordering::Relaxed);
    for ms in 61_000..62_000 {
        bench
            .drive
            .with_backend(&mut bench.ring, at(ms), 0, |_, cx| cx.caller().call());
        bench.drive.woken(&mut bench.ring, at(ms));
        for ended in bench.turn_at(at(ms)) {
            let found = hung.iter().position(|&id| id == ended);
            hung.swap_remove(found.expect("it was asked, and not answered before"));
        }
    }
    assert!(hung.is_empty(), "{hung:?}");
    assert!(bench.drive.is_idle());
}
