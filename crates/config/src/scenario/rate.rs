//! Rates of reads and of writes.

use weir_core::Span;
use weir_model::load::Arrival;

/// The arrival of a client whose reads and writes have these intervals, of which the others have none. `writes`: its writes in a hundred
/// requests. `None` if nothing that it does has an interval.
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
