//! The times at which requests are due.

use crate::load::program::{Arrival, Program};
use std::collections::VecDeque;
use weir_core::random::Rng;
use weir_core::{Instant, Op, Span};

/// The state that decides when the next request is due.
#[derive(Clone, Debug)]
pub(crate) enum ArrivalPace {
    /// Closed loop. Of `depth` requests, some are ready to be issued, some are in think time, and
    /// the others are outstanding.
    Closed {
        think: Span,
        /// The number of completions that are followed by one think time.
        every: u32,
        /// The completions since the last think time.
        answered: u32,
        idle: u32,
        /// The times at which requests in think time become ready. They are in order, because all
        /// have the same think time.
        thinking: VecDeque<Instant>,
    },
    /// Closed loop in batches: the number of outstanding requests of `depth`, and true while a
    /// batch is being issued.
    Batches {
        depth: u32,
        low: u32,
        outstanding: u32,
        filling: bool,
    },
    /// Open loop with equal intervals: the time of the next arrival.
    Even { interval: Span, next: Instant },
    /// Open loop with exponentially distributed intervals: the time of the next arrival.
    Poisson { interval: Span, next: Instant },
    /// Open loops of reads and of writes, in this order.
    Apart([Track; 2]),
}

/// The arrivals of one kind of request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Track {
    /// The interval of arrivals. `None` if a request of this kind is always due.
    interval: Option<Span>,
    poisson: bool,
    next: Instant,
}

impl Track {
    fn new(interval: Option<Span>, poisson: bool, start: Instant, rng: &mut Rng) -> Self {
        let mut track = Self {
            interval,
            poisson,
            next: start,
        };
        // The first arrival of a Poisson process is one interval after the start, too. With equal
        // intervals, it is at the start.
        if poisson {
            track.pass(rng);
        }
        track
    }

    /// Advances to the next arrival, after the present one has been issued.
    fn pass(&mut self, rng: &mut Rng) {
        if let Some(interval) = self.interval {
            self.next += if self.poisson {
                exponential(interval, rng)
            } else {
                interval
            };
        }
    }

    /// The time since which a request has been due, if one is due.
    fn since(&self, now: Instant) -> Option<Instant> {
        match self.interval {
            None => Some(now),
            Some(_) => (self.next <= now).then_some(self.next),
        }
    }

    fn waiting(&self, at: Instant) -> u64 {
        match self.interval {
            Some(interval) if self.next <= at => {
                // The arrival at `next` itself, and one more after each interval.
                at.since(self.next).as_nanos() / interval.as_nanos().max(1) + 1
            }
            _ => 0,
        }
    }
}

/// The time at which the next request is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ArrivalDue {
    /// The request has been due since this time.
    Since(Instant),
    /// The request is due at this time.
    At(Instant),
    /// The request is due after a completion.
    AfterCompletion,
}

impl ArrivalPace {
    pub(crate) fn new(program: &Program, rng: &mut Rng) -> Self {
        let start = Instant::ZERO + program.start;
        match program.arrival {
            Arrival::Closed { think } => {
                // Without think time, no request is ever in the list.
                let room = if think > Span::ZERO { program.depth } else { 0 };
                Self::Closed {
                    think,
                    every: program.think_every,
                    answered: 0,
                    idle: program.depth,
                    thinking: VecDeque::with_capacity(room as usize),
                }
            }
            Arrival::Batches { low } => Self::Batches {
                depth: program.depth,
                low,
                outstanding: 0,
                filling: true,
            },
            Arrival::Even { interval } => Self::Even {
                interval,
                next: start,
            },
            Arrival::Poisson { interval } => Self::Poisson {
                interval,
                next: start + exponential(interval, rng),
            },
            Arrival::Apart {
                reads,
                writes,
                poisson,
            } => Self::Apart([reads, writes].map(|every| Track::new(every, poisson, start, rng))),
        }
    }

    /// Returns true if reads and writes have arrivals of their own. In this case, [`Self::choose`]
    /// decides between them.
    pub(crate) fn has_separate_arrivals(&self) -> bool {
        matches!(self, Self::Apart(_))
    }

    /// Issues a request at `now` if reads and writes have arrivals of their own and one of them is
    /// due.
    ///
    /// The request is of the kind `drawn`, or of the other kind if only that is due. Returns the
    /// kind and the time since which the request has been due.
    pub(crate) fn choose(
        &mut self,
        drawn: Op,
        now: Instant,
        rng: &mut Rng,
    ) -> Option<(Op, Instant)> {
        let Self::Apart(tracks) = self else {
            return None;
        };
        let other = if drawn == Op::Write {
            Op::Read
        } else {
            Op::Write
        };
        let due = |op| Some((op, tracks[usize::from(op == Op::Write)].since(now)?));
        // The percentage of writes decides while both are due. If only one kind is due, it must not
        // wait for the other.
        let (op, since) = due(drawn).or_else(|| due(other))?;
        tracks[usize::from(op == Op::Write)].pass(rng);
        Some((op, since))
    }

