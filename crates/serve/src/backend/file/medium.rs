//! Operations on a file or a device that may block and that the ring does not provide. Workers call
//! them.

use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::fs::{AtFlags, FallocateFlags, SeekFrom, StatxFlags};
use weir_uring::{Errno, device};

use super::super::{Allocation, Extents};

/// The workers' descriptor, and the kind of storage behind it.
#[derive(Debug)]
pub(in crate::backend) struct Medium {
    /// The path that was opened.
    pub(in crate::backend) path: PathBuf,
    pub(in crate::backend) fd: OwnedFd,
    pub(in crate::backend) kind: MediumKind,
    /// Descriptors of the files behind a device, which hold the locks on them.
    pub(in crate::backend) behind: Vec<OwnedFd>,
}

/// The kind of storage behind a descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::backend) enum MediumKind {
    /// A regular file.
    Image {
        /// True if no space is ever returned to the file system, because it was promised.
        keep: bool,
    },
    /// A block device.
    Device {
        /// True if the device can zero a range with a command of its own.
        zeroes: bool,
    },
    /// A file on a file system without holes.
    #[cfg(test)]
    Bare,
}

impl Medium {
    /// Returns the size in bytes. For a network file system, this is the size that the client has
    /// cached.
    ///
    /// # Errors
    /// Returns the error of the system.
    pub(super) fn size(&self) -> io::Result<u64> {
        if matches!(self.kind, MediumKind::Device { .. }) {
            return Ok(rustix::fs::seek(&self.fd, SeekFrom::End(0))?);
        }
        // Without `DONT_SYNC`, the call could wait for a file server.
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let stat = rustix::fs::statx(&self.fd, c"", flags, StatxFlags::SIZE)?;
        Ok(stat.stx_size)
    }

    /// Discards a range. The content of the range is undefined afterwards. If the image's space was
    /// promised, the range is zeroed and stays allocated.
    ///
    /// # Errors
    /// Returns `EOPNOTSUPP` if the storage cannot discard, and otherwise the error of the system.
    pub(super) fn discard(&self, range: Range<u64>) -> Result<(), Errno> {
        match self.kind {
            MediumKind::Image { keep: false } => self.fallocate(FallocateFlags::PUNCH_HOLE, range),
            MediumKind::Image { keep: true } => self.zero(range, true, true),
            MediumKind::Device { .. } => device::discard(&self.fd, range),
            #[cfg(test)]
            MediumKind::Bare => Err(Errno::OPNOTSUPP),
        }
    }

    /// Zeroes a range. With `keep`, the range stays allocated. With `fast`, it is zeroed only if
    /// that takes less time than writing zeroes.
    ///
    /// # Errors
    /// Returns `EOPNOTSUPP` if the storage cannot do this, in which case nothing was changed.
    /// Otherwise returns the error of the system.
    pub(super) fn zero(&self, range: Range<u64>, keep: bool, fast: bool) -> Result<(), Errno> {
        match self.kind {
            MediumKind::Image { keep: always } => self.zero_image(range, keep || always),
            MediumKind::Device { zeroes } => {
                if !keep {
                    // For a device, this zeroes the range with a command of the device that may
                    // unmap it, and fails if there is none (`blkdev_fallocate` in `block/fops.c`).
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
            MediumKind::Bare => Err(Errno::OPNOTSUPP),
        }
    }

    fn zero_image(&self, range: Range<u64>, keep: bool) -> Result<(), Errno> {
        if !keep {
            return self.fallocate(FallocateFlags::PUNCH_HOLE, range);
        }
        match self.fallocate(FallocateFlags::ZERO_RANGE, range.clone()) {
            // Some file systems cannot zero a range without freeing it.
            Err(Errno::OPNOTSUPP) => {
                self.fallocate(FallocateFlags::PUNCH_HOLE, range.clone())?;
                self.fallocate(FallocateFlags::empty(), range)
            }
            outcome => outcome,
        }
    }

    fn fallocate(&self, mode: FallocateFlags, range: Range<u64>) -> Result<(), Errno> {
        loop {
            // `KEEP_SIZE` is mandatory for punching holes (fallocate(2)), and the size of an image
            // must not change.
            let mode = mode | FallocateFlags::KEEP_SIZE;
            match rustix::fs::fallocate(&self.fd, mode, range.start, range.end - range.start) {
                Err(Errno::INTR) => {}
                outcome => return outcome,
            }
        }
    }

    /// Appends the extents of a range. If the system does not know the allocation, the range counts
    /// as data.
    pub(super) fn find(&self, range: Range<u64>, mut extents: Extents) -> Extents {
        let (mut at, end) = (range.start, range.end);
        while at < end {
            let data = match self.seek(SeekFrom::Data(at)) {
                Ok(data) => data.clamp(at, end),
                // `ENXIO` means that there is no data after this offset (lseek(2)).
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

    /// Returns true if holes can be punched. This is tested beyond the end of the file, where there
    /// is no data.
    pub(super) fn supports_holes(&self, size: u64) -> bool {
        let beyond = size.next_multiple_of(1 << 20);
        self.fallocate(FallocateFlags::PUNCH_HOLE, beyond..beyond + 4096)
            .is_ok()
    }

    /// Returns true if the file system distinguishes holes from data.
    pub(super) fn reports_holes(&self) -> bool {
        matches!(self.seek(SeekFrom::Data(0)), Ok(_) | Err(Errno::NXIO))
    }
}
