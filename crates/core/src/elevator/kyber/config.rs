//! Tunables of `kyber`: Linux's names and defaults.

use crate::Span;
use crate::tunable::{MS, Unit, tunables};

tunables! {
    /// Tunables of `kyber`.
    pub struct Config {
        read_lat_nsec: Span, Unit::Time, [0, u64::MAX], 2 * MS,
            "Reads are to be done within this time. Where what is in the drive takes longer, others get fewer places there.",
            "block/kyber-iosched.c: read_lat_nsec, kyber_latency_targets";
        write_lat_nsec: Span, Unit::Time, [0, u64::MAX], 10 * MS,
            "Writes are to be done within this time. Where what is in the drive takes longer, others get fewer places there.",
            "block/kyber-iosched.c: write_lat_nsec, kyber_latency_targets";
    }
}
