//! Generic netlink, as far as the kernel's NBD driver needs it (`include/uapi/linux/genetlink.h`,
//! `nbd-netlink.h`).

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::netlink::{GENERIC, SocketAddrNetlink};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// The length of a message's header, and of the generic netlink header that follows it, in bytes.
const HEADER: usize = 16;
const GENERIC_HEADER: usize = 4;
/// The flags of a request that is acknowledged in any case: `NLM_F_REQUEST` and `NLM_F_ACK`.
const REQUEST_ACK: u16 = 1 | 4;
/// The type of a message with the result of a request (`NLMSG_ERROR`).
const ERROR: u16 = 2;
/// The family of the controller (`GENL_ID_CTRL`), its command, and its attributes.
const CONTROL: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
const GROUPS: u16 = 7;
const GROUP_NAME: u16 = 1;
const GROUP_ID: u16 = 2;
/// The flag in the type of an attribute that contains attributes (`NLA_F_NESTED`).
const NESTED: u16 = 1 << 15;
/// The maximum length of a received message, in bytes.
const LONGEST: usize = 16 << 10;
/// The time that the kernel has to reply. Disconnecting waits for the receiving threads of the
/// device.
const PATIENCE: Duration = Duration::from_mins(1);

/// The attributes of a message in their binary form.
#[derive(Clone, Debug, Default)]
pub(super) struct Attributes(Vec<u8>);

