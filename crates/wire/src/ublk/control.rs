//! Commands to the control device, and the driver's description of a device.

use super::constants::{UblkDeviceState, read, read_write};
use super::feature;

/// The length of a [`ControlCommand`] in bytes.
pub const CONTROL_LEN: usize = 32;
/// The length of an encoded [`DeviceInfo`] in bytes.
pub const INFO_LEN: usize = 64;
/// The position of the argument's address in an encoded command.
const ADDRESS: usize = 8;
/// The queue of commands that concern no particular queue.
const NO_QUEUE: u16 = u16::MAX;

/// The action of a control command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    /// Returns the features of the driver, in eight bytes.
    GetFeatures,
    /// Returns the state of a device, as a [`DeviceInfo`].
    GetInfo,
    /// Adds a device. The argument is a [`DeviceInfo`], which the driver completes with the actual
    /// values.
    Add,
    /// Sets the parameters of a device ([`DeviceParams`](super::DeviceParams)).
    SetParams,
    /// Returns the parameters of a device.
    GetParams,
    /// Starts a device for users. The command completes when every tag of every queue is fetched.
    /// The datum is the server's process.
    Start,
    /// Stops a device for users. The command completes when all requests have completed.
    Stop,
    /// Removes a device, without waiting for processes that have `/dev/ublkcN` open.
    Delete,
    /// Prepares a device for the next server after its server has ended.
    StartRecovery,
    /// Starts a device for the next server. The command completes when every tag of every queue is
    /// fetched. The datum is the process.
    EndRecovery,
    /// Changes the size of a device. The datum is the new size in sectors.
    UpdateSize,
}

impl Verb {
    /// Returns the number of the command.
    pub const fn code(self) -> u32 {
        let bytes = CONTROL_LEN as u32;
        match self {
            Self::GetInfo => read(0x02, bytes),
            Self::Add => read_write(0x04, bytes),
            Self::Start => read_write(0x06, bytes),
            Self::Stop => read_write(0x07, bytes),
            Self::SetParams => read_write(0x08, bytes),
            Self::GetParams => read(0x09, bytes),
            Self::StartRecovery => read_write(0x10, bytes),
            Self::EndRecovery => read_write(0x11, bytes),
            Self::GetFeatures => read(0x13, bytes),
            Self::Delete => read(0x14, bytes),
            Self::UpdateSize => read_write(0x15, bytes),
        }
    }
}

/// A command to the control device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ControlCommand {
    /// The action of the command.
    pub verb: Verb,
    /// The number of the device. `u32::MAX` adds a device with any number, and is used for commands
    /// that concern no device.
    pub device: u32,
    /// The length of the argument in bytes.
    pub argument: u16,
    /// A number that belongs to the command.
    pub datum: u64,
}

impl ControlCommand {
    /// The position in the encoded command at which the address of the argument must be stored.
    pub const ADDRESS: usize = ADDRESS;

    /// Encodes the command in the driver's format, without an address.
    pub fn encode(&self) -> [u8; CONTROL_LEN] {
        let mut bytes = [0; CONTROL_LEN];
        // The layout of `struct ublksrv_ctrl_cmd`, whose address at 8 the caller adds.
        bytes[0..4].copy_from_slice(&self.device.to_ne_bytes());
        bytes[4..6].copy_from_slice(&NO_QUEUE.to_ne_bytes());
        bytes[6..8].copy_from_slice(&self.argument.to_ne_bytes());
        bytes[16..24].copy_from_slice(&self.datum.to_ne_bytes());
        bytes
    }
}

/// The description of a device that the driver and the server share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceInfo {
    /// The number of queues. The driver reduces it to the number of processors.
    pub queues: u16,
    /// The number of requests that each queue can hold.
    pub depth: u16,
    /// The state of the device.
    pub state: UblkDeviceState,
    /// The length of the longest request in bytes.
    pub longest: u32,
    /// N of `/dev/ublkbN`, or `u32::MAX` for any.
    pub number: u32,
    /// The process of the server. It is not positive if there is none.
    pub process: i32,
    /// The features with which the device was added ([`feature`]).
    pub features: u64,
    /// A value of the server's own, which the driver stores without interpreting it.
    pub mark: u64,
}

