//! From a scenario's tables to what they say.

mod client;
mod expect;
mod guest;
mod tunables;

pub(super) use expect::known_policy;
pub(super) use tunables::tune;

use super::draft::{CLIENTS, Change, Draft, Facts, Group, Host, RESERVED};
use super::{FilesystemKind, NrRequests, Path, Plug};
use crate::admission::contradicted;
use crate::document::{Document, Entry, Table};
use crate::key::{self, CHANGE, FREEZE, GROUP, HOST, PATH};
use crate::nearest;
use crate::profile;
use crate::read::{capacity, contract as read_contract, knobs};
use crate::text::{is_name, join, quoted};
use weir_core::Contract;
use weir_drive::Freeze;

/// What the core or the host model cannot do yet, so that it has no meaning in a file: a key, and why.
const LATER: &[(&str, &str)] = &[
    (
        "hw_queues",
        "hardware queues are specified by `queues` of the drive's model",
    ),
    ("rq_affinity", "processors are not modelled"),
    (
        "scheduler",
        "the policy is chosen with --policy or `policies`",
    ),
];

/// Everything that depends on case, drive and policy.
pub(super) fn draft<'a>(doc: &mut Document<'a>, root: &Table<'a>) -> Option<Draft> {
    let before = doc.found();
    tune(doc, root, None);
    let groups = groups(doc, root);
    let grouped = root.word(doc, "grouping", [true, false]);
    let host = host(doc, root).unwrap_or_default();
    let mut draft = Draft {
        duration: root.time(doc, "duration"),
        run_in: root.time(doc, "run_in"),
        warm_up: root.time(doc, "warm_up"),
        awaits: None,
        exits: None,
        meant_for: root.rate(doc, "meant_for"),
        capacity: root.entry("capacity").and_then(|e| capacity(doc, &e)),
        freeze: freeze(doc, root),
        grouped,
        files: root.word(doc, "layout", [false, true]),
        host,
        path: path(doc, root).unwrap_or(Path::DIRECT),
        guest: guest::guest(doc, root),
        groups,
        clients: Vec::new(),
        changes: Vec::new(),
        unclassed: Vec::new(),
    };
    if draft.host.filesystem.is_some() && (!draft.files || draft.guest.is_some()) {
        let (what, help) = if draft.files {
            (
                "cannot be combined with guest, because clients in virtual machines do not use the host's file system",
                "remove one of them",
            )
        } else {
            ("requires layout = \"files\"", "set layout = \"files\"")
        };
        doc.at(&root.span_of("host"), "host.filesystem", what, help);
    }
    clients(doc, root, &mut draft);
    // Clients that are not as they should be are not there; that is said already.
    if doc.found() == before {
        let entry = root.entry("await");
        draft.awaits = entry.and_then(|e| named_client(doc, &e, &draft));
        let entry = root.entry("exitall");
        draft.exits = entry.and_then(|e| ending_client(doc, &e, &draft));
        draft.changes = changes(doc, root, &draft);
    }
    (doc.found() == before).then_some(draft)
}

/// What holds for the file as a whole.
pub(super) fn facts<'a>(
    doc: &mut Document<'a>,
    root: &Table<'a>,
    draft: &Draft,
    cases: &[String],
) -> Facts {
    let target = root
        .entry("target")
        .and_then(|e| named_client(doc, &e, draft));
    let first = || draft.names().next().unwrap_or_default().to_owned();
    let policies = root.entry("policies").map(|e| expect::policies(doc, &e));
    let default = ["none", "bfq", "contract"].map(str::to_owned).to_vec();
    let drives = root.entry("drives").map(|e| {
        list(doc, &e, "[\"demo\"]", |doc, e| {
            if e.is_table() {
                return profile::model(doc, e).map(|drive| profile::inline(&drive));
            }
            e.text(doc, "a drive's name", "").map(str::to_owned)
        })
    });
    Facts {
        load: line(doc, root, "load"),
        target: target.unwrap_or_else(first),
        shows_clients: root.word(doc, "table", [true, false]),
        drives: drives.unwrap_or_else(|| vec!["demo".to_owned()]),
        policies: policies.unwrap_or(default),
        repetitions: root.count(doc, "repetitions"),
        expects: expect::expects(doc, root, draft, cases),
        published: expect::published(doc, root, draft, cases),
    }
}

