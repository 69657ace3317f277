//! What block devices do beside reading and writing.

use std::ops::Range;
use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::ioctl::{Opcode, Setter, ioctl, opcode};

const BLKDISCARD: Opcode = opcode::none(0x12, 119);
const BLKZEROOUT: Opcode = opcode::none(0x12, 127);

/// Bytes of a logical block of a block device: what its requests are multiples of.
///
/// # Errors
///
/// `ENOTTY` when it is no block device.
pub fn logical_block(device: impl AsFd) -> Result<u32, Errno> {
    rustix::fs::ioctl_blksszget(device)
}

/// Tells a block device that a range of bytes is not needed any more; what it reads as then is the device's choice. Takes as long
/// as the device does.
///
/// # Errors
///
/// `EOPNOTSUPP` where the device cannot, `EINVAL` for a range that is not whole logical blocks of it, `EBADF` when it is not open
/// for writing.
pub fn discard(device: impl AsFd, range: Range<u64>) -> Result<(), Errno> {
    let argument = argument(range)?;
    // SAFETY: BLKDISCARD reads two u64 (start and length in bytes) from where its argument points.
    unsafe { ioctl(device, Setter::<BLKDISCARD, [u64; 2]>::new(argument)) }
}

/// Makes a range of bytes of a block device read as zeroes; it stays provisioned. Takes as long as the device does: one without a
/// command of its own for this is written to.
///
/// # Errors
///
/// As [`discard`].
pub fn zero_out(device: impl AsFd, range: Range<u64>) -> Result<(), Errno> {
    let argument = argument(range)?;
    // SAFETY: BLKZEROOUT reads two u64 (start and length in bytes) from where its argument points.
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
    fn the_numbers_are_those_of_the_kernel() {
        // Of linux/fs.h on architectures whose _IO has no direction bits.
        if cfg!(any(
            target_arch = "x86_64",
            target_arch = "aarch64",
            target_arch = "riscv64"
        )) {
            assert_eq!((BLKDISCARD, BLKZEROOUT), (0x1277, 0x127f));
        }
    }

    #[test]
    fn what_is_no_device_is_refused() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        assert_eq!(logical_block(&file), Err(Errno::NOTTY));
        assert!(discard(&file, 0..4096).is_err() && zero_out(&file, 0..4096).is_err());
        #[expect(clippy::reversed_empty_ranges)]
        let reversed = 1..0;
        assert_eq!(discard(&file, reversed), Err(Errno::INVAL));
    }
}
