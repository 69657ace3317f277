//! The process at the other end of a socket, as far as the system says: places are shared out among these.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;

/// One that places are shared with: a host or a user, and a process of it where that is known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Peer {
    owner: Owner,
    process: i32,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Owner {
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
    pub(crate) fn process(socket: impl AsFd) -> Self {
        let peer = rustix::net::sockopt::socket_peercred(socket).ok();
        Self {
            owner: peer.map_or(Owner::Unknown, |peer| Owner::User(peer.uid.as_raw())),
            process: peer.map_or(0, |peer| peer.pid.as_raw_nonzero().get()),
        }
    }

    /// The host at the other end of a TCP connection.
    pub(crate) fn host(address: Option<SocketAddr>) -> Self {
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

    /// The peer of `all`, each named once for every place it has, that has to give one up for this one: a process of the owner with the most,
    /// if that has at least two more than this one's owner, or else the process of the same owner for which this is so. `None` if
    /// nobody has too much: a peer that takes a place by this rule cannot lose it to the peer that had it.
    pub(crate) fn yields(&self, all: &[Self]) -> Option<Self> {
        let owners: Vec<Self> = all.iter().map(Self::whole).collect();
        let (owner, most) = largest(&owners)?;
        let here = owners.iter().filter(|o| **o == self.whole()).count();
        if owner != self.whole() && most > here + 1 {
            let of_owner = all.iter().filter(|p| p.whole() == owner).copied();
            return largest(&of_owner.collect::<Vec<_>>()).map(|(peer, _)| peer);
        }
        let same = all.iter().filter(|p| p.owner == self.owner).copied();
        let (peer, most) = largest(&same.collect::<Vec<_>>())?;
        let own = all.iter().filter(|p| *p == self).count();
        (peer != *self && most > own + 1).then_some(peer)
    }

    /// Its owner, whatever the process.
    fn whole(&self) -> Self {
        Self {
            owner: self.owner,
            process: 0,
        }
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

/// The peer that is there most often, and how often.
fn largest(all: &[Peer]) -> Option<(Peer, usize)> {
    let mut sorted = all.to_vec();
    sorted.sort_unstable();
    let groups = sorted.chunk_by(|a, b| a == b);
    groups
        .map(|group| (group[0], group.len()))
        .max_by_key(|(_, count)| *count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(user: u32, process: i32) -> Peer {
        Peer {
            owner: Owner::User(user),
            process,
        }
    }

    #[test]
    fn whoever_has_most_yields_to_whoever_has_less_and_never_back_again() {
        let (a, b) = (process(1, 10), process(2, 20));
        let mut places = vec![a; 8];
        let mut moved = 0;
        while let Some(victim) = b.yields(&places) {
            let at = places.iter().position(|p| *p == victim).unwrap();
            places[at] = b;
            moved += 1;
        }
        assert_eq!(moved, 4);
        assert_eq!(a.yields(&places), None);
    }

    #[test]
    fn processes_of_one_user_are_told_apart_and_other_users_count_first() {
        let hog = process(1, 10);
        let places = [hog, hog, hog, process(1, 11), process(2, 20)];
        assert_eq!(process(1, 12).yields(&places), Some(hog));
        assert_eq!(process(3, 30).yields(&places), Some(hog));
        assert_eq!(hog.yields(&places), None);
        let few = [process(1, 10), process(1, 11), process(1, 12)];
        assert_eq!(process(1, 13).yields(&few), None, "each has but one");
        assert_eq!(process(2, 20).yields(&few), Some(process(1, 12)));
    }

    #[test]
    fn a_host_is_its_network_in_version_six() {
        let host = |text: &str| Peer::host(Some(text.parse().unwrap()));
        assert_eq!(host("[2001:db8::1]:5"), host("[2001:db8::2:3]:6"));
        assert_ne!(host("[2001:db8::1]:5"), host("[2001:db8:0:1::1]:5"));
        assert_eq!(host("10.0.0.1:5"), host("[::ffff:10.0.0.1]:9"));
        assert_ne!(host("10.0.0.1:5"), host("10.0.0.2:5"));
    }
}
