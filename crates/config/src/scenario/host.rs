//! The host between the clients' system calls and the drive: page cache, file system and adapter.

use crate::words::words;
use weir_core::{DriveShape, Span, elevator, merge};
use weir_model::load::{Pattern, Program, Region, SyncMode};

/// Bytes in a page.
pub const PAGE: u64 = 4096;

/// Bytes of a sector, of which direct requests are whole numbers.
pub(super) const SECTOR: u64 = 512;

/// What is wrong with a direct request that is not whole sectors.
pub(super) const NOT_SECTORS: &str =
    "is not a multiple of 512 bytes, so that Linux would refuse the direct requests (EINVAL)";

/// Whether requests are whole numbers of sectors at every offset that their sizes give.
pub(super) fn in_sectors(size: &weir_model::load::Size) -> bool {
    let sectors = |bytes: u32| u64::from(bytes).is_multiple_of(SECTOR);
    match size {
        weir_model::load::Size::Fixed(size) => sectors(*size),
        weir_model::load::Size::Range { min, step, .. } => sectors(*min) && sectors(*step),
        weir_model::load::Size::Split(split) => split.parts().all(|p| sectors(p.0)),
    }
}

/// How a process reads and writes its file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Buffered {
    /// The most that is read ahead in bytes (Linux: `read_ahead_kb`): a multiple of 4096, at most 16 MiB.
    pub read_ahead: u32,
    /// What the process has said about its reads.
    pub advice: Advice,
    /// Time of a system call for each page, to copy it and for all else: 1 ns to 1 s. Such calls cost the simulator no event.
    pub copy: Span,
    /// A process that has waited runs again at most this much later, evenly drawn each time: at most 1 s.
    pub wakeup: Span,
}

impl Default for Buffered {
    /// Linux's 128 KiB, no advice, 1 us a page; a process that has waited runs again at once.
    fn default() -> Self {
        Self {
            read_ahead: 128 * 1024,
            advice: Advice::Normal,
            copy: Span::from_micros(1),
            wakeup: Span::ZERO,
        }
    }
}

impl Buffered {
    /// As `fio` does it unless told otherwise (`fadvise_hint`): advice that fits the pattern.
    pub fn advised(pattern: Pattern) -> Self {
        let advice = match pattern {
            Pattern::Sequential => Advice::Sequential,
            Pattern::Random | Pattern::Shuffled | Pattern::Skewed(_) | Pattern::Partly { .. } => {
                Advice::Random
            }
        };
        Self {
            advice,
            ..Self::default()
        }
    }

    /// The largest window in pages.
    pub fn window(&self) -> u64 {
        let pages = u64::from(self.read_ahead) / PAGE;
        match self.advice {
            Advice::Sequential => 2 * pages,
            Advice::Normal | Advice::Random => pages,
        }
    }

    /// Reads that a process has on their way at most: two windows, however patchy, and the read itself.
    pub fn reads(&self, program: &Program) -> u32 {
        let windows = 2 * self.window() as u32;
        let most = program.size.most();
        windows.saturating_add(most / PAGE as u32).saturating_add(1)
    }

    /// Requests that such a process has in the layer at most, on a drive whose largest command is `transfer` bytes.
    pub fn outstanding(&self, program: &Program, transfer: u32) -> u32 {
        let most = program.size.most();
        // What one call wrote may leave as several commands.
        let each = most.div_ceil((transfer / PAGE as u32).max(1) * PAGE as u32);
        let writes = match program.sync {
            SyncMode::Fdatasync(every) | SyncMode::Flush(every) if program.writes > 0 => {
                every.saturating_mul(each)
            }
            _ => 0,
        };
        let reads = self.reads(program);
        reads.saturating_add(writes).saturating_add(1)
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

/// The file system of the processes on the first space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Filesystem {
    /// Which.
    pub kind: FilesystemKind,
    /// What it has of the space for itself: [`LOG`] bytes of log; with btrfs data behind that, wherever their files are.
    pub region: Region,
}

/// Bytes of a file system's log.
pub const LOG: u64 = 128 << 20;

/// A file system that is modelled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FilesystemKind {
    /// ext4 with `data=ordered`.
    Ext4,
    /// btrfs.
    Btrfs,
}

words! {
    Plug: "cache" Cache, "all" All, "none" None;
    FilesystemKind: "ext4" Ext4, "btrfs" Btrfs;
}

