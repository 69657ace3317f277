//! Audits the space for requests: accepted requests fit, requests are refused for a true reason,
//! and a stream can use the requests that are reserved for it.

use crate::audit::auditor::{Auditor, Fact};
use crate::audit::found::Violations;
use crate::audit::model::{LayerModel, StreamState};
use weir_core::{Op, Reject, Request};

/// The auditor of accepted and refused requests, see the module's documentation.
#[derive(Debug, Default)]
pub struct RoomAuditor {}

impl Auditor for RoomAuditor {
    const NAME: &'static str = "room";

    #[inline]
    fn fact(&mut self, model: &LayerModel, fact: &Fact<'_>, found: &mut Violations) {
        match *fact {
            Fact::Accepted(slot) => {
                let request = &model.request(slot).request;
                // The model already has the request, so the check leaves one request of the stream
                // out.
                let reason = refusal(model, request, 1);
                if let Some(reason) = reason {
                    found.add(format_args!("accepted despite {reason:?}: {request:?}"));
                }
            }
            Fact::Refused(request, reason) => {
                let expected = refusal(model, request, 0);
                if expected != Some(reason) {
                    let text =
                        format_args!("refused for {reason:?}, not {expected:?}: {request:?}");
                    found.add(text);
                }
            }
            Fact::Opened(id, _)
                if id.slot() >= model.config.sizes.streams
                    || model.in_slot(id.slot()).is_some() =>
            {
                found.add(format_args!("{id:?} takes a place that is in use"));
            }
            _ => {}
        }
    }
}

/// Returns the reason why the request cannot be accepted, or `None` if it can. `counted` is 1 if
/// the stream's live requests include the request itself.
#[inline]
fn refusal(model: &LayerModel, request: &Request, counted: u32) -> Option<Reject> {
    let sizes = &model.config.sizes;
    let Some(stream) = model
        .stream(request.stream)
        .filter(|s| s.state != StreamState::Closing)
    else {
        return Some(Reject::UnknownStream);
    };
    let Some(size) = model
        .spaces
        .get(request.space.0 as usize)
        .and_then(|s| s.size)
    else {
        return Some(Reject::UnknownSpace);
    };
    // A flush has no range, and all other operations have one.
    let empty = request.length == 0 && (request.op != Op::Flush || request.offset == 0);
    if (request.op == Op::Flush) != empty {
        return Some(Reject::BadLength);
    }
    if u128::from(request.offset) + u128::from(request.length) > u128::from(size) {
        return Some(Reject::OutOfRange);
    }
    // The checks below are in the order in which the layer refuses.
    let live = stream.live - counted;
    if live >= sizes.per_stream {
        return Some(Reject::StreamFull);
    }
    let shared = model.shared - u32::from(counted > 0 && stream.live > sizes.reserved);
    // A stream can always use its reservation. Beyond that, it shares the rest with all others.
    let full = live >= sizes.reserved && shared >= sizes.requests - sizes.streams * sizes.reserved;
    full.then_some(Reject::Full)
}
