//! Durability: a successful flush is backed by a flush command that succeeded and that the drive began after the flush was
//! submitted, and so after every write that had completed by then. FUA and all other flags reach the drive.

use crate::auditor::{Auditor, Fact};
use crate::found::Found;
use crate::model::Model;
use weir_core::{Config, Op, Outcome};

/// A space: its flush command in the drive, and what its last successful one covered.
#[derive(Clone, Copy, Debug, Default)]
struct Space {
    /// When the command in the drive began, as a sequence number of the model.
    running: u64,
    /// Everything submitted before this is durable if it had completed by then.
    covered: u64,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Durability {
    spaces: Vec<Space>,
}

impl Durability {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            spaces: vec![Space::default(); config.limits.spaces as usize],
        }
    }
}

impl Auditor for Durability {
    const NAME: &'static str = "durability";

    #[inline]
    fn fact(&mut self, model: &Model, fact: &Fact<'_>, found: &mut Found) {
        match *fact {
            Fact::Dispatched {
                slot,
                piece,
                again: false,
            } => {
                if let Some(live) = slot.map(|s| model.request(s))
                    && piece.flags != live.request.flags
                {
                    let wanted = live.request.flags;
                    found.add(
                        Self::NAME,
                        format_args!("flags {:?}, not {wanted:?}: {piece:?}", piece.flags),
                    );
                }
                if piece.op == Op::Flush
                    && let Some(space) = self.spaces.get_mut(piece.space.0 as usize)
                {
                    if model.spaces[piece.space.0 as usize].flushing {
                        found.add(
                            Self::NAME,
                            format_args!("two flush commands of one space at once: {piece:?}"),
                        );
                    }
                    space.running = model.sequence;
                }
            }
            Fact::Returned(completion, Some(flight)) if flight.dispatch.op == Op::Flush => {
                if completion.outcome == Some(Outcome::Ok)
                    && let Some(space) = self.spaces.get_mut(flight.dispatch.space.0 as usize)
                {
                    space.covered = space.running;
                }
            }
            Fact::Done(Some(slot), done) if done.op == Op::Flush && done.outcome == Outcome::Ok => {
                let live = model.request(slot);
                let covered = self
                    .spaces
                    .get(live.request.space.0 as usize)
                    .map_or(0, |s| s.covered);
                if covered < live.sequence {
                    found.add(
                        Self::NAME,
                        format_args!(
                            "answered without a flush command that began after it: {live:?}"
                        ),
                    );
                }
            }
            _ => {}
        }
    }
}
