//! The client at the other end of a socket, as far as the system names it.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;

/// A host or a user that has connected, and the process where that is known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Peer {
    owner: Owner,
    process: i32,
}

/// A host or a user, between which places are divided.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Owner {
    /// Nothing is known of it. All of these are one.
    Unknown,
    User(u32),
    /// Of version 6 the network: a host has all of its addresses.
    Host(IpAddr),
}

impl Peer {
    /// Nothing is known of it.
    pub(crate) fn unknown() -> Self {
        Self {
            owner: Owner::Unknown,
            process: 0,
        }
    }

    /// The process at the other end of a Unix socket.
    pub fn process(socket: impl AsFd) -> Self {
        let peer = rustix::net::sockopt::socket_peercred(socket).ok();
        Self {
            owner: peer.map_or(Owner::Unknown, |peer| Owner::User(peer.uid.as_raw())),
            process: peer.map_or(0, |peer| peer.pid.as_raw_nonzero().get()),
        }
    }

    /// The host at the other end of a TCP connection.
    pub fn host(address: Option<SocketAddr>) -> Self {
        let owner = address.map_or(Owner::Unknown, |address| {
            Owner::Host(match address.ip().to_canonical() {
                IpAddr::V6(ip) => {
                    let [a, b, c, d, ..] = ip.segments();
                    Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
                }
                ip @ IpAddr::V4(_) => ip,
            })
        });
        Self { owner, process: 0 }
    }

    /// Its number, if it is a process.
    pub(crate) fn pid(&self) -> Option<i32> {
        (self.process != 0).then_some(self.process)
    }

    /// The host or user that it belongs to.
    pub(super) fn owner(&self) -> Owner {
        self.owner
    }
}

/// Of each of `all`, how many there are of its owner and of its process.
pub(crate) fn counts_by_peer(all: &[Peer]) -> Vec<(usize, usize)> {
    let mut counts: BTreeMap<Peer, usize> = BTreeMap::new();
    let mut owners: BTreeMap<Owner, usize> = BTreeMap::new();
    for peer in all {
        *counts.entry(*peer).or_default() += 1;
        *owners.entry(peer.owner).or_default() += 1;
    }
    let crowd = |peer: &Peer| (owners[&peer.owner], counts[peer]);
    all.iter().map(crowd).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_its_network_in_version_six() {
        let host = |text: &str| Peer::host(Some(text.parse().unwrap()));
        assert_eq!(host("[2001:db8::1]:5"), host("[2001:db8::2:3]:6"));
        assert_ne!(host("[2001:db8::1]:5"), host("[2001:db8:0:1::1]:5"));
        assert_eq!(host("10.0.0.1:5"), host("[::ffff:10.0.0.1]:9"));
        assert_ne!(host("10.0.0.1:5"), host("10.0.0.2:5"));
    }
}
