//! Why a run did not take place or did not end.

use weir_core::{Instant, OpenError, Refusal};

/// Why a run did not take place or did not end.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A parameter of the drive is out of range.
    #[error("drive: {0}")]
    Drive(weir_core::rule::Broken),
    /// The drive is frozen for no time at all, or for as long as from one freeze to the next.
    #[error(
        "drive: a freeze is longer than nothing and shorter than the time from one to the next"
    )]
    Freeze,
    /// The layer's tables cannot be of this size.
    #[error("layer: {0}")]
    Layer(weir_core::ConfigError),
    /// The groups and contracts of the scenario are refused.
    #[error("the contracts are refused: {0}")]
    Refused(Refusal),
    /// A client's program is out of range.
    #[error("client {client}: {error}")]
    Program {
        /// The client's name.
        client: String,
        /// What is wrong.
        error: weir_core::rule::Broken,
    },
    /// A client's region does not lie in its space, or the space does not exist.
    #[error("client {client}: its region is not inside space {space}")]
    Region {
        /// The client's name.
        client: String,
        /// The space.
        space: u32,
    },
    /// A client's program cannot go through the page cache.
    #[error("client {client}, buffered: {key} = {value}: must be {allowed}")]
    Buffered {
        /// The client's name.
        client: String,
        /// The parameter.
        key: &'static str,
        /// What it was set to, in the unit of `allowed`.
        value: u64,
        /// What is permitted.
        allowed: &'static str,
    },
    /// A space does not lie on the drive.
    #[error(
        "space {space}: its {size} bytes from byte {base} on do not lie on a drive of {drive} bytes"
    )]
    Place {
        /// The space.
        space: u32,
        /// Where it begins.
        base: u64,
        /// Its size.
        size: u64,
        /// The drive's size.
        drive: u64,
    },
    /// Files of clients do not lie on the drive.
    #[error(
        "{clients}: the files end at byte {end}, and the drive has {drive} bytes; write a smaller size, fewer clients (numjobs), one file \
         for several (filename in a job file, file in a scenario), or choose a larger --drive"
    )]
    Beyond {
        /// The names of the clients whose files end after the end of the drive: a few of them, and how many others there are.
        clients: String,
        /// Where the last of the files ends, in bytes.
        end: u64,
        /// The drive's size in bytes.
        drive: u64,
    },
    /// A client could not connect.
    #[error("client {client}: {error}")]
    Open {
        /// The client's name.
        client: String,
        /// Why.
        error: OpenError,
    },
    /// An action names a client that is not there.
    #[error("an action names client {0}, which does not exist")]
    NoSuchClient(usize),
    /// A million turns at one instant: a drive and clients that take no time at all never get anywhere.
    #[error(
        "time stands still at {at:?}: the drive and the clients take no time, or every request is refused"
    )]
    Stuck {
        /// Where.
        at: Instant,
    },
}
