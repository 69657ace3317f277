//! Flow: a stream told to pause is told to go on when its queue has drained, one that was refused for want of room is told when
//! there is some, and one on hold sends nothing.

use crate::auditor::{Auditor, Fact};
use crate::found::Found;
use crate::model::{Model, State};
use weir_core::{Config, Reject, StreamId};

#[derive(Clone, Copy, Debug, Default)]
struct Told {
    paused: bool,
    /// Refused for want of room, and owed a notice.
    starved: bool,
    /// Refused for having too much; by the end of the next poll it must have been told to pause.
    overfull: bool,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Flow {
    told: Vec<Told>,
    /// Streams to look at when the poll ends; each at most once a fact.
    touched: Vec<StreamId>,
}

impl Flow {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            told: vec![Told::default(); config.limits.streams as usize],
            touched: Vec::with_capacity(config.limits.requests as usize),
        }
    }

    fn told(&mut self, id: StreamId) -> &mut Told {
        let slot = id.slot() as usize;
        if slot >= self.told.len() {
            // A name no layer of these limits can have given; the auditor of names says so.
            self.told.resize(slot + 1, Told::default());
        }
        &mut self.told[slot]
    }

    fn notice(&mut self, model: &Model, id: StreamId, pause: bool, found: &mut Found) {
        if model.stream(id).is_none() {
            found.add(
                Self::NAME,
                format_args!("{id:?} is told something and does not exist"),
            );
        }
        let told = self.told(id);
        if pause && told.paused {
            found.add(Self::NAME, format_args!("{id:?} is told to pause twice"));
        }
        told.paused = pause;
        told.starved &= pause;
        if pause {
            self.touched.push(id);
        }
    }

    /// At the end of a poll: who has nothing left is not paused, who has too much is.
    fn check(&mut self, model: &Model, found: &mut Found) {
        for id in std::mem::take(&mut self.touched) {
            let Some(stream) = model.stream(id) else {
                continue;
            };
            let most = model.config.limits.per_stream;
            let live = stream.live;
            let told = self.told(id);
            if told.paused && live == 0 && stream.state != State::Closing {
                found.add(
                    Self::NAME,
                    format_args!("{id:?} is paused and has nothing left"),
                );
            }
            if told.overfull && !told.paused && live >= most {
                found.add(
                    Self::NAME,
                    format_args!("{id:?} is full and was not told to pause"),
                );
            }
            told.overfull = false;
        }
    }
}

impl Auditor for Flow {
    const NAME: &'static str = "flow";

    #[inline]
    fn fact(&mut self, model: &Model, fact: &Fact<'_>, found: &mut Found) {
        match *fact {
            Fact::Opened(id, _) => *self.told(id) = Told::default(),
            Fact::Accepted(slot) => self.told(model.request(slot).request.stream).starved = false,
            Fact::Refused(request, Reject::Full) => self.told(request.stream).starved = true,
            Fact::Refused(request, Reject::StreamFull) => {
                self.told(request.stream).overfull = true;
                self.touched.push(request.stream);
            }
            Fact::Dispatched {
                piece,
                again: false,
                ..
            } if model
                .stream(piece.stream)
                .is_some_and(|s| s.state == State::Held) =>
            {
                found.add(
                    Self::NAME,
                    format_args!("a stream on hold sends: {piece:?}"),
                );
            }
            Fact::Done(_, done) if self.told(done.stream).paused => self.touched.push(done.stream),
            Fact::Pause(id) => self.notice(model, id, true, found),
            Fact::Resume(id) => self.notice(model, id, false, found),
            Fact::Polled(..) if !self.touched.is_empty() => self.check(model, found),
            Fact::End => {
                for stream in model.streams() {
                    let Told {
                        paused, starved, ..
                    } = *self.told(stream.id);
                    if paused || starved {
                        let what = if paused { "paused" } else { "waiting for room" };
                        found.add(
                            Self::NAME,
                            format_args!("{:?} is {what} for ever", stream.id),
                        );
                    }
                }
            }
            _ => {}
        }
    }
}