impl Attributes {
    // A header of 4 bytes (length and type), the value, and padding to a multiple of 4.
    fn add(mut self, kind: u16, bytes: &[u8]) -> Self {
        let length = (bytes.len() + 4) as u16;
        self.0.extend_from_slice(&length.to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(bytes);
        // NLA_ALIGN: attributes begin at multiples of 4.
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    pub(super) fn u32(self, kind: u16, value: u32) -> Self {
        self.add(kind, &value.to_ne_bytes())
    }

    pub(super) fn u64(self, kind: u16, value: u64) -> Self {
        self.add(kind, &value.to_ne_bytes())
    }

    pub(super) fn text(self, kind: u16, text: &str) -> Self {
        self.add(kind, &[text.as_bytes(), b"\0"].concat())
    }

    pub(super) fn nested(self, kind: u16, inner: &Self) -> Self {
        self.add(kind | NESTED, &inner.0)
    }
}

/// A family of generic netlink, with a socket for requests to it.
#[derive(Debug)]
pub(super) struct Family {
    socket: OwnedFd,
    id: u16,
    /// The multicast groups of the family, by name.
    groups: Vec<(String, u32)>,
}

impl Family {
    /// Finds a family by name. The module that registers it must be loaded.
    pub(super) fn find(name: &str) -> io::Result<Self> {
        let socket = open(0)?;
        let mut family = Self {
            socket,
            id: CONTROL,
            groups: Vec::new(),
        };
        let asked = Attributes::default().text(FAMILY_NAME, name);
        let answer = family.ask(GET_FAMILY, &asked)?;
        let id = find(&answer, FAMILY_ID).and_then(|id| id.first_chunk());
        family.id = u16::from_ne_bytes(*id.ok_or(io::ErrorKind::NotFound)?);
        for (_, group) in attributes(find(&answer, GROUPS).unwrap_or_default()) {
            let name = find(group, GROUP_NAME).unwrap_or_default();
            let name = String::from_utf8_lossy(name)
                .trim_end_matches('\0')
                .to_owned();
            let id = find(group, GROUP_ID).and_then(|id| id.first_chunk());
            family
                .groups
                .extend(id.map(|id| (name, u32::from_ne_bytes(*id))));
        }
        Ok(family)
    }

    /// Sends a command and waits for its result. Returns the attributes of the reply, or nothing if
    /// the command has none.
    pub(super) fn ask(&self, command: u8, attributes: &Attributes) -> io::Result<Vec<u8>> {
        let length = HEADER + GENERIC_HEADER + attributes.0.len();
        let mut message = Vec::with_capacity(length);
        message.extend_from_slice(&(length as u32).to_ne_bytes());
        message.extend_from_slice(&self.id.to_ne_bytes());
        message.extend_from_slice(&REQUEST_ACK.to_ne_bytes());
        // Sequence number and port stay 0, because the socket has one request at a time.
        message.extend_from_slice(&[0; 8]);
        // struct genlmsghdr: command, version, reserved.
        message.extend_from_slice(&[command, 1, 0, 0]);
        message.extend_from_slice(&attributes.0);
        rustix::net::send(&self.socket, &message, SendFlags::empty())?;
        let mut answer = Vec::new();
        loop {
            for (kind, body) in receive(&self.socket)? {
                if kind != ERROR {
                    answer = body.get(GENERIC_HEADER..).unwrap_or_default().to_vec();
                    continue;
                }
                // struct nlmsgerr: 0 acknowledges the request.
                let errno = body.first_chunk().map_or(0, |n| i32::from_ne_bytes(*n));
                return match errno {
                    0 => Ok(answer),
                    errno => Err(io::Error::from_raw_os_error(-errno)),
                };
            }
        }
    }

    /// Opens a socket that receives the messages of a multicast group.
    pub(super) fn listen(&self, group: &str) -> io::Result<OwnedFd> {
        let id = self.groups.iter().find(|(name, _)| name == group);
        let (_, id) = id.ok_or(io::ErrorKind::NotFound)?;
        // Binding accepts only groups of the first word of the bitmap, that is, up to number 32.
        let bit = id.checked_sub(1).and_then(|bit| 1u32.checked_shl(bit));
        open(bit.ok_or(io::ErrorKind::Unsupported)?)
    }
}

/// Opens a socket that is bound to a set of multicast groups, as a bitmap.
fn open(groups: u32) -> io::Result<OwnedFd> {
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(GENERIC),
    )?;
    // The kernel chooses the port if it is 0.
    rustix::net::bind(&socket, &SocketAddrNetlink::new(0, groups))?;
    set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
    Ok(socket)
}

/// Receives the next messages. Returns their types, and their content after the header.
pub(super) fn receive(socket: &OwnedFd) -> io::Result<Vec<(u16, Vec<u8>)>> {
    let mut bytes = vec![0; LONGEST];
    let (_, length) = rustix::net::recv(socket, &mut bytes[..], RecvFlags::empty())?;
    let mut left = bytes.get(..length).ok_or(io::ErrorKind::InvalidData)?;
    let mut messages = Vec::new();
    while let Some(header) = left.first_chunk::<HEADER>() {
        let length = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
        let kind = u16::from_ne_bytes([header[4], header[5]]);
        // A length below that of the header would not advance.
        let body = left.get(HEADER..length).ok_or(io::ErrorKind::InvalidData)?;
        messages.push((kind, body.to_vec()));
        left = left.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(messages)
}

/// Returns the value of the attribute with a type.
pub(super) fn find(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(k, _)| *k == kind).map(|(_, v)| v)
}

/// Returns the attributes with their types, up to the first that is cut off.
fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut left = bytes;
    std::iter::from_fn(move || {
        let header = left.first_chunk::<4>()?;
        let length = u16::from_ne_bytes([header[0], header[1]]) as usize;
        let kind = u16::from_ne_bytes([header[2], header[3]]) & !NESTED;
        // A length of less than 4 is invalid and ends the iteration.
        let value = left.get(4..length)?;
        left = left.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_as_they_are_written() {
        let inner = Attributes::default().u32(1, 7);
        let all = Attributes::default()
            .text(10, "a")
            .nested(7, &inner)
            .u64(2, 9);
        assert_eq!(find(&all.0, 10), Some(&b"a\0"[..]));
        assert_eq!(
            find(find(&all.0, 7).unwrap(), 1),
            Some(&7u32.to_ne_bytes()[..])
        );
        assert_eq!(find(&all.0, 2), Some(&9u64.to_ne_bytes()[..]));
        assert_eq!(find(&all.0, 3), None);
        for cut in 0..all.0.len() {
            assert_eq!(find(&all.0[..cut], 2), None);
        }
    }

    #[test]
    fn the_kernel_names_its_families() {
        let control = Family::find("nlctrl").unwrap();
        assert_eq!(control.id, CONTROL);
        assert!(control.groups.iter().any(|(name, _)| name == "notify"));
        assert!(control.listen("notify").is_ok());
        assert_eq!(
            Family::find("no-such").unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }
}
