//! Why a client got less than it was promised: the one list of causes.

use serde::{Deserialize, Serialize};

/// Why a client gets less than it was promised, or why its requests take as long as they do.
///
/// Metrics, `weir top`, the dashboard, `weir explain`, records, the demo and comparisons all name one of these, and all take it from the same
/// verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The client's own max, or its tenant's, held its requests.
    OwnMax,
    /// Another controller held its requests.
    Held,
    /// The requests of a neighbour stood before them.
    Neighbour,
    /// Its own earlier requests stood before them.
    OwnRequests,
    /// The elevator kept the drive free for another stream's next request.
    Idling,
    /// The drive did less than is stated of it.
    SlowDrive,
    /// The drive worked on the request itself, and nothing stood before it: to get more, a client has to have more requests at a time.
    OwnDepth,
    /// The server, or the client, was ready to run and had no processor.
    HostBusy,
    /// The storage failed requests.
    Errors,
    /// The server worked on the requests of a neighbour, whether they did I/O or not.
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

    /// Those that a short second can have, which are the first ones: a client that had nothing outstanding, or did not read its replies, is not owed anything.
    pub const OF_SHORT: [Self; 10] = match Self::ALL.first_chunk() {
        Some(first) => *first,
        None => panic!("there are as many causes"),
    };

    /// Its name in records, metrics and JSON.
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

    /// The cause of that [name](Self::name).
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.name() == name)
    }

    /// In words, as the subject of a sentence.
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

    /// In words, with the neighbour's name if that is known: `a neighbour, beta`.
    pub fn by(self, neighbour: Option<&str>) -> String {
        match neighbour {
            Some(name) => format!("{}: {name}", self.words()),
            None => self.words().to_owned(),
        }
    }
}

/// A cause, and which neighbour it was if it was one. A neighbour is a number that the caller of the judge has given it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blame {
    /// The cause.
    pub cause: Cause,
    /// The neighbour, if that is the cause and it is known which.
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

/// What the requests of a client waited for in a second, and how its drive fared. Where nothing is known of it, the judge has only the
/// bytes that others got, and the stages of the client's own requests.
///
/// The times are those of all requests that ended in the second, added up. They are nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Held by a limit or another controller.
    pub held_ns: u64,
    /// The client, or a group above it, has a max.
    pub has_max: bool,
    /// Behind requests of neighbours, in the elevator and in the drive.
    pub neighbours_ns: u64,
    /// The neighbour that had most of the drive's time.
    pub neighbour: Option<u32>,
    /// Behind the client's own requests.
    pub own_ns: u64,
    /// In the elevator while the drive had nothing to do.
    pub idle_ns: u64,
    /// In the drive, or behind others, because the drive did less than is stated of it.
    pub slow_ns: u64,
    /// Parts in 1,000 that the drive did of what is stated of it, if anything is stated and requests waited for it.
    pub drive_did: Option<u16>,
    /// The same of a drive that was busy all the time while requests waited in the elevator, or many were in the drive. The elevator may have
    /// kept so few of them in the drive that it did less than it can. But an elevator does not do that to a client that gets less than its
    /// min, so this explains short seconds.
    pub backlogged_did: Option<u16>,
    /// While the server's thread was ready to run and had no processor.
    pub late_ns: u64,
    /// The part of the second in which it had none: this is a time of the second, not of requests.
    pub stalled_ns: u64,
    /// Something was in the drive for most of the second, and nothing came back.
    pub stood: bool,
    /// The other client for whose requests the server worked most.
    pub busiest: Option<u32>,
}

/// A drive that does this many parts in 1,000 of what is stated of it can keep what was promised: promises are at most nine tenths of it.
pub(super) const ENOUGH: u16 = 900;

impl Standing {
    /// The part (0 to 1) of what is stated that the drive lacked, if it was too slow to keep promises.
    pub fn slowness(&self) -> f64 {
        lack(self.drive_did)
    }

    /// The same for a client that got less than its min.
    pub(super) fn slowness_for_short(&self) -> f64 {
        lack(self.drive_did.or(self.backlogged_did))
    }

    /// All that requests waited for, besides being served themselves.
    pub fn waited_ns(&self) -> u64 {
        let behind = self.neighbours_ns + self.own_ns + self.idle_ns + self.slow_ns;
        self.held_ns + self.late_ns + behind
    }

    /// What requests waited for longest, besides being served themselves.
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
        let largest = parts.into_iter().rev().max_by_key(|part| part.1);
        let (cause, _) = largest.filter(|part| part.1 > 0)?;
        let neighbour = self.neighbour.filter(|_| cause == Cause::Neighbour);
        Some(Blame { cause, neighbour })
    }
}

fn lack(did: Option<u16>) -> f64 {
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
