//! Reading of `[listen]` and `[limits]`.

use crate::document::{Document, KeyEntry, ShapedTable, refuse};
use crate::key::{LIMITS, LISTEN, Limits, Listen, TLS, Tls};
use crate::listen::ListenAddress;
use crate::text::{join, quoted};
use crate::units::ByteSize;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

/// The maximum length of a socket's path: the size of `sun_path`, 108 bytes, without the final
/// zero.
const SOCKET_PATH_MAX: usize = 107;
/// The maximum length of a path in bytes: Linux's `PATH_MAX` without the final zero.
const PATH_MAX: usize = 4095;
const LISTENERS_MAX: usize = 64;
const HELP: &str = "for NBD, add [listen] with nbd = [\"unix:/run/weir/nbd.sock\"]; for a virtual machine, set listen = { vhost = \"/run/weir/alpha.vhost.sock\" } in the volume; for a local block device, set ublk = true in the volume";
/// The port of NBD (IANA).
const NBD_PORT: u16 = 10809;
/// The usual port of the metrics.
const METRICS_PORT: u16 = 9809;
const EXAMPLE: &str = "[\"unix:/run/weir/nbd.sock\", \"127.0.0.1:10809\"]";

/// Reads the table. `other_sockets` is true if volumes have Unix sockets of their own.
/// `found` is true if clients can reach a volume in another way, so that no address is
/// required here.
pub(super) fn listen<'a>(
    doc: &mut Document<'a>,
    root: &ShapedTable<'a>,
    (other_sockets, found): (bool, bool),
) -> Listen {
    let entry = listed(doc, root, "listen", found);
    let Some(table) = entry.and_then(|e| e.table(doc, &LISTEN)) else {
        return Listen::default();
    };
    let mut listen = Listen::read(doc, &table);
    if let Some(entry) = listed(doc, &table, "nbd", found) {
        listen.nbd = addresses(doc, &entry);
    }
    let metrics = table.entry("metrics");
    listen.metrics = metrics.and_then(|e| metrics_address(doc, &e, &listen));
    listen.tls = table.entry("tls").and_then(|e| tls(doc, &e, &listen));
    // The sockets of volumes have the mode and the owner from this table too.
    let any = other_sockets
        || listen
            .nbd
            .iter()
            .any(|a| matches!(a, ListenAddress::Unix(_)));
    let (none, what) = (
        !any && !listen.nbd.is_empty(),
        "requires a Unix socket, and nbd has none",
    );
    refuse!(doc, table;
        "socket_mode", none, what, "remove it, or add \"unix:/path\" to nbd";
        "socket_owner", none, what, "remove it, or add \"unix:/path\" to nbd";
    );
    listen
}

/// Reads the certificates for TLS.
fn tls<'a>(doc: &mut Document<'a>, entry: &KeyEntry<'a>, listen: &Listen) -> Option<Tls> {
    let table = entry.table(doc, &TLS)?;
    // Wrong addresses were already reported.
    if listen.nbd.is_empty() && !doc.is_written("listen.nbd") {
        doc.report(entry, "requires nbd", "remove it, or add nbd to [listen]");
    }
    let mut tls = Tls::read(doc, &table);
    let help = "set it to the path of a PEM file, for example \"/etc/weir/tls/server-cert.pem\"";
    let certificate = doc.required(&table, "certificate", help);
    let help = "set it to the path of a PEM file, for example \"/etc/weir/tls/server-key.pem\"";
    let key = doc.required(&table, "key", help);
    let [certificate, key] = [certificate, key].map(|e| e.and_then(|e| absolute(doc, &e)));
    tls.client_ca = table.entry("client_ca").and_then(|e| absolute(doc, &e));
    tls.crl = table.entry("crl").and_then(|e| absolute(doc, &e));
    refuse!(doc, table;
        "crl", table.entry("client_ca").is_none(), "requires client_ca",
            "set client_ca = \"/etc/weir/tls/ca-cert.pem\", or remove it";
        "client_certificates", table.entry("client_ca").is_none(), "requires client_ca",
            "set client_ca = \"/etc/weir/tls/ca-cert.pem\", or remove it";
    );
    (tls.certificate, tls.key) = (certificate?, key?);
    Some(tls)
}

