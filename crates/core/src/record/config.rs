//! The encoding of a layer's configuration. A new setting must be added to its list here, at the
//! same position as in its structure. Tunables come from their own tables.

use super::code::{Code, Input, Malformed, settings};
use crate::merge;
use crate::tunable::Tuned;
use crate::{Capacity, Config, DriveShape, Sizes};
use crate::{control, elevator};
use alloc::vec::Vec;

settings! {
    merge::Config { nomerges, max_segments, segment_size, ahead }
    DriveShape { queues, tags, max_transfer, rotational, capacity }
    Capacity { read, write, iops, read_iops, write_iops }
}

/// Encoded like `settings`. The number of stalled commands is only written if it is not zero, so
/// that records from before it existed remain valid.
impl Code for Sizes {
    fn put(&self, out: &mut Vec<u8>) {
        let stalled = (self.stalled > 0).then_some(self.stalled);
        (SIZES + usize::from(stalled.is_some())).put(out);
        let fields = [
            self.requests,
            self.streams,
            self.groups,
            self.spaces,
            self.per_stream,
            self.reserved,
            self.scheduler_tags,
            self.events,
        ];
        for field in fields.into_iter().chain(stalled) {
            field.put(out);
        }
    }

    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        let fields = usize::take(input)?;
        if fields != SIZES && fields != SIZES + 1 {
            return input.malformed("as many fields of Sizes as this build of weir has");
        }
        let mut sizes = Self {
            requests: Code::take(input)?,
            streams: Code::take(input)?,
            groups: Code::take(input)?,
            spaces: Code::take(input)?,
            per_stream: Code::take(input)?,
            reserved: Code::take(input)?,
            scheduler_tags: Code::take(input)?,
            events: Code::take(input)?,
            stalled: 0,
        };
        if fields > SIZES {
            sizes.stalled = Code::take(input)?;
            // Zero is written in the shorter form only, so that each value has exactly one
            // encoding.
            if sizes.stalled == 0 {
                return input.malformed("sizes in their one form");
            }
        }
        Ok(sizes)
    }
}

/// The number of fields of [`Sizes`] that every record has.
const SIZES: usize = 8;

/// An elevator is encoded as its code, the number of its tunables and their values. Records of a
/// build with more tunables are refused instead of being misread.
impl Code for elevator::Config {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(self.kind().code);
        if let Some(tuned) = self.tuned() {
            put_tunables(tuned, out);
        }
    }

    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        let code = input.byte()?;
        let Some(kind) = elevator::KINDS.iter().find(|kind| kind.code == code) else {
            return input.malformed("before this, an elevator this build of weir has");
        };
        let mut config = (kind.default)();
        if let Some(tuned) = config.tuned_mut() {
            let expected = "no more tunables of the elevator than this build of weir has";
            take_tunables(tuned, input, expected)?;
        }
        Ok(config)
    }
}

/// Encoded like `settings` for `max` and `latency`. The other controllers follow only if they
/// exist, so that records from before they existed remain valid.
///
/// The number of fields indicates the rest. 3 means `io.cost`. 4 means a flag for `io.cost` and
/// then `io.low`. 5 means a flag each for `io.cost` and `io.low`, and the slices of `io.max`.
/// Tunables are written as their number and their values.
impl Code for control::Config {
    fn put(&self, out: &mut Vec<u8>) {
        let Self {
            max,
            slices,
            low,
            latency,
            cost,
        } = self;
        let fields = match (cost, low, slices) {
            (None, None, None) => 2_usize,
            (Some(_), None, None) => 3,
            (_, Some(_), None) => 4,
            (_, _, Some(_)) => 5,
        };
        fields.put(out);
        max.put(out);
        latency.put(out);
        if fields >= 4 {
            cost.is_some().put(out);
        }
        if fields >= 5 {
            low.is_some().put(out);
        }
        if let Some(cost) = cost {
            put_tunables(cost, out);
        }
        if let Some(low) = low {
            put_tunables(low, out);
        }
        if let Some(slices) = slices {
            put_tunables(slices, out);
        }
    }

    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        let fields = usize::take(input)?;
        if !(2..=5).contains(&fields) {
            return input.malformed("as many fields of control::Config as this build of weir has");
        }
        let (max, latency) = (Code::take(input)?, Code::take(input)?);
        let has_cost = fields == 3 || fields >= 4 && bool::take(input)?;
        let has_low = fields == 4 || fields == 5 && bool::take(input)?;
        let cost = "no more tunables of io.cost than this build of weir has";
        let low = "no more tunables of io.low than this build of weir has";
        let slices = "no more tunables of io.max than this build of weir has";
        Ok(Self {
            max,
            latency,
            cost: take_tuned(has_cost, input, cost)?,
            low: take_tuned(has_low, input, low)?,
            slices: take_tuned(fields == 5, input, slices)?,
        })
    }
}

/// Reads the tunables of a controller, if it exists.
fn take_tuned<T: Tuned + Default>(
    is_there: bool,
    input: &mut Input<'_>,
    expected: &'static str,
) -> Result<Option<T>, Malformed> {
    let mut tuned = is_there.then(T::default);
    if let Some(tuned) = &mut tuned {
        take_tunables(tuned, input, expected)?;
    }
    Ok(tuned)
}

fn put_tunables(tuned: &dyn Tuned, out: &mut Vec<u8>) {
    let count = tuned.tunables().len();
    count.put(out);
    (0..count).for_each(|place| tuned.get(place).put(out));
}

/// Reads tunables. `expected` is the error message if there are too many.
fn take_tunables(
    tuned: &mut dyn Tuned,
    input: &mut Input<'_>,
    expected: &'static str,
) -> Result<(), Malformed> {
    let count = usize::take(input)?;
    if count > tuned.tunables().len() {
        return input.malformed(expected);
    }
    // A record from before the last tunables existed has fewer values, and these tunables keep
    // their defaults.
    for place in 0..count {
        let value = u64::take(input)?;
        tuned.set(place, value);
        // The field's type is too narrow for the value, so `set` has replaced it.
        if tuned.get(place) != value {
            return input.malformed("before this, a value that the tunable can have");
        }
    }
    Ok(())
}

/// Encoded like `settings`. The configuration of merging is only written if it is not off, so that
/// records from before it existed remain valid.
impl Code for Config {
    fn put(&self, out: &mut Vec<u8>) {
        let Self {
            sizes,
            drive,
            controllers,
            elevator,
            merge,
        } = self;
        let is_off = *merge == merge::Config::OFF;
        (if is_off { 4usize } else { 5 }).put(out);
        sizes.put(out);
        drive.put(out);
        controllers.put(out);
        elevator.put(out);
        if !is_off {
            merge.put(out);
        }
    }

    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        let fields = usize::take(input)?;
        if !(4..=5).contains(&fields) {
            return input.malformed("as many fields of Config as this build of weir has");
        }
        let config = Self {
            sizes: Code::take(input)?,
            drive: Code::take(input)?,
            controllers: Code::take(input)?,
            elevator: Code::take(input)?,
            merge: merge::Config::OFF,
        };
        let merge = if fields == 5 {
            Code::take(input)?
        } else {
            return Ok(config);
        };
        // Merging that is off is written in the shorter form only.
        if merge == merge::Config::OFF {
            return input.malformed("no merging before this, where it is off");
        }
        Ok(Self { merge, ..config })
    }
}
