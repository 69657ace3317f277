//! The kinds of requests that are limited apart, and what each may have (Linux: `kyber_sched_domain`, `kyber_depth`,
//! `kyber_batch_size`).

use crate::request::Op;
use crate::sample::Domain;

/// How many domains there are.
pub(super) const DOMAINS: usize = Domain::ALL.len();

/// How many of them have a target for latency: all but the last.
pub(super) const TIMED: usize = DOMAINS - 1;

/// Places in the drive that a domain has at most, and at the beginning.
pub(super) const DEPTHS: [u32; DOMAINS] = [256, 128, 64, 16];

/// Requests of a domain that go one after the other.
pub(super) const BATCHES: [u32; DOMAINS] = [16, 8, 1, 1];

/// The place of an operation's domain in [`Domain::ALL`].
pub(super) fn of(op: Op) -> usize {
    match op {
        Op::Read => 0,
        Op::Write => 1,
        Op::Discard => 2,
        Op::Flush | Op::WriteZeroes | Op::Extents => 3,
    }
}