/// Returns the entry of a key that states the addresses of NBD clients. It is required unless
/// clients can reach volumes in another way.
fn listed<'a>(
    doc: &mut Document<'a>,
    table: &ShapedTable<'a>,
    key: &str,
    found: bool,
) -> Option<KeyEntry<'a>> {
    let entry = table.entry(key);
    if entry.is_none() && !found {
        let at = join(&table.path, key);
        doc.report_span(&table.span, &at, "clients have no way to connect", HELP);
    }
    entry
}

fn addresses<'a>(doc: &mut Document<'a>, entry: &KeyEntry<'a>) -> Vec<ListenAddress> {
    let mut all: Vec<ListenAddress> = Vec::new();
    let Some(elements) = entry.array(doc, EXAMPLE) else {
        return all;
    };
    if elements.is_empty() {
        let help = format!("write for example {EXAMPLE}");
        doc.report(entry, "must have at least one address", &help);
    }
    if elements.len() > LISTENERS_MAX {
        let what = format!(
            "has {} addresses; at most {LISTENERS_MAX} are permitted",
            elements.len()
        );
        doc.report(entry, what, "");
    }
    for element in elements.iter().take(LISTENERS_MAX) {
        // A problem that is found later, such as a path that a volume uses too, can then refer to
        // the element.
        doc.record_place(element);
        let Some(address) = address(doc, element) else {
            continue;
        };
        // Port 0 selects another port each time, so two such addresses differ.
        let any_port = matches!(address, ListenAddress::Tcp(a) if a.port() == 0);
        if all.contains(&address) && !any_port {
            let what = format!("duplicate address {}", element.quoted_value());
            // The second bind to the same address would fail.
            doc.report(element, what, "remove one of the two");
            continue;
        }
        all.push(address);
    }
    all
}

fn address(doc: &mut Document<'_>, entry: &KeyEntry<'_>) -> Option<ListenAddress> {
    let text = entry.text(doc, "an address", "\"unix:/path\" or \"127.0.0.1:10809\"")?;
    let Some(path) = text.strip_prefix("unix:") else {
        // Other machines may reach the address if the volumes restrict their clients, which is
        // checked later.
        return tcp(doc, entry, text, NBD_PORT).map(ListenAddress::Tcp);
    };
    socket_path(doc, entry, path).map(ListenAddress::Unix)
}

/// Reads a path that is valid for a socket.
pub(super) fn socket_path(
    doc: &mut Document<'_>,
    entry: &KeyEntry<'_>,
    path: &str,
) -> Option<PathBuf> {
    if !path.starts_with('/') || path.contains('\0') || path.ends_with('/') {
        let help = "write an absolute path that ends in the socket's name";
        let what = format!("{} is not a valid socket path", quoted(path));
        doc.report(entry, what, help);
        return None;
    }
    if path.len() > SOCKET_PATH_MAX {
        let what = format!(
            "the path has {} bytes; a socket path can have at most {SOCKET_PATH_MAX}",
            path.len()
        );
        doc.report(entry, what, "");
        return None;
    }
    Some(PathBuf::from(path))
}

/// Reads the absolute path of a file, a device or a directory.
pub(super) fn absolute(doc: &mut Document<'_>, entry: &KeyEntry<'_>) -> Option<PathBuf> {
    entry.parsed(doc, ("a path", "\"/var/lib/weir/alpha.img\""), |text| {
        if !text.starts_with('/') || text.contains('\0') || text.len() > PATH_MAX {
            let what = format!("{} is not an absolute path", quoted(text));
            let help = "write the path from \"/\" on; a relative path would depend on where the server is started";
            return Err((what, help));
        }
        Ok(PathBuf::from(text))
    })
}

/// Reads an IP address and a port. `usual` is the port of the key's example.
pub(super) fn tcp(
    doc: &mut Document<'_>,
    entry: &KeyEntry<'_>,
    text: &str,
    usual: u16,
) -> Option<SocketAddr> {
    let local = |port: u16| SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port);
    let parsed = match text.strip_prefix("localhost:") {
        Some(port) => port.parse().ok().map(local),
        None => text.parse().ok(),
    };
    let Some(address) = parsed else {
        let what = format!("{} is not an address and a port", quoted(text));
        doc.report(entry, what, &address_help(text, usual));
        return None;
    };
    Some(address)
}

/// Returns true if only programs of this machine can reach the address.
pub(crate) fn is_local(address: SocketAddr) -> bool {
    // `to_canonical` turns `::ffff:127.0.0.1` into its IPv4 address, which is local too.
    address.ip().to_canonical().is_loopback()
}

