//! Readings: the numbers of a sample with their names, for plots and traces that need no knowledge
//! of controllers or elevators.

use crate::id::{GroupId, ROOT, StreamId};
use crate::sample::{Domain, Sample};
use crate::time::Span;

/// A named number of a sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reading {
    /// The name in a few words. All readings of this name have the same unit.
    pub name: &'static str,
    /// The object to which the number applies.
    pub of: Subject,
    /// The unit of the number.
    pub unit: Unit,
    /// The number in its unit.
    pub value: i64,
}

/// The object to which a reading applies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Subject {
    /// The drive, or the controller or elevator as a whole.
    Drive,
    /// A group of the tree.
    Group(GroupId),
    /// A single stream.
    Stream(StreamId),
}

/// The unit of a reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// A number of things.
    Number,
    /// A size in bytes.
    Bytes,
    /// A time in nanoseconds.
    Nanoseconds,
    /// A fraction in hundredths of a percent.
    BasisPoints,
    /// A fraction in 65536ths.
    Parts,
}

impl Sample {
    /// Passes each number of the sample to `tell`. A fact without a number, such as the stream in
    /// service, is reported as 1. A depth without a bound is omitted.
    pub fn readings(&self, tell: &mut dyn FnMut(Reading)) {
        match *self {
            Self::Serving { stream, .. }
            | Self::Slice { stream, .. }
            | Self::Idling { stream }
            | Self::Weight { stream, .. } => {
                self.of_elevator(&mut ReadingSink(tell, Subject::Stream(stream)));
            }
            Self::Drive { .. } | Self::Peak { .. } | Self::Tokens { .. } => {
                self.of_elevator(&mut ReadingSink(tell, Subject::Drive));
            }
            Self::Used { group, .. } => {
                self.of_elevator(&mut ReadingSink(tell, Subject::Group(group)));
            }
            // The root's cookie applies to all of the drive's groups.
            Self::Low { .. } | Self::Rate { .. } | Self::Cookie { group: ROOT, .. } => {
                self.of_controller(&mut ReadingSink(tell, Subject::Drive));
            }
            Self::Held { group, .. }
            | Self::Depth { group, .. }
            | Self::Cookie { group, .. }
            | Self::Spends { group, .. } => {
                self.of_controller(&mut ReadingSink(tell, Subject::Group(group)));
            }
        }
    }

    fn of_elevator(&self, to: &mut ReadingSink<'_>) {
        match *self {
            Self::Serving { served, left, .. } => {
                to.number("in service", 1_u8);
                to.bytes("served in its turn", served);
                to.bytes("budget left", left);
            }
            Self::Slice {
                served, used, left, ..
            } => {
                to.number("in service", 1_u8);
                to.bytes("served in its turn", served);
                to.time("slice used", used);
                to.time("slice left", left);
            }
            Self::Used {
                part, lead, queues, ..
            } => {
                to.tell("part of the drive", Unit::Parts, part.into());
                to.time("used beyond the least", lead);
                to.number("busy queues", queues);
            }
            Self::Idling { .. } => to.number("idled for", 1_u8),
            Self::Drive {
                read,
                write,
                away,
                delay,
                hidden,
            } => {
                to.time("cost of a read of 64 KiB", read);
                to.time("cost of a write of 64 KiB", write);
                to.time("cost of going elsewhere", away);
                to.time("delay", delay);
                to.time("hidden work", hidden);
            }
            Self::Peak { rate } => to.bytes("peak rate, a second", rate),
            Self::Weight { weight, raised, .. } => {
                to.number("weight", weight);
                to.number("raised by", raised);
            }
            Self::Tokens {
                domain,
                depth,
                in_flight,
            } => {
                let (most, used) = match domain {
                    Domain::Read => ("depth of reads", "reads in the drive"),
                    Domain::Write => ("depth of writes", "writes in the drive"),
                    Domain::Discard => ("depth of discards", "discards in the drive"),
                    Domain::Other => ("depth of the rest", "the rest in the drive"),
                };
                to.number(most, depth);
                to.number(used, in_flight);
            }
            Self::Held { .. }
            | Self::Depth { .. }
            | Self::Cookie { .. }
            | Self::Low { .. }
            | Self::Rate { .. }
            | Self::Spends { .. } => {}
        }
    }

