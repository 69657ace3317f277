//! Control device of a driver. Commands are executed one at a time, and each is waited for.

use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;

use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};
use rustix::io::Errno;

/// The size of the largest argument in bytes.
const ARGUMENT: usize = 4096;
/// The number of bytes for the driver in an entry of this ring's submission queue.
const CARRIED: usize = 80;

/// A driver's control device, with a ring of its own whose entries carry 80 bytes for the driver.
pub struct DriverControl {
    ring: IoUring<squeue::Entry128>,
    device: File,
    /// The memory that the driver reads and writes during a command.
    argument: ManuallyDrop<Box<[u8; ARGUMENT]>>,
    /// True if a command did not end in time, so that the driver may still use the argument.
    stuck: bool,
}

impl DriverControl {
    /// Opens the device and a ring for it.
    ///
    /// # Errors
    ///
    /// Returns the error of open(2) or of `io_uring_setup(2)`.
    pub fn open(path: &Path) -> io::Result<Self> {
        let device = File::options().read(true).write(true).open(path)?;
        Ok(Self {
            ring: IoUring::<squeue::Entry128>::builder().build(2)?,
            device,
            argument: ManuallyDrop::new(Box::new([0; ARGUMENT])),
            stuck: false,
        })
    }

    /// Executes the driver's command `code` and returns its value. Waits for its end for at most
    /// `within`.
    ///
    /// The command carries `bytes`. If there is an argument, its address is stored at `address` in
    /// them. Afterwards, `argument` contains the content that the driver has left in it.
    ///
    /// # Errors
    ///
    /// Returns the driver's error. Returns `ETIME` if the command has not ended in time, and
    /// `EBUSY` for every later command.
    ///
    /// # Panics
    ///
    /// If the argument has more than 4096 bytes, or the command more than 80.
    pub fn call(
        &mut self,
        code: u32,
        bytes: &[u8],
        (address, argument): (usize, &mut [u8]),
        within: Duration,
    ) -> Result<u32, Errno> {
        if self.stuck {
            return Err(Errno::BUSY);
        }
        let mut carried = [0; CARRIED];
        carried[..bytes.len()].copy_from_slice(bytes);
        if !argument.is_empty() {
            self.argument[..argument.len()].copy_from_slice(argument);
            let start = self.argument.as_ptr().expose_provenance() as u64;
            carried[address..address + 8].copy_from_slice(&start.to_ne_bytes());
        }
        let entry = opcode::UringCmd80::new(Fd(self.device.as_raw_fd()), code)
            .cmd(carried)
            .build();
        // SAFETY: the descriptor and the argument stay valid until the command has ended. Both
        // belong to this structure, which leaks the argument if it did not see the end, and the
        // kernel keeps the file open. No other code has the argument's address.
        unsafe { self.ring.submission().push(&entry) }.map_err(|_| Errno::BUSY)?;
        let result = self.wait(within)?;
        argument.copy_from_slice(&self.argument[..argument.len()]);
        u32::try_from(result).map_err(|_| Errno::from_raw_os_error(-result))
    }

    /// Waits for the result of the queued command.
    fn wait(&mut self, within: Duration) -> Result<i32, Errno> {
        let end = std::time::Instant::now() + within;
        loop {
            let left = end.saturating_duration_since(std::time::Instant::now());
            let timespec = Timespec::from(left);
            let args = SubmitArgs::new().timespec(&timespec);
            let entered = self.ring.submitter().submit_with_args(1, &args);
            if let Some(entry) = self.ring.completion().next() {
                return Ok(entry.result());
            }
            // The wait may end early, for example because of a signal, so the loop checks the time
            // itself.
            match entered.as_ref().err().and_then(Errno::from_io_error) {
                None | Some(Errno::INTR | Errno::TIME) if !left.is_zero() => {}
                error => {
                    // The driver may write to the argument at any later time, so the argument must
                    // never be freed or reused.
                    self.stuck = true;
                    return Err(error.unwrap_or(Errno::TIME));
                }
            }
        }
    }
}

impl Drop for DriverControl {
    fn drop(&mut self) {
        if !self.stuck {
            // SAFETY: it is dropped once, here, and not used afterwards. No command is in progress.
            unsafe { ManuallyDrop::drop(&mut self.argument) };
        }
    }
}

impl std::fmt::Debug for DriverControl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control")
            .field("device", &self.device)
            .field("stuck", &self.stuck)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_without_commands_returns_an_error() {
        // A system without io_uring has no driver that accepts such commands either.
        let Ok(mut control) = DriverControl::open(Path::new("/dev/null")) else {
            return;
        };
        let mut argument = [7; 16];
        let second = Duration::from_secs(1);
        for _ in 0..3 {
            let ended = control.call(0x2000_7501, &[0; 32], (8, &mut argument), second);
            // Since Linux 6.0, /dev/null accepts commands and does nothing.
            assert!(matches!(
                ended,
                Ok(0) | Err(Errno::OPNOTSUPP | Errno::INVAL)
            ));
            assert_eq!(argument, [7; 16]);
        }
    }
}