/// A text; empty if it is not there.
pub(super) fn line<'a>(doc: &mut Document<'a>, table: &Table<'a>, key: &str) -> String {
    let entry = table.entry(key);
    let text = entry.and_then(|e| e.text(doc, "a text", ""));
    text.unwrap_or_default().to_owned()
}

/// What each element of an array that may not be empty comes to.
fn list<'a, T>(
    doc: &mut Document<'a>,
    entry: &Entry<'a>,
    example: &str,
    mut read: impl FnMut(&mut Document<'a>, &Entry<'a>) -> Option<T>,
) -> Vec<T> {
    let Some(entries) = entry.array(doc, example) else {
        return Vec::new();
    };
    if entries.is_empty() {
        let help = "list at least one, or remove the key";
        doc.report(entry, "must not be empty", help);
    }
    entries.iter().filter_map(|e| read(doc, e)).collect()
}

/// A client's name that a key refers to.
fn named_client<'a>(doc: &mut Document<'a>, entry: &Entry<'a>, draft: &Draft) -> Option<String> {
    let name = entry.text(doc, "a client's name", "")?;
    if !draft.names().any(|n| n == name) {
        let what = format!("unknown client {}", quoted(name));
        let help = nearest::help(name, draft.names());
        doc.report(entry, what, &help);
    }
    Some(name.to_owned())
}

/// The name of a client that comes to an end by itself.
fn ending_client<'a>(doc: &mut Document<'a>, entry: &Entry<'a>, draft: &Draft) -> Option<String> {
    let name = named_client(doc, entry, draft)?;
    let mut clients = draft.clients.iter();
    let client = clients.find(|c| c.names.contains(&name));
    if client.is_some_and(|c| c.program.requests.is_none()) {
        let what = format!("{} has no end", quoted(&name));
        doc.report(
            entry,
            what,
            "set number_ios in that client, for example number_ios = 1000",
        );
    }
    Some(name)
}

fn host<'a>(doc: &mut Document<'a>, root: &Table<'a>) -> Option<Host> {
    let entry = root.entry("host")?;
    let map = entry.is_table().then(|| entry.map(doc)).flatten();
    let later = |key: &str| LATER.iter().find(|l| l.0 == key);
    for (key, value) in map.iter().flat_map(Table::entries) {
        if let Some((key, why)) = later(key.get_ref()) {
            doc.report(
                &value,
                format!("{key} is not supported: {why}"),
                "remove it",
            );
        }
    }
    let table = match &map {
        Some(map) => {
            let mut keys = HOST.names();
            keys.extend(LATER.iter().map(|l| l.0));
            doc.check_keys(map, HOST.name, &keys);
            map.shaped(&HOST)
        }
        None => entry.table(doc, &HOST)?,
    };
    let mut host = Host::default();
    if let Some(entry) = table.entry("nr_requests") {
        host.nr_requests = nr_requests(doc, &entry).unwrap_or(NrRequests::Unbounded);
    }
    host.adapter = table.word(doc, "adapter", [true, false]);
    host.merging.nomerges = table.count(doc, "nomerges");
    host.merging.plug = table.word(doc, "plug", [Plug::Cache, Plug::All, Plug::None]);
    host.read_ahead = table.size(doc, "read_ahead") as u32;
    host.copy = table.time(doc, "copy");
    host.wakeup = table.time(doc, "wakeup");
    let kinds = [FilesystemKind::Ext4, FilesystemKind::Btrfs].map(Some);
    host.filesystem = table.word(doc, "filesystem", [kinds[0], kinds[1], None]);
    Some(host)
}

fn nr_requests<'a>(doc: &mut Document<'a>, entry: &Entry<'a>) -> Option<NrRequests> {
    if entry.is_integer() {
        return entry.count(doc).map(NrRequests::Each);
    }
    entry.choice(doc, &["linux"]).map(|_| NrRequests::Linux)
}

