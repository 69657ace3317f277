//! The virtual host: what an operating system puts between a program's system calls and the block layer, and between the block
//! layer and the drive.
//!
//! A client whose [`ClientSpec`](crate::ClientSpec) says `buffered` is a process with one open file: its program's reads and writes
//! are system calls that go through the page cache, with Linux's read-ahead; its program's flushes are `fdatasync`. Such a process
//! asks for one thing at a time. Clients without it do direct I/O: every request of the program goes to the layer.
//!
//! What is modelled is what the layer gets to see of a file whose blocks lie one behind the other: pages of 4 KiB, windows of
//! read-ahead as single requests up to the drive's largest transfer, data and flush of an `fdatasync`. What one system call asks for leaves
//! as one request, so that Linux's plug would find nothing left to merge. What is not modelled: memory
//! pressure (files fit), write-back without `fdatasync`, and commits of the file system's journal: on a file whose blocks are
//! allocated, `fdatasync` after overwriting needs none in ext4.

mod ata;
mod cache;
mod process;
mod read_ahead;

pub(crate) use ata::Ata;
pub(crate) use process::{Command, Process, Then};

use read_ahead::PAGE;
use weir_core::{DriveShape, Span, elevator};
use weir_load::Pattern;

/// How a process reads and writes its file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Buffered {
    /// The most that is read ahead in bytes (Linux: `read_ahead_kb`): a multiple of 4096, at most 16 MiB.
    pub read_ahead: u32,
    /// What the process has said about its reads.
    pub advice: Advice,
    /// Time of a system call for each page, to copy it and for all else: 1 ns to 1 s. Such calls cost the simulator no event.
    pub copy: Span,
}

impl Default for Buffered {
    /// Linux's 128 KiB, no advice, 1 us a page.
    fn default() -> Self {
        Self {
            read_ahead: 128 * 1024,
            advice: Advice::Normal,
            copy: Span::from_micros(1),
        }
    }
}

impl Buffered {
    /// As `fio` does it unless told otherwise (`fadvise_hint`): advice that fits the pattern.
    pub fn advised(pattern: Pattern) -> Self {
        let advice = match pattern {
            Pattern::Sequential => Advice::Sequential,
            Pattern::Random | Pattern::Shuffled | Pattern::Zipf => Advice::Random,
        };
        Self {
            advice,
            ..Self::default()
        }
    }

    /// The largest window in pages.
    fn window(&self) -> u64 {
        let pages = u64::from(self.read_ahead) / PAGE;
        match self.advice {
            Advice::Sequential => 2 * pages,
            Advice::Normal | Advice::Random => pages,
        }
    }
}

/// What a process has said about its reads (`posix_fadvise`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Advice {
    /// Nothing.
    #[default]
    Normal,
    /// They are sequential: windows are twice as large.
    Sequential,
    /// They are random: nothing is read ahead.
    Random,
}

/// What lies between the elevator and the drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Adapter {
    /// Scheduler tags.
    pub nr_requests: NrRequests,
    /// An ATA adapter: a flush is no queued command, so it is sent when the drive is empty, and nothing before it has ended
    /// (`ata_std_qc_defer`). What comes meanwhile waits in the adapter, in order, and holds its tag.
    ///
    /// How deep the drive's queue is, is the drive's: with NCQ 32, of which Linux uses all since 4.18 and 31 before.
    pub ata: bool,
}

/// Requests in the elevator and the drive together (`nr_requests`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum NrRequests {
    /// As many as there can be.
    #[default]
    Unbounded,
    /// Linux's default: the depth of a hardware queue without an elevator; with one twice that, but at most 256; times the queues.
    Linux,
    /// So many, at least 1, times the queues.
    Each(u32),
}

impl NrRequests {
    /// Scheduler tags on a drive of this shape; `None`: no bound.
    pub(crate) fn tags(self, shape: &DriveShape, elevator: &elevator::Config) -> Option<u32> {
        let depth = u32::from(shape.tags);
        let each = match (self, elevator) {
            (Self::Unbounded, _) => return None,
            (Self::Linux, elevator::Config::None) => depth,
            (Self::Linux, _) => 2 * depth.min(128),
            (Self::Each(n), _) => n.max(1),
        };
        Some(each.saturating_mul(shape.queues.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::elevator::bfq;

    #[test]
    fn tags_by_drive_and_elevator() {
        let shape = |queues, tags| DriveShape {
            queues,
            tags,
            ..DriveShape::default()
        };
        let bfq = elevator::Config::Bfq(bfq::Config::default());
        let tags = |shape, elevator| NrRequests::Linux.tags(&shape, elevator);
        assert_eq!(tags(shape(1, 32), &elevator::Config::None), Some(32));
        assert_eq!(tags(shape(1, 32), &bfq), Some(64));
        assert_eq!(tags(shape(8, 1023), &elevator::Config::None), Some(8184));
        assert_eq!(tags(shape(1, 1023), &bfq), Some(256));
        assert_eq!(NrRequests::Unbounded.tags(&shape(1, 32), &bfq), None);
        assert_eq!(NrRequests::Each(10).tags(&shape(2, 32), &bfq), Some(20));
    }
}
