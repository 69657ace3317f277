//! URIs of exports, in the format of the NBD project's `uri.md`.

use super::address::Address;
use super::constants::MAX_STRING;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The default port of a URI, which is the one registered for NBD.
const PORT: &str = "10809";

/// An export: `nbd://host:port/export`, `nbds://host:port/export?tls-certificates=/directory` or
/// `nbd+unix:///export?socket=/path`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uri {
    /// The server that has the export.
    pub address: Address,
    /// The name of the export. If it is empty, the server chooses its default export.
    pub export: String,
    /// The settings of TLS, which `nbds` requires.
    pub tls: Option<UriTls>,
}

/// The settings of TLS in a URI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UriTls {
    /// The absolute path of the directory with the authority of the server and the certificate of
    /// the client (`tls-certificates`).
    pub certificates: PathBuf,
    /// The name that the certificate of the server must contain (`tls-hostname`, or the host).
    pub hostname: String,
}

/// The error for a text that is not a usable URI of an export.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UriError {
    /// The text does not have the syntax of an NBD URI.
    #[error(
        "{0:?} is not a valid NBD URI: write nbd://host:port/export or nbd+unix:///export?socket=/path"
    )]
    Malformed(String),
    /// The scheme requires TLS, and the rest is not valid for it. Keys (PSK) and Unix sockets are
    /// not supported.
    #[error(
        "{0:?} is not a valid URI for TLS: write nbds://host:port/export?tls-certificates=/etc/weir/tls"
    )]
    Tls(String),
}

impl Uri {
    /// Returns true if the text has the scheme of an NBD URI, even if it is malformed or requires
    /// TLS.
    pub fn has_nbd_scheme(text: &str) -> bool {
        let scheme = text.split_once("://").map_or("", |(scheme, _)| scheme);
        scheme == "nbd" || scheme.starts_with("nbd+") || scheme.starts_with("nbds")
    }
}

impl FromStr for Uri {
    type Err = UriError;

