//! Constants of `linux/ublk_cmd.h`.

/// The path of the device that accepts [`ControlCommand`](super::ControlCommand)s.
pub const PATH_CONTROL: &str = "/dev/ublk-control";

/// The maximum number of requests of a queue (`UBLK_MAX_QUEUE_DEPTH`).
pub const MAX_DEPTH: u16 = 4096;
/// The maximum number of queues of a device.
pub const MAX_QUEUES: u16 = 4096;

/// The length of one [`UblkDescriptor`](super::UblkDescriptor) in bytes.
pub const DESCRIPTOR_LEN: usize = 24;

/// The result of a fetch command when a request has arrived.
pub const RESULT_OK: usize = 0;

/// The command that fetches the first request of a tag.
pub const FETCH: u32 = read_write(0x20, 16);
/// The command that returns the result of a request and fetches the next one of the same tag.
pub(super) const COMMIT_AND_FETCH: u32 = read_write(0x21, 16);

/// Features of the driver, and of a device when it is added.
pub mod feature {
    /// A device outlives its server's process.
    pub const USER_RECOVERY: u64 = 1 << 3;
    /// Requests that were in flight when the process ended are issued again to the next one.
    pub const USER_RECOVERY_REISSUE: u64 = 1 << 4;
    /// A user without privileges may own the device.
    pub const UNPRIVILEGED_DEV: u64 = 1 << 5;
    /// Commands are encoded like those of ioctl(2).
    pub const CMD_IOCTL_ENCODE: u64 = 1 << 6;
    /// The server copies payloads with reads and writes of the character device.
    pub const USER_COPY: u64 = 1 << 7;
    /// The size of a device can change.
    pub const UPDATE_SIZE: u64 = 1 << 10;

    /// The features that Weir requires.
    pub const NEEDED: u64 = USER_RECOVERY | USER_RECOVERY_REISSUE | CMD_IOCTL_ENCODE | USER_COPY;
}

/// The state of a device, as the driver reports it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UblkDeviceState {
    /// The device has not started or was stopped, so `/dev/ublkbN` does not exist.
    Dead,
    /// A server serves the device.
    Live,
    /// The server has ended, and the requests wait for the next one.
    Quiesced,
    /// A state that is unknown to this module.
    Other(u16),
}

impl UblkDeviceState {
    pub(super) const fn from_number(number: u16) -> Self {
        match number {
            0 => Self::Dead,
            1 => Self::Live,
            2 => Self::Quiesced,
            other => Self::Other(other),
        }
    }
}

/// Encodes a command like `_IOR` of ioctl(2): direction, length of the argument, the driver's
/// letter, number.
pub(super) const fn read(number: u32, bytes: u32) -> u32 {
    2 << 30 | bytes << 16 | (b'u' as u32) << 8 | number
}

/// Encodes a command like `_IOWR` of ioctl(2), with the same fields as [`read`].
pub(super) const fn read_write(number: u32, bytes: u32) -> u32 {
    3 << 30 | bytes << 16 | (b'u' as u32) << 8 | number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_numbers_match_the_kernel() {
        // The values that a C compiler computes for _IOWR('u', 0x20, struct ublksrv_io_cmd) and the
        // command after it.
        assert_eq!((FETCH, COMMIT_AND_FETCH), (0xc010_7520, 0xc010_7521));
        assert_eq!(read(0x02, 32), 0x8020_7502);
    }
}
