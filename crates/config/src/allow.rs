//! The clients that can use a volume: the entries of `allow`, and the rules for TLS.

use crate::listen::Id;
use crate::text::quoted;
use crate::words::words;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// An entry of `allow` in `[volume.NAME]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Allow {
    /// Clients whose certificate has this DNS name or URI among its subject alternative names.
    Certificate(String),
    /// Processes of this user, at a Unix socket.
    User(Id),
    /// Processes with this primary group, at a Unix socket.
    Group(Id),
    /// Clients over TCP from this network.
    Address(Network),
}

/// An IP network in CIDR notation. A single address is a network too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Network {
    address: IpAddr,
    /// The number of leading bits that all addresses of the network share.
    prefix: u8,
}

/// The requirement of TLS for the clients of a volume (`tls` in `[volume.NAME]`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum VolumeTls {
    /// Clients can use TLS if the server offers it.
    #[default]
    Optional,
    /// Clients over NBD must use TLS.
    Required,
}

/// The requirement of a certificate for clients that use TLS (`client_certificates` in
/// `[listen.tls]`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ClientCertificates {
    /// A client without a certificate cannot use TLS.
    #[default]
    Required,
    /// A client without a certificate can use TLS.
    Optional,
}

words! {
    VolumeTls: "optional" Optional, "required" Required;
    ClientCertificates: "required" Required, "optional" Optional;
}

/// The maximum length of a name in a certificate, in bytes. A DNS name has at most 253.
const NAME_MAX: usize = 1024;
/// The help for an entry that has no valid form.
pub(crate) const KINDS: &str =
    "write \"certificate:NAME\", \"user:USER\", \"group:GROUP\" or \"address:192.0.2.0/24\"";

impl FromStr for Allow {
    /// The problem, and the help for it.
    type Err = (String, String);

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong =
            |what: &str, help: &str| Err((format!("{} {what}", quoted(text)), help.to_owned()));
        let Some((kind, name)) = text.split_once(':') else {
            return wrong("has no kind", KINDS);
        };
        let odd = |c: char| c.is_whitespace() || c.is_control();
        if name.is_empty() || name.len() > NAME_MAX || name.contains(odd) {
            return wrong("has no valid name after the colon", KINDS);
        }
        let id = || Id::of(name).unwrap_or(Id::Number(0));
        match kind {
            "certificate" if name.contains('*') => wrong(
                "contains a wildcard",
                "list each name; wildcards are not supported",
            ),
            "certificate" => Ok(Self::Certificate(name.to_owned())),
            "user" => Ok(Self::User(id())),
            "group" => Ok(Self::Group(id())),
            "address" => name
                .parse()
                .map(Self::Address)
                .map_err(|(what, help)| (format!("{} {what}", quoted(text)), help)),
            _ => wrong("has an unknown kind", KINDS),
        }
    }
}

impl fmt::Display for Allow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Certificate(name) => write!(f, "certificate:{name}"),
            Self::User(id) => write!(f, "user:{id}"),
            Self::Group(id) => write!(f, "group:{id}"),
            Self::Address(network) => write!(f, "address:{network}"),
        }
    }
}

impl Network {
    /// Returns true if the network contains the address. An IPv4-mapped IPv6 address is compared as
    /// the IPv4 address.
    pub fn contains(&self, address: IpAddr) -> bool {
        let (own, width) = bits(self.address);
        let (other, other_width) = bits(address.to_canonical());
        let rest = u32::from(width - self.prefix);
        // A shift by the whole width is not defined, and a prefix of 0 contains every address.
        let differs = (own ^ other).checked_shr(rest).unwrap_or(0);
        width == other_width && differs == 0
    }
}

/// Returns the bits of an address as a number, and their count.
fn bits(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(address) => (address.to_bits().into(), 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    }
}

impl FromStr for Network {
    /// The problem, and the help for it.
    type Err = (String, String);

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || {
            let help = "write an IP address, or a network such as \"address:192.0.2.0/24\"";
            (
                "has no valid IP address or network".to_owned(),
                help.to_owned(),
            )
        };
        let (address, prefix) = text
            .split_once('/')
            .map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let (number, width) = bits(address);
        let prefix = match prefix {
            None => width,
            // `parse` also accepts a sign.
            Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => {
                digits.parse().map_err(|_| wrong())?
            }
            Some(_) => return Err(wrong()),
        };
        if prefix > width {
            return Err(wrong());
        }
        // An IPv4-mapped address never matches, because clients are compared as IPv4 addresses.
        if address.to_canonical() != address {
            let help = format!(
                "write it as an IPv4 address: \"address:{}\"",
                address.to_canonical()
            );
            return Err(("is an IPv4-mapped IPv6 address".to_owned(), help));
        }
        let rest = u32::from(width - prefix);
        let start = number.checked_shr(rest).map_or(0, |bits| bits << rest);
        if start != number {
            let first = match address {
                IpAddr::V4(_) => IpAddr::V4((start as u32).into()),
                IpAddr::V6(_) => IpAddr::V6(start.into()),
            };
            let help = format!("write \"address:{first}/{prefix}\" or \"address:{address}\"");
            let what = format!("is an address inside of a network of {prefix} bits");
            return Err((what, help));
        }
        Ok(Self { address, prefix })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.address)?;
        if self.prefix < bits(self.address).1 {
            write!(f, "/{}", self.prefix)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_contains_the_addresses_with_its_prefix() {
        for (network, inside, outside) in [
            (
                "192.0.2.0/24",
                &["192.0.2.0", "192.0.2.255", "::ffff:192.0.2.7"][..],
                &["192.0.3.0", "::"][..],
            ),
            ("192.0.2.1", &["192.0.2.1"], &["192.0.2.0"]),
            ("0.0.0.0/0", &["1.2.3.4"], &["::1"]),
            ("::/0", &["2001:db8::1"], &["1.2.3.4", "::ffff:1.2.3.4"]),
            ("2001:db8::/33", &["2001:db8:7fff::1"], &["2001:db8:8000::"]),
        ] {
            let parsed: Network = network.parse().unwrap();
            assert_eq!(parsed.to_string(), network);
            for address in inside {
                assert!(
                    parsed.contains(address.parse().unwrap()),
                    "{network} {address}"
                );
            }
            for address in outside {
                assert!(
                    !parsed.contains(address.parse().unwrap()),
                    "{network} {address}"
                );
            }
        }
    }

    #[test]
    fn entries_are_printed_as_they_are_written() {
        for text in [
            "certificate:alice.example",
            "certificate:spiffe://example/alice",
            "user:alice",
            "user:1000",
            "group:0",
            "address:::1",
            "address:10.0.0.0/8",
        ] {
            assert_eq!(text.parse::<Allow>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "alice",
            ":",
            "user:",
            "user:a b",
            "host:a",
            "certificate:*.example",
            "address:x",
            "address:10.0.0.1/8",
            "address:10.0.0.0/33",
            "address:10.0.0.0/+8",
            "address:10.0.0.0/",
            "address:::ffff:10.0.0.1",
            "address:10.0.0.0/256",
        ] {
            assert!(text.parse::<Allow>().is_err(), "{text}");
        }
    }
}