/// Returns the help for a text that is almost an address. `usual` is the port of the key's example.
fn address_help(text: &str, usual: u16) -> String {
    // Only NBD is served on Unix sockets at such a key.
    let is_nbd = usual == NBD_PORT;
    if is_nbd && text.starts_with('/') {
        return format!("did you mean {}?", quoted(&format!("unix:{text}")));
    }
    if let Ok(ip) = text.parse::<IpAddr>() {
        return format!("did you mean \"{}\"?", SocketAddr::new(ip, usual));
    }
    if let Some((host, port)) = text.rsplit_once(':') {
        let number = port.bytes().all(|b| b.is_ascii_digit()) && !port.is_empty();
        if number && port.parse::<u16>().is_err() {
            return "use a port from 0 to 65535".to_owned();
        }
        if number && host.is_empty() {
            return format!("did you mean \"127.0.0.1:{port}\"?");
        }
        if number && let Ok(ip) = host.parse::<Ipv6Addr>() {
            return format!("did you mean \"[{ip}]:{port}\"?");
        }
    }
    if text == "localhost" {
        return format!("did you mean \"localhost:{usual}\"?");
    }
    let examples = if is_nbd {
        format!("\"127.0.0.1:{usual}\", \"[::1]:{usual}\" or \"unix:/path\"")
    } else {
        format!("\"127.0.0.1:{usual}\" or \"[::1]:{usual}\"")
    };
    format!("use an address such as {examples}; host names are not supported")
}

fn metrics_address(
    doc: &mut Document<'_>,
    entry: &KeyEntry<'_>,
    listen: &Listen,
) -> Option<SocketAddr> {
    let text = entry.text(doc, "an address", "\"127.0.0.1:9809\"")?;
    if text.starts_with("unix:") {
        let help = "use an IP address and a port, for example \"127.0.0.1:9809\"";
        doc.report(entry, "metrics cannot be served on a Unix socket", help);
        return None;
    }
    let address = tcp(doc, entry, text, METRICS_PORT)?;
    if !is_local(address) && !listen.insecure {
        let what = format!(
            "{} can be reached from other machines, but metrics have neither encryption nor passwords",
            quoted(text)
        );
        let help = "use \"127.0.0.1\", or set insecure = true to permit this";
        doc.report(entry, what, help);
        return None;
    }
    // Port 0 selects a free port, which NBD does not use.
    if address.port() != 0 && listen.nbd.contains(&ListenAddress::Tcp(address)) {
        let what = format!("{} is already used by nbd", quoted(text));
        doc.report(entry, what, "use another port for the metrics");
        return None;
    }
    Some(address)
}

pub(super) fn limits<'a>(doc: &mut Document<'a>, root: &ShapedTable<'a>) -> Limits {
    let Some(table) = root.entry("limits").and_then(|e| e.table(doc, &LIMITS)) else {
        return Limits::default();
    };
    let mut limits = Limits::read(doc, &table);
    let before = doc.problem_count();
    let size = table.entry("request_size");
    if let Some(size) = size.and_then(|e| request_size(doc, &e)) {
        limits.request_size = size;
    }
    // If the size of requests is wrong, bounds that depend on it would cause further problems.
    let least = if doc.problem_count() == before {
        u64::from(limits.request_size)
    } else {
        1
    };
    // The minimums of these keys depend on the size of requests, so they are not declared.
    let mut bytes = |key, least, unit| table.entry(key)?.size_from(doc, least, unit);
    if let Some(bytes) = bytes("bytes_per_connection", least, 1) {
        limits.bytes_per_connection = bytes;
    }
    if let Some(bytes) = bytes("arena", 2 * least, 4096) {
        limits.arena = bytes;
    }
    let needed = limits.arena_min();
    if let Some(entry) = table.entry("arena").or_else(|| table.entry("connections"))
        && doc.problem_count() == before
        && limits.arena < needed
    {
        let (arena, needed) = (ByteSize(limits.arena), ByteSize(needed));
        let connections = limits.connections;
        let what = format!("an arena of {arena} is too small for {connections} connections");
        let help = format!("set the arena to at least \"{needed}\", or reduce connections");
        doc.report(&entry, what, &help);
    }
    limits
}

fn request_size(doc: &mut Document<'_>, entry: &KeyEntry<'_>) -> Option<u32> {
    let size = entry.size(doc)?;
    if !size.is_power_of_two() {
        let what = format!("{} is not a power of two", entry.quoted_value());
        doc.report(entry, what, "write for example \"32MiB\"");
        return None;
    }
    Some(size as u32)
}
