//! Reading of `[manage]`.

use super::listen::{absolute, is_local, socket_path, tcp};
use crate::allow::{self, Allow};
use crate::document::{Document, KeyEntry, ShapedTable, refuse};
use crate::key::{Listen, MANAGE, Manage};
use crate::listen::{Id, ListenAddress};
use crate::text::quoted;
use std::net::SocketAddr;
use std::path::{Component, PathBuf};

/// The maximum number of users, of groups, and of places for storage.
const ELEMENTS_MAX: usize = 256;
const SOCKET_HELP: &str =
    "remove it, or set socket, for example socket = \"/run/weir/manage.sock\"";

/// Reads the table. `listen` has the addresses that are already in use.
pub(super) fn manage<'a>(
    doc: &mut Document<'a>,
    root: &ShapedTable<'a>,
    listen: &Listen,
) -> Manage {
    let Some(table) = root.entry("manage").and_then(|e| e.table(doc, &MANAGE)) else {
        return Manage::default();
    };
    let mut manage = Manage::read(doc, &table);
    manage.socket = socket(doc, &table, listen);
    let [unix, web] = ["socket", "http"].map(|key| table.entry(key).is_some());
    manage.https = table.entry("https").and_then(|e| https(doc, &e, listen));
    let secure = table.entry("https").is_some();
    for key in ["socket_mode", "socket_owner", "users", "groups"] {
        let what = "requires socket, which is not set";
        table.refuse(doc, key, (!unix, what, SOCKET_HELP));
    }
    refuse!(doc, table;
        "storage", !unix && !web && !secure, "requires socket, http or https, and none is set", SOCKET_HELP;
        "certificates", !secure, "requires https, which is not set",
            "remove it, or set https, for example https = \"0.0.0.0:9811\"";
        "read_only", !unix && !secure, "requires socket or https, and neither is set", SOCKET_HELP;
        "audit_size", table.entry("audit_file").is_none(), "requires audit_file, which is not set",
            "remove it, or set audit_file, for example audit_file = \"/var/lib/weir/audit.jsonl\"";
        "token_file", !web, "requires http, which is not set",
            "remove it, or set http, for example http = \"127.0.0.1:9810\"";
        "manual", !web && !secure, "is for the dashboard, which needs http or https",
            "remove it, or set where browsers connect, for example http = \"127.0.0.1:9810\"";
    );
    manage.users = ids(doc, &table, "users");
    manage.groups = ids(doc, &table, "groups");
    manage.http = table.entry("http").and_then(|e| http(doc, &e, listen));
    manage.token_file = token_file(doc, &table);
    manage.certificates = names(doc, &table);
    manage.read_only = table
        .entry("read_only")
        .map_or_else(Vec::new, |e| readers(doc, &e));
    manage.audit_file = table.entry("audit_file").and_then(|e| absolute(doc, &e));
    manage.manual = table.entry("manual").and_then(|e| absolute(doc, &e));
    manage.storage = table.entry("storage").map(|e| storage(doc, &e));
    manage
}

/// Reads the directories and devices for new volumes.
fn storage<'a>(doc: &mut Document<'a>, entry: &KeyEntry<'a>) -> Vec<PathBuf> {
    let elements = elements(doc, entry, "[\"/var/lib/weir\"]", "paths");
    let mut all = Vec::new();
    for element in &elements {
        let Some(path) = absolute(doc, element) else {
            continue;
        };
        if path.components().any(|part| part == Component::ParentDir) {
            let path = quoted(&path.display().to_string());
            let what = format!("{path} contains \"..\", which is not permitted");
            doc.report(element, what, "write the path without \"..\"");
        }
        all.push(path);
    }
    all
}

/// Reads the elements of a list, at most [`ELEMENTS_MAX`].
fn elements<'a>(
    doc: &mut Document<'a>,
    entry: &KeyEntry<'a>,
    example: &str,
    called: &str,
) -> Vec<KeyEntry<'a>> {
    let mut elements = entry.array(doc, example).unwrap_or_default();
    if elements.len() > ELEMENTS_MAX {
        let count = elements.len();
        let what = format!("has {count} {called}; at most {ELEMENTS_MAX} are permitted");
        doc.report(entry, what, "");
        // The elements beyond the maximum would only cause further problems.
        elements.truncate(ELEMENTS_MAX);
    }
    elements
}

fn socket<'a>(doc: &mut Document<'a>, table: &ShapedTable<'a>, listen: &Listen) -> Option<PathBuf> {
    let entry = table.entry("socket")?;
    let path = entry.text(doc, "a path", "\"/run/weir/manage.sock\"")?;
    // `nbd` of `[listen]` requires this prefix, so users also write it here.
    let path = path.strip_prefix("unix:").unwrap_or(path);
    let path = socket_path(doc, &entry, path)?;
    if listen.nbd.contains(&ListenAddress::Unix(path.clone())) {
        let what = format!(
            "{} is already used by nbd",
            quoted(&path.display().to_string())
        );
        doc.report(&entry, what, "use another path for the management socket");
        return None;
    }
    Some(path)
}

