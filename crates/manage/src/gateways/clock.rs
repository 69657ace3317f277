//! The clock by which leases are counted: no step of the time of day moves it, and it goes on while the machine is suspended.

use rustix::time::{ClockId, clock_gettime};
use weir_core::Instant;

/// Since the machine was started (`CLOCK_BOOTTIME`).
pub(super) fn now() -> Instant {
    let time = clock_gettime(ClockId::Boottime);
    let (seconds, ns) = (time.tv_sec.cast_unsigned(), time.tv_nsec.cast_unsigned());
    Instant::from_nanos(seconds * 1_000_000_000 + ns)
}
