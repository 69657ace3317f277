//! The numbers of `linux/ublk_cmd.h`.

/// The device that takes [`ControlCommand`](super::ControlCommand)s.
pub const PATH_CONTROL: &str = "/dev/ublk-control";

/// Most requests that a queue has at a time.
pub const MAX_DEPTH: u16 = 4096;
/// Most queues of a device.
pub const MAX_QUEUES: u16 = 4096;

/// Bytes of one [`Descriptor`](super::Descriptor).
pub const DESCRIPTOR_LEN: usize = 24;

/// What a command to fetch a request comes to when there is one.
pub const RESULT_OK: usize = 0;

/// The command that fetches a place's first request.
pub const FETCH: u32 = read_write(0x20, 16);
/// The command that brings a request's result back and fetches the next in its place.
pub(super) const COMMIT_AND_FETCH: u32 = read_write(0x21, 16);

/// Features of the driver, and what a device was made with.
pub mod feature {
    /// A device outlives its server's process.
    pub const USER_RECOVERY: u64 = 1 << 3;
    /// Requests that the process had when it ended are asked again of the next.
    pub const USER_RECOVERY_REISSUE: u64 = 1 << 4;
    /// A user without rights may have it.
    pub const UNPRIVILEGED_DEV: u64 = 1 << 5;
    /// Commands are numbered as calls of ioctl(2) are.
    pub const CMD_IOCTL_ENCODE: u64 = 1 << 6;
    /// The server copies payloads by reading and writing.
    pub const USER_COPY: u64 = 1 << 7;
    /// A device's size can change.
    pub const UPDATE_SIZE: u64 = 1 << 10;

    /// What Weir cannot do without.
    pub const NEEDED: u64 = USER_RECOVERY | USER_RECOVERY_REISSUE | CMD_IOCTL_ENCODE | USER_COPY;
}

/// How a device stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// It has not begun, or has ended: there is no `/dev/ublkbN`.
    Dead,
    /// A server serves it.
    Live,
    /// Its server has ended, and its requests wait for the next.
    Quiesced,
    /// Something that is not known here.
    Other(u16),
}

impl State {
    pub(super) const fn from_number(number: u16) -> Self {
        match number {
            0 => Self::Dead,
            1 => Self::Live,
            2 => Self::Quiesced,
            other => Self::Other(other),
        }
    }
}

/// The number of a command as those of ioctl(2) are made (`_IOR`): direction, bytes of the argument, the driver's letter, its number.
pub(super) const fn read(number: u32, bytes: u32) -> u32 {
    2 << 30 | bytes << 16 | (b'u' as u32) << 8 | number
}

/// As [`read`], for `_IOWR`.
pub(super) const fn read_write(number: u32, bytes: u32) -> u32 {
    3 << 30 | bytes << 16 | (b'u' as u32) << 8 | number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_kernel() {
        // As a compiler makes them of _IOWR('u', 0x20, struct ublksrv_io_cmd) and its neighbour.
        assert_eq!((FETCH, COMMIT_AND_FETCH), (0xc010_7520, 0xc010_7521));
        assert_eq!(read(0x02, 32), 0x8020_7502);
    }
}
