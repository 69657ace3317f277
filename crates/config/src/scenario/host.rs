//! The host between the clients' system calls and the drive: its page cache, file system and
//! adapter.

use crate::words::words;
use weir_core::{DriveShape, Span, elevator, merge};
use weir_model::load::{Pattern, Program, Region, SyncMode};

/// The size of a page in bytes.
pub const PAGE: u64 = 4096;

/// The size of a sector in bytes. Direct requests are multiples of it.
pub(super) const SECTOR: u64 = 512;

/// The problem of a direct request that is not a multiple of a sector.
pub(super) const NOT_SECTORS: &str =
    "is not a multiple of 512 bytes, so that Linux would refuse the direct requests (EINVAL)";

/// Returns true if all requests of these sizes begin and end at a sector.
pub(super) fn in_sectors(size: &weir_model::load::Size) -> bool {
    let sectors = |bytes: u32| u64::from(bytes).is_multiple_of(SECTOR);
    match size {
        weir_model::load::Size::Fixed(size) => sectors(*size),
        weir_model::load::Size::Range { min, step, .. } => sectors(*min) && sectors(*step),
        weir_model::load::Size::Split(split) => split.parts().all(|p| sectors(p.0)),
    }
}

/// The use of the page cache by a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Buffered {
    /// The maximum amount of read-ahead in bytes (Linux: `read_ahead_kb`), a multiple of 4096 and
    /// at most 16 MiB.
    pub read_ahead: u32,
    /// The advice that the process has given about its reads.
    pub advice: Advice,
    /// The CPU time of a system call for each page, including the copy: 1 ns to 1 s. The simulator
    /// needs no event for such a call.
    pub copy: Span,
    /// The maximum delay until a process that has waited runs again, at most 1 s. Each delay is
    /// drawn from a uniform distribution.
    pub wakeup: Span,
    /// The bytes of all processes that can be dirty or in write-back (Linux: `vm.dirty_bytes`), a
    /// multiple of 4096, 1 MiB to 1 TiB. The largest value of all clients applies to the host.
    pub dirty_bytes: u64,
}

/// The maximum number of writes that a group's flusher has in flight: the scheduler tags that Linux
/// has for a drive with a queue of 32 commands, and thereby the writes after which its flusher
/// sleeps.
pub const FLUSHER_DEPTH: u32 = 64;

impl Default for Buffered {
    /// Returns Linux's read-ahead of 128 KiB, no advice, 1 us per page, no delay after waiting, and
    /// dirty data of 1 GiB.
    fn default() -> Self {
        Self {
            // Linux: `VM_READAHEAD_PAGES`.
            read_ahead: 128 * 1024,
            advice: Advice::Normal,
            copy: Span::from_micros(1),
            wakeup: Span::ZERO,
            dirty_bytes: 1 << 30,
        }
    }
}

impl Buffered {
    /// Returns the default with advice that fits the pattern, as `fio` gives it unless its option
    /// `fadvise_hint` is off.
    pub fn advised(pattern: Pattern) -> Self {
        // `fio` gives `POSIX_FADV_SEQUENTIAL` or `POSIX_FADV_RANDOM`.
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

    /// Returns the size of the largest read-ahead window in pages. Linux doubles it after
    /// `POSIX_FADV_SEQUENTIAL`.
    pub fn window(&self) -> u64 {
        let pages = u64::from(self.read_ahead) / PAGE;
        match self.advice {
            Advice::Sequential => 2 * pages,
            Advice::Normal | Advice::Random => pages,
        }
    }

    /// Returns the maximum number of reads that a process has in flight: every page of two windows,
    /// and those of the read itself.
    pub fn reads(&self, program: &Program) -> u32 {
        let windows = 2 * self.window() as u32;
        let most = program.size.most();
        windows.saturating_add(most / PAGE as u32).saturating_add(1)
    }

    /// Returns true if the kernel writes the data of a program's calls back, because the program
    /// never syncs them.
    pub fn is_written_back(program: &Program) -> bool {
        program.writes > 0 && program.sync == SyncMode::Never
    }

    /// Returns the maximum number of requests that the process has in the layer, on a drive whose
    /// longest command is `transfer` bytes.
    pub fn outstanding(&self, program: &Program, transfer: u32) -> u32 {
        let most = program.size.most();
        // The data of one call can be written in several commands, each of whole pages.
        let each = most.div_ceil((transfer / PAGE as u32).max(1) * PAGE as u32);
        let writes = match program.sync {
            SyncMode::Fdatasync(every) | SyncMode::Flush(every) if program.writes > 0 => {
                every.saturating_mul(each)
            }
            _ if Self::is_written_back(program) => FLUSHER_DEPTH,
            _ => 0,
        };
        let reads = self.reads(program);
        reads.saturating_add(writes).saturating_add(1)
    }
}

/// The advice that a process has given about its reads (`posix_fadvise`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Advice {
    /// The process has given no advice.
    #[default]
    Normal,
    /// Reads are sequential, and windows are twice as large.
    Sequential,
    /// Reads are random, and there is no read-ahead.
    Random,
}

