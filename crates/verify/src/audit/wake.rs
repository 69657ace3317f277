//! Wake-ups: due events happen when the layer said they would, not before, and not never.

use crate::audit::auditor::{Auditor, Fact};
use crate::audit::found::Found;
use crate::audit::model::{Model, State};
use weir_core::record::Call;
use weir_core::{Instant, Reason, Wake};

/// What the last poll returned, until something else is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Said {
    /// Something was called, or nothing has been polled yet: anything may be due.
    Anything,
    /// Nothing is due before then.
    Until(Instant),
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Wakes {
    said: Said,
    /// The current poll repeats the last one, before its time.
    early: bool,
    /// The current poll gave an answer.
    answered: bool,
    /// The current poll sent something to the drive.
    sent: bool,
}

impl Wakes {
    pub(crate) fn new() -> Self {
        Self {
            said: Said::Anything,
            early: false,
            answered: false,
            sent: false,
        }
    }

    fn polled(&mut self, model: &Model, outputs: usize, wake: Option<Wake>, found: &mut Found) {
        if let Some(wake) = wake
            && wake.at <= model.now
            && !self.is_after_answers(model, wake)
        {
            found.add(format_args!("{wake:?} is not in the future"));
        }
        if self.early && outputs > 0 && !may_change_its_mind(model) {
            let Said::Until(at) = self.said else { return };
            found.add(format_args!(
                "{outputs} outputs were due before {at:?} as it said"
            ));
        }
        // What the drive returned as busy is not in it, although it keeps its tags.
        if wake.is_none() && model.in_flight + model.stalled == model.busy && has_work(model) {
            found.add(format_args!(
                "requests wait, nothing is in the drive, and no wake is asked for"
            ));
        }
        self.said = Said::Until(wake.map_or(Instant::MAX, |w| w.at));
    }

    /// The one wake that is due at once: after answers, with nothing sent, so that what they bring is chosen from as well. Each request is
    /// answered once, so this ends.
    fn is_after_answers(&self, model: &Model, wake: Wake) -> bool {
        let first = model.config.merge.ahead && self.answered && !self.sent;
        wake.reason == Reason::Answers && wake.at == model.now && first
    }
}

impl Auditor for Wakes {
    const NAME: &'static str = "wake";

    #[inline]
    fn fact(&mut self, model: &Model, fact: &Fact<'_>, found: &mut Found) {
        match *fact {
            Fact::Begin(call) => {
                (self.answered, self.sent) = (false, false);
                if matches!(call, Call::Poll { .. }) {
                    self.early = matches!(self.said, Said::Until(at) if model.now < at);
                } else {
                    self.said = Said::Anything;
                }
            }
            Fact::Done(..) => self.answered = true,
            Fact::Dispatched(_, _, _) => self.sent = true,
            Fact::Polled(outputs, wake) => self.polled(model, outputs, wake, found),
            _ => {}
        }
    }
}

/// Some elevators, with something in the drive, decide by the time that has passed; they are asked again at the next completion.
fn may_change_its_mind(model: &Model) -> bool {
    model.config.elevator.kind().by_time && model.in_flight > 0
}

/// Whether there is a live request that is not on hold.
fn has_work(model: &Model) -> bool {
    model.live > 0
        && model
            .streams()
            .any(|s| s.live > 0 && s.state != State::Held)
}
