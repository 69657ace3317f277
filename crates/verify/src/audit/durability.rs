//! Audits durability. A successful flush is backed by a flush command that succeeded and that the
//! drive began after the flush was submitted, and therefore after every write that had completed by
//! then. FUA and all other flags reach the drive.

use crate::audit::auditor::{Auditor, Fact};
use crate::audit::found::Violations;
use crate::audit::model::{Lanes, LayerModel};
use weir_core::{Config, Op, Outcome};

/// The state of a space in one hardware queue: its flush command in the drive, and the requests
/// that its last successful one covered.
#[derive(Clone, Copy, Debug, Default)]
struct LaneCoverage {
    /// The sequence number of the model at which the command in the drive began.
    running: u64,
    /// The sequence number up to which requests are durable. It covers those submitted before it
    /// that had completed when the flush command began.
    covered: u64,
}

/// The auditor of flushes and FUA, see the module's documentation.
#[derive(Debug)]
pub struct Durability {
    lanes: Vec<LaneCoverage>,
}

impl Durability {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            lanes: vec![LaneCoverage::default(); Lanes::new(config).count()],
        }
    }
}

impl Auditor for Durability {
    const NAME: &'static str = "durability";

    #[inline]
    fn fact(&mut self, model: &LayerModel, fact: &Fact<'_>, found: &mut Violations) {
        match *fact {
            Fact::Dispatched(slot, piece, false) => {
                if let Some(live) = slot.map(|s| model.request(s))
                    && piece.flags != live.request.flags
                {
                    let wanted = live.request.flags;
                    found.add(format_args!(
                        "flags {:?}, not {wanted:?}: {piece:?}",
                        piece.flags
                    ));
                }
                // A flush covers the requests of its own space and hardware queue, so that each
                // lane is tracked alone.
                if piece.op == Op::Flush
                    && let at = model.layout.lane(piece.space, piece.stream)
                    && let Some(lane) = self.lanes.get_mut(at)
                {
                    if model.lanes[at].flushing {
                        found.add(format_args!(
                            "two flush commands of one space and queue at once: {piece:?}"
                        ));
                    }
                    lane.running = model.sequence;
                }
            }
            Fact::Returned(completion, Some(flight)) if flight.dispatch.op == Op::Flush => {
                let at = (model.layout).lane(flight.dispatch.space, flight.dispatch.stream);
                // A failed flush command makes nothing durable.
                if completion.outcome == Some(Outcome::Ok)
                    && let Some(lane) = self.lanes.get_mut(at)
                {
                    // Only requests that were submitted before the command began are covered, not
                    // those during it.
                    lane.covered = lane.running;
                }
            }
            Fact::Done(Some(slot), done) if done.op == Op::Flush && done.outcome == Outcome::Ok => {
                let live = model.request(slot);
                let at = model.layout.lane(live.request.space, live.request.stream);
                let covered = self.lanes.get(at).map_or(0, |lane| lane.covered);
                // The sequence number orders the submission of this flush and the beginning of the
                // command.
                if covered < live.sequence {
                    found.add(format_args!(
                        "answered without a flush command that began after it: {live:?}"
                    ));
                }
            }
            _ => {}
        }
    }
}
