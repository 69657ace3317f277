//! Calls into a layer and what came of them.

use super::code::{Code, Input, Malformed, choices, fields, put_all, take_all, variants};
use crate::{
    Class, Completion, Contract, Dispatch, Done, Edit, Flags, GroupId, Instant, Kind, Knobs, Layer,
    LowKnobs, Max, Op, OpenError, Outcome, Output, Priority, PriorityClass, Promised, QueueId,
    Reason, Refusal, Reject, Rejected, Request, SpaceId, Span, StreamId, StreamSpec, Tag, Waits,
    Wake,
};
use alloc::vec::Vec;

/// One call into a [`Layer`]: which, with what, and what came of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call<'a> {
    /// [`Layer::open`].
    Open {
        /// What the stream was opened with.
        spec: StreamSpec,
        /// What came of it.
        result: Result<StreamId, OpenError>,
    },
    /// [`Layer::close`].
    Close {
        /// Which.
        stream: StreamId,
    },
    /// [`Layer::hold`].
    Hold {
        /// Which.
        stream: StreamId,
        /// Whether it is held from now on.
        held: bool,
    },
    /// [`Layer::cancel`].
    Cancel {
        /// Whose request.
        stream: StreamId,
        /// Which.
        cookie: u64,
        /// Whether there was such a live request.
        found: bool,
    },
    /// [`Layer::submit`].
    Submit {
        /// What was submitted.
        batch: &'a [Request],
        /// What came of it.
        result: Result<(), Rejected>,
    },
    /// [`Layer::complete`].
    Complete {
        /// What came back from the drive.
        batch: &'a [Completion],
    },
    /// [`Layer::stall`].
    Stall {
        /// Which.
        space: SpaceId,
        /// Whether there was anything to stall, and room for it.
        stalled: bool,
    },
    /// [`Layer::change`].
    Change {
        /// What was to be changed.
        edits: &'a [Edit],
        /// What came of it.
        result: Result<Promised, Refusal>,
    },
    /// No call into the layer, but what its owner [wrote](super::Recorder::append) into the record at this place. The core does not read it.
    Note {
        /// In a form that its owner knows.
        bytes: &'a [u8],
    },
    /// [`Layer::poll`].
    Poll {
        /// What was to be done.
        outputs: &'a [Output],
        /// When the layer asked to be called again.
        wake: Option<Wake>,
    },
}

impl Call<'_> {
    /// Makes the same call into `layer`. What comes of it goes to `outputs` (whose content is lost) and is returned.
    pub fn repeat<'o>(
        &'o self,
        layer: &mut Layer,
        now: Instant,
        outputs: &'o mut Vec<Output>,
    ) -> Call<'o> {
        match *self {
            Self::Open { spec, .. } => Call::Open {
                spec,
                result: layer.open(now, spec),
            },
            Self::Close { stream } => {
                layer.close(now, stream);
                Call::Close { stream }
            }
            Self::Hold { stream, held } => {
                layer.hold(now, stream, held);
                Call::Hold { stream, held }
            }
            Self::Cancel { stream, cookie, .. } => Call::Cancel {
                stream,
                cookie,
                found: layer.cancel(now, stream, cookie),
            },
            Self::Submit { batch, .. } => Call::Submit {
                batch,
                result: layer.submit(now, batch),
            },
            Self::Complete { batch } => {
                layer.complete(now, batch);
                Call::Complete { batch }
            }
            Self::Stall { space, .. } => Call::Stall {
                space,
                stalled: layer.stall(now, space),
            },
            Self::Change { edits, .. } => Call::Change {
                edits,
                result: layer.change(now, edits),
            },
            Self::Note { bytes } => Call::Note { bytes },
            Self::Poll { .. } => {
                outputs.clear();
                let wake = layer.poll(now, outputs);
                Call::Poll { outputs, wake }
            }
        }
    }
}

/// Room for what a [`Call`] borrows; used again and again.
#[derive(Debug, Default)]
pub(super) struct Room {
    requests: Vec<Request>,
    completions: Vec<Completion>,
    edits: Vec<Edit>,
    outputs: Vec<Output>,
    bytes: Vec<u8>,
}

/// The kinds of calls: the code in a frame, the name, the run of values that a [`Call`] borrows
/// from [`Room`], and the fields behind it.
macro_rules! calls {
    ($($code:literal $name:literal $call:ident { $([$run:ident: $room:ident])? $($field:ident),* })*) => {
        impl Call<'_> {
            pub(super) fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$call { $($run,)? $($field),* } => {
                        $(put_all($run, out);)?
                        $($field.put(out);)*
                    })*
                }
            }

            /// The kind's code in a frame.
            pub(super) const fn code(&self) -> u8 {
                match self { $(Self::$call { .. } => $code),* }
            }

            pub(super) const fn name(&self) -> &'static str {
                match self { $(Self::$call { .. } => $name),* }
            }
        }

        impl Room {
            /// Reads the call that `code` stands for.
            pub(super) fn take(&mut self, code: u8, input: &mut Input<'_>) -> Result<Call<'_>, Malformed> {
                Ok(match code {
                    $($code => {
                        $(take_all(&mut self.$room, input)?;)?
                        Call::$call { $($run: &self.$room,)? $($field: Code::take(input)?),* }
                    })*
                    _ => return input.malformed("a kind of call before this"),
                })
            }
        }
    };
}

