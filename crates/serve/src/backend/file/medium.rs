//! What the workers do to a file or a device: everything that may block and that the ring does not do.

use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::fs::{AtFlags, FallocateFlags, SeekFrom, StatxFlags};
use weir_uring::{Errno, device};

use super::super::{Allocation, Extents};

/// A descriptor for the workers, and what stands behind it.
#[derive(Debug)]
pub(in crate::backend) struct Medium {
    /// What it was opened by.
    pub(in crate::backend) path: PathBuf,
    pub(in crate::backend) fd: OwnedFd,
    pub(in crate::backend) kind: Kind,
    /// What is behind a device, for the locks on it.
    pub(in crate::backend) behind: Vec<OwnedFd>,
}

/// What stands behind a descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::backend) enum Kind {
    /// A regular file.
    Image {
        /// Nothing is ever given back to the file system: the space was promised.
        keep: bool,
    },
    /// A block device.
    Device {
        /// It zeroes a range by a command of its own.
        zeroes: bool,
    },
    /// A file on a file system without holes.
    #[cfg(test)]
    Bare,
}

impl Medium {
    /// How many bytes it has, as far as the system knows without asking a server of files.
    ///
    /// # Errors
    /// What the system answers.
    pub(super) fn size(&self) -> io::Result<u64> {
        if matches!(self.kind, Kind::Device { .. }) {
            return Ok(rustix::fs::seek(&self.fd, SeekFrom::End(0))?);
        }
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let stat = rustix::fs::statx(&self.fd, c"", flags, StatxFlags::SIZE)?;
        Ok(stat.stx_size)
    }

    /// Gives a range back. What it reads as then is not said.
    ///
    /// # Errors
    /// `EOPNOTSUPP` where that cannot be done, else what the system answers.
    pub(super) fn discard(&self, range: Range<u64>) -> Result<(), Errno> {
        match self.kind {
            Kind::Image { keep: false } => self.fallocate(FallocateFlags::PUNCH_HOLE, range),
            Kind::Image { keep: true } => self.zero(range, true, true),
            Kind::Device { .. } => device::discard(&self.fd, range),
            #[cfg(test)]
            Kind::Bare => Err(Errno::OPNOTSUPP),
        }
    }

    /// Makes a range read as zeroes; with `keep` it stays allocated. With `fast` only if that takes less time than writing it.
    ///
    /// # Errors
    /// `EOPNOTSUPP` where that cannot be done (nothing was), else what the system answers.
    pub(super) fn zero(&self, range: Range<u64>, keep: bool, fast: bool) -> Result<(), Errno> {
        match self.kind {
            Kind::Image { keep: always } => self.zero_image(range, keep || always),
            Kind::Device { zeroes } => {
                if !keep {
                    // Of a device this is to unmap so that zeroes are read, or to fail.
                    let unmapped = self.fallocate(FallocateFlags::PUNCH_HOLE, range.clone());
                    if unmapped != Err(Errno::OPNOTSUPP) {
                        return unmapped;
                    }
                }
                if fast && !zeroes {
                    return Err(Errno::OPNOTSUPP);
                }
                device::zero_out(&self.fd, range)
            }
            #[cfg(test)]
            Kind::Bare => Err(Errno::OPNOTSUPP),
        }
    }

    fn zero_image(&self, range: Range<u64>, keep: bool) -> Result<(), Errno> {
        if !keep {
            return self.fallocate(FallocateFlags::PUNCH_HOLE, range);
        }
        match self.fallocate(FallocateFlags::ZERO_RANGE, range.clone()) {
            // Not every file system can do both at once.
            Err(Errno::OPNOTSUPP) => {
                self.fallocate(FallocateFlags::PUNCH_HOLE, range.clone())?;
                self.fallocate(FallocateFlags::empty(), range)
            }
            outcome => outcome,
        }
    }

    fn fallocate(&self, mode: FallocateFlags, range: Range<u64>) -> Result<(), Errno> {
        loop {
            let mode = mode | FallocateFlags::KEEP_SIZE;
            match rustix::fs::fallocate(&self.fd, mode, range.start, range.end - range.start) {
                Err(Errno::INTR) => {}
                outcome => return outcome,
            }
        }
    }

    /// Adds what of a range holds data. What the system does not know counts as data.
    pub(super) fn find(&self, range: Range<u64>, mut extents: Extents) -> Extents {
        let (mut at, end) = (range.start, range.end);
        while at < end {
            let data = match self.seek(SeekFrom::Data(at)) {
                Ok(data) => data.clamp(at, end),
                // There is none any more.
                Err(Errno::NXIO) => end,
                Err(_) => at,
            };
            if !extents.push(data - at, Allocation::Hole) || data == end {
                break;
            }
            let hole = match self.seek(SeekFrom::Hole(data)) {
                Ok(hole) if hole > data => hole.min(end),
                _ => end,
            };
            if !extents.push(hole - data, Allocation::Data) {
                break;
            }
            at = hole;
        }
        extents
    }

    fn seek(&self, to: SeekFrom) -> Result<u64, Errno> {
        rustix::fs::seek(&self.fd, to)
    }

    /// Whether ranges can be given back, found out beyond the end of the file, where nothing is.
    pub(super) fn punches(&self, size: u64) -> bool {
        let beyond = size.next_multiple_of(1 << 20);
        self.fallocate(FallocateFlags::PUNCH_HOLE, beyond..beyond + 4096)
            .is_ok()
    }

    /// Whether the file system tells holes from data.
    pub(super) fn tells_holes(&self) -> bool {
        matches!(self.seek(SeekFrom::Data(0)), Ok(_) | Err(Errno::NXIO))
    }
}
