//! The calls into a layer with their results, and their encoding.

use super::code::{Code, Input, Malformed, choices, fields, put_all, take_all, variants};
use crate::{
    Class, Completion, Contract, ControllerKind, Dispatch, Done, Edit, Flags, GroupId, Instant,
    Knobs, Layer, LowKnobs, Max, MaxDebt, Op, OpenError, Outcome, Output, Priority, PriorityClass,
    PromiseSums, QueueId, Reason, Refusal, Reject, Rejection, Request, SpaceId, Span, StreamId,
    StreamSpec, Tag, Waits, Wake,
};
use alloc::vec::Vec;

/// A call into a [`Layer`] with its arguments and results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call<'a> {
    /// A call of [`Layer::open`].
    Open {
        /// The properties of the stream.
        spec: StreamSpec,
        /// The returned stream or error.
        result: Result<StreamId, OpenError>,
    },
    /// A call of [`Layer::close`].
    Close {
        /// The stream to close.
        stream: StreamId,
    },
    /// A call of [`Layer::hold`].
    Hold {
        /// The stream to hold.
        stream: StreamId,
        /// True if a hold began, and false if it ended.
        held: bool,
    },
    /// A call of [`Layer::cancel`].
    Cancel {
        /// The stream that sent the request.
        stream: StreamId,
        /// The cookie of the request.
        cookie: u64,
        /// The returned value: true if there was such a live request.
        found: bool,
    },
    /// A call of [`Layer::submit`].
    Submit {
        /// The requests that were submitted.
        batch: &'a [Request],
        /// The returned value.
        result: Result<(), Rejection>,
    },
    /// A call of [`Layer::complete`].
    Complete {
        /// The completions of the drive.
        batch: &'a [Completion],
    },
    /// A call of [`Layer::stall`].
    Stall {
        /// The space that stalls.
        space: SpaceId,
        /// The returned value: true if the space stalls now.
        stalled: bool,
    },
    /// A call of [`Layer::change`].
    Change {
        /// The edits of the change.
        edits: &'a [Edit],
        /// The returned sums or the refusal.
        result: Result<PromiseSums, Refusal>,
    },
    /// Bytes that the owner of the record [wrote](super::Recorder::append) at this point. It is not
    /// a call, and the core does not interpret the bytes.
    Note {
        /// The bytes in a format of the owner.
        bytes: &'a [u8],
    },
    /// A call of [`Layer::poll`].
    Poll {
        /// The actions that the call appended.
        outputs: &'a [Output],
        /// The returned wake-up.
        wake: Option<Wake>,
    },
}

impl Call<'_> {
    /// Makes the same call into `layer` and returns it with the new results. The content of
    /// `outputs` is replaced.
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
                // `poll` appends, and the recorded call has only its own outputs.
                outputs.clear();
                let wake = layer.poll(now, outputs);
                Call::Poll { outputs, wake }
            }
        }
    }
}

/// The buffers that a [`Call`] borrows. They are reused for each call.
#[derive(Debug, Default)]
pub(super) struct CallBuffers {
    requests: Vec<Request>,
    completions: Vec<Completion>,
    edits: Vec<Edit>,
    outputs: Vec<Output>,
    bytes: Vec<u8>,
}

/// Defines the encoding of the kinds of calls. A row has the code in a frame, the name, the list of
/// values that a [`Call`] borrows from [`CallBuffers`], and the fields after it.
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

            /// Returns the code of this kind of call in a frame.
            pub(super) const fn code(&self) -> u8 {
                match self { $(Self::$call { .. } => $code),* }
            }

            pub(super) const fn name(&self) -> &'static str {
                match self { $(Self::$call { .. } => $name),* }
            }
        }

        impl CallBuffers {
            /// Reads the call of this code.
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
        // Only known flags are accepted, because dropped bits would be written differently.
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
    Rejection { accepted, reason }
    Completion { tag, outcome }
    Dispatch { queue, tag, stream, cookie, space, op, flags, offset, length, within }
    Done { stream, cookie, op, length, outcome, submitted, waits }
    Waits { limit, elevator, drive }
    Wake { at, reason }
    Contract { min, min_iops, share, max, class }
    LowKnobs { read_bandwidth, write_bandwidth, read_iops, write_iops, idle, latency }
    Max { bandwidth, read_bandwidth, write_bandwidth, iops, read_iops, write_iops, iops_size, burst }
    MaxDebt { bandwidth, read_bandwidth, write_bandwidth, iops, read_iops, write_iops }
    PromiseSums { bytes, iops, millionths }
}

/// If only the latency is set, only the latency is written, as in records from before there were
/// other knobs. Otherwise, the latency [`Span::MAX`] indicates that the actual latency and the
/// knobs of `io.low` follow.
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
        // Each value has exactly one encoding, so that equal values are equal bytes.
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
    ControllerKind { 0 = Max, 1 = Latency, 2 = Cost, 3 = Low } "a controller"
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
        6 = SetDebt { id, debt },
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
