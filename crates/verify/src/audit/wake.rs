//! Audits wake-ups: due events happen at the time that the layer stated, neither earlier nor later.

use crate::audit::auditor::{Auditor, Fact};
use crate::audit::found::Violations;
use crate::audit::model::{LayerModel, StreamState};
use weir_core::record::Call;
use weir_core::{Instant, Reason, Wake};

/// The wake-up that the last poll returned, until another call is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum StatedWake {
    /// A call was made, or no poll yet, so that anything may be due.
    Anything,
    /// The layer stated that no event is due before this time.
    Until(Instant),
}

/// The auditor of wake-ups, see the module's documentation.
#[derive(Debug)]
pub struct WakesAuditor {
    said: StatedWake,
    /// True if the current poll repeats the last one before its wake-up.
    early: bool,
    /// True if the current poll completed a request.
    answered: bool,
    /// True if the current poll dispatched a piece.
    sent: bool,
}

impl WakesAuditor {
    pub(crate) fn new() -> Self {
        Self {
            said: StatedWake::Anything,
            early: false,
            answered: false,
            sent: false,
        }
    }

    fn polled(
        &mut self,
        model: &LayerModel,
        outputs: usize,
        wake: Option<Wake>,
        found: &mut Violations,
    ) {
        if let Some(wake) = wake
            && wake.at <= model.now
            && !self.is_after_answers(model, wake)
        {
            found.add(format_args!("{wake:?} is not in the future"));
        }
        if self.early && outputs > 0 && !decides_by_time(model) {
            let StatedWake::Until(at) = self.said else {
                return;
            };
            found.add(format_args!(
                "{outputs} outputs were due before {at:?} as it said"
            ));
        }
        // A piece that the drive returned as busy is not in the drive, although it keeps its tag.
        if wake.is_none() && model.in_flight + model.stalled == model.busy && has_work(model) {
            found.add(format_args!(
                "requests wait, nothing is in the drive, and no wake is asked for"
            ));
        }
        self.said = StatedWake::Until(wake.map_or(Instant::MAX, |w| w.at));
    }

    /// Returns true for the one wake-up that may be due at once. It follows completions in a poll
    /// that dispatched nothing, so that the requests that clients send in response can be selected
    /// as well. Each request is completed once, so this ends.
    fn is_after_answers(&self, model: &LayerModel, wake: Wake) -> bool {
        let first = model.config.merge.ahead && self.answered && !self.sent;
        wake.reason == Reason::Answers && wake.at == model.now && first
    }
}

impl Auditor for WakesAuditor {
    const NAME: &'static str = "wake";

    #[inline]
    fn fact(&mut self, model: &LayerModel, fact: &Fact<'_>, found: &mut Violations) {
        match *fact {
            Fact::Begin(call) => {
                (self.answered, self.sent) = (false, false);
                if matches!(call, Call::Poll { .. }) {
                    // An early poll repeats the last one, so that its outputs must be the same:
                    // none.
                    self.early = matches!(self.said, StatedWake::Until(at) if model.now < at);
                } else {
                    // Every other call may make something due at once.
                    self.said = StatedWake::Anything;
                }
            }
            Fact::Done(..) => self.answered = true,
            Fact::Dispatched(_, _, _) => self.sent = true,
            Fact::Polled(outputs, wake) => self.polled(model, outputs, wake, found),
            _ => {}
        }
    }
}

/// Returns true if the elevator may decide differently because time has passed. Some elevators do
/// so while pieces are in flight, and they decide again at the next completion.
fn decides_by_time(model: &LayerModel) -> bool {
    model.config.elevator.kind().by_time && model.in_flight > 0
}

/// Returns true if there is a live request whose stream is not on hold.
fn has_work(model: &LayerModel) -> bool {
    model.live > 0
        && model
            .streams()
            .any(|s| s.live > 0 && s.state != StreamState::Held)
}