calls! {
    0 "open" Open { spec, result }
    1 "close" Close { stream }
    2 "hold" Hold { stream, held }
    3 "cancel" Cancel { stream, cookie, found }
    4 "submit" Submit { [batch: requests] result }
    5 "complete" Complete { [batch: completions] }
    6 "change" Change { [edits: edits] result }
    7 "poll" Poll { [outputs: outputs] wake }
    8 "stall" Stall { space, stalled }
    9 "note" Note { [bytes: bytes] }
}

impl Code for StreamId {
    fn put(&self, out: &mut Vec<u8>) {
        self.index.put(out);
        self.generation.put(out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            index: Code::take(input)?,
            generation: Code::take(input)?,
        })
    }
}

impl Code for Flags {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(self.bits());
    }

    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        let bits = input.byte()?;
        let flags = Self::from_bits(bits);
        if flags.bits() == bits {
            Ok(flags)
        } else {
            input.malformed("known flags before this")
        }
    }
}

macro_rules! names {
    ($($type:ident)*) => {$(
        impl Code for $type {
            fn put(&self, out: &mut Vec<u8>) {
                self.0.put(out);
            }
            fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
                Ok(Self(Code::take(input)?))
            }
        }
    )*};
}
names!(GroupId SpaceId QueueId Tag);

fields! {
    StreamSpec { group, priority }
    Priority { class, level }
    Request { stream, space, op, flags, offset, length, cookie, within }
    Rejected { accepted, reason }
    Completion { tag, outcome }
    Dispatch { queue, tag, stream, cookie, space, op, flags, offset, length, within }
    Done { stream, cookie, op, length, outcome, submitted, waits }
    Waits { limit, elevator, drive }
    Wake { at, reason }
    Contract { min, min_iops, share, max, class }
    LowKnobs { read_bandwidth, write_bandwidth, read_iops, write_iops, idle, latency }
    Max { bandwidth, read_bandwidth, write_bandwidth, iops, read_iops, write_iops, iops_size, burst }
    Promised { bytes, iops, millionths }
}

/// The latency alone where nothing else is set, as in records from before there was anything else; otherwise a latency of [`Span::MAX`] says that
/// the real one and io.low follow.
impl Code for Knobs {
    fn put(&self, out: &mut Vec<u8>) {
        let Self { latency, low } = self;
        if *low != LowKnobs::NONE || *latency == Span::MAX {
            Span::MAX.put(out);
            latency.put(out);
            low.put(out);
        } else {
            latency.put(out);
        }
    }

    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        let first = Span::take(input)?;
        if first != Span::MAX {
            let latency = first;
            return Ok(Self {
                latency,
                ..Self::NONE
            });
        }
        let knobs = Self {
            latency: Code::take(input)?,
            low: Code::take(input)?,
        };
        if knobs.low == LowKnobs::NONE && knobs.latency != Span::MAX {
            return input.malformed("knobs in their one form");
        }
        Ok(knobs)
    }
}

variants! {
    Op { 0 = Read, 1 = Write, 2 = Flush, 3 = Discard, 4 = WriteZeroes, 5 = Extents } "an operation"
    PriorityClass { 0 = Realtime, 1 = BestEffort, 2 = Idle } "a priority class"
    Class { 0 = Realtime, 1 = BestEffort, 2 = Idle } "a class"
    Reason { 0 = Limit, 1 = Idling, 2 = BudgetTimeout, 3 = Latency, 4 = Retry, 5 = Flush, 6 = Cost, 7 = Answers } "a reason"
    Kind { 0 = Max, 1 = Latency, 2 = Cost, 3 = Low } "a controller"
    Reject {
        0 = Full, 1 = StreamFull, 2 = UnknownStream, 3 = UnknownSpace, 4 = OutOfRange, 5 = BadLength,
    } "a reason for refusing a request"
}

choices! {
    Outcome { 0 = Ok {}, 1 = Error { code: 0 }, 2 = Cancelled {} } "an outcome"
    Output {
        0 = Dispatch { dispatch: 0 },
        1 = Done { done: 0 },
        2 = Pause { stream: 0 },
        3 = Resume { stream: 0 },
    } "an output"
    OpenError { 0 = Full {}, 1 = NoSuchGroup { group: 0 }, 2 = NotALeaf { group: 0 } }
        "a reason for not opening a stream"
    Edit {
        0 = AddGroup { id, parent, contract },
        1 = SetContract { id, contract },
        2 = RemoveGroup { id: 0 },
        3 = SetSpace { id, size },
        4 = SetCapacity { capacity: 0 },
        5 = SetKnobs { id, knobs },
    } "an edit"
    Refusal {
        0 = OverCapacity { promised, capacity },
        1 = CapacityUnknown { group: 0 },
        2 = RealtimeWithoutMax { group: 0 },
        3 = IdleWithMin { group: 0 },
        4 = MinAboveMax { group: 0 },
        5 = TwoMins { group: 0 },
        6 = ChildrenAboveParent { group, bytes, iops },
        7 = ShareOutOfRange { group: 0, most: 1 },
        8 = NoSuchGroup { group: 0 },
        9 = GroupExists { group: 0 },
        10 = SlotOutOfRange { slot: 0 },
        11 = GroupInUse { group: 0 },
        12 = BadParent { group: 0 },
        13 = Root {},
        14 = NoController { group: 0, kind: 1 },
    } "a reason for refusing a change"
}
