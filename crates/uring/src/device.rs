//! Operations on block devices other than reads and writes.

use std::ops::Range;
use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::ioctl::{Opcode, Setter, ioctl, opcode};

// The numbers are those of `linux/fs.h`.
const BLKDISCARD: Opcode = opcode::none(0x12, 119);
const BLKZEROOUT: Opcode = opcode::none(0x12, 127);

/// Returns the logical block size of a block device in bytes, which is the granularity of its
/// requests.
///
/// # Errors
///
/// Returns `ENOTTY` if the descriptor is not a block device.
pub fn logical_block(device: impl AsFd) -> Result<u32, Errno> {
    rustix::fs::ioctl_blksszget(device)
}

/// Discards a range of bytes of a block device. The content afterwards depends on the device.
/// Blocks until the device has completed it.
///
/// # Errors
///
/// Returns `EOPNOTSUPP` if the device does not support it, `EINVAL` if the range is not a multiple
/// of its logical blocks, and `EBADF` if it is not open for writing.
pub fn discard(device: impl AsFd, range: Range<u64>) -> Result<(), Errno> {
    let argument = argument(range)?;
    // SAFETY: BLKDISCARD reads two u64 (start and length in bytes) through its argument.
    unsafe { ioctl(device, Setter::<BLKDISCARD, [u64; 2]>::new(argument)) }
}

/// Fills a range of bytes of a block device with zeroes and keeps its space allocated. Blocks until
/// the device has completed it. If the device has no command for this, Linux writes zeroes.
///
/// # Errors
///
/// Returns the same errors as [`discard`].
pub fn zero_out(device: impl AsFd, range: Range<u64>) -> Result<(), Errno> {
    let argument = argument(range)?;
    // SAFETY: BLKZEROOUT reads two u64 (start and length in bytes) through its argument.
    unsafe { ioctl(device, Setter::<BLKZEROOUT, [u64; 2]>::new(argument)) }
}

fn argument(range: Range<u64>) -> Result<[u64; 2], Errno> {
    let length = range.end.checked_sub(range.start).ok_or(Errno::INVAL)?;
    Ok([range.start, length])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_numbers_match_the_kernel() {
        // The values of `linux/fs.h`, for architectures whose `_IO` has no direction bits.
        if cfg!(any(
            target_arch = "x86_64",
            target_arch = "aarch64",
            target_arch = "riscv64"
        )) {
            assert_eq!((BLKDISCARD, BLKZEROOUT), (0x1277, 0x127f));
        }
    }

    #[test]
    fn files_are_refused_as_devices() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        assert_eq!(logical_block(&file), Err(Errno::NOTTY));
        assert!(discard(&file, 0..4096).is_err() && zero_out(&file, 0..4096).is_err());
        #[expect(clippy::reversed_empty_ranges)]
        let reversed = 1..0;
        assert_eq!(discard(&file, reversed), Err(Errno::INVAL));
    }
}
