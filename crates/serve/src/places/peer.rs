//! The identity of the client at the other end of a socket, as far as the system provides it.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;

use serde::{Deserialize, Serialize};

/// A host or a user that has connected, and the process if it is known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Peer {
    owner: PeerOwner,
    process: i32,
}

/// The host or user of a peer. Places are divided among owners first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(super) enum PeerOwner {
    /// An unidentified owner. All unidentified peers share this one.
    Unknown,
    User(u32),
    /// The address of a host. An IPv6 address is reduced to its /64 network, because a host can use
    /// every address of its network.
    Host(IpAddr),
}

impl Peer {
    /// Returns a peer about which nothing is known.
    pub(crate) fn unknown() -> Self {
        Self {
            owner: PeerOwner::Unknown,
            process: 0,
        }
    }

    /// Returns the process at the other end of a Unix socket, by its peer credentials
    /// (`SO_PEERCRED` of unix(7)).
    pub fn process(socket: impl AsFd) -> Self {
        let peer = rustix::net::sockopt::socket_peercred(socket).ok();
        Self {
            owner: peer.map_or(PeerOwner::Unknown, |peer| {
                PeerOwner::User(peer.uid.as_raw())
            }),
            // No process has the id 0, so it stands for an unknown process. The kernel also reports
            // it for a peer that is not visible in this PID namespace.
            process: peer.map_or(0, |peer| peer.pid.as_raw_nonzero().get()),
        }
    }

    /// Returns the host at the other end of a TCP connection.
    pub fn host(address: Option<SocketAddr>) -> Self {
        let owner = address.map_or(PeerOwner::Unknown, |address| {
            // An IPv4-mapped IPv6 address (`::ffff:a.b.c.d`) is the same host as the IPv4 address.
            PeerOwner::Host(match address.ip().to_canonical() {
                IpAddr::V6(ip) => {
                    let [a, b, c, d, ..] = ip.segments();
                    Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
                }
                ip @ IpAddr::V4(_) => ip,
            })
        });
        Self { owner, process: 0 }
    }

    /// Returns the process id, if it is known.
    pub(crate) fn pid(&self) -> Option<i32> {
        (self.process != 0).then_some(self.process)
    }

    /// Returns the host or user of the peer.
    pub(super) fn owner(&self) -> PeerOwner {
        self.owner
    }
}

/// Returns, for each peer of `all`, the number of peers with the same owner and the number of peers
/// that are the same process.
pub(crate) fn counts_by_peer(all: &[Peer]) -> Vec<(usize, usize)> {
    let mut counts: BTreeMap<Peer, usize> = BTreeMap::new();
    let mut owners: BTreeMap<PeerOwner, usize> = BTreeMap::new();
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
    fn an_ipv6_host_is_its_64_bit_network() {
        let host = |text: &str| Peer::host(Some(text.parse().unwrap()));
        assert_eq!(host("[2001:db8::1]:5"), host("[2001:db8::2:3]:6"));
        assert_ne!(host("[2001:db8::1]:5"), host("[2001:db8:0:1::1]:5"));
        assert_eq!(host("10.0.0.1:5"), host("[::ffff:10.0.0.1]:9"));
        assert_ne!(host("10.0.0.1:5"), host("10.0.0.2:5"));
    }
}