    fn from_str(text: &str) -> Result<Self, UriError> {
        let scheme = text.split_once("://").map_or("", |(scheme, _)| scheme);
        // TLS has an error of its own, which names the required parameter.
        let wrong = if scheme.starts_with("nbds") {
            UriError::Tls
        } else {
            UriError::Malformed
        };
        parse(text).ok_or_else(|| wrong(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Uri> {
    let (scheme, rest) = text.split_once("://")?;
    let (rest, query) = match rest.split_once('?') {
        Some((rest, query)) => (rest, Some(query)),
        None => (rest, None),
    };
    let (host, export) = rest.split_once('/').unwrap_or((rest, ""));
    // The protocol allows no longer string, and a handshake for such a name would panic.
    let export = decode_percent(export).filter(|name| name.len() <= MAX_STRING)?;
    let mut tls = None;
    let address = match (scheme, query, host) {
        ("nbd+unix", Some(query), "") => {
            let mut parts = query.split('&').filter_map(|part| part.split_once('='));
            let socket = decode_percent(parts.find(|(key, _)| *key == "socket")?.1)?;
            Address::Unix(Some(socket).filter(|path| !path.is_empty())?.into())
        }
        // A query is refused, because `uri.md` asks clients to diagnose parameters that they do not
        // understand, and a TCP address has no others here.
        ("nbd", None, host) => tcp(host)?,
        ("nbds", Some(query), host) => {
            let address = tcp(host)?;
            tls = Some(uri_tls(query, &address)?);
            address
        }
        _ => return None,
    };
    Some(Uri {
        address,
        export,
        tls,
    })
}

/// Parses the parameters of TLS.
fn uri_tls(query: &str, address: &Address) -> Option<UriTls> {
    let Address::Tcp(host) = address else {
        return None;
    };
    let host = host.rsplit_once(':').map_or(&**host, |(host, _)| host);
    let (mut certificates, mut hostname) = (None, host.to_owned());
    for part in query.split('&') {
        let (key, value) = part.split_once('=')?;
        let value = decode_percent(value).filter(|value| !value.is_empty())?;
        match key {
            "tls-certificates" => certificates = Some(PathBuf::from(value)),
            "tls-hostname" => hostname = value,
            // `uri.md` asks clients to diagnose parameters that they do not understand.
            _ => return None,
        }
    }
    let certificates = certificates.filter(|path| path.is_absolute())?;
    Some(UriTls {
        certificates,
        hostname,
    })
}

/// Parses the host and the port of a TCP address.
fn tcp(host: &str) -> Option<Address> {
    // The port is missing if nothing follows the last colon, or if that colon belongs to an IPv6
    // address in brackets.
    let last = host.rsplit_once(':').map_or("", |(_, port)| port);
    let host = if host.ends_with(']') || last.is_empty() {
        format!("{}:{PORT}", host.trim_end_matches(':'))
    } else {
        host.to_owned()
    };
    let address = host.parse().ok().filter(|_| is_host(&host));
    address.filter(|a| matches!(a, Address::Tcp(_)))
}

/// Returns true if the host of `host:port` can be looked up: it is a name, an IPv4 address, or an
/// IPv6 address in matching brackets.
fn is_host(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or("", |(host, _)| host);
    match host.strip_prefix('[').map(|rest| rest.strip_suffix(']')) {
        Some(inside) => inside.is_some_and(|ip| ip.parse::<std::net::Ipv6Addr>().is_ok()),
        None => !host.contains([':', '[', ']', '@', '%', ' ']),
    }
}

/// Replaces percent-encoded bytes (`%20`). Returns `None` if an escape is incomplete or the result
/// is not UTF-8.
fn decode_percent(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        rest = behind;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = std::str::from_utf8(behind.get(..2)?).ok()?;
        // `from_str_radix` would accept a sign (`%+1`), so the digits are checked first.
        let is_hex = digits.bytes().all(|b| b.is_ascii_hexdigit());
        bytes.push(u8::from_str_radix(digits, 16).ok().filter(|_| is_hex)?);
        rest = &behind[2..];
    }
    // Neither a name nor a path can contain NUL.
    String::from_utf8(bytes)
        .ok()
        .filter(|text| !text.contains('\0'))
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "export {:?} at {}", self.export, self.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn uris_of_servers_are_parsed() {
        let of = |text: &str| {
            text.parse::<Uri>()
                .map(|u| (u.address.to_string(), u.export))
        };
        let is = |address: &str, export: &str| Ok((address.to_owned(), export.to_owned()));
        assert_eq!(
            // `%25` is a percent sign, `%3F` a question mark, and `%20` a blank.
            of("nbd+unix:///50%25%3F?socket=/tmp/a%20b/nbd.sock"),
            is("unix:/tmp/a b/nbd.sock", "50%?")
        );
        assert_eq!(of("nbd://[::1]:10809/disk"), is("[::1]:10809", "disk"));
        let secure = |text: &str| {
            let uri = text.parse::<Uri>().unwrap();
            let tls = uri.tls.unwrap();
            (uri.address.to_string(), tls.certificates, tls.hostname)
        };
        assert_eq!(
            secure("nbds://[::1]/disk?tls-certificates=/etc/a%20b"),
            ("[::1]:10809".into(), "/etc/a b".into(), "[::1]".into())
        );
        assert_eq!(
            secure("nbds://10.0.0.2:1/disk?tls-hostname=s.example&tls-certificates=/a"),
            ("10.0.0.2:1".into(), "/a".into(), "s.example".into())
        );
        // Without a port, 10809 applies. The part after the first slash is the name, even if it
        // contains slashes.
        assert_eq!(of("nbd://[::1]/disk"), is("[::1]:10809", "disk"));
        assert_eq!(of("nbd://localhost"), is("localhost:10809", ""));
        assert_eq!(of("nbd://localhost/a/b"), is("localhost:10809", "a/b"));
    }

    proptest! {
        /// Every text is parsed or refused without a panic, and every name can be written with
        /// percent-encoding.
        #[test]
        fn every_name_can_be_written(text in ".{0,40}", name in "[^\\x00]{0,20}") {
            let _ = text.parse::<Uri>();
            let _ = format!("nbd://{text}").parse::<Uri>();
            let hex: Vec<String> = name.bytes().map(|byte| format!("%{byte:02x}")).collect();
            let written = hex.concat();
            let uri: Uri = format!("nbd+unix:///{written}?socket=/a{written}").parse().unwrap();
            prop_assert_eq!(uri.export, name.clone());
            prop_assert_eq!(uri.address, Address::Unix(format!("/a{name}").into()));
        }
    }

    #[test]
    fn invalid_uris_are_refused() {
        for text in [
            "",
            "/dev/sda",
            "nbd+unix:///disk",
            // A Unix socket needs a path and must not have a host.
            "nbd+unix:///disk?socket=",
            "nbd+unix://host/disk?socket=/a",
            "nbd://host:port/disk",
            "nbd:///disk",
            // TLS needs certificates at an absolute path, and knows no other parameters.
            "nbds://host/disk",
            "nbds://host/disk?tls-certificates=",
            "nbds://host/disk?tls-certificates=tls",
            "nbds://host/disk?tls-hostname=a",
            "nbds://host/disk?tls-certificates=/a&tls-hostname=",
            "nbds://host/disk?tls-certificates=/a&tls-verify-peer=false",
            "nbds://user@host/disk?tls-certificates=/a",
            "nbds+unix:///disk?socket=/a",
            "nbd://host/disk?tls-certificates=/a",
            // Brackets must match, and must contain an IPv6 address.
            "nbd://[::1/disk",
            "nbd://::1:10809/disk",
            "nbd://[host]/disk",
            "nbd://user@host/disk",
            // Incomplete escapes, a sign instead of a digit, and a byte that is not UTF-8.
            "nbd://host/%",
            "nbd://host/%+1",
            "nbd://host/%ff",
            "nbd://host/a%00b",
            "nbd+unix:///disk?socket=/a%00b",
            &format!("nbd://host/{}", "a".repeat(MAX_STRING + 1)),
        ] {
            assert!(text.parse::<Uri>().is_err(), "{text}");
        }
        assert!(
            format!("nbd://host/{}", "a".repeat(MAX_STRING))
                .parse::<Uri>()
                .is_ok()
        );
        let tls = "nbds://host/disk".parse::<Uri>().unwrap_err();
        assert!(matches!(tls, UriError::Tls(_)));
        assert!(Uri::has_nbd_scheme("nbds://host/disk") && !Uri::has_nbd_scheme("/a/nbd://b"));
    }
}
