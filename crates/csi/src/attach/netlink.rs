//! Generic netlink, as much as the kernel's NBD driver takes: `include/uapi/linux/genetlink.h`, `nbd-netlink.h`.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::netlink::{GENERIC, SocketAddrNetlink};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// Bytes of a message's header, and of the header of generic netlink behind it.
const HEADER: usize = 16;
const GENERIC_HEADER: usize = 4;
/// A header's flags: it asks, and wants an answer in any case.
const REQUEST_ACK: u16 = 1 | 4;
/// A message that says how an earlier one went.
const ERROR: u16 = 2;
/// The family that knows the others, and what it is asked.
const CONTROL: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
const GROUPS: u16 = 7;
const GROUP_NAME: u16 = 1;
const GROUP_ID: u16 = 2;
/// A type of attribute says with this that attributes are in it.
const NESTED: u16 = 1 << 15;
/// Longest message that is taken, bytes.
const LONGEST: usize = 16 << 10;
/// How long the kernel may take: disconnecting waits for requests.
const PATIENCE: Duration = Duration::from_mins(1);

/// Attributes of a message, as bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Attributes(Vec<u8>);

impl Attributes {
    fn add(mut self, kind: u16, bytes: &[u8]) -> Self {
        let length = (bytes.len() + 4) as u16;
        self.0.extend_from_slice(&length.to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(bytes);
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

/// A family of generic netlink, and a socket at which it is asked.
#[derive(Debug)]
pub(super) struct Family {
    socket: OwnedFd,
    id: u16,
    /// The groups to which it sends what happens, by name.
    groups: Vec<(String, u32)>,
}

impl Family {
    /// Finds a family; the module that has it must be loaded.
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

    /// A command, and the attributes of its answer; none if it is only done.
    pub(super) fn ask(&self, command: u8, attributes: &Attributes) -> io::Result<Vec<u8>> {
        let length = HEADER + GENERIC_HEADER + attributes.0.len();
        let mut message = Vec::with_capacity(length);
        message.extend_from_slice(&(length as u32).to_ne_bytes());
        message.extend_from_slice(&self.id.to_ne_bytes());
        message.extend_from_slice(&REQUEST_ACK.to_ne_bytes());
        // Number and port: one message is under way, at a socket of its own.
        message.extend_from_slice(&[0; 8]);
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
                let errno = body.first_chunk().map_or(0, |n| i32::from_ne_bytes(*n));
                return match errno {
                    0 => Ok(answer),
                    errno => Err(io::Error::from_raw_os_error(-errno)),
                };
            }
        }
    }

    /// A socket that hears what the family sends to a group.
    pub(super) fn listen(&self, group: &str) -> io::Result<OwnedFd> {
        let id = self.groups.iter().find(|(name, _)| name == group);
        let (_, id) = id.ok_or(io::ErrorKind::NotFound)?;
        let bit = id.checked_sub(1).and_then(|bit| 1u32.checked_shl(bit));
        open(bit.ok_or(io::ErrorKind::Unsupported)?)
    }
}

fn open(groups: u32) -> io::Result<OwnedFd> {
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(GENERIC),
    )?;
    rustix::net::bind(&socket, &SocketAddrNetlink::new(0, groups))?;
    set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
    Ok(socket)
}

/// The messages that came next: their types, and what stands behind their headers.
pub(super) fn receive(socket: &OwnedFd) -> io::Result<Vec<(u16, Vec<u8>)>> {
    let mut bytes = vec![0; LONGEST];
    let (_, length) = rustix::net::recv(socket, &mut bytes[..], RecvFlags::empty())?;
    let mut left = bytes.get(..length).ok_or(io::ErrorKind::InvalidData)?;
    let mut messages = Vec::new();
    while let Some(header) = left.first_chunk::<HEADER>() {
        let length = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
        let kind = u16::from_ne_bytes([header[4], header[5]]);
        let body = left.get(HEADER..length).ok_or(io::ErrorKind::InvalidData)?;
        messages.push((kind, body.to_vec()));
        left = left.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(messages)
}

/// The value of an attribute.
pub(super) fn find(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(k, _)| *k == kind).map(|(_, v)| v)
}

/// Attributes by type, as far as they are whole.
fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut left = bytes;
    std::iter::from_fn(move || {
        let header = left.first_chunk::<4>()?;
        let length = u16::from_ne_bytes([header[0], header[1]]) as usize;
        let kind = u16::from_ne_bytes([header[2], header[3]]) & !NESTED;
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
