//! Decides which clients can use a volume, and counts the clients that are refused.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use weir_config::Network;

/// The rules for the clients of one volume, with users and groups as numbers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct VolumeAccess {
    /// True if clients over NBD must use TLS.
    pub(crate) tls_required: bool,
    /// The permitted clients. An empty list permits every client.
    pub(crate) allow: Vec<AccessRule>,
}

/// A rule that permits some clients.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum AccessRule {
    /// Clients whose certificate has this name.
    Certificate(String),
    User(u32),
    Group(u32),
    Address(Network),
}

/// The origin of a connection, as far as the system provides it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Origin {
    Unknown,
    /// The user and the primary group of a process at a Unix socket.
    Process {
        user: u32,
        group: u32,
    },
    Host(IpAddr),
}

impl Origin {
    /// Returns the process at the other end of a Unix socket, by its peer credentials
    /// (`SO_PEERCRED` of unix(7)).
    pub(crate) fn of_process(socket: impl AsFd) -> Self {
        let peer = rustix::net::sockopt::socket_peercred(socket);
        peer.map_or(Self::Unknown, |peer| Self::Process {
            user: peer.uid.as_raw(),
            group: peer.gid.as_raw(),
        })
    }

    /// Returns the host at the other end of a TCP connection.
    pub(crate) fn of_host(address: Option<SocketAddr>) -> Self {
        address.map_or(Self::Unknown, |address| {
            Self::Host(address.ip().to_canonical())
        })
    }
}

/// The identity of a client: its origin, and the names in its certificate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientIdentity<'a> {
    pub(crate) origin: Origin,
    /// The DNS names and URIs in the certificate, which is verified. `None` without TLS.
    pub(crate) names: Option<&'a [String]>,
}

/// The identity of a client whose connection is served, by which its access is checked again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ClientCredentials {
    pub(crate) origin: Origin,
    /// The DNS names and URIs in the certificate. `None` without TLS.
    pub(crate) names: Option<Vec<String>>,
    /// True if the client must use TLS where the volume requires it. The socket of a volume for
    /// virtual machines is on this machine and has none.
    pub(crate) has_tls: bool,
}

impl ClientCredentials {
    /// Returns true if the client can use a volume with these rules.
    pub(crate) fn suffice(&self, access: &VolumeAccess) -> bool {
        let client = ClientIdentity {
            origin: self.origin,
            names: self.names.as_deref(),
        };
        if self.has_tls {
            access.verdict(client) == AccessVerdict::Granted
        } else {
            access.permits(client)
        }
    }
}

/// The decision on the access of a client to a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AccessVerdict {
    Granted,
    /// The client must use TLS first.
    TlsRequired,
    Denied,
}

impl VolumeAccess {
    /// Returns the decision on a client over NBD.
    pub(crate) fn verdict(&self, client: ClientIdentity<'_>) -> AccessVerdict {
        let plain = client.names.is_none();
        if self.tls_required && plain {
            return AccessVerdict::TlsRequired;
        }
        if self.permits(client) {
            return AccessVerdict::Granted;
        }
        let by_certificate = |rule: &AccessRule| matches!(rule, AccessRule::Certificate(_));
        if plain && self.allow.iter().any(by_certificate) {
            AccessVerdict::TlsRequired
        } else {
            AccessVerdict::Denied
        }
    }

    /// Returns true if the list permits the client.
    pub(crate) fn permits(&self, client: ClientIdentity<'_>) -> bool {
        let matches = |rule: &AccessRule| match (rule, client.origin) {
            (AccessRule::Certificate(name), _) => {
                client.names.is_some_and(|names| names.contains(name))
            }
            (AccessRule::User(id), Origin::Process { user, .. }) => *id == user,
            (AccessRule::Group(id), Origin::Process { group, .. }) => *id == group,
            (AccessRule::Address(network), Origin::Host(address)) => network.contains(address),
            _ => false,
        };
        self.allow.is_empty() || self.allow.iter().any(matches)
    }
}

/// Displays the properties of a client that an entry of `allow` can state.
impl fmt::Display for ClientIdentity<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.origin {
            Origin::Unknown => write!(f, "unknown origin")?,
            Origin::Process { user, group } => write!(f, "user:{user} group:{group}")?,
            Origin::Host(address) => write!(f, "address:{address}")?,
        }
        // A certificate can have many names, and one line of the log should stay readable.
        let mut names = self.names.unwrap_or_default().iter().take(8);
        names.try_for_each(|name| write!(f, " certificate:{name}"))
    }
}

