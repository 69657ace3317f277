//! Flushes beside promises, on a drive that does one thing after the other: a read or a write is soon done, a flush takes long.

use super::*;

const READ: u64 = 60_000;
const WRITE: u64 = 20_000;
const FLUSH: u64 = 1_000_000;
const WRITERS: usize = 8;

/// What a client has in mind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Workload {
    /// This number of reads of 4 KiB outstanding.
    Reads(u32),
    /// Writes 4 KiB and flushes, again and again.
    Syncs,
}

/// Flush commands, and the longest time that one could have begun before it did, counted from the end of the one before.
#[derive(Default)]
struct Flushes {
    begun: u64,
    waiting: u32,
    since: u64,
    longest: u64,
}

/// A closed loop of clients, each in a group and a space of its own, and the drive.
struct Syncing {
    layer: Layer,
    clients: Vec<Workload>,
    streams: Vec<StreamId>,
    /// Requests that end, by when; what is submitted then follows from that.
    drive: BinaryHeap<Reverse<(u64, Tag)>>,
    free: u64,
    flush: u64,
    /// Flushes that run now, on a drive that does everything else first.
    last: Option<Vec<Tag>>,
    /// Reads of each client, and syncs.
    done: Vec<u64>,
    flushes: Flushes,
}

impl Syncing {
    fn new(config: elevator::Config, flush: u64, clients: &[(Workload, Contract)]) -> Self {
        let mut layer = Layer::new(LayerConfig {
            drive: DriveShape {
                capacity: PIPE.stated,
                ..DriveShape::default()
            },
            ..LayerConfig::of(config)
        })
        .unwrap();
        let mut streams = Vec::new();
        for (i, &(_, contract)) in clients.iter().enumerate() {
            let group = GroupId(i as u32 + 1);
            let edits = [
                Edit::SetSpace {
                    id: SpaceId(i as u32),
                    size: Some(1 << 40),
                },
                Edit::AddGroup {
                    id: group,
                    parent: ROOT,
                    contract,
                },
            ];
            layer.change(Instant::ZERO, &edits).unwrap();
            let priority = Priority::default();
            let spec = StreamSpec { group, priority };
            streams.push(layer.open(Instant::ZERO, spec).unwrap());
        }
        Self {
            layer,
            clients: clients.iter().map(|c| c.0).collect(),
            streams,
            drive: BinaryHeap::new(),
            free: 0,
            flush,
            last: None,
            done: std::vec![0; clients.len()],
            flushes: Flushes::default(),
        }
    }

    fn submit(&mut self, now: u64, client: usize, op: Op) {
        if op == Op::Flush {
            let flushes = &mut self.flushes;
            flushes.since = if flushes.waiting == 0 {
                now
            } else {
                flushes.since
            };
            flushes.waiting += 1;
        }
        let request = Request {
            stream: self.streams[client],
            space: SpaceId(client as u32),
            op,
            flags: Flags::SYNC,
            offset: 0,
            length: if op == Op::Flush { 0 } else { 4 * KIB },
            cookie: client as u64,
            within: 0,
        };
        let now = Instant::from_nanos(now);
        self.layer.submit(now, &[request]).unwrap();
    }

    fn run(mut self, seconds: u64) -> Self {
        for client in 0..self.clients.len() {
            match self.clients[client] {
                Workload::Reads(depth) => (0..depth).for_each(|_| self.submit(0, client, Op::Read)),
                Workload::Syncs => self.submit(0, client, Op::Write),
            }
        }
        let mut now = 0;
        while now < seconds * SECOND {
            let wake = self.poll(now);
            let ends = self.drive.peek().map(|e| e.0.0);
            now = wake.into_iter().chain(ends).min().expect("nothing stands");
            if ends == Some(now) {
                let Reverse((_, tag)) = self.drive.pop().unwrap();
                if let Some(flushes) = &mut self.last {
                    flushes.retain(|&other| other != tag);
                }
                let at = Instant::from_nanos(now);
                self.layer.complete(at, &[Completion::ok(tag)]);
            }
        }
        self
    }

    /// Lets the layer decide, and clients go on, until there is nothing more to do at this time.
    fn poll(&mut self, now: u64) -> Option<u64> {
        loop {
            let mut out = Vec::new();
            let wake = self.layer.poll(Instant::from_nanos(now), &mut out);
            if out.is_empty() {
                return wake.map(|w| w.at.as_nanos());
            }
            for output in out {
                self.carry_out(now, output);
            }
        }
    }

    fn carry_out(&mut self, now: u64, output: Output) {
        match output {
            Output::Dispatch(d) => {
                let time = match d.op {
                    Op::Flush => self.flush,
                    Op::Read => READ,
                    _ => WRITE,
                };
                self.works(now, d.tag, d.op, time);
                if d.op == Op::Flush {
                    let flushes = &mut self.flushes;
                    flushes.begun += 1;
                    flushes.waiting -= 1;
                    flushes.longest = flushes.longest.max(now - flushes.since);
                }
            }
            Output::Done(d) => {
                let client = d.cookie as usize;
                let next = match (self.clients[client], d.op) {
                    (Workload::Syncs, Op::Write) => Op::Flush,
                    (Workload::Syncs, _) => Op::Write,
                    (Workload::Reads(_), _) => Op::Read,
                };
                if d.op == Op::Flush {
                    self.flushes.since = now;
                }
                self.done[client] += u64::from(d.op != Op::Write);
                self.submit(now, client, next);
            }
            Output::Pause(_) | Output::Resume(_) => {}
        }
    }

