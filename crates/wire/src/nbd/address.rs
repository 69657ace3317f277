//! Addresses of NBD servers, as users write them.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The address of a server: `unix:/path/of/socket` or `host:port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// The path of a Unix socket.
    Unix(PathBuf),
    /// A host and a port for TCP, as `host:port`.
    Tcp(String),
}

/// The error for a text that is not an address of a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a valid address: write unix:/path/of/socket or host:port")]
pub struct AddressError(String);

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let port = |t: &str| {
            // Split at the last colon, because an IPv6 address in brackets contains colons of its
            // own.
            t.rsplit_once(':')
                .is_some_and(|(host, p)| !host.is_empty() && p.parse::<u16>().is_ok())
        };
        match text.strip_prefix("unix:") {
            Some(path) if !path.is_empty() => Ok(Self::Unix(path.into())),
            None if port(text) => Ok(Self::Tcp(text.to_owned())),
            _ => Err(AddressError(text.to_owned())),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(host) => f.write_str(host),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_printed_as_they_are_parsed() {
        // A Unix socket, IPv4 and IPv6 are printed as they are written.
        for text in ["unix:/run/weir.sock", "127.0.0.1:10809", "[::1]:10809"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "unix:",
            "localhost",
            ":10809",
            "host:port",
            "host:70000",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
