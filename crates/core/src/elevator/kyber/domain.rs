//! Domains: the kinds of requests with separate limits, and their depths and batch sizes (Linux:
//! `kyber_sched_domain`, `kyber_depth`, `kyber_batch_size`).

use crate::request::Op;
use crate::sample::Domain;

/// Number of domains.
pub(super) const DOMAINS: usize = Domain::ALL.len();

/// Number of domains with a latency target: all except the last.
pub(super) const TIMED: usize = DOMAINS - 1;

/// Initial and largest number of tokens of each domain.
pub(super) const DEPTHS: [u32; DOMAINS] = [256, 128, 64, 16];

/// Number of requests of each domain that are dispatched in one turn.
pub(super) const BATCHES: [u32; DOMAINS] = [16, 8, 1, 1];

/// Returns the index of an operation's domain in [`Domain::ALL`].
pub(super) fn of(op: Op) -> usize {
    match op {
        Op::Read => 0,
        Op::Write => 1,
        Op::Discard => 2,
        Op::Flush | Op::WriteZeroes | Op::Extents => 3,
    }
}
