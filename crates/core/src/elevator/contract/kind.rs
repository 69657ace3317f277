//! Kinds of drive, and the rules in which they differ.
//!
//! The cost model learns whether a drive seeks ([`learned::cost`](super::learned::cost)). In
//! contrast, the tunable `remote` states that the drive is a server across a network, and a remote
//! drive never changes its kind.

use super::constants::{FALL, FALL_SEEKING};
use crate::Span;

/// Rules for one kind of drive.
#[derive(Debug)]
pub(crate) struct DriveKind {
    /// Far pieces cost a seek and pieces do not overlap. Therefore streams have turns, it matters
    /// where a piece begins, writes always leave hidden work, and the work of others delays a
    /// client by at least its cost.
    pub(crate) seeks: bool,
    /// Far pieces may cost a seek. Therefore absent clients do not keep their places, an expensive
    /// request defers no deficit, and every write may leave work in the drive after its completion.
    pub(crate) may_seek: bool,
    /// Requests are cut into pieces. On other drives they are sent whole.
    pub(crate) cuts: bool,
    /// Latency varies by itself, and a flush of one volume does not delay the others. Therefore
    /// long requests and flushes reveal nothing, and flushes are not delayed.
    pub(crate) varies: bool,
    /// Time between two decreases of hidden work.
    pub(crate) fall: Span,
}

/// Drive on which far pieces cost hardly more than near ones, such as flash.
pub(crate) const PLAIN: DriveKind = DriveKind {
    seeks: false,
    may_seek: false,
    cuts: true,
    varies: false,
    fall: FALL,
};

/// Drive of which too little is known to tell whether it seeks.
pub(crate) const UNSETTLED: DriveKind = DriveKind {
    may_seek: true,
    fall: FALL_SEEKING,
    ..PLAIN
};

/// Drive on which far pieces cost a seek, such as a rotating disk.
pub(crate) const SEEKING: DriveKind = DriveKind {
    seeks: true,
    cuts: false,
    ..UNSETTLED
};

/// Server across a network.
pub(crate) const REMOTE: DriveKind = DriveKind {
    cuts: false,
    varies: true,
    ..PLAIN
};
