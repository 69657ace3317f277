//! What an auditor is told.

use crate::found::Found;
use crate::model::{Flight, Model};
use weir_core::record::Call;
use weir_core::{
    Completion, Dispatch, Done, Edit, Event, Promised, Refusal, Reject, Request, StreamId,
    StreamSpec, Wake,
};

/// Something that happened, and what the model made of its names.
///
/// Unless it says otherwise, an auditor is told *before* the model takes the fact in, so that it can hold what happens against
/// what was.
#[derive(Clone, Copy, Debug)]
pub enum Fact<'a> {
    /// A call begins.
    Begin(&'a Call<'a>),
    /// A stream was opened, with this.
    Opened(StreamId, StreamSpec),
    /// A stream that is open or draining was closed.
    Closed(StreamId),
    /// A stream that is open or draining was put on hold, or the hold was lifted.
    Held(StreamId, bool),
    /// [`Layer::cancel`](weir_core::Layer::cancel): the request meant, if there is one, and the answer.
    Cancelled(Option<u32>, bool),
    /// A request was accepted; the model has it already, in this slot.
    Accepted(u32),
    /// A request was refused.
    Refused(&'a Request, Reject),
    /// A tag came back; `None` if none such is in flight.
    Returned(&'a Completion, Option<&'a Flight>),
    /// A change was asked for; if it was accepted, the model has it already.
    Changed(&'a [Edit], &'a Result<Promised, Refusal>),
    /// A request passed its limits, charged with so many bytes.
    Released(Option<u32>, u32),
    /// Another event.
    Event(&'a Event),
    /// A piece goes to the drive, for the first time or once more after the drive was busy.
    Dispatched {
        /// The request's slot, if there is such a request.
        slot: Option<u32>,
        /// The piece.
        piece: &'a Dispatch,
        /// The drive has sent this very piece back as busy.
        again: bool,
    },
    /// A request is answered.
    Done(Option<u32>, &'a Done),
    /// A stream is told to pause.
    Pause(StreamId),
    /// A stream is told to go on.
    Resume(StreamId),
    /// A poll ends; the model has all of it. So many outputs were given.
    Polled(usize, Option<Wake>),
    /// Nothing more happens: whatever was in the drive has come back, no stream is on hold, and the layer was polled as often as it
    /// asked for.
    End,
}

/// An independent opinion on one thing that the layer promises.
pub trait Auditor {
    /// Its name: what a mutant names as the one to notice it.
    const NAME: &'static str;

    /// Takes one fact in and says what is wrong with it.
    fn fact(&mut self, model: &Model, fact: &Fact<'_>, found: &mut Found);
}
