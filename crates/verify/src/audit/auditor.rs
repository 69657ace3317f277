//! What auditors are told.

use crate::audit::found::Found;
use crate::audit::model::{Flight, Model};
use weir_core::record::Call;
use weir_core::{
    Completion, Dispatch, Done, Edit, Event, Promised, Refusal, Reject, Request, SpaceId, StreamId,
    StreamSpec, Wake,
};

/// An event, with the names resolved by the model.
///
/// Unless stated otherwise, an auditor is told *before* the model is updated, so that it can compare the event with the state
/// before it.
#[derive(Clone, Copy, Debug)]
pub enum Fact<'a> {
    /// A call begins.
    Begin(&'a Call<'a>),
    /// A stream was opened, with these parameters.
    Opened(StreamId, StreamSpec),
    /// A stream that is open or draining was closed.
    Closed(StreamId),
    /// A stream that is open or draining was put on hold, or the hold was lifted.
    Held(StreamId, bool),
    /// [`Layer::cancel`](weir_core::Layer::cancel): the request, if it exists, and the result.
    Cancelled(Option<u32>, bool),
    /// A request was accepted; the model already has it, in this slot.
    Accepted(u32),
    /// A request was refused.
    Refused(&'a Request, Reject),
    /// A tag was completed; `None` if it was not in flight.
    Returned(&'a Completion, Option<&'a Flight>),
    /// [`Layer::stall`](weir_core::Layer::stall): which space, and the result.
    Stalled(SpaceId, bool),
    /// A change was requested; if it was accepted, the model has already applied it.
    Changed(&'a [Edit], &'a Result<Promised, Refusal>),
    /// A request, with those merged into it, was merged into another.
    Merged(Option<u32>, Option<u32>),
    /// Those merged into this request are for themselves again.
    Parted(Option<u32>),
    /// The next piece of a request, of this length in bytes, is on its way to the drive and has no tag yet.
    Taken(Option<u32>, u32),
    /// A request passed its limits and was charged this many bytes.
    Released(Option<u32>, u64),
    /// Another event.
    Event(&'a Event),
    /// A piece is dispatched: of which request, if there is such a request, and whether the drive
    /// has returned it as busy before.
    Dispatched(Option<u32>, &'a Dispatch, bool),
    /// A request is done.
    Done(Option<u32>, &'a Done),
    /// A stream is paused.
    Pause(StreamId),
    /// A stream is resumed.
    Resume(StreamId),
    /// A poll ends; the model has processed all of it. It gave this many outputs.
    Polled(usize, Option<Wake>),
    /// Nothing more happens: everything in the drive has completed, no stream is on hold, and the layer was polled as often as it
    /// asked for.
    End,
}

/// An independent check of one promise of the layer.
pub trait Auditor {
    /// Its name, by which the patch of a planted bug names the auditor that must notice it.
    const NAME: &'static str;

    /// Processes one fact and reports violations.
    fn fact(&mut self, model: &Model, fact: &Fact<'_>, found: &mut Found);
}
