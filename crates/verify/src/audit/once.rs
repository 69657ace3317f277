//! Audits that no request is lost or completed twice. Every accepted request is done once, with the
//! waits and the outcome that it had, and each byte of a successful request was dispatched once.

use crate::audit::auditor::{Auditor, Fact};
use crate::audit::found::Violations;
use crate::audit::model::{LayerModel, LiveRequest, NIL};
use weir_core::{Dispatch, Done, Flags, Op, Outcome, Span};

/// The auditor of completeness, see the module's documentation.
#[derive(Debug, Default)]
pub struct Once {}

impl Auditor for Once {
    const NAME: &'static str = "once";

    #[inline]
    fn fact(&mut self, model: &LayerModel, fact: &Fact<'_>, found: &mut Violations) {
        match *fact {
            Fact::Dispatched(None, piece, _) => {
                found.add(format_args!(
                    "a piece of no live request is dispatched: {piece:?}"
                ));
            }
            Fact::Dispatched(Some(slot), piece, false) => {
                let live = model.request(slot);
                if let Some(fault) = fault_of_piece(model, live, piece) {
                    found.add(format_args!("{fault}: {piece:?} of {live:?}"));
                }
            }
            Fact::Merged(slot, leader) => {
                let pair = slot.zip(leader);
                let pair = pair.map(|(s, l)| (model.request(s), model.request(l)));
                let fault = match pair {
                    Some((live, command)) => wrong_merge(model, live, command),
                    None => Some("a request that is not live"),
                };
                if let Some(fault) = fault {
                    found.add(format_args!("merges {fault}: {pair:?}"));
                }
            }
            Fact::Done(None, done) => {
                found.add(format_args!("answered twice, or never accepted: {done:?}"));
            }
            Fact::Done(Some(slot), done) => {
                let live = model.request(slot);
                if let Some(fault) =
                    fault_of_answer(live, done).or_else(|| fault_of_waits(live, done))
                {
                    found.add(format_args!("{fault}: {done:?} of {live:?}"));
                }
            }
            Fact::Cancelled(slot, answer) => {
                let expected = slot.is_some_and(|s| !model.request(s).over);
                if answer != expected {
                    found.add(format_args!("cancel says {answer} for slot {slot:?}"));
                }
            }
            Fact::End => {
                for (_, live) in model.live_requests() {
                    found.add(format_args!("never answered: {live:?}"));
                }
            }
            _ => {}
        }
    }
}

#[inline]
fn fault_of_piece(
    model: &LayerModel,
    live: &LiveRequest,
    piece: &Dispatch,
) -> Option<&'static str> {
    let request = &live.request;
    // Only the leader of a command has pieces.
    if live.leader != NIL {
        return Some("a piece of a request that is part of another's command");
    }
    if (piece.stream, piece.space, piece.op) != (request.stream, request.space, request.op) {
        return Some("a piece unlike its request");
    }
    let lost = |slot: u32| model.request(slot).given_up;
    let slot = model.find(request.stream, request.cookie);
    if live.members > 1 && slot.is_some_and(|s| model.members(s).any(lost)) {
        return Some("a command with a request that was given up");
    }
    if live.given_up && live.ahead == 0 {
        return Some("a piece of a request that was given up");
    }
    if request.op == Op::Flush {
        // A flush covers its whole space, so that a range would be meaningless.
        let plain = piece.offset == 0 && piece.length == 0 && piece.within == 0;
        return (!plain).then_some("a flush with a range");
    }
    let most = match request.op {
        Op::Read | Op::Write => model.config.drive.max_transfer,
        // Commands without data are cut at 64 MiB each.
        Op::Flush | Op::Discard | Op::WriteZeroes | Op::Extents => 64 << 20,
    };
    if piece.length == 0 || piece.length > most {
        return Some("a piece that is empty or longer than the drive takes");
    }
    // A piece that is on its way is already counted in `issued`.
    let sent = live.issued - live.ahead;
    if piece.within != sent
        || piece.length > live.length - sent
        || live.ahead > 0 && piece.length != live.ahead
    {
        return Some("a piece that leaves a gap or overlaps");
    }
    (piece.offset != live.offset + u64::from(piece.within)).then_some("a piece in the wrong place")
}

/// Returns the rule that merging `live` into `command` breaks, if there is one.
fn wrong_merge(
    model: &LayerModel,
    live: &LiveRequest,
    command: &LiveRequest,
) -> Option<&'static str> {
    let (a, b) = (&live.request, &command.request);
    // The flag `SYNC` affects scheduling only, so that requests may differ in it.
    let plain = |flags: Flags| flags.with(Flags::SYNC);
    let end = |l: &LiveRequest| l.offset + u64::from(l.length);
    let moves = matches!(a.op, Op::Read | Op::Write | Op::Discard);
    let most = match a.op {
        Op::Read | Op::Write => model.config.drive.max_transfer,
        _ => 64 << 20,
    };
    let rules = [
        (model.config.merge.is_on(), "where nothing is to be merged"),
        (a.op == b.op && moves, "different operations"),
        (a.space == b.space, "across spaces"),
        (live.group == command.group, "across groups"),
        (
            plain(a.flags) == plain(b.flags) && !a.flags.has(Flags::FUA),
            "different flags",
        ),
        (
            live.leader == NIL && command.leader == NIL,
            "what is part of another command",
        ),
        (!live.given_up && !command.given_up, "what was given up"),
        (live.issued == 0 && command.issued == 0, "what was sent"),
        (
            end(live) == command.offset || end(command) == live.offset,
            "what does not lie side by side",
        ),
        (
            live.length.saturating_add(command.length) <= most,
            "more than the drive takes at once",
        ),
        (
            live.members + command.members <= model.config.merge.max_segments.into(),
            "more than there may be segments",
        ),
    ];
    rules.into_iter().find(|r| !r.0).map(|r| r.1)
}

#[inline]
fn fault_of_answer(live: &LiveRequest, done: &Done) -> Option<&'static str> {
    let request = &live.request;
    if (done.op, done.length, done.submitted) != (request.op, request.length, live.submitted) {
        return Some("an answer unlike its request");
    }
    if live.pieces > 0 {
        return Some("answered while a piece of it is in the drive");
    }
    if !live.over {
        return Some("answered before it was over");
    }
    let expected = live.failure.unwrap_or(Outcome::Ok);
    (done.outcome != expected).then_some("answered otherwise than the drive did")
}

#[inline]
fn fault_of_waits(live: &LiveRequest, done: &Done) -> Option<&'static str> {
    let waits = done.waits;
    // The three waits divide the time of a request without gap or overlap.
    if live.submitted + (waits.limit + waits.elevator + waits.drive) != live.ended {
        return Some("the waits do not add up to the whole time");
    }
    let in_drive = live
        .dispatched
        .map_or(Span::ZERO, |at| live.ended.since(at));
    if waits.drive != in_drive {
        return Some(
            "the wait in the drive is not from the first piece's dispatch to the last one's return",
        );
    }
    let held_until = if live.throttled {
        live.ended
    } else {
        live.released_at
    };
    if live.released
        // The end of the wait for limits is not visible if the request returned to a controller, or
        // if its stream was on hold.
        && !live.was_held
        && !live.was_parted
        && !live.in_stalled_space
        && waits.limit != held_until.since(live.submitted)
    {
        return Some("the wait for limits is not from submission to release");
    }
    None
}
