//! The times at which requests are due.

use crate::program::{Arrival, Program};
use alloc::collections::VecDeque;
use weir_core::{Instant, Span};
use weir_random::Rng;

/// Decides when the next request is due.
#[derive(Clone, Debug)]
pub(crate) enum Pace {
    /// Closed loop: of `depth` requests some are ready to be issued, some are in think time, the others are outstanding.
    Closed {
        think: Span,
        /// Completions that are followed by think time once.
        every: u32,
        /// Completions since the last that was followed by it.
        answered: u32,
        idle: u32,
        /// When those in think time become ready: in order, as the think time is the same for all.
        thinking: VecDeque<Instant>,
    },
    /// Closed loop in batches: how many of `depth` are outstanding, and whether it is filling up.
    Batches {
        depth: u32,
        low: u32,
        outstanding: u32,
        filling: bool,
    },
    /// The next arrival.
    Even { interval: Span, next: Instant },
    /// The next arrival.
    Poisson { interval: Span, next: Instant },
}

/// When the next request is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Due {
    /// It has been due since then.
    Since(Instant),
    /// It is due at this time.
    At(Instant),
    /// It is due after a completion.
    AfterCompletion,
}

impl Pace {
    pub(crate) fn new(program: &Program, rng: &mut Rng) -> Self {
        let start = Instant::ZERO + program.start;
        match program.arrival {
            Arrival::Closed { think } => {
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
        }
    }

    /// Requests come whatever the answers.
    pub(crate) fn is_open(&self) -> bool {
        !matches!(self, Self::Closed { .. } | Self::Batches { .. })
    }

    /// When the next request is due.
    #[inline]
    pub(crate) fn due(&self, now: Instant) -> Due {
        match self {
            Self::Closed { idle, thinking, .. } => match thinking.front() {
                _ if *idle > 0 => Due::Since(now),
                None => Due::AfterCompletion,
                Some(&at) if at > now => Due::At(at),
                Some(_) => Due::Since(now),
            },
            Self::Batches { filling: true, .. } => Due::Since(now),
            Self::Batches { .. } => Due::AfterCompletion,
            Self::Even { next, .. } | Self::Poisson { next, .. } if *next > now => Due::At(*next),
            Self::Even { next, .. } | Self::Poisson { next, .. } => Due::Since(*next),
        }
    }

    /// A closed loop without think time, with a request to be issued.
    #[inline]
    pub(crate) fn is_prompt(&self) -> bool {
        matches!(self, Self::Closed { think: Span::ZERO, idle, .. } if *idle > 0)
    }

    /// `count` requests of a prompt loop were issued and answered, one after the other.
    pub(crate) fn answered_promptly(&mut self, count: u64) {
        if let Self::Closed {
            every, answered, ..
        } = self
        {
            *answered = ((u64::from(*answered) + count) % u64::from(*every)) as u32;
        }
    }

    /// How many requests of an open loop are due by `at`, those that were issued not counted.
    pub(crate) fn waiting(&self, at: Instant) -> u64 {
        match *self {
            Self::Even { interval, next } | Self::Poisson { interval, next } if next <= at => {
                at.since(next).as_nanos() / interval.as_nanos().max(1) + 1
            }
            _ => 0,
        }
    }

    /// The request that was due has been issued.
    #[inline]
    pub(crate) fn issued(&mut self, rng: &mut Rng) {
        match self {
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
        }
    }

    /// A request completed.
    #[inline]
    pub(crate) fn answered(&mut self, now: Instant) {
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
                *filling = *filling || *outstanding <= *low;
            }
            Self::Even { .. } | Self::Poisson { .. } => {}
        }
    }
}

/// An exponentially distributed span with this mean.
fn exponential(mean: Span, rng: &mut Rng) -> Span {
    let scaled = u128::from(mean.as_nanos()) * u128::from(rng.exponential());
    Span::from_nanos((scaled >> 32) as u64)
}
