//! The configuration of merging.

use crate::rule::{self, ConfigError};
use crate::setters::setters;

/// The extent to which requests are merged. The longest command has
/// [`DriveShape::max_transfer`](crate::DriveShape::max_transfer) bytes (Linux: `max_sectors_kb`),
/// except that a discard can have 64 MiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// The amount of merging, as in Linux's file of this name. With 0, all possible merges are
    /// made. With 1, requests are merged only in the plug and with the command that was merged
    /// last. With 2, nothing is merged. All elevators except `contract` can merge, and with
    /// `contract` it must be 2.
    pub nomerges: u8,
    /// The maximum number of segments of a command, at least 1 (Linux: `max_segments`).
    pub max_segments: u16,
    /// The maximum number of bytes of a segment, at least 4096 (Linux: `max_segment_size`). The
    /// memory of a request is assumed to be contiguous, so the number of segments is the length of
    /// the request divided by this, rounded up.
    pub segment_size: u32,
    /// Follows Linux in the order of dispatch, completion and new requests, in three respects.
    ///
    /// - The elevator is queried for one more request than there are tags. The request waits in
    ///   front of the drive, cannot be cancelled, and is not merged any more (Linux:
    ///   `hctx->dispatch`). This has no effect under `none`, whose requests have a tag from the
    ///   beginning.
    /// - Ended requests are reported before anything is dispatched. A call of
    ///   [`Layer::poll`](crate::Layer::poll) that reports some dispatches nothing and must be
    ///   repeated at once ([`Reason::Answers`](crate::Reason::Answers)), so that a process that
    ///   waited for a reply can send more requests first (Linux: the process is woken before the
    ///   queue is run again).
    /// - A stream waits for a scheduler tag with one request at a time, as a process does, and
    ///   streams take turns. A stream that receives a completion and waits for no tag can take the
    ///   freed tag before the others, a limited number of times in a row (Linux: `blk_mq_get_tag`).
    pub ahead: bool,
}

impl Default for Config {
    /// Returns [`Self::OFF`], which merges nothing.
    fn default() -> Self {
        Self::OFF
    }
}

setters! { Config: nomerges: u8, max_segments: u16, segment_size: u32, ahead: bool }

impl Config {
    /// A configuration in which nothing is merged.
    pub const OFF: Self = Self {
        // `contract`, the server's default elevator, merges nothing (docs/decisions/no-merging.md).
        nomerges: 2,
        max_segments: 128,
        segment_size: 65_536,
        ahead: false,
    };

    /// The behaviour of Linux with its defaults.
    pub const LINUX: Self = Self {
        nomerges: 0,
        ahead: true,
        ..Self::OFF
    };

    /// Returns true if requests are merged at all.
    pub const fn is_on(&self) -> bool {
        self.nomerges < 2
    }

    /// Checks the fields. `merges` is true if the elevator can merge.
    pub(crate) fn validate(&self, merges: bool) -> Result<(), ConfigError> {
        rule::check([
            (
                self.nomerges <= 2,
                "merge.nomerges",
                self.nomerges.into(),
                "0 to 2",
            ),
            (
                self.max_segments >= 1,
                "merge.max_segments",
                self.max_segments.into(),
                "at least 1",
            ),
            (
                self.segment_size >= 4096,
                "merge.segment_size",
                self.segment_size.into(),
                "at least 4096",
            ),
            (
                merges || !self.is_on(),
                "merge.nomerges",
                self.nomerges.into(),
                "2 with an elevator that merges nothing",
            ),
            (
                merges || !self.ahead,
                "merge.ahead",
                self.ahead.into(),
                "off with an elevator that merges nothing",
            ),
        ])?;
        Ok(())
    }
}
