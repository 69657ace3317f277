//! The causes of short seconds and of latency, in one list.

use serde::{Deserialize, Serialize};

/// The cause for which a client gets less than it was promised, or for which its requests take as
/// long as they do.
///
/// Metrics, `weir top`, the dashboard, `weir explain`, records, the demo and comparisons all use
/// these names, and all take the cause from the same verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The client's own max, or that of its tenant, throttled its requests.
    OwnMax,
    /// Another controller throttled the requests.
    Held,
    /// Requests of a neighbour were served before them.
    Neighbour,
    /// The client's own earlier requests were served before them.
    OwnRequests,
    /// The elevator kept the drive free for the next request of another stream.
    Idling,
    /// The drive was slower than its stated capacity.
    SlowDrive,
    /// The drive worked on the request itself, with nothing in front of it. To get more, the client
    /// needs a higher queue depth.
    OwnDepth,
    /// The server or the client was ready to run but had no CPU.
    HostBusy,
    /// The storage failed requests of the client.
    Errors,
    /// The server worked on requests of a neighbour, whether they did I/O or not.
    ServerBusy,
    /// The client had no request outstanding.
    ClientIdle,
    /// The client did not read its replies.
    NotReading,
}

impl Cause {
    /// All causes, in the order of their numbers.
    pub const ALL: [Self; 12] = [
        Self::OwnMax,
        Self::Held,
        Self::Neighbour,
        Self::OwnRequests,
        Self::Idling,
        Self::SlowDrive,
        Self::OwnDepth,
        Self::HostBusy,
        Self::Errors,
        Self::ServerBusy,
        Self::ClientIdle,
        Self::NotReading,
    ];

    /// The causes that a short second can have, which are the first ones. A client that had nothing
    /// outstanding or did not read its replies is not owed anything.
    pub const OF_SHORT: [Self; 10] = match Self::ALL.first_chunk() {
        Some(first) => *first,
        None => panic!("there are as many causes"),
    };

    /// Returns the name in records, metrics and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OwnMax => "own-max",
            Self::Held => "held",
            Self::Neighbour => "neighbour",
            Self::OwnRequests => "own-requests",
            Self::Idling => "idling",
            Self::SlowDrive => "slow-drive",
            Self::OwnDepth => "own-depth",
            Self::HostBusy => "host-busy",
            Self::Errors => "errors",
            Self::ServerBusy => "server-busy",
            Self::ClientIdle => "client-idle",
            Self::NotReading => "not-reading",
        }
    }

    /// Returns the cause with this [name](Self::name).
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.name() == name)
    }

    /// Returns the cause in words, as the subject of a sentence.
    pub const fn words(self) -> &'static str {
        match self {
            Self::OwnMax => "its own max",
            Self::Held => "a controller that held its requests",
            Self::Neighbour => "a neighbour",
            Self::OwnRequests => "its own requests before it",
            Self::Idling => {
                "an elevator that kept the drive free for another client's next request"
            }
            Self::SlowDrive => "a drive slower than stated",
            Self::OwnDepth => "its own depth: too few requests at a time",
            Self::HostBusy => "a busy host: a thread had no processor",
            Self::Errors => "a drive that fails requests",
            Self::ServerBusy => "another client's requests, which keep the server busy",
            Self::ClientIdle => "its client, which had nothing outstanding",
            Self::NotReading => "its client, which did not read its replies",
        }
    }

    /// Returns the cause in words, with the neighbour's name if it is known: `a neighbour: beta`.
    pub fn by(self, neighbour: Option<&str>) -> String {
        match neighbour {
            Some(name) => format!("{}: {name}", self.words()),
            None => self.words().to_owned(),
        }
    }
}

/// A cause with the neighbour, if the cause is a neighbour. Neighbours are numbers that the caller
/// of the judge chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blame {
    /// The cause of the short second or of the latency.
    pub cause: Cause,
    /// The neighbour, if a neighbour is the cause and it is known which one.
    pub neighbour: Option<u32>,
}

impl From<Cause> for Blame {
    fn from(cause: Cause) -> Self {
        Self {
            cause,
            neighbour: None,
        }
    }
}

