//! Audits starvation: no stream with something to send waits longer than a stated bound while
//! others are served.

use crate::audit::auditor::{Auditor, Fact};
use crate::audit::found::Violations;
use crate::audit::model::LayerModel;
use weir_core::{Instant, Span};

/// The auditor of starvation, see the module's documentation.
#[derive(Debug)]
pub struct Starvation {
    bound: Span,
    /// The start of each stream's wait: it has had something to send since then, or was last served
    /// then.
    since: Vec<Option<Instant>>,
    longest: Span,
}

impl Starvation {
    /// Checks an elevator that promises to serve every stream within `bound`.
    pub fn new(model: &LayerModel, bound: Span) -> Self {
        Self {
            bound,
            since: vec![None; model.config.sizes.streams as usize],
            longest: Span::ZERO,
        }
    }

    /// Returns the longest time that a stream waited.
    pub fn longest(&self) -> Span {
        self.longest
    }
}

impl Auditor for Starvation {
    const NAME: &'static str = "starvation";

    fn fact(&mut self, model: &LayerModel, fact: &Fact<'_>, found: &mut Violations) {
        match *fact {
            Fact::Dispatched(_, piece, _) => self.since[piece.stream.slot() as usize] = None,
            Fact::Polled(..) => {
                for stream in model.streams() {
                    let since = &mut self.since[stream.id.slot() as usize];
                    if stream.sendable == 0 {
                        *since = None;
                        continue;
                    }
                    let waited = model.now.since(*since.get_or_insert(model.now));
                    self.longest = self.longest.max(waited);
                    if waited > self.bound {
                        *since = Some(model.now);
                        found.add(format_args!("{:?} has waited for {waited:?}", stream.id));
                    }
                }
            }
            _ => {}
        }
    }
}
