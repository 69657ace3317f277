//! Commands to the control device, and what the driver says of a device.

use super::constants::{State, read, read_write};
use super::feature;

/// Bytes of a [`ControlCommand`].
pub const CONTROL_LEN: usize = 32;
/// Bytes of a [`Device`].
pub const INFO_LEN: usize = 64;
/// In an encoded command: where the address of its argument is put.
const ADDRESS: usize = 8;
/// The queue of a command that is for none.
const NO_QUEUE: u16 = u16::MAX;

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    /// What the driver can do: eight bytes.
    GetFeatures,
    /// How a device stands: a [`Device`].
    GetInfo,
    /// Add a device: a [`Device`], which comes back as it has become.
    Add,
    /// Say what it is like: [`Params`](super::Params).
    SetParams,
    /// What was said.
    GetParams,
    /// Let users in; ends when every place of every queue is fetched. The datum is the server's process.
    Start,
    /// Let nobody in any more; ends when every request is over.
    Stop,
    /// Forget the device, without waiting for those that have `/dev/ublkcN` open.
    Delete,
    /// A server of a device is no more: make ready for the next.
    StartRecovery,
    /// The next serves: ends when every place of every queue is fetched. The datum is its process.
    EndRecovery,
    /// The size changes. The datum is its sectors.
    UpdateSize,
}

impl Verb {
    /// The command's number.
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
    /// What is to be done.
    pub verb: Verb,
    /// To which device; `u32::MAX` for one that is to be added with any number, and where it is about none.
    pub device: u32,
    /// Bytes of the argument.
    pub argument: u16,
    /// A number that goes with it.
    pub datum: u64,
}

impl ControlCommand {
    /// Where in what is encoded the address of the argument is put.
    pub const ADDRESS: usize = ADDRESS;

    /// As the driver reads it, without an address.
    pub fn encode(&self) -> [u8; CONTROL_LEN] {
        let mut bytes = [0; CONTROL_LEN];
        bytes[0..4].copy_from_slice(&self.device.to_ne_bytes());
        bytes[4..6].copy_from_slice(&NO_QUEUE.to_ne_bytes());
        bytes[6..8].copy_from_slice(&self.argument.to_ne_bytes());
        bytes[16..24].copy_from_slice(&self.datum.to_ne_bytes());
        bytes
    }
}

/// What the driver and the server know of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Device {
    /// Its queues; the driver gives it no more than there are processors.
    pub queues: u16,
    /// Requests that each queue has at a time.
    pub depth: u16,
    /// How it stands.
    pub state: State,
    /// Bytes of the longest request.
    pub longest: u32,
    /// N of `/dev/ublkbN`; `u32::MAX` for any.
    pub number: u32,
    /// The server's process; not positive if there is none.
    pub process: i32,
    /// What it was made with ([`feature`]).
    pub features: u64,
    /// The server's own mark, which the driver keeps and does not look at.
    pub mark: u64,
}

impl Device {
    /// A device that is to be added.
    pub fn new(queues: u16, depth: u16, longest: u32, mark: u64) -> Self {
        Self {
            queues,
            depth,
            state: State::Dead,
            longest,
            number: u32::MAX,
            process: -1,
            features: feature::CMD_IOCTL_ENCODE | feature::USER_COPY,
            mark,
        }
    }

    /// It outlives its server, whose requests are asked again of the next.
    #[must_use]
    pub fn recoverable(mut self) -> Self {
        self.features |= feature::USER_RECOVERY | feature::USER_RECOVERY_REISSUE;
        self
    }

    /// As the driver reads it. Its state and process are the driver's to say.
    pub fn encode(&self) -> [u8; INFO_LEN] {
        let mut bytes = [0; INFO_LEN];
        bytes[0..2].copy_from_slice(&self.queues.to_ne_bytes());
        bytes[2..4].copy_from_slice(&self.depth.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.longest.to_ne_bytes());
        bytes[12..16].copy_from_slice(&self.number.to_ne_bytes());
        bytes[24..32].copy_from_slice(&self.features.to_ne_bytes());
        bytes[32..40].copy_from_slice(&self.mark.to_ne_bytes());
        bytes
    }

    /// What the driver has said.
    pub fn parse(bytes: &[u8; INFO_LEN]) -> Self {
        Self {
            queues: u16::from_ne_bytes(at(bytes, 0)),
            depth: u16::from_ne_bytes(at(bytes, 2)),
            state: State::from_number(u16::from_ne_bytes(at(bytes, 4))),
            longest: u32::from_ne_bytes(at(bytes, 8)),
            number: u32::from_ne_bytes(at(bytes, 12)),
            process: i32::from_ne_bytes(at(bytes, 16)),
            features: u64::from_ne_bytes(at(bytes, 24)),
            mark: u64::from_ne_bytes(at(bytes, 32)),
        }
    }
}

/// `N` bytes of a structure, which has them.
pub(super) fn at<const N: usize>(bytes: &[u8], start: usize) -> [u8; N] {
    let mut part = [0; N];
    part.copy_from_slice(&bytes[start..start + N]);
    part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_comes_back_as_it_was_said() {
        let device = Device {
            number: 7,
            ..Device::new(2, 32, 1 << 20, 0x57e1_0000_0000_0001).recoverable()
        };
        let mut bytes = device.encode();
        bytes[4] = 2;
        bytes[16..20].copy_from_slice(&99i32.to_ne_bytes());
        let told = Device {
            state: State::Quiesced,
            process: 99,
            ..device
        };
        assert_eq!(Device::parse(&bytes), told);
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
        expected[4..6].copy_from_slice(&[0xff, 0xff]);
        expected[6..8].copy_from_slice(&0x0102u16.to_ne_bytes());
        expected[16..24].copy_from_slice(&0x0a0bu64.to_ne_bytes());
        assert_eq!(command.encode(), expected);
        assert_eq!(Verb::Start.code(), 0xc020_7506);
        assert_eq!(Verb::GetFeatures.code(), 0x8020_7513);
    }
}
