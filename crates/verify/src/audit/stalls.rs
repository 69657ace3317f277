//! Audits stalled spaces. The layer accepts a stall if the space can stall. Until a piece of the
//! space completes, the space gets one request for each time that it stalls, up to four.

use crate::audit::auditor::{Auditor, Fact};
use crate::audit::found::Violations;
use crate::audit::model::LayerModel;
use weir_core::{Config, Edit, Op, SpaceId};

/// The maximum number of requests that a space gets while it answers none.
const PROBES: u32 = 4;

/// The state of a space since its last completion.
#[derive(Clone, Copy, Debug, Default)]
struct SpaceSilence {
    /// The number of times that the space has stalled.
    stalls: u32,
    /// The number of requests that have begun since the first stall.
    begun: u32,
}

/// The auditor of stalled spaces, see the module's documentation.
#[derive(Debug)]
pub struct StallsAuditor {
    spaces: Vec<SpaceSilence>,
}

impl StallsAuditor {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            spaces: vec![SpaceSilence::default(); config.sizes.spaces as usize],
        }
    }

    fn of(&mut self, space: SpaceId) -> Option<&mut SpaceSilence> {
        self.spaces.get_mut(space.0 as usize)
    }
}

impl Auditor for StallsAuditor {
    const NAME: &'static str = "stalls";

    #[inline]
    fn fact(&mut self, model: &LayerModel, fact: &Fact<'_>, found: &mut Violations) {
        match *fact {
            Fact::Stalled(space, answer) => {
                if answer != model.can_stall(space) {
                    let says = format_args!("stall says {answer} of space {}", space.0);
                    found.add(says);
                }
                if let Some(silence) = self.of(space).filter(|_| answer) {
                    silence.stalls += 1;
                }
            }
            Fact::Dispatched(Some(slot), piece, false)
                if piece.op != Op::Flush && model.request(slot).pieces == 0 =>
            {
                let Some(silence) = self.of(piece.space).filter(|s| s.stalls > 0) else {
                    return;
                };
                silence.begun += 1;
                if silence.begun > silence.stalls.min(PROBES) {
                    let text = format_args!("{silence:?} in space {}: {piece:?}", piece.space.0);
                    found.add(text);
                }
            }
            Fact::Returned(completion, Some(flight)) if completion.outcome.is_some() => {
                if let Some(silence) = self.of(flight.dispatch.space) {
                    *silence = SpaceSilence::default();
                }
            }
            Fact::Changed(edits, Ok(_)) => {
                for edit in edits {
                    if let Edit::SetSpace { id, size: None } = *edit
                        && let Some(silence) = self.of(id)
                    {
                        *silence = SpaceSilence::default();
                    }
                }
            }
            _ => {}
        }
    }
}