impl FilesystemKind {
    /// Bytes that it has for itself: btrfs allocates data in chunks of 1 GiB.
    pub const fn room(self) -> u64 {
        match self {
            Self::Ext4 => LOG,
            Self::Btrfs => LOG + (1 << 30),
        }
    }
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

/// Which neighbouring requests are merged, under an elevator that merges.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Merging {
    /// As Linux's file of this name: 0: all that can be; 1: in the plug, and with what was merged last; 2: none.
    pub nomerges: u8,
    /// What comes to the elevator together.
    pub plug: Plug,
}

/// What is kept together, in a plug, until it goes to the elevator, and merged there before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Plug {
    /// What a process asks for at one time through the page cache; direct requests come one by one, as by `io_submit` of one each.
    #[default]
    Cache,
    /// What a client asks for at one time, direct or not.
    All,
    /// Nothing: every request comes for itself.
    None,
}

impl Default for Merging {
    /// Nothing is merged.
    fn default() -> Self {
        Self {
            nomerges: 2,
            plug: Plug::Cache,
        }
    }
}

impl Merging {
    /// As Linux does.
    pub const LINUX: Self = Self {
        nomerges: 0,
        plug: Plug::Cache,
    };

    /// What the core is to do under an elevator.
    pub fn config(self, elevator: &elevator::Config) -> merge::Config {
        if self.nomerges == 2 || !elevator.merges() {
            return merge::Config::OFF;
        }
        merge::Config {
            nomerges: self.nomerges,
            ..merge::Config::LINUX
        }
    }
}

/// Requests in the elevator and the drive together (`nr_requests`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum NrRequests {
    /// As many as there can be.
    #[default]
    Unbounded,
    /// Linux's default: the depth of a hardware queue without an elevator; with one twice that, but at most 256. `contract`, which Linux
    /// does not have, sees every request as in the server: the order in which clients come to the tags would otherwise decide before
    /// `contract` does. `cfq` has requests of its own, as the single-queue layer.
    Linux,
    /// This number, at least 1.
    Each(u32),
}

impl NrRequests {
    /// Scheduler tags of a hardware queue of a drive of this shape; `None`: no bound.
    pub fn tags(self, shape: &DriveShape, elevator: &elevator::Config) -> Option<u32> {
        let depth = u32::from(shape.tags);
        Some(match (self, elevator) {
            (Self::Unbounded, _)
            | (Self::Linux, elevator::Config::Contract(_) | elevator::Config::Cfq(_)) => {
                return None;
            }
            (Self::Linux, elevator::Config::None) => depth,
            (Self::Linux, _) => 2 * depth.min(128),
            (Self::Each(n), _) => n.max(1),
        })
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
        assert_eq!(tags(shape(8, 1023), &elevator::Config::None), Some(1023));
        assert_eq!(tags(shape(1, 1023), &bfq), Some(256));
        let contract = elevator::Config::Contract(elevator::contract::Config::default());
        assert_eq!(tags(shape(1, 32), &contract), None);
        let cfq = elevator::Config::Cfq(elevator::cfq::Config::default());
        assert_eq!(tags(shape(1, 32), &cfq), None);
        assert_eq!(NrRequests::Unbounded.tags(&shape(1, 32), &bfq), None);
        assert_eq!(NrRequests::Each(10).tags(&shape(2, 32), &bfq), Some(10));
    }

    #[test]
    fn what_a_process_that_syncs_has_outstanding_is_what_it_wrote_in_commands_and_its_reads() {
        let program = Program {
            writes: 100,
            sync: SyncMode::Fdatasync(3),
            ..Program::sequential_reads(1 << 20, 1)
        };
        let buffered = Buffered::default();
        let others = buffered.reads(&program) + 1;
        assert_eq!(buffered.outstanding(&program, 1 << 20), 3 + others);
        assert_eq!(buffered.outstanding(&program, 128 << 10), 3 * 8 + others);
        assert_eq!(buffered.outstanding(&program, 130 << 10), 3 * 8 + others);
        assert_eq!(buffered.outstanding(&program, 1), 3 * 256 + others);
        let reads = Program {
            writes: 0,
            ..program
        };
        assert_eq!(buffered.outstanding(&reads, 1), others, "nothing to sync");
    }

    #[test]
    fn an_elevator_that_merges_nothing_is_not_asked_to() {
        let bfq = elevator::Config::Bfq(bfq::Config::default());
        let contract = elevator::Config::Contract(elevator::contract::Config::default());
        assert_eq!(Merging::LINUX.config(&bfq), merge::Config::LINUX);
        assert_eq!(Merging::LINUX.config(&contract), merge::Config::OFF);
        assert_eq!(Merging::default().config(&bfq), merge::Config::OFF);
    }
}
