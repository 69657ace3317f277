//! The interface of auditors: the facts that they receive, and the trait that they implement.

use crate::audit::found::Violations;
use crate::audit::model::{LayerModel, ModelFlight};
use weir_core::record::Call;
use weir_core::{
    Completion, Dispatch, Done, Edit, Event, PromiseSums, Refusal, Reject, Request, SpaceId,
    StreamId, StreamSpec, Wake,
};

/// A call, output or event of the layer, with its names resolved by the model.
///
/// Unless stated otherwise, an auditor receives a fact *before* the model is updated, so that it
/// can compare the fact with the previous state.
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
    /// The result of [`Layer::cancel`](weir_core::Layer::cancel): the slot of the request, if it
    /// exists, and the returned value.
    Cancelled(Option<u32>, bool),
    /// A request was accepted. The model already has it, in this slot.
    Accepted(u32),
    /// A request was refused, for the given reason.
    Refused(&'a Request, Reject),
    /// A tag was completed. The piece is `None` if the tag was not in flight.
    Returned(&'a Completion, Option<&'a ModelFlight>),
    /// The result of [`Layer::stall`](weir_core::Layer::stall): the space, and the returned value.
    Stalled(SpaceId, bool),
    /// A change was requested. If it was accepted, the model has already applied it.
    Changed(&'a [Edit], &'a Result<PromiseSums, Refusal>),
    /// A request and its members were merged into another request: the slots of both.
    Merged(Option<u32>, Option<u32>),
    /// The members of this request became requests of their own again.
    Parted(Option<u32>),
    /// The next piece of a request, of this length in bytes, is on its way to the drive. It has no
    /// tag yet.
    Taken(Option<u32>, u32),
    /// A request passed its limits and was charged this many bytes.
    Released(Option<u32>, u64),
    /// An event for which there is no variant above.
    Event(&'a Event),
    /// A piece is dispatched: the slot of its request, if there is one, the piece, and true if the
    /// drive has returned the piece as busy before.
    Dispatched(Option<u32>, &'a Dispatch, bool),
    /// A request is done.
    Done(Option<u32>, &'a Done),
    /// A stream is paused.
    Pause(StreamId),
    /// A stream is resumed.
    Resume(StreamId),
    /// A poll ends, and the model has processed all of it: the number of outputs, and the wake-up
    /// that the poll returned.
    Polled(usize, Option<Wake>),
    /// No more calls follow. Everything in the drive has completed, no stream is on hold, and the
    /// layer was polled as often as it requested.
    End,
}

/// An independent check of one rule of the layer.
pub trait Auditor {
    /// The name of the auditor. The patch of a planted bug refers by it to the auditor that must
    /// notice the bug.
    const NAME: &'static str;

    /// Processes one fact and reports violations.
    fn fact(&mut self, model: &LayerModel, fact: &Fact<'_>, found: &mut Violations);
}