    fn of_controller(&self, to: &mut ReadingSink<'_>) {
        match *self {
            Self::Held { requests, .. } => to.number("held requests", requests),
            Self::Depth {
                depth, in_flight, ..
            } => {
                if let Some(depth) = depth {
                    to.number("depth", depth);
                }
                to.number("in flight", in_flight);
            }
            Self::Cookie { lowered, .. } => to.number("cookie lowered by", lowered),
            Self::Low { limited, scale } => {
                to.number("held to low limits", u8::from(limited));
                to.number("scale of low limits", scale);
            }
            Self::Rate {
                vrate,
                busy_level,
                lagging,
                ..
            } => {
                to.tell("vrate", Unit::BasisPoints, vrate.into());
                to.number("busy level", busy_level);
                to.number("lagging groups", lagging);
            }
            Self::Spends {
                active,
                inuse,
                debt,
                delay,
                ..
            } => {
                to.tell("active weight", Unit::Parts, active.into());
                to.tell("weight in use", Unit::Parts, inuse.into());
                to.time("debt", debt);
                to.time("delay for debt", delay);
            }
            Self::Serving { .. }
            | Self::Slice { .. }
            | Self::Used { .. }
            | Self::Idling { .. }
            | Self::Drive { .. }
            | Self::Peak { .. }
            | Self::Tokens { .. }
            | Self::Weight { .. } => {}
        }
    }
}

/// A receiver of readings, with the object to which they apply.
struct ReadingSink<'a>(&'a mut dyn FnMut(Reading), Subject);

impl ReadingSink<'_> {
    fn tell(&mut self, name: &'static str, unit: Unit, value: i64) {
        let of = self.1;
        (self.0)(Reading {
            name,
            of,
            unit,
            value,
        });
    }

    fn number(&mut self, name: &'static str, value: impl Into<i64>) {
        self.tell(name, Unit::Number, value.into());
    }

    fn bytes(&mut self, name: &'static str, value: u64) {
        // Numbers beyond `i64::MAX` saturate, because a plot has no use for the difference.
        self.tell(name, Unit::Bytes, i64::try_from(value).unwrap_or(i64::MAX));
    }

    fn time(&mut self, name: &'static str, value: Span) {
        let value = i64::try_from(value.as_nanos()).unwrap_or(i64::MAX);
        self.tell(name, Unit::Nanoseconds, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readings(sample: Sample) -> alloc::vec::Vec<Reading> {
        let mut all = alloc::vec::Vec::new();
        sample.readings(&mut |reading| all.push(reading));
        all
    }

    #[test]
    fn a_depth_without_a_bound_is_left_out() {
        let of = |depth| Sample::Depth {
            group: GroupId(7),
            depth,
            in_flight: 3,
        };
        let names = |depth| readings(of(depth)).into_iter().map(|r| (r.name, r.value));
        assert!(names(None).eq([("in flight", 3)]));
        assert!(names(Some(2)).eq([("depth", 2), ("in flight", 3)]));
        let whose = |r: &Reading| r.of == Subject::Group(GroupId(7));
        assert!(readings(of(Some(2))).iter().all(whose));
    }

    #[test]
    fn the_cookie_of_the_root_is_a_reading_of_the_drive() {
        let of = |group| Sample::Cookie {
            group: GroupId(group),
            lowered: 5,
        };
        let subjects = [0, 3].map(|group| readings(of(group))[0].of);
        assert_eq!(subjects, [Subject::Drive, Subject::Group(GroupId(3))]);
        let peak = readings(Sample::Peak { rate: 7 });
        assert_eq!((peak[0].of, peak[0].unit), (Subject::Drive, Unit::Bytes));
    }

    #[test]
    fn a_reading_beyond_64_bits_saturates() {
        let debt = Sample::Spends {
            group: GroupId(1),
            active: 65536,
            inuse: 4096,
            lead: None,
            // More than an `i64` can hold.
            debt: Span::from_nanos(u64::MAX),
            delay: Span::ZERO,
        };
        let values = readings(debt).into_iter().map(|r| r.value);
        assert!(values.eq([65536, 4096, i64::MAX, 0]));
    }
}