fn http(doc: &mut Document<'_>, entry: &KeyEntry<'_>, listen: &Listen) -> Option<SocketAddr> {
    let text = entry.text(doc, "an address", "\"127.0.0.1:9810\"")?;
    let address = tcp(doc, entry, text, 9810)?;
    // `insecure` does not permit other addresses, because a token without encryption is not secret.
    if !is_local(address) {
        let what = format!("{} can be reached from other machines", quoted(text));
        let help = "use \"127.0.0.1:9810\"; connect from other machines through a tunnel, for example ssh -L 9810:127.0.0.1:9810 HOST";
        doc.report(entry, what, help);
        return None;
    }
    is_free(doc, entry, (text, address), listen).then_some(address)
}

/// Reads the address for clients over TLS.
fn https(doc: &mut Document<'_>, entry: &KeyEntry<'_>, listen: &Listen) -> Option<SocketAddr> {
    let text = entry.text(doc, "an address", "\"0.0.0.0:9811\"")?;
    let address = tcp(doc, entry, text, 9811)?;
    let tls = listen.tls.as_ref();
    // A wrong table was already reported.
    let is_missing = tls.is_none() && !doc.is_written("listen.tls");
    if is_missing || tls.is_some_and(|tls| tls.client_ca.is_none()) {
        let help = "add [listen.tls] with certificate, key and client_ca";
        doc.report(entry, "requires client_ca in [listen.tls]", help);
        return None;
    }
    is_free(doc, entry, (text, address), listen).then_some(address)
}

/// Reports an address that `[listen]` uses already. Port 0 selects a free port, so it does not
/// collide with another address.
fn is_free(
    doc: &mut Document<'_>,
    entry: &KeyEntry<'_>,
    (text, address): (&str, SocketAddr),
    listen: &Listen,
) -> bool {
    let taken =
        listen.nbd.contains(&ListenAddress::Tcp(address)) || listen.metrics == Some(address);
    if address.port() != 0 && taken {
        let what = format!("{} is already used by [listen]", quoted(text));
        doc.report(entry, what, "use another port for the management interface");
        return false;
    }
    true
}

/// Reads the names in certificates that can change the server.
fn names<'a>(doc: &mut Document<'a>, table: &ShapedTable<'a>) -> Vec<String> {
    let Some(entry) = table.entry("certificates") else {
        return Vec::new();
    };
    let elements = elements(doc, &entry, "[\"ops.example\"]", "names");
    let name = |element: &KeyEntry<'a>| {
        element.parsed(doc, ("a name", "\"ops.example\""), |text| {
            if let Ok(Allow::Certificate(name)) = format!("certificate:{text}").parse() {
                Ok(name)
            } else {
                let what = format!("{} is not a name in a certificate", quoted(text));
                Err((
                    what,
                    "write a DNS name or a URI, for example \"ops.example\"",
                ))
            }
        })
    };
    elements.iter().filter_map(name).collect()
}

/// The help for a reader that has no valid form. Addresses are not permitted here.
const READERS: &str = "write \"certificate:NAME\", \"user:USER\" or \"group:GROUP\"";

/// Reads the clients that can read only.
fn readers<'a>(doc: &mut Document<'a>, entry: &KeyEntry<'a>) -> Vec<Allow> {
    let example = "\"certificate:monitor.example\"";
    let elements = elements(doc, entry, &format!("[{example}]"), "entries");
    let reader = |element: &KeyEntry<'a>| {
        element.parsed(doc, ("an entry", example), |text| {
            if text.starts_with("address:") {
                let what = format!(
                    "{} does not identify a client of the interface",
                    quoted(text)
                );
                return Err((what, "use certificate, user or group".to_owned()));
            }
            text.parse().map_err(|(what, help): (String, String)| {
                if help == allow::KINDS {
                    return (what, READERS.to_owned());
                }
                (what, help)
            })
        })
    };
    elements.iter().filter_map(reader).collect()
}

fn token_file<'a>(doc: &mut Document<'a>, table: &ShapedTable<'a>) -> Option<PathBuf> {
    let Some(entry) = table.entry("token_file") else {
        let help = "add token_file = \"/var/lib/weir/token\"; the server creates the file if it does not exist";
        table.refuse(doc, "http", (true, "requires token_file", help));
        return None;
    };
    entry.parsed(doc, ("a path", "\"/var/lib/weir/token\""), |text| {
        if !text.starts_with('/') || text.contains('\0') || text.ends_with('/') {
            let what = format!("{} is not an absolute path of a file", quoted(text));
            return Err((what, "write for example \"/var/lib/weir/token\""));
        }
        Ok(PathBuf::from(text))
    })
}

/// Reads a list of users or groups.
fn ids<'a>(doc: &mut Document<'a>, table: &ShapedTable<'a>, key: &str) -> Vec<Id> {
    let Some(entry) = table.entry(key) else {
        return Vec::new();
    };
    let elements = elements(doc, &entry, "[\"operator\", \"1001\"]", "names");
    let mut id = |element: &KeyEntry<'a>| {
        let wanted = ("a name or a number", "\"operator\" or \"1001\"");
        let empty = ("is empty", "write a name, or a number as text");
        element.parsed(doc, wanted, |text| Id::of(text).ok_or(empty))
    };
    elements.iter().filter_map(&mut id).collect()
}
