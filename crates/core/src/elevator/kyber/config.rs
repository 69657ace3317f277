//! Tunables of `kyber`: Linux's names and defaults.

use crate::Span;
use crate::tunable::{MS, TunableUnit, tunables};

tunables! {
    /// Tunables of the elevator `kyber`.
    pub struct Config {
        read_lat_nsec: Span, TunableUnit::Time, [0, u64::MAX], 2 * MS,
            "The latency target of reads. While the drive takes longer for reads, other requests get fewer places in the drive.",
            "block/kyber-iosched.c: read_lat_nsec, kyber_latency_targets";
        write_lat_nsec: Span, TunableUnit::Time, [0, u64::MAX], 10 * MS,
            "The latency target of writes. While the drive takes longer for writes, other requests get fewer places in the drive.",
            "block/kyber-iosched.c: write_lat_nsec, kyber_latency_targets";
    }
}