fn path<'a>(doc: &mut Document<'a>, root: &Table<'a>) -> Option<Path> {
    let table = root.entry("path")?.table(doc, &PATH)?;
    Some(Path {
        latency: table.time(doc, "latency"),
        turn: table.time(doc, "turn"),
        processor: table.time(doc, "processor"),
    })
}

fn freeze<'a>(doc: &mut Document<'a>, root: &Table<'a>) -> Option<Freeze> {
    let entry = root.entry("freeze")?;
    let table = entry.table(doc, &FREEZE)?;
    let [first, length, every] = ["first", "length", "every"].map(|key| {
        let entry = doc.required(
            &table,
            key,
            "write { first = \"1s\", length = \"1s\", every = \"5s\" }",
        );
        entry.and_then(|e| e.time(doc))
    });
    let freeze = Freeze {
        first: first?,
        length: length?,
        every: every?,
    };
    if !freeze.is_valid() {
        let what = "must be shorter than every";
        doc.at(
            &table.span_of("length"),
            &join(&table.path, "length"),
            what,
            "reduce length, or increase every",
        );
    }
    Some(freeze)
}

/// Contracts that take the place of others.
fn changes<'a>(doc: &mut Document<'a>, root: &Table<'a>, draft: &Draft) -> Vec<Change> {
    let entry = root.entry("change");
    let entries = entry.and_then(|e| e.array(doc, "[[change]]"));
    let mut changes = Vec::new();
    for entry in entries.unwrap_or_default() {
        let Some(table) = entry.table(doc, &CHANGE) else {
            continue;
        };
        let at = doc.required(&table, "when", "write when = \"2s\"");
        let at = at.and_then(|e| e.time(doc));
        let whose = doc.required(&table, "whose", "write whose = \"reader\"");
        let whose = whose.and_then(|e| promised(doc, &e, draft));
        let contract = contract(doc, &table);
        if let (Some(at), Some(whose)) = (at, whose) {
            changes.push(Change {
                at,
                whose,
                contract,
            });
        }
    }
    changes
}

/// The name of what has a contract: a group, or a client in one of its own.
fn promised<'a>(doc: &mut Document<'a>, entry: &Entry<'a>, draft: &Draft) -> Option<String> {
    let name = entry.text(doc, "a group's or a client's name", "")?;
    let alone = draft
        .clients
        .iter()
        .filter(|c| draft.grouped && c.group.is_none());
    let clients = alone.flat_map(|c| &c.names);
    let names = draft.groups.iter().map(|g| &g.name).chain(clients);
    let names = names.map(String::as_str);
    if !names.clone().any(|n| n == name) {
        let what = format!(
            "{} is neither a group nor a client in a group of its own",
            quoted(name)
        );
        doc.report(entry, what, &nearest::help(name, names));
    }
    Some(name.to_owned())
}

/// The name of a client, a group or a scenario.
pub(super) fn name<'a>(doc: &mut Document<'a>, table: &Table<'a>) -> Option<String> {
    let entry = doc.required(table, "name", "write name = \"reader\"")?;
    let name = entry.text(doc, "a name", "\"reader\"")?;
    checked(doc, &entry, name)
}

/// A name, if it may be one.
pub(super) fn checked(doc: &mut Document<'_>, entry: &Entry<'_>, name: &str) -> Option<String> {
    if is_name(name) {
        return Some(name.to_owned());
    }
    let what = format!("{} is not a valid name", quoted(name));
    let help = "use 1 to 64 letters, digits, dots, dashes and underscores, beginning with a letter or digit";
    doc.report(entry, what, help);
    None
}

fn groups<'a>(doc: &mut Document<'a>, root: &Table<'a>) -> Vec<Group> {
    let entry = root.entry("group");
    let entries = entry.and_then(|e| e.array(doc, "[[group]]"));
    let mut groups: Vec<Group> = Vec::new();
    for entry in entries.unwrap_or_default() {
        let Some(table) = entry.table(doc, &GROUP) else {
            continue;
        };
        let name = name(doc, &table).unwrap_or_default();
        if groups.iter().any(|g| g.name == name) && !name.is_empty() {
            doc.report(
                &entry,
                format!("two groups have the name {}", quoted(&name)),
                "rename one of them",
            );
        }
        let parent = table.entry("parent").and_then(|e| group(doc, &e, &groups));
        let contract = contract(doc, &table);
        groups.push(Group {
            name,
            parent,
            contract,
            has_class: table.entry("class").is_some(),
            knobs: knobs(doc, &table),
        });
    }
    groups
}

