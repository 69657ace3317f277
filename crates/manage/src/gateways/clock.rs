//! The clock of leases. Setting the time of day does not affect it, and it continues while the
//! machine is suspended.

use rustix::time::{ClockId, clock_gettime};
use weir_core::Instant;

/// Returns the time since the start of the machine (`CLOCK_BOOTTIME`).
pub(super) fn now() -> Instant {
    let time = clock_gettime(ClockId::Boottime);
    let (seconds, ns) = (time.tv_sec.cast_unsigned(), time.tv_nsec.cast_unsigned());
    Instant::from_nanos(seconds * 1_000_000_000 + ns)
}
