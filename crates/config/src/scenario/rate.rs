//! Arrivals of clients that have a rate for reads and one for writes.

use weir_core::Span;
use weir_model::load::Arrival;

/// Returns the arrival of a client whose reads and writes have these intervals. `None` means no
/// limit. `writes` is the percentage of writes, and an interval for requests that the client does
/// not have is ignored. Returns `None` if no interval applies.
pub(super) fn limited(intervals: [Option<Span>; 2], writes: u8, poisson: bool) -> Option<Arrival> {
    let one = match (writes, intervals) {
        (0, [one, _]) | (100, [_, one]) => one,
        (_, [None, None]) => None,
        (_, [reads, writes]) => {
            return Some(Arrival::Apart {
                reads,
                writes,
                poisson,
            });
        }
    };
    one.map(|interval| {
        if poisson {
            Arrival::Poisson { interval }
        } else {
            Arrival::Even { interval }
        }
    })
}