/// The place of a group that a key refers to.
fn group<'a>(doc: &mut Document<'a>, entry: &Entry<'a>, groups: &[Group]) -> Option<usize> {
    let name = entry.text(doc, "a group's name", "")?;
    let found = groups.iter().position(|g| g.name == name);
    if found.is_none() {
        let what = format!(
            "unknown group {}; a parent must be defined before its members",
            quoted(name)
        );
        let help = nearest::help(name, groups.iter().map(|g| g.name.as_str()));
        doc.report(entry, what, &help);
    }
    found
}

fn clients<'a>(doc: &mut Document<'a>, root: &Table<'a>, draft: &mut Draft) {
    let example = "add [[client]] with name, rw, bs and size for each kind of client";
    let Some(entry) = doc.required(root, "client", example) else {
        return;
    };
    let Some(entries) = entry.array(doc, "[[client]]") else {
        return;
    };
    let found = doc.found();
    let mut count = 0;
    for entry in &entries {
        let Some((client, unclassed)) = client::client(doc, entry, draft) else {
            continue;
        };
        draft.unclassed.extend(unclassed);
        count += client.names.len();
        if count > CLIENTS {
            let what =
                format!("the scenario has too many clients; at most {CLIENTS} are permitted");
            doc.report(entry, what, "use fewer clients with a higher iodepth");
            return;
        }
        draft.clients.push(client);
    }
    if draft.names().next().is_none() && doc.found() == found {
        doc.report(&entry, "the scenario has no client", example);
    }
    same_names(doc, &entries, draft);
    inner_groups(doc, &entries, draft);
}

/// Names are told apart, and none is what results call all or others.
fn same_names<'a>(doc: &mut Document<'a>, entries: &[Entry<'a>], draft: &Draft) {
    let mut known = std::collections::BTreeSet::from(RESERVED);
    if draft.clients.len() != entries.len() {
        // Which is whose is not known.
        return;
    }
    for (client, entry) in draft.clients.iter().zip(entries) {
        let twice = client.names.iter().find(|n| !known.insert(n));
        if let Some(name) = twice {
            let what = if RESERVED.contains(&name.as_str()) {
                format!("a client cannot be called {}", quoted(name))
            } else {
                format!("two clients have the name {}", quoted(name))
            };
            doc.report(entry, what, "use another name");
        }
    }
}

/// A group with groups below it has no clients of its own.
fn inner_groups<'a>(doc: &mut Document<'a>, entries: &[Entry<'a>], draft: &Draft) {
    if draft.clients.len() != entries.len() {
        return;
    }
    for (client, entry) in draft.clients.iter().zip(entries) {
        let Some(at) = client.group else { continue };
        if draft.groups.iter().any(|g| g.parent == Some(at)) {
            let what = format!(
                "group {} contains groups, so that it cannot contain a client",
                quoted(&draft.groups[at].name)
            );
            doc.report(
                entry,
                what,
                "create a group for this client; clients must be in groups without subgroups",
            );
        }
    }
}

/// What a table promises, if it does not contradict itself.
fn contract<'a>(doc: &mut Document<'a>, table: &Table<'a>) -> Contract {
    let before = doc.found();
    let contract = read_contract(doc, table);
    if contract != Contract::DEFAULT
        && doc.found() == before
        && let Some((key, what, help)) = contradicted(&contract)
    {
        doc.at(&table.span_of(key), &join(&table.path, key), what, help);
    }
    contract
}

/// Whether a table has a key of a contract.
fn first_of_contract<'a>(table: &Table<'a>) -> Option<Entry<'a>> {
    key::CONTRACTS.iter().find_map(|k| table.entry(k.name))
}