/// The waits of a client's requests in one second, and the state of its drive. Without it, the
/// judge only has the bytes that others got, and the stages of the client's own requests.
///
/// Each time is the sum over all requests that ended in the second, in nanoseconds, unless its
/// field specifies otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SecondWaits {
    /// The time throttled by a limit or another controller.
    pub held_ns: u64,
    /// True if the client, or a group above it, has a max.
    pub has_max: bool,
    /// The time behind requests of neighbours, in the elevator and in the drive.
    pub neighbours_ns: u64,
    /// The neighbour that had most of the drive's time.
    pub neighbour: Option<u32>,
    /// The time behind the client's own requests.
    pub own_ns: u64,
    /// The time in the elevator while the drive was idle.
    pub idle_ns: u64,
    /// The time in the drive, or behind others, by which the drive exceeded its stated capacity.
    pub slow_ns: u64,
    /// The performance of the drive in thousandths of its stated capacity, if a capacity is stated
    /// and requests waited for the drive.
    pub drive_did: Option<u16>,
    /// The performance of a drive in thousandths of its stated capacity, if it was busy for at
    /// least 90 % of the second while requests waited in the elevator or many were in the drive.
    ///
    /// The elevator may have kept so few requests in the drive that it did less than it can.
    /// However, an elevator does not do that to a client that gets less than its min. Therefore,
    /// this value explains short seconds only.
    pub backlogged_did: Option<u16>,
    /// The time during which the server's thread was ready to run but had no CPU.
    pub late_ns: u64,
    /// The part of the second in which the server's thread had no CPU. This is a time of the
    /// second, and not a sum over requests.
    pub stalled_ns: u64,
    /// True if requests were in the drive for most of the second, but none completed.
    pub has_stalled: bool,
    /// The other client for whose requests the server worked most.
    pub busiest: Option<u32>,
}

/// The performance, in thousandths of its stated capacity, from which a drive can keep all
/// promises. Admission allows promises of at most 90 % of the capacity.
pub(super) const ENOUGH: u16 = 900;

impl SecondWaits {
    /// Returns the fraction (0 to 1) of its stated capacity that the drive lacked, or 0 if it was
    /// fast enough to keep promises.
    pub fn slowness(&self) -> f64 {
        lack(self.drive_did)
    }

    /// Returns the same fraction for a client that got less than its min.
    pub(super) fn slowness_for_short(&self) -> f64 {
        lack(self.drive_did.or(self.backlogged_did))
    }

    /// Returns the time for which requests waited, without the time in which they were served
    /// themselves.
    pub fn waited_ns(&self) -> u64 {
        let behind = self.neighbours_ns + self.own_ns + self.idle_ns + self.slow_ns;
        self.held_ns + self.late_ns + behind
    }

    /// Returns the cause for which requests waited longest, apart from their own service.
    pub fn largest(&self) -> Option<Blame> {
        let held = if self.has_max {
            Cause::OwnMax
        } else {
            Cause::Held
        };
        let parts = [
            (held, self.held_ns),
            (Cause::HostBusy, self.late_ns),
            (Cause::Neighbour, self.neighbours_ns),
            (Cause::OwnRequests, self.own_ns),
            (Cause::Idling, self.idle_ns),
            (Cause::SlowDrive, self.slow_ns),
        ];
        // Of equal parts, the first in the list is chosen, because `max_by_key` returns the last
        // one.
        let largest = parts.into_iter().rev().max_by_key(|part| part.1);
        let (cause, _) = largest.filter(|part| part.1 > 0)?;
        let neighbour = self.neighbour.filter(|_| cause == Cause::Neighbour);
        Some(Blame { cause, neighbour })
    }
}

fn lack(did: Option<u16>) -> f64 {
    // A drive that reaches 90 % of its capacity can keep all promises, so it does not count as
    // slow.
    let did = did.filter(|did| *did < ENOUGH);
    did.map_or(0.0, |did| f64::from(1_000 - did) / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_its_number_and_one_name() {
        for (number, cause) in Cause::ALL.into_iter().enumerate() {
            assert_eq!(cause as usize, number);
            assert_eq!(Cause::find(cause.name()), Some(cause));
            let is_quiet = matches!(cause, Cause::ClientIdle | Cause::NotReading);
            assert_eq!(Cause::OF_SHORT.contains(&cause), !is_quiet, "{cause:?}");
            let json = serde_json::to_string(&cause).expect("it is a text");
            assert_eq!(json, format!("\"{}\"", cause.name()));
        }
        assert_eq!(Cause::find("others"), None);
    }
}