    /// The drive does what it was given after the rest; if flushes come last, they take longer by that.
    fn works(&mut self, now: u64, tag: Tag, op: Op, time: u64) {
        let Some(flushes) = &mut self.last else {
            self.free = self.free.max(now) + time;
            self.drive.push(Reverse((self.free, tag)));
            return;
        };
        if op == Op::Flush {
            flushes.push(tag);
            self.drive.push(Reverse((self.free.max(now) + time, tag)));
            return;
        }
        self.free = self.free.max(now) + time;
        let all = self.drive.drain().map(|Reverse((end, other))| {
            let later = if flushes.contains(&other) { time } else { 0 };
            Reverse((end + later, other))
        });
        self.drive = all.chain([Reverse((self.free, tag))]).collect();
    }

    /// Bytes a second that a client read.
    fn rate(&self, client: usize, seconds: u64) -> u64 {
        self.done[client] * 4096 / seconds
    }
}

fn keeping() -> elevator::Config {
    elevator::Config::Contract(Config::default())
}

/// A client that reads and was promised `mb` MB/s, and eight that sync.
fn beside(mb: u64, depth: u32) -> Vec<(Workload, Contract)> {
    let mut clients = std::vec![(Workload::Reads(depth), min(mb * 1_000_000))];
    clients.resize(WRITERS + 1, (Workload::Syncs, Contract::DEFAULT));
    clients
}

#[test]
fn who_reads_one_at_a_time_keeps_its_min_beside_those_who_sync() {
    for mb in [1, 10, 30, 50] {
        let none = Syncing::new(elevator::Config::None, FLUSH, &beside(mb, 1)).run(4);
        assert!(none.rate(0, 4) < 2_000_000, "{}", none.rate(0, 4));
        let kept = Syncing::new(keeping(), FLUSH, &beside(mb, 1)).run(4);
        let rate = kept.rate(0, 4);
        assert!(rate >= mb * 1_000_000, "{rate} of {mb} MB/s");
        // The drive does flushes in the time that the reads leave: none of it is wasted.
        let busy = kept.flushes.begun * (FLUSH + WRITE) + kept.done[0] * READ;
        assert!(busy >= 4 * SECOND * 95 / 100, "{busy} beside {mb} MB/s");
    }
}

#[test]
fn flushes_are_as_many_as_before_where_nothing_was_promised() {
    let clients = beside(0, 1);
    let none = Syncing::new(elevator::Config::None, FLUSH, &clients).run(2);
    let kept = Syncing::new(keeping(), FLUSH, &clients).run(2);
    let (before, now) = (none.flushes.begun, kept.flushes.begun);
    assert!(now * 100 >= before * 95, "{now} of {before}");
}

#[test]
fn no_flush_waits_longer_than_its_bound_for_promises_that_the_drive_cannot_keep() {
    // The drive does 68 MB/s of reads one by one. For a client promised that or more alone a flush would be held for as long as it takes;
    // but clients that write could have their own, as each of two could that together ask for more than the drive can do.
    let cases: [(u64, &[u64]); 3] = [(16, &[100]), (16, &[40, 40]), (16, &[60, 60])];
    for flush in [100_000, FLUSH, 100 * FLUSH] {
        for (times, promised) in cases {
            let mut clients: Vec<_> = promised
                .iter()
                .map(|mb| (Workload::Reads(1), min(mb * 1_000_000)))
                .collect();
            clients.resize(clients.len() + WRITERS, (Workload::Syncs, min(1_000_000)));
            let slow = Syncing::new(keeping(), flush, &clients).run(20);
            let what = std::format!("{promised:?} MB/s beside flushes of {flush} ns");
            let reads: u64 = slow.done[..promised.len()].iter().sum();
            // What was in the drive when one began counts as its time, too.
            let taken = flush + 4 * READ + 4 * WRITE;
            let bound = (times * taken).min(SECOND) + READ;
            let longest = slow.flushes.longest;
            assert!(longest <= bound, "{longest} of {bound}: {what}");
            assert!(reads * READ >= 20 * SECOND * 45 / 100, "{reads}: {what}");
        }
    }
}

#[test]
fn who_syncs_does_not_wait_for_its_own_promise() {
    let promised = [(Workload::Syncs, min(10_000_000))];
    let none = Syncing::new(elevator::Config::None, FLUSH, &promised).run(2);
    let kept = Syncing::new(keeping(), FLUSH, &promised).run(2);
    assert_eq!(kept.done[0], none.done[0]);
}

#[test]
fn a_flush_of_who_is_behind_is_not_put_off_by_those_who_read() {
    // Ten syncs a second of the fifty that the drive does while it is given nothing else.
    let mut clients = std::vec![(Workload::Syncs, min(40_960))];
    clients.resize(4, (Workload::Reads(16), Contract::DEFAULT));
    let mut drive = Syncing::new(keeping(), 20 * FLUSH, &clients);
    drive.last = Some(Vec::new());
    let kept = drive.run(4);
    assert!(kept.done[0] >= 4 * 10, "{} syncs", kept.done[0]);
    // What that leaves is the readers'.
    let reads: u64 = kept.done[1..].iter().sum();
    let busy = kept.done[0] * (20 * FLUSH + WRITE) + reads * READ;
    assert!(busy >= 4 * SECOND * 95 / 100, "{busy}");
}