/// The number of clients that were refused, by reason.
#[derive(Debug, Default)]
pub struct Refusals {
    /// Clients that did not use TLS although the volume requires it.
    plain: AtomicU64,
    /// Clients whose TLS handshake failed.
    tls: AtomicU64,
    /// Clients that `allow` does not permit.
    access: AtomicU64,
    /// Clients of the management interface whose TLS handshake failed.
    management_tls: AtomicU64,
    /// Requests that the management interface does not permit to their clients.
    management: AtomicU64,
}

/// The reason for which a client was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RefusalReason {
    /// The client did not use TLS although the volume requires it.
    Plain,
    /// TLS failed.
    Tls,
    /// `allow` of the volume does not permit the client.
    Access,
    /// TLS of the management interface failed.
    ManagementTls,
    /// The management interface does not permit the request.
    Management,
}

impl Refusals {
    /// Counts a refused client by its reason.
    pub fn count(&self, refusal: RefusalReason) {
        self.counter(refusal).fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of refusals for each reason, with the name of the reason in metrics.
    pub(crate) fn totals(&self) -> [(&'static str, u64); 5] {
        [
            ("plain", RefusalReason::Plain),
            ("tls", RefusalReason::Tls),
            ("allow", RefusalReason::Access),
            ("manage-tls", RefusalReason::ManagementTls),
            ("manage", RefusalReason::Management),
        ]
        .map(|(name, refusal)| (name, self.counter(refusal).load(Ordering::Relaxed)))
    }

    fn counter(&self, refusal: RefusalReason) -> &AtomicU64 {
        match refusal {
            RefusalReason::Plain => &self.plain,
            RefusalReason::Tls => &self.tls,
            RefusalReason::Access => &self.access,
            RefusalReason::ManagementTls => &self.management_tls,
            RefusalReason::Management => &self.management,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROCESS: Origin = Origin::Process { user: 7, group: 8 };

    /// Returns the verdict on a client, with the name `alice.example` if it is encrypted.
    fn verdict(
        tls_required: bool,
        allow: &[AccessRule],
        origin: Origin,
        secure: bool,
    ) -> AccessVerdict {
        let names = ["alice.example".to_owned()];
        let rules = VolumeAccess {
            tls_required,
            allow: allow.to_vec(),
        };
        rules.verdict(ClientIdentity {
            origin,
            names: secure.then_some(&names[..]),
        })
    }

    fn host() -> Origin {
        Origin::Host("192.0.2.7".parse().unwrap())
    }

    fn network(text: &str) -> AccessRule {
        AccessRule::Address(text.parse().unwrap())
    }

    fn certificate(name: &str) -> AccessRule {
        AccessRule::Certificate(name.to_owned())
    }

    #[test]
    fn a_client_needs_to_match_one_rule() {
        for (rule, origin, granted) in [
            (AccessRule::User(7), PROCESS, true),
            (AccessRule::User(8), PROCESS, false),
            (AccessRule::Group(8), PROCESS, true),
            (AccessRule::Group(7), PROCESS, false),
            (AccessRule::User(7), host(), false),
            (network("192.0.2.0/24"), host(), true),
            (network("198.51.100.0/24"), host(), false),
            (network("0.0.0.0/0"), PROCESS, false),
            (network("0.0.0.0/0"), Origin::Unknown, false),
        ] {
            let expected = if granted {
                AccessVerdict::Granted
            } else {
                AccessVerdict::Denied
            };
            assert_eq!(verdict(false, &[rule], origin, false), expected);
        }
        let two = [network("198.51.100.0/24"), certificate("alice.example")];
        assert_eq!(verdict(false, &two, host(), true), AccessVerdict::Granted);
        assert_eq!(
            verdict(false, &[], Origin::Unknown, false),
            AccessVerdict::Granted
        );
    }

    #[test]
    fn tls_is_required_by_the_volume_or_for_a_certificate() {
        assert_eq!(
            verdict(true, &[], host(), false),
            AccessVerdict::TlsRequired
        );
        assert_eq!(verdict(true, &[], host(), true), AccessVerdict::Granted);
        let any = [network("0.0.0.0/0")];
        assert_eq!(
            verdict(true, &any, host(), false),
            AccessVerdict::TlsRequired
        );
        let alice = [certificate("alice.example")];
        assert_eq!(
            verdict(false, &alice, host(), false),
            AccessVerdict::TlsRequired
        );
        let bob = [certificate("bob.example")];
        assert_eq!(verdict(false, &bob, host(), true), AccessVerdict::Denied);
    }
}
