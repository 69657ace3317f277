//! Whether and how far requests are merged.

use crate::rule::{self, ConfigError};
use crate::setters::setters;

/// How requests are merged. The longest command is [`DriveShape::max_transfer`](crate::DriveShape::max_transfer) (Linux:
/// `max_sectors_kb`); of a discard, 64 MiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// As Linux's file of this name: 0 merges all it can; 1 only in the plug and with the command that was merged last; 2 nothing.
    /// Every elevator but `contract` merges; with that it must be 2.
    pub nomerges: u8,
    /// Segments of a command at most (Linux: `max_segments`). At least 1.
    pub max_segments: u16,
    /// Bytes of a segment at most (Linux: `max_segment_size`). A request's memory is taken to lie in one piece, so a request has
    /// as many segments as this goes into it, rounded up. At least 4096.
    pub segment_size: u32,
    /// The elevator is asked for one request more than there are tags; it waits in front of the drive, cannot be given up and merges
    /// with nothing any more (Linux: `hctx->dispatch`; without effect under `none`, whose requests have a tag from the beginning). And what
    /// is over is answered before anything is sent: a call of [`Layer::poll`](crate::Layer::poll) that answers sends nothing and asks to be
    /// called again at once ([`Reason::Answers`](crate::Reason::Answers)), so that a process that waited for an answer may send more first
    /// (Linux: the process is woken before the queue is run again). A stream waits for a scheduler tag with one request, as a process
    /// does, and in turns; a stream that is answered and waits for none may take the one that came free before they do, a number of times
    /// in a row at most (Linux: `blk_mq_get_tag`).
    pub ahead: bool,
}

impl Default for Config {
    /// [`Self::OFF`].
    fn default() -> Self {
        Self::OFF
    }
}

setters! { Config: nomerges: u8, max_segments: u16, segment_size: u32, ahead: bool }

impl Config {
    /// Nothing is merged.
    pub const OFF: Self = Self {
        nomerges: 2,
        max_segments: 128,
        segment_size: 65_536,
        ahead: false,
    };

    /// As Linux does, with its defaults.
    pub const LINUX: Self = Self {
        nomerges: 0,
        ahead: true,
        ..Self::OFF
    };

    /// Something is merged.
    pub const fn is_on(&self) -> bool {
        self.nomerges < 2
    }

    /// Checks the fields for an elevator that merges or does not.
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
