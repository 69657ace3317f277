//! `[manage]`.

use super::listen::{id, socket_mode, socket_owner, socket_path, tcp};
use super::volume::absolute;
use crate::document::{Document, Entry, Table};
use crate::key::{Listen, MANAGE, Manage};
use crate::listen::{Address, Id};
use crate::text::quoted;
use std::net::SocketAddr;
use std::path::{Component, PathBuf};

/// Most users, groups, and places of storage.
const ELEMENTS_MAX: usize = 256;

/// `listen`: the addresses that are taken already.
pub(super) fn manage<'a>(doc: &mut Document<'a>, root: &Table<'a>, listen: &Listen) -> Manage {
    let mut manage = Manage::default();
    let Some(table) = root.entry("manage").and_then(|e| e.table(doc, &MANAGE)) else {
        return manage;
    };
    manage.socket = socket(doc, &table, listen);
    for key in ["socket_mode", "socket_owner", "users", "groups"] {
        if let Some(entry) = table.entry(key)
            && table.entry("socket").is_none()
        {
            doc.report(
                &entry,
                "requires socket, which is not set",
                "remove it, or set socket, for example socket = \"/run/weir/manage.sock\"",
            );
        }
    }
    if let Some(mode) = table
        .entry("socket_mode")
        .and_then(|e| socket_mode(doc, &e))
    {
        manage.socket_mode = mode;
    }
    if let Some(owner) = table
        .entry("socket_owner")
        .and_then(|e| socket_owner(doc, &e))
    {
        manage.socket_owner = owner;
    }
    manage.users = ids(doc, &table, "users");
    manage.groups = ids(doc, &table, "groups");
    manage.http = table.entry("http").and_then(|e| http(doc, &e, listen));
    manage.token_file = token_file(doc, &table);
    manage.manual = manual(doc, &table);
    manage.storage = table.entry("storage").map(|e| storage(doc, &table, &e));
    manage
}

/// Directories and devices.
fn storage<'a>(doc: &mut Document<'a>, table: &Table<'a>, entry: &Entry<'a>) -> Vec<PathBuf> {
    if table.entry("socket").is_none() && table.entry("http").is_none() {
        let help = "remove it, or set socket, for example socket = \"/run/weir/manage.sock\"";
        doc.report(entry, "requires socket or http, and neither is set", help);
    }
    let elements = elements(doc, entry, "[\"/var/lib/weir\"]", "paths");
    let mut all = Vec::new();
    for element in &elements {
        let Some(path) = absolute(doc, element) else {
            continue;
        };
        if path.components().any(|part| part == Component::ParentDir) {
            let what = format!(
                "{} contains \"..\", which is not permitted",
                quoted(&path.display().to_string())
            );
            doc.report(element, what, "write the path without \"..\"");
        }
        all.push(path);
    }
    all
}

/// The elements of a list that has at most [`ELEMENTS_MAX`].
fn elements<'a>(
    doc: &mut Document<'a>,
    entry: &Entry<'a>,
    example: &str,
    called: &str,
) -> Vec<Entry<'a>> {
    let mut elements = entry.array(doc, example).unwrap_or_default();
    if elements.len() > ELEMENTS_MAX {
        let what = format!(
            "has {} {called}; at most {ELEMENTS_MAX} are permitted",
            elements.len()
        );
        doc.report(entry, what, "");
        elements.truncate(ELEMENTS_MAX);
    }
    elements
}

fn socket<'a>(doc: &mut Document<'a>, table: &Table<'a>, listen: &Listen) -> Option<PathBuf> {
    let entry = table.entry("socket")?;
    let path = entry.text(doc, "a path", "\"/run/weir/manage.sock\"")?;
    let path = path.strip_prefix("unix:").unwrap_or(path);
    let path = socket_path(doc, &entry, path)?;
    if listen.nbd.contains(&Address::Unix(path.clone())) {
        let what = format!(
            "{} is already used by nbd",
            quoted(&path.display().to_string())
        );
        doc.report(&entry, what, "use another path for the management socket");
        return None;
    }
    Some(path)
}

fn http(doc: &mut Document<'_>, entry: &Entry<'_>, listen: &Listen) -> Option<SocketAddr> {
    let text = entry.text(doc, "an address", "\"127.0.0.1:9810\"")?;
    // Nothing permits others: a token without encryption is not secret.
    let address = tcp(doc, entry, text, true)?;
    if !address.ip().to_canonical().is_loopback() {
        let what = format!("{} can be reached from other machines", quoted(text));
        let help = "use \"127.0.0.1:9810\"; connect from other machines through a tunnel, for example ssh -L 9810:127.0.0.1:9810 HOST";
        doc.report(entry, what, help);
        return None;
    }
    let taken = listen.nbd.contains(&Address::Tcp(address)) || listen.metrics == Some(address);
    if address.port() != 0 && taken {
        let what = format!("{} is already used by [listen]", quoted(text));
        doc.report(entry, what, "use another port for the management interface");
        return None;
    }
    Some(address)
}

fn token_file<'a>(doc: &mut Document<'a>, table: &Table<'a>) -> Option<PathBuf> {
    let http = table.entry("http");
    let Some(entry) = table.entry("token_file") else {
        if let Some(http) = http {
            let help = "add token_file = \"/var/lib/weir/token\"; the server creates the file if it does not exist";
            doc.report(&http, "requires token_file", help);
        }
        return None;
    };
    if http.is_none() {
        let help = "remove it, or set http, for example http = \"127.0.0.1:9810\"";
        doc.report(&entry, "requires http, which is not set", help);
    }
    let text = entry.text(doc, "a path", "\"/var/lib/weir/token\"")?;
    if !text.starts_with('/') || text.contains('\0') || text.ends_with('/') {
        let what = format!("{} is not an absolute path of a file", quoted(text));
        doc.report(&entry, what, "write for example \"/var/lib/weir/token\"");
        return None;
    }
    Some(PathBuf::from(text))
}

fn manual<'a>(doc: &mut Document<'a>, table: &Table<'a>) -> Option<PathBuf> {
    let entry = table.entry("manual")?;
    if table.entry("http").is_none() {
        let help =
            "remove it, or set where browsers connect, for example http = \"127.0.0.1:9810\"";
        doc.report(&entry, "is for the dashboard, which needs http", help);
    }
    absolute(doc, &entry)
}

/// A list of users or groups.
fn ids<'a>(doc: &mut Document<'a>, table: &Table<'a>, key: &str) -> Vec<Id> {
    let entry = table.entry(key);
    let Some(entry) = entry else {
        return Vec::new();
    };
    let elements = elements(doc, &entry, "[\"operator\", \"1001\"]", "names");
    let mut all = Vec::new();
    for element in &elements {
        let Some(text) = element.text(doc, "a name or a number", "\"operator\" or \"1001\"") else {
            continue;
        };
        match id(text) {
            Some(id) => all.push(id),
            None => doc.report(element, "is empty", "write a name, or a number as text"),
        }
    }
    all
}