    /// Returns true for an open loop, whose requests do not depend on completions.
    pub(crate) fn is_open(&self) -> bool {
        !matches!(self, Self::Closed { .. } | Self::Batches { .. })
    }

    /// The time at which the next request is due.
    #[inline]
    pub(crate) fn due(&self, now: Instant) -> ArrivalDue {
        match self {
            Self::Closed { idle, thinking, .. } => match thinking.front() {
                _ if *idle > 0 => ArrivalDue::Since(now),
                None => ArrivalDue::AfterCompletion,
                Some(&at) if at > now => ArrivalDue::At(at),
                Some(_) => ArrivalDue::Since(now),
            },
            Self::Batches { filling: true, .. } => ArrivalDue::Since(now),
            // The batch is complete, so nothing is issued until `low` is reached.
            Self::Batches { .. } => ArrivalDue::AfterCompletion,
            Self::Even { next, .. } | Self::Poisson { next, .. } if *next > now => {
                ArrivalDue::At(*next)
            }
            Self::Even { next, .. } | Self::Poisson { next, .. } => ArrivalDue::Since(*next),
            Self::Apart(tracks) => {
                let [reads, writes] = tracks;
                let since = [reads, writes].into_iter().filter_map(|t| t.since(now));
                match since.min() {
                    Some(at) => ArrivalDue::Since(at),
                    // Neither kind is due, so both have an interval.
                    None => ArrivalDue::At(reads.next.min(writes.next)),
                }
            }
        }
    }

    /// Returns true for a closed loop without think time that has a request to issue.
    #[inline]
    pub(crate) fn is_prompt(&self) -> bool {
        matches!(self, Self::Closed { think: Span::ZERO, idle, .. } if *idle > 0)
    }

    /// Issues and completes `count` requests of a prompt loop, one after the other.
    pub(crate) fn complete_promptly(&mut self, count: u64) {
        if let Self::Closed {
            every, answered, ..
        } = self
        {
            // The think time itself is zero in a prompt loop, but the count continues as if each
            // completion had been noted.
            *answered = ((u64::from(*answered) + count) % u64::from(*every)) as u32;
        }
    }

    /// The number of requests of an open loop that are due by `at` and not issued.
    pub(crate) fn waiting(&self, at: Instant) -> u64 {
        match *self {
            Self::Even { interval, next } | Self::Poisson { interval, next } if next <= at => {
                at.since(next).as_nanos() / interval.as_nanos().max(1) + 1
            }
            Self::Apart(tracks) => tracks.iter().map(|t| t.waiting(at)).sum(),
            _ => 0,
        }
    }

    /// Notes that the request that was due has been issued.
    #[inline]
    pub(crate) fn on_issue(&mut self, rng: &mut Rng) {
        match self {
            // Ready requests are issued before those whose think time has ended, in the same order
            // as `due` reports them.
            Self::Closed { idle, .. } if *idle > 0 => *idle -= 1,
            Self::Closed { thinking, .. } => {
                thinking.pop_front();
            }
            Self::Batches {
                depth,
                outstanding,
                filling,
                ..
            } => {
                *outstanding += 1;
                *filling = *outstanding < *depth;
            }
            Self::Even { interval, next } => *next += *interval,
            Self::Poisson { interval, next } => *next += exponential(*interval, rng),
            // `choose` has already advanced the arrivals of the kind that was issued.
            Self::Apart(_) => {}
        }
    }

    /// Notes a completion.
    #[inline]
    pub(crate) fn on_completion(&mut self, now: Instant) {
        match self {
            Self::Closed {
                think,
                every,
                answered,
                idle,
                thinking,
            } => {
                *answered += 1;
                let thinks = *answered >= *every;
                if thinks {
                    *answered = 0;
                }
                if thinks && *think > Span::ZERO {
                    thinking.push_back(now + *think);
                } else {
                    *idle += 1;
                }
            }
            Self::Batches {
                low,
                outstanding,
                filling,
                ..
            } => {
                *outstanding = outstanding.saturating_sub(1);
                // A batch that is being issued is completed first.
                *filling = *filling || *outstanding <= *low;
            }
            Self::Even { .. } | Self::Poisson { .. } | Self::Apart(_) => {}
        }
    }
}

/// A random span of an exponential distribution with the given mean.
fn exponential(mean: Span, rng: &mut Rng) -> Span {
    // The random number is a multiple of 2^-32.
    let scaled = u128::from(mean.as_nanos()) * u128::from(rng.exponential());
    // At most 32 + 64 bits before the shift, since a mean is at most an hour.
    Span::from_nanos((scaled >> 32) as u64)
}