/// The file system of the clients' files, which is on the first space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Filesystem {
    /// The kind of file system.
    pub kind: FilesystemKind,
    /// The region that the file system uses for itself: [`LOG`] bytes of log. With btrfs, the
    /// region for newly written data follows.
    pub region: Region,
}

/// The size of a file system's log in bytes.
pub const LOG: u64 = 128 << 20;

/// A file system that the simulator models.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FilesystemKind {
    /// The file system ext4 with `data=ordered`.
    Ext4,
    /// The file system btrfs, which writes data to new places.
    Btrfs,
}

words! {
    PlugScope: "cache" Cache, "all" All, "none" None;
    FilesystemKind: "ext4" Ext4, "btrfs" Btrfs;
}

impl FilesystemKind {
    /// Returns the number of bytes that the file system uses for itself. btrfs allocates data in
    /// chunks of 1 GiB.
    pub const fn room(self) -> u64 {
        match self {
            Self::Ext4 => LOG,
            Self::Btrfs => LOG + (1 << 30),
        }
    }
}

/// The adapter between the elevator and the drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Adapter {
    /// The number of scheduler tags.
    pub nr_requests: NrRequests,
    /// True for an ATA adapter. A flush is not a queued command there, so it is sent when the drive
    /// is empty, and no other command is sent before it completes (`ata_std_qc_defer`). Later
    /// commands wait in the adapter in order, and keep their tags.
    ///
    /// The depth of the drive's queue is a property of the drive. With NCQ it is 32. Linux uses all
    /// of them since 4.18, and 31 before.
    pub ata: bool,
}

/// The merging of adjacent requests under an elevator that merges.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MergeSettings {
    /// The value of Linux's file of this name: 0 for all merges, 1 for merges in the plug and with
    /// the last merged request, 2 for none.
    pub nomerges: u8,
    /// The requests that reach the elevator together.
    pub plug: PlugScope,
}

/// The requests that are collected in a plug. They are merged there before they reach the elevator
/// together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PlugScope {
    /// Requests that a process issues together through the page cache. Direct requests reach the
    /// elevator one by one, as with one `io_submit` each.
    #[default]
    Cache,
    /// All requests that a client issues together, direct or not.
    All,
    /// No requests: each reaches the elevator alone.
    None,
}

impl Default for MergeSettings {
    /// Returns the setting without merges.
    fn default() -> Self {
        Self {
            nomerges: 2,
            plug: PlugScope::Cache,
        }
    }
}

impl MergeSettings {
    /// The setting that Linux has by default.
    pub const LINUX: Self = Self {
        nomerges: 0,
        plug: PlugScope::Cache,
    };

    /// Returns the merging that the core must do under an elevator.
    pub fn config(self, elevator: &elevator::Config) -> merge::Config {
        // An elevator that does not merge gets every request as it is.
        if self.nomerges == 2 || !elevator.merges() {
            return merge::Config::OFF;
        }
        merge::Config {
            nomerges: self.nomerges,
            ..merge::Config::LINUX
        }
    }
}

/// The number of requests in the elevator and the drive together (`nr_requests`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum NrRequests {
    /// The number is unlimited.
    #[default]
    Unbounded,
    /// The default of Linux: the depth of a hardware queue without an elevator, and twice that, but
    /// at most 256, with one.
    ///
    /// Under `contract`, which Linux does not have, it is unlimited as in the server. Otherwise the
    /// competition for tags would decide before `contract` can. `cfq` has a limit of its own, as in
    /// the single-queue layer.
    Linux,
    /// A fixed number, at least 1.
    Each(u32),
}

impl NrRequests {
    /// Returns the number of scheduler tags for each hardware queue of a drive. `None` if it is
    /// unlimited.
    pub fn tags(self, shape: &DriveShape, elevator: &elevator::Config) -> Option<u32> {
        let depth = u32::from(shape.tags);
        Some(match (self, elevator) {
            (Self::Unbounded, _)
            | (Self::Linux, elevator::Config::Contract(_) | elevator::Config::Cfq(_)) => {
                return None;
            }
            (Self::Linux, elevator::Config::None) => depth,
            // Linux: `blk_mq_init_sched`, with `BLKDEV_DEFAULT_RQ` = 128.
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
        // Each hardware queue has its own scheduler tags, so the number of queues has no effect.
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
    fn a_syncing_process_has_its_writes_in_commands_and_its_reads_outstanding() {
        let program = Program {
            writes: 100,
            sync: SyncMode::Fdatasync(3),
            ..Program::sequential_reads(1 << 20, 1)
        };
        let buffered = Buffered::default();
        let others = buffered.reads(&program) + 1;
        // Three writes of 1 MiB each are one command of 1 MiB, or eight of 128 KiB. A limit of 130
        // KiB is rounded down to whole pages, and one below a page is raised to a page: 256
        // commands per write.
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
    fn merging_is_off_for_an_elevator_without_merging() {
        let bfq = elevator::Config::Bfq(bfq::Config::default());
        let contract = elevator::Config::Contract(elevator::contract::Config::default());
        assert_eq!(MergeSettings::LINUX.config(&bfq), merge::Config::LINUX);
        assert_eq!(MergeSettings::LINUX.config(&contract), merge::Config::OFF);
        assert_eq!(MergeSettings::default().config(&bfq), merge::Config::OFF);
    }
}
