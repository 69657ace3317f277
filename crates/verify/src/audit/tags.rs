//! Audits tags: a tag is not used again before its piece has completed, and no queue gets more
//! pieces than it has tags.

use crate::audit::auditor::{Auditor, Fact};
use crate::audit::found::Violations;
use crate::audit::model::LayerModel;
use weir_core::Dispatch;

/// The auditor of tags, see the module's documentation.
#[derive(Debug, Default)]
pub struct Tags {}

impl Auditor for Tags {
    const NAME: &'static str = "tags";

    #[inline]
    fn fact(&mut self, model: &LayerModel, fact: &Fact<'_>, found: &mut Violations) {
        match *fact {
            Fact::Dispatched(_, piece, again) => {
                if let Some(fault) = fault(model, piece, again) {
                    found.add(format_args!("{fault}: {piece:?}"));
                }
            }
            Fact::End if model.in_flight + model.stalled > 0 => {
                let out = model.in_flight + model.stalled;
                found.add(format_args!("{out} tags are still out"));
            }
            _ => {}
        }
    }
}

#[inline]
fn fault(model: &LayerModel, piece: &Dispatch, again: bool) -> Option<&'static str> {
    let drive = &model.config.drive;
    let Some(place) = model.tags.get(piece.tag.0 as usize) else {
        return Some("a tag beyond the drive's");
    };
    if place.is_some() && !again {
        return Some("a tag that is still out");
    }
    if again {
        return None;
    }
    if model.config.sizes.stalled > 0 {
        // The tag of a stalled piece is replaced by another one, so that a tag does not tell its
        // queue. Only the number of pieces is checked.
        let queue = model.queues.get(usize::from(piece.queue.0));
        let full = queue.is_none_or(|queue| queue.in_flight >= drive.tags.into());
        return full.then_some("more pieces than the queue has tags");
    }
    // Each queue has its own range of tags, so no queue can have more than their number in flight.
    let queue = piece.tag.0 / u32::from(drive.tags);
    (queue != u32::from(piece.queue.0)).then_some("a tag of another queue")
}