impl DeviceInfo {
    /// Creates the description of a device to add.
    pub fn new(queues: u16, depth: u16, longest: u32, mark: u64) -> Self {
        Self {
            queues,
            depth,
            state: UblkDeviceState::Dead,
            longest,
            number: u32::MAX,
            process: -1,
            features: feature::CMD_IOCTL_ENCODE | feature::USER_COPY,
            mark,
        }
    }

    /// Makes the device outlive its server. Requests in flight are issued again to the next server.
    #[must_use]
    pub fn recoverable(mut self) -> Self {
        self.features |= feature::USER_RECOVERY | feature::USER_RECOVERY_REISSUE;
        self
    }

    /// Encodes the description in the driver's format, without state and process, which only the
    /// driver sets.
    pub fn encode(&self) -> [u8; INFO_LEN] {
        let mut bytes = [0; INFO_LEN];
        // The layout of `struct ublksrv_ctrl_dev_info`.
        bytes[0..2].copy_from_slice(&self.queues.to_ne_bytes());
        bytes[2..4].copy_from_slice(&self.depth.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.longest.to_ne_bytes());
        bytes[12..16].copy_from_slice(&self.number.to_ne_bytes());
        bytes[24..32].copy_from_slice(&self.features.to_ne_bytes());
        bytes[32..40].copy_from_slice(&self.mark.to_ne_bytes());
        bytes
    }

    /// Decodes the description that the driver returned.
    pub fn parse(bytes: &[u8; INFO_LEN]) -> Self {
        Self {
            queues: u16::from_ne_bytes(at(bytes, 0)),
            depth: u16::from_ne_bytes(at(bytes, 2)),
            state: UblkDeviceState::from_number(u16::from_ne_bytes(at(bytes, 4))),
            longest: u32::from_ne_bytes(at(bytes, 8)),
            number: u32::from_ne_bytes(at(bytes, 12)),
            process: i32::from_ne_bytes(at(bytes, 16)),
            features: u64::from_ne_bytes(at(bytes, 24)),
            mark: u64::from_ne_bytes(at(bytes, 32)),
        }
    }
}

/// Returns `N` bytes of a structure, which must be long enough.
pub(super) fn at<const N: usize>(bytes: &[u8], start: usize) -> [u8; N] {
    let mut part = [0; N];
    part.copy_from_slice(&bytes[start..start + N]);
    part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_information_survives_encoding() {
        let device = DeviceInfo {
            number: 7,
            ..DeviceInfo::new(2, 32, 1 << 20, 0x57e1_0000_0000_0001).recoverable()
        };
        let mut bytes = device.encode();
        // The driver sets the state (2, quiesced) and the process (99).
        bytes[4] = 2;
        bytes[16..20].copy_from_slice(&99i32.to_ne_bytes());
        let told = DeviceInfo {
            state: UblkDeviceState::Quiesced,
            process: 99,
            ..device
        };
        assert_eq!(DeviceInfo::parse(&bytes), told);
    }

    #[test]
    fn a_command_is_laid_out_as_the_driver_reads_it() {
        let command = ControlCommand {
            verb: Verb::Start,
            device: 3,
            argument: 0x0102,
            datum: 0x0a0b,
        };
        let mut expected = [0; CONTROL_LEN];
        expected[0..4].copy_from_slice(&3u32.to_ne_bytes());
        // The command concerns no queue.
        expected[4..6].copy_from_slice(&[0xff, 0xff]);
        expected[6..8].copy_from_slice(&0x0102u16.to_ne_bytes());
        expected[16..24].copy_from_slice(&0x0a0bu64.to_ne_bytes());
        assert_eq!(command.encode(), expected);
        assert_eq!(Verb::Start.code(), 0xc020_7506);
        assert_eq!(Verb::GetFeatures.code(), 0x8020_7513);
    }
}
