//! A recorded load as a list of requests with their times.

use crate::load::program::{Arrival, Pattern, Program, Region, Size, SyncMode};
use core::fmt;
use weir_core::{Flags, Op, Span};

/// The longest interval of a program.
const HOUR: Span = Span::from_secs(3_600);

/// A request of a [`Trace`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TracedRequest {
    /// The time of the request after the start of the trace.
    pub at: Span,
    /// The offset of the first byte, or zero for a flush.
    pub offset: u64,
    /// The length in bytes: zero for a flush, and at least 1 for other operations.
    pub length: u32,
    /// The operation: a read, a write, a flush or a discard.
    pub op: Op,
    /// The flags of the request.
    pub flags: Flags,
}

/// The requests of a recorded load in the order of their times.
#[derive(Clone, PartialEq, Eq)]
pub struct Trace {
    requests: Vec<TracedRequest>,
    timing: TraceTiming,
}

/// The times at which the requests of a [`Trace`] are due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TraceTiming {
    /// Each request at its time after the start of the client, independent of completions.
    Recorded,
    /// Each request as soon as the queue depth permits.
    Fast,
}

impl Trace {
    /// The maximum number of requests, which take 400 MB of memory.
    pub const MOST: usize = 16 << 20;

    /// Creates a trace, and puts its requests into the order of their times. Requests of the same
    /// time stay in their order. Returns `None` if there is no request.
    pub fn new(mut requests: Vec<TracedRequest>, timing: TraceTiming) -> Option<Self> {
        requests.sort_by_key(|request| request.at);
        requests.shrink_to_fit();
        (!requests.is_empty()).then_some(Self { requests, timing })
    }

    /// The requests, of which there is at least one.
    pub fn requests(&self) -> &[TracedRequest] {
        &self.requests
    }

    /// The times at which the requests are due.
    pub fn timing(&self) -> TraceTiming {
        self.timing
    }

    /// The time of the last request after the start of the trace.
    pub fn length(&self) -> Span {
        self.requests.last().map_or(Span::ZERO, |last| last.at)
    }

    /// The smallest region from zero on that contains all requests.
    pub fn region(&self) -> Region {
        let ends = self.requests.iter().map(|r| r.offset + u64::from(r.length));
        Region::new(0, ends.max().unwrap_or(0))
    }

    /// A program with the properties of the trace as a whole: its sizes, its percentage of writes,
    /// its flushes, its mean interval and its number of requests.
    ///
    /// A [`LoadClient`](crate::load::LoadClient) that plays the trace takes the queue depth, the
    /// start, the stop and the number of requests from the program, and the requests from the
    /// trace. The other properties describe the client to its host.
    pub fn program(&self, depth: u32) -> Program {
        let count = |op| self.requests.iter().filter(|r| r.op == op).count() as u64;
        let [reads, flushes] = [Op::Read, Op::Flush].map(count);
        let all = self.requests.len() as u64;
        let changes = all - reads - flushes;
        // A small part of one kind must not be rounded to none.
        let writes = match (reads, changes) {
            (_, 0) => 0,
            (0, _) => 100,
            _ => (changes * 100 / (reads + changes)).clamp(1, 99) as u8,
        };
        let sizes = self.requests.iter().filter(|r| r.op.moves_data());
        let (least, most) = sizes.fold((u32::MAX, 0), |(least, most), r| {
            (least.min(r.length), most.max(r.length))
        });
        Program {
            pattern: Pattern::Random,
            writes,
            sync: if flushes > 0 {
                SyncMode::Flush(1)
            } else {
                SyncMode::Never
            },
            size: Size::Range {
                min: least.min(most.max(1)),
                max: most.max(1),
                step: 1,
            },
            arrival: match self.timing {
                TraceTiming::Fast => Arrival::Closed { think: Span::ZERO },
                // A program permits intervals of up to an hour.
                TraceTiming::Recorded => Arrival::Even {
                    interval: Span::from_nanos(
                        (self.length().as_nanos() / all).clamp(1, HOUR.as_nanos()),
                    ),
                },
            },
            requests: Some(all),
            ..Program::random_reads(1, depth)
        }
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The list can have millions of requests.
        f.debug_struct("Trace")
            .field("requests", &self.requests.len())
            .field("length", &self.length())
            .field("timing", &self.timing)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{LoadClient, Step};
    use std::sync::Arc;
    use weir_core::Instant;

    const fn request(ms: u64, op: Op, offset: u64, length: u32) -> TracedRequest {
        TracedRequest {
            at: Span::from_millis(ms),
            offset,
            length,
            op,
            flags: Flags::NONE,
        }
    }

    const REQUESTS: [TracedRequest; 4] = [
        request(0, Op::Read, 8192, 4096),
        request(5, Op::Write, 0, 512),
        request(5, Op::Flush, 0, 0),
        request(20, Op::Discard, 1 << 20, 1 << 20),
    ];

    fn client(timing: TraceTiming, depth: u32, change: impl Fn(&mut Program)) -> LoadClient {
        let trace = Trace::new(REQUESTS.to_vec(), timing).unwrap();
        let mut program = trace.program(depth);
        change(&mut program);
        LoadClient::replay(&program, Arc::new(trace.clone()), trace.region()).unwrap()
    }

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Span::from_millis(ms)
    }

