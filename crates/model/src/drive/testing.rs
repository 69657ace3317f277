//! A closed loop against any drive, for the models' tests: clients with a constant number of
//! commands in flight each.

use crate::drive::{DriveModel, QueueFull, TimedCompletion};
use Box;
use Vec;
use weir_core::random::Rng;
use weir_core::{Dispatch, DriveShape, Flags, Instant, Op, QueueId, Span, StreamId, Tag};

/// Makes a boxed drive usable by tests that choose its kind at random.
impl DriveModel for Box<dyn DriveModel> {
    fn submit(&mut self, now: Instant, command: &Dispatch) -> Result<(), QueueFull> {
        self.as_mut().submit(now, command)
    }

    fn next_completion(&self) -> Option<Instant> {
        self.as_ref().next_completion()
    }

    fn pop(&mut self, now: Instant) -> Option<TimedCompletion> {
        self.as_mut().pop(now)
    }

    fn in_flight(&self) -> u32 {
        self.as_ref().in_flight()
    }

    fn shape(&self) -> DriveShape {
        self.as_ref().shape()
    }
}

/// The workload of one client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoopClient {
    pub(crate) op: Op,
    pub(crate) flags: Flags,
    pub(crate) length: u32,
    pub(crate) depth: u32,
    /// The next offset of a sequential client; `None` for a random one.
    pub(crate) next: Option<u64>,
}

impl LoopClient {
    pub(crate) fn random(op: Op, length: u32, depth: u32) -> Self {
        Self {
            op,
            flags: Flags::NONE,
            length,
            depth,
            next: None,
        }
    }

    pub(crate) fn sequential(op: Op, length: u32, depth: u32, from: u64) -> Self {
        Self {
            next: Some(from),
            ..Self::random(op, length, depth)
        }
    }
}

/// A read of 4 KiB at offset zero, as a base for other commands.
pub(crate) fn command() -> Dispatch {
    Dispatch::new(Op::Read, 0, 4096)
}

/// The results of one client.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LoopTotals {
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
    pub(crate) latency: Span,
    pub(crate) longest: Span,
}

impl LoopTotals {
    pub(crate) fn mean(&self) -> Span {
        Span::from_nanos(self.latency.as_nanos() / self.requests.max(1))
    }

    /// Bytes per second.
    pub(crate) fn rate(&self, elapsed: Span) -> u64 {
        (u128::from(self.bytes) * 1_000_000_000 / u128::from(elapsed.as_nanos())) as u64
    }
}

/// A drive and its clients.
#[derive(Debug)]
pub(crate) struct ClosedLoop<D> {
    pub(crate) drive: D,
    pub(crate) now: Instant,
    size: u64,
    random: Rng,
    /// The client and the submission time of the command in flight, by tag.
    outstanding: Vec<Option<(usize, Instant)>>,
    free: Vec<u32>,
}

impl<D: DriveModel> ClosedLoop<D> {
    /// Creates a load whose random clients use the first `size` bytes.
    pub(crate) fn new(drive: D, size: u64) -> Self {
        let shape = drive.shape();
        let tags = u32::from(shape.queues) * u32::from(shape.tags);
        Self {
            drive,
            now: Instant::ZERO,
            size,
            random: Rng::new(1),
            outstanding: std::vec![None; tags as usize],
            free: (0..tags).collect(),
        }
    }

    pub(crate) fn random(&mut self) -> u64 {
        self.random.next_u64()
    }

    /// Runs the clients for `length`, then until all commands have completed, each exactly once and
    /// at the announced time. Returns each client's results and the total time.
    pub(crate) fn run(
        &mut self,
        clients: &mut [LoopClient],
        length: Span,
    ) -> (Vec<LoopTotals>, Span) {
        let begin = self.now;
        let mut results = std::vec![LoopTotals::default(); clients.len()];
        for client in 0..clients.len() {
            for _ in 0..clients[client].depth {
                self.submit(clients, client);
            }
        }
        while let Some(next) = self.drive.next_completion() {
            // The drive announced `next`, so it must report at least one completion at that time.
            assert!(next >= self.now, "time goes on");
            self.now = next;
            while let Some(ended) = self.drive.pop(next) {
                assert!(ended.began <= ended.at && ended.at <= next);
                let tag = ended.completion.tag.0;
                let (client, asked) = self.outstanding[tag as usize].take().expect("in flight");
                self.free.push(tag);
                assert!(asked <= ended.began, "nothing begins before it came");
                let result = &mut results[client];
                let latency = ended.at.since(asked);
                result.requests += 1;
                result.bytes += u64::from(clients[client].length);
                result.latency += latency;
                result.longest = result.longest.max(latency);
                // After `length`, the queue is drained, so that all requests can be accounted for.
                if next.since(begin) < length {
                    self.submit(clients, client);
                }
            }
        }
        assert_eq!(self.drive.in_flight(), 0);
        assert!(
            self.outstanding.iter().all(Option::is_none),
            "nothing is lost"
        );
        (results, self.now.since(begin))
    }

    fn submit(&mut self, clients: &mut [LoopClient], client: usize) {
        let random = self.random() % (self.size / 4096) * 4096;
        let c = &mut clients[client];
        let offset = match &mut c.next {
            Some(next) => {
                *next += u64::from(c.length);
                *next - u64::from(c.length)
            }
            // The last positions move back so that the request ends inside the range.
            None => random.min(self.size - u64::from(c.length)),
        };
        let tag = self
            .free
            .pop()
            .expect("as many tags as the clients' depths");
        self.outstanding[tag as usize] = Some((client, self.now));
        let queues = u32::from(self.drive.shape().queues);
        let command = Dispatch {
            queue: QueueId((tag % queues) as u16),
            tag: Tag(tag),
            stream: StreamId::from_bits(client as u64),
            flags: c.flags,
            ..Dispatch::new(c.op, if c.op == Op::Flush { 0 } else { offset }, c.length)
        };
        self.drive
            .submit(self.now, &command)
            .expect("there is a tag");
    }
}
