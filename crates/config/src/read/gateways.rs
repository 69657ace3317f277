//! Reading of `[gateways]`, and of the names of shared minimums.

use super::listen::absolute;
use crate::document::{Document, KeyEntry, ShapedTable, refuse};
use crate::key::{GATEWAYS, Gateways};
use crate::text::quoted;

/// The maximum number of endpoints. The manual of etcd recommends at most seven members.
const ENDPOINTS_MAX: usize = 16;
/// The maximum length of a shared name in bytes.
const NAME_MAX: usize = 64;
/// The maximum length of a prefix in bytes.
const PREFIX_MAX: usize = 255;
const URL_HELP: &str = "write it in the form \"http://127.0.0.1:2379\"";

pub(super) fn gateways<'a>(doc: &mut Document<'a>, root: &ShapedTable<'a>) -> Option<Gateways> {
    let table = root.entry("gateways")?.table(doc, &GATEWAYS)?;
    let etcd = doc.required(&table, "etcd", "write etcd = [\"http://127.0.0.1:2379\"]");
    let etcd = etcd.map_or_else(Vec::new, |entry| endpoints(doc, &entry));
    let mut gateways = Gateways::read(doc, &table);
    gateways.etcd = etcd;
    authentication(doc, &table, &mut gateways);
    // A lease of etcd has its time to live in seconds.
    if !gateways.lease.as_nanos().is_multiple_of(1_000_000_000)
        && let Some(entry) = table.entry("lease")
    {
        let help = "write whole seconds, for example \"5s\"; etcd does not support fractions";
        doc.report(&entry, "must be whole seconds", help);
    }
    if let Some(prefix) = table.entry("prefix").and_then(|e| prefix(doc, &e)) {
        gateways.prefix = prefix;
    }
    Some(gateways)
}

/// Reads the certificates, the user and its password.
fn authentication<'a>(doc: &mut Document<'a>, table: &ShapedTable<'a>, gateways: &mut Gateways) {
    let path = |doc: &mut Document<'a>, key| table.entry(key).and_then(|e| absolute(doc, &e));
    gateways.certificates = path(doc, "certificates");
    gateways.password_file = path(doc, "password_file");
    let user = table.entry("user");
    gateways.user = user.and_then(|entry| {
        entry.parsed(doc, ("a name", "\"weir\""), |text| match text {
            "" => Err(("is empty", "write the name of a user of etcd, or remove it")),
            name => Ok(name.to_owned()),
        })
    });
    let [secure, plain] = ["https://", "http://"].map(|scheme| {
        let mut urls = gateways.etcd.iter();
        urls.any(|url| url.starts_with(scheme))
    });
    let [user, password] = ["user", "password_file"].map(|key| table.entry(key).is_some());
    refuse!(doc, table;
        "etcd", secure && plain, "has both http:// and https://", "use one of them for all endpoints";
        "etcd", secure && table.entry("certificates").is_none(), "uses TLS, which requires certificates",
            "set certificates = \"/etc/weir/etcd\", a directory with ca-cert.pem";
        "certificates", plain && !secure, "requires https:// endpoints", "write https:// in etcd, or remove it";
        "user", plain, "requires https:// endpoints", "write https:// in etcd, or remove it";
        "user", user && !password, "requires password_file",
            "set password_file = \"/etc/weir/etcd-password\"";
        "password_file", !user, "requires user, which is not set", "remove it, or set user = \"weir\"";
    );
}

/// Reads the addresses of a list of URLs.
fn endpoints<'a>(doc: &mut Document<'a>, entry: &KeyEntry<'a>) -> Vec<String> {
    let Some(elements) = entry.array(doc, "[\"http://127.0.0.1:2379\"]") else {
        return Vec::new();
    };
    if elements.is_empty() || elements.len() > ENDPOINTS_MAX {
        let what = format!(
            "has {} endpoints; it must have 1 to {ENDPOINTS_MAX}",
            elements.len()
        );
        doc.report(entry, what, URL_HELP);
    }
    let mut all: Vec<String> = Vec::new();
    for element in elements.iter().take(ENDPOINTS_MAX) {
        let wanted = ("a URL", "\"http://127.0.0.1:2379\"");
        all.extend(element.parsed(doc, wanted, |text| match endpoint(text) {
            Ok(at) if all.contains(&at) => {
                let what = format!("{} is listed twice", quoted(text));
                Err((what, "remove one of the two"))
            }
            Ok(at) => Ok(at),
            Err((what, help)) => Err((format!("{} {what}", quoted(text)), help)),
        }));
    }
    all
}

/// Returns a URL without the slash at its end, or a problem and its help.
fn endpoint(url: &str) -> Result<String, (&'static str, &'static str)> {
    let wrong = Err(("is not the URL of an endpoint", URL_HELP));
    // A slash at the end is part of many URLs and has no meaning here.
    let url = url.strip_suffix('/').unwrap_or(url);
    let rest = url
        .strip_prefix("http://")
        .or_else(|| url.strip_prefix("https://"));
    let Some(rest) = rest else {
        return wrong;
    };
    let Some((host, port)) = rest.rsplit_once(':') else {
        return Err(("has no port", URL_HELP));
    };
    // An IPv6 address is in brackets in a URL (RFC 3986, section 3.2.2).
    let is_v6 = host.starts_with('[') && host.ends_with(']');
    let of_host =
        |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c) || is_v6 && "[]:".contains(c);
    let port: Option<u16> = port.parse().ok().filter(|port| *port > 0);
    if host.is_empty() || !host.chars().all(of_host) || port.is_none() {
        return wrong;
    }
    Ok(url.to_owned())
}

fn of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._-".contains(c)
}

fn prefix<'a>(doc: &mut Document<'a>, entry: &KeyEntry<'a>) -> Option<String> {
    entry.parsed(doc, ("a prefix", "\"/weir\""), |text| {
        let mut parts = text.strip_prefix('/').unwrap_or_default().split('/');
        let valid = parts.all(|part| !part.is_empty() && part.chars().all(of_name));
        if valid && text.len() <= PREFIX_MAX {
            return Ok(text.to_owned());
        }
        let what = format!("{} is not a valid prefix of etcd keys", quoted(text));
        Err((
            what,
            "write a slash before each part and none at the end, for example \"/weir\"",
        ))
    })
}

/// Reads the name of a minimum that several servers share.
pub(super) fn name<'a>(doc: &mut Document<'a>, entry: &KeyEntry<'a>) -> Option<String> {
    entry.parsed(doc, ("a name", "\"alpha\""), |text| {
        if (1..=NAME_MAX).contains(&text.len()) && text.chars().all(of_name) {
            return Ok(text.to_owned());
        }
        let what = format!("{} is not a valid name", quoted(text));
        Err((
            what,
            "use 1 to 64 letters, digits, dots, underscores and hyphens",
        ))
    })
}