    #[test]
    fn the_program_describes_the_whole_trace() {
        let trace = Trace::new(REQUESTS.to_vec(), TraceTiming::Recorded).unwrap();
        let program = trace.program(4);
        assert_eq!(trace.region(), Region::new(0, 2 << 20));
        assert_eq!(program.kinds(), [true, true, true]);
        assert_eq!(program.writes, 66);
        assert_eq!(program.requests, Some(4));
        assert_eq!((program.size.least(), program.size.most()), (512, 4096));
        let interval = Span::from_millis(5);
        assert_eq!(program.arrival, Arrival::Even { interval });
        assert_eq!(program.validate(trace.region()), Ok(()));
        assert_eq!(Trace::new(Vec::new(), TraceTiming::Fast), None);
        // So is a trace with hours between two requests.
        let far = vec![REQUESTS[0], request(9_000_000_000, Op::Read, 0, 512)];
        let trace = Trace::new(far, TraceTiming::Recorded).unwrap();
        assert_eq!(trace.program(1).validate(trace.region()), Ok(()));
        // A trace without reads and writes is valid too.
        let flush = vec![request(0, Op::Flush, 0, 0)];
        let trace = Trace::new(flush, TraceTiming::Fast).unwrap();
        assert_eq!(trace.program(1).validate(Region::new(0, 4096)), Ok(()));
    }

    #[test]
    fn recorded_times_count_from_the_start_and_do_not_wait_for_completions() {
        let start = Span::from_millis(100);
        let mut client = client(TraceTiming::Recorded, 4, |p| p.start = start);
        assert_eq!(client.next(at(0)), Step::WaitUntil(at(100)));
        let Step::Issue(io) = client.next(at(100)) else {
            panic!()
        };
        assert_eq!((io.op, io.offset, io.length), (Op::Read, 8192, 4096));
        assert_eq!(client.next(at(100)), Step::WaitUntil(at(105)));
        assert_eq!(client.overdue(at(104)), 0);
        assert_eq!(client.overdue(at(105)), 2);
        // A late call issues the requests with the times at which they were due.
        for op in [Op::Write, Op::Flush] {
            let Step::Issue(io) = client.next(at(107)) else {
                panic!()
            };
            assert_eq!((io.op, io.due), (op, at(105)));
        }
        assert_eq!(client.next(at(107)), Step::WaitUntil(at(120)));
        assert!(matches!(client.next(at(120)), Step::Issue(io) if io.op == Op::Discard));
        assert_eq!(client.next(at(120)), Step::WaitForCompletion);
        for ms in 121..=124 {
            client.completed(at(ms));
        }
        assert_eq!(client.next(at(124)), Step::Finished);
        assert_eq!(client.end_time(), Some(at(124)));
        assert!(!client.has_drawn());
    }

    #[test]
    fn the_depth_delays_requests_whose_latency_counts_from_when_they_were_due() {
        let mut client = client(TraceTiming::Recorded, 1, |_| {});
        assert!(matches!(client.next(at(0)), Step::Issue(_)));
        assert_eq!(client.next(at(6)), Step::WaitForCompletion);
        client.completed(at(9));
        assert!(matches!(client.next(at(9)), Step::Issue(io) if io.due == at(5)));
    }

    #[test]
    fn without_times_requests_follow_the_depth() {
        let mut client = client(TraceTiming::Fast, 2, |p| p.requests = Some(3));
        for _ in 0..2 {
            assert!(matches!(client.next(at(0)), Step::Issue(io) if io.due == at(0)));
        }
        assert_eq!(client.next(at(0)), Step::WaitForCompletion);
        client.completed(at(1));
        assert!(matches!(client.next(at(1)), Step::Issue(io) if io.due == at(1)));
        // The program permits three of the four requests.
        client.completed(at(2));
        client.completed(at(2));
        assert_eq!(client.next(at(2)), Step::Finished);
    }

    #[test]
    fn a_stop_ends_a_trace_before_its_last_request() {
        let stop = Some(Span::from_millis(20));
        let mut client = client(TraceTiming::Recorded, 4, |p| p.stop = stop);
        for _ in 0..3 {
            assert!(matches!(client.next(at(5)), Step::Issue(_)));
        }
        assert_eq!(client.overdue(at(30)), 0);
        for _ in 0..3 {
            client.completed(at(6));
        }
        assert_eq!(client.next(at(6)), Step::Finished);
    }
}
