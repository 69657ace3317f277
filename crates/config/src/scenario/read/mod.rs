//! Reading of a scenario's tables, after the differences of a case were applied.

mod client;
mod expect;
mod guest;
mod replay;
mod tunables;

pub(super) use client::names;
pub(super) use expect::known_policy;
pub(super) use guest::stated as stated_guest;
pub(super) use replay::{length as replay_length, located as replay_problem};
pub(super) use tunables::tune;

use super::build::{Choice, ClientDeclaration, StatedScenario, one_device};
use super::script::Facts;
use super::trace::TraceFiles;
use super::{
    Adapter, Buffered, CLIENTS, Change, ClientSpec, FilesystemKind, MergeSettings, NrRequests,
    Path, RESERVED, Scenario,
};
use crate::admission::contradiction_in;
use crate::document::{Document, KeyEntry, ShapedTable, refuse};
use crate::key::{self, CHANGE, FREEZE, GROUP, HOST, PATH};
use crate::nearest;
use crate::profile;
use crate::terms::{capacity, contract as read_contract, knobs};
use crate::text::{is_name, join, quoted};
use crate::units::ByteSize;
use weir_core::{Contract, GroupId, ROOT, Span};
use weir_model::drive::{Freeze, Scattered};

/// The maximum queue depth of an ATA drive. A drive with a single queue and no more tags than this
/// is connected to an ATA adapter.
const NCQ: u16 = 32;

/// Keys without an equivalent in the core or in the model of the host so far, each with the reason.
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

/// Reads the keys that depend on the case, the drive and the policy.
pub(super) fn stated<'a>(
    doc: &mut Document<'a>,
    root: &ShapedTable<'a>,
    name: &str,
    choice: &Choice<'_>,
    traces: &TraceFiles,
) -> Option<StatedScenario> {
    let before = doc.problem_count();
    // The tunables are only checked here, because the policy is chosen later.
    tune(doc, root, None);
    let duration = root.field(doc, "duration");
    // `--seconds` takes precedence over the file.
    let chosen = choice.seconds.map(|s| Span::from_secs(s.into()));
    let drive = choice.drive.clone();
    let mut scenario = Scenario::new(name, drive, chosen.unwrap_or(duration));
    choice.case.unwrap_or(name).clone_into(&mut scenario.case);
    let groups = groups(doc, root, &mut scenario);
    let grouped = root.word(doc, "grouping", [true, false]);
    let (buffered, filesystem) = host(doc, root, &mut scenario);
    scenario.run_in = root.field(doc, "run_in");
    scenario.warm_up = root.field(doc, "warm_up");
    let capacity = root.entry("capacity").and_then(|e| capacity(doc, &e));
    scenario.capacity = capacity.or(choice.capacity);
    scenario.freeze = freeze(doc, root);
    let path = root.entry("path").and_then(|e| e.table(doc, &PATH));
    scenario.path = path.map_or(Path::DIRECT, |path| Path::read(doc, &path));
    scenario.guest = guest::guest(doc, root);
    let files = root.word(doc, "layout", [false, true]);
    if filesystem.is_some() && (!files || scenario.guest.is_some()) {
        let mut said = ("requires layout = \"files\"", "set layout = \"files\"");
        if files {
            said.0 = "cannot be combined with guest, because clients in virtual machines do not use the host's file system";
            said.1 = "remove one of them";
        }
        let (what, help) = said;
        doc.report_span(&root.span_of("host"), "host.filesystem", what, help);
    }
    let mut stated = StatedScenario {
        scenario,
        groups,
        capacity,
        meant_for: root.field(doc, "meant_for"),
        grouped,
    };
    let clients = clients(doc, root, &stated, buffered, traces);
    // Clients with problems are not in the list, so references to them would cause further
    // problems.
    if doc.problem_count() > before {
        return None;
    }
    stated.add(clients.unwrap_or_default());
    if files {
        one_device(&mut stated.scenario, filesystem);
    }
    stated.scenario.spread = spread(doc, root, &stated.scenario, files);
    ends(doc, root, &mut stated.scenario);
    stated.scenario.changes = changes(doc, root, &stated);
    (doc.problem_count() == before).then_some(stated)
}

/// Reads the clients that determine the end of the run.
fn ends<'a>(doc: &mut Document<'a>, root: &ShapedTable<'a>, scenario: &mut Scenario) {
    let place = |name| scenario.clients.iter().position(|c| Some(&c.name) == name);
    let entry = root.entry("await");
    let awaited = entry.and_then(|e| named_client(doc, &e, scenario));
    let entry = root.entry("exitall");
    let last = entry.and_then(|e| ending_client(doc, &e, scenario));
    (scenario.awaits, scenario.exits) = (place(awaited.as_ref()), place(last.as_ref()));
    // The client must stop issuing requests when the time is over. Otherwise, the run would wait
    // for its requests until `PATIENCE` has passed.
    if let Some(at) = scenario.awaits {
        scenario.clients[at].program.stop = Some(scenario.warm_up + scenario.duration);
    }
}

/// Reads the keys that do not depend on the case, the drive or the policy.
pub(super) fn facts<'a>(
    doc: &mut Document<'a>,
    root: &ShapedTable<'a>,
    scenario: &Scenario,
    cases: &[String],
) -> Facts {
    let target = root
        .entry("target")
        .and_then(|e| named_client(doc, &e, scenario));
    let first = || scenario.clients.first().map(|c| c.name.clone());
    let policies = root.entry("policies").map(|e| expect::policies(doc, &e));
    let default = ["none", "bfq", "contract"].map(str::to_owned).to_vec();
    let drives = root.entry("drives").map(|e| {
        list(doc, &e, "[\"demo\"]", |doc, e| {
            if e.is_table() {
                // The table of a model is kept as text, like the name of a drive.
                return profile::inline_as_stated(doc, e);
            }
            e.text(doc, "a drive's name", "").map(str::to_owned)
        })
    });
    Facts {
        load: line(doc, root, "load"),
        target: target.or_else(first).unwrap_or_default(),
        shows_clients: root.word(doc, "table", [true, false]),
        drives: drives.unwrap_or_else(|| vec!["demo".to_owned()]),
        policies: policies.unwrap_or(default),
        repetitions: root.field(doc, "repetitions"),
        expects: expect::expects(doc, root, scenario, cases),
        published: expect::published(doc, root, scenario, cases),
    }
}

/// Reads a text, which is empty if the key is not set.
pub(super) fn line<'a>(doc: &mut Document<'a>, table: &ShapedTable<'a>, key: &str) -> String {
    let entry = table.entry(key);
    let text = entry.and_then(|e| e.text(doc, "a text", ""));
    text.unwrap_or_default().to_owned()
}

/// Reads each element of an array that must not be empty.
fn list<'a, T>(
    doc: &mut Document<'a>,
    entry: &KeyEntry<'a>,
    example: &str,
    mut read: impl FnMut(&mut Document<'a>, &KeyEntry<'a>) -> Option<T>,
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

/// Reads a reference to a client by its name.
fn named_client<'a>(
    doc: &mut Document<'a>,
    entry: &KeyEntry<'a>,
    scenario: &Scenario,
) -> Option<String> {
    let name = entry.text(doc, "a client's name", "")?;
    let names = scenario.clients.iter().map(|c| c.name.as_str());
    if !names.clone().any(|n| n == name) {
        let what = format!("unknown client {}", quoted(name));
        doc.report(entry, what, &nearest::help(name, names));
    }
    Some(name.to_owned())
}

/// Reads a reference to a client that ends by itself.
fn ending_client<'a>(
    doc: &mut Document<'a>,
    entry: &KeyEntry<'a>,
    scenario: &Scenario,
) -> Option<String> {
    let name = named_client(doc, entry, scenario)?;
    let client = scenario.clients.iter().find(|c| c.name == name);
    if client.is_some_and(|c| c.program.requests.is_none()) {
        let what = format!("{} has no end", quoted(&name));
        let help = "set number_ios in that client, for example number_ios = 1000";
        doc.report(entry, what, help);
    }
    Some(name)
}

/// Reads the host, and returns the use of its page cache by processes and the kind of its file
/// system.
fn host<'a>(
    doc: &mut Document<'a>,
    root: &ShapedTable<'a>,
    scenario: &mut Scenario,
) -> (Buffered, Option<FilesystemKind>) {
    let table = root.entry("host").and_then(|e| host_table(doc, &e));
    let table = table.unwrap_or_else(|| ShapedTable::absent(&HOST));
    let nr_requests = table.entry("nr_requests");
    let nr_requests = nr_requests.and_then(|e| nr_requests_of(doc, &e));
    let shape = scenario.drive.shape();
    let adapter = table.word(doc, "adapter", [true, false]);
    scenario.adapter = Adapter {
        nr_requests: nr_requests.unwrap_or_default(),
        ata: adapter && shape.queues == 1 && shape.tags <= NCQ,
    };
    scenario.merging = MergeSettings {
        nomerges: table.field(doc, "nomerges"),
        plug: table.field(doc, "plug"),
    };
    let buffered = Buffered {
        read_ahead: table.field(doc, "read_ahead"),
        copy: table.field(doc, "copy"),
        wakeup: table.field(doc, "wakeup"),
        dirty_bytes: table.field(doc, "dirty_bytes"),
        ..Buffered::default()
    };
    let kinds = [FilesystemKind::Ext4, FilesystemKind::Btrfs].map(Some);
    let kind = table.word(doc, "filesystem", [kinds[0], kinds[1], None]);
    (buffered, kind)
}

/// Reads the table of the host, and reports the keys that are not supported yet.
fn host_table<'a>(doc: &mut Document<'a>, entry: &KeyEntry<'a>) -> Option<ShapedTable<'a>> {
    let Some(map) = entry.is_table().then(|| entry.map(doc)).flatten() else {
        return entry.table(doc, &HOST);
    };
    let later = |key: &str| LATER.iter().find(|l| l.0 == key);
    for (key, value) in map.entries() {
        if let Some((key, why)) = later(key.get_ref()) {
            let what = format!("{key} is not supported: {why}");
            doc.report(&value, what, "remove it");
        }
    }
    let mut keys = HOST.names();
    keys.extend(LATER.iter().map(|l| l.0));
    doc.check_keys(&map, HOST.name, &keys);
    Some(map.shaped(&HOST))
}

fn nr_requests_of<'a>(doc: &mut Document<'a>, entry: &KeyEntry<'a>) -> Option<NrRequests> {
    if entry.is_integer() {
        return entry.count(doc).map(NrRequests::Each);
    }
    entry.choice(doc, &["linux"]).map(|_| NrRequests::Linux)
}

fn freeze<'a>(doc: &mut Document<'a>, root: &ShapedTable<'a>) -> Option<Freeze> {
    let table = root.entry("freeze")?.table(doc, &FREEZE)?;
    let before = doc.problem_count();
    for key in ["first", "length", "every"] {
        let help = "write { first = \"1s\", length = \"1s\", every = \"5s\" }";
        doc.required(&table, key, help);
    }
    let freeze = Freeze {
        first: table.field(doc, "first"),
        length: table.field(doc, "length"),
        every: table.field(doc, "every"),
        seed: None,
    };
    if doc.problem_count() > before {
        return None;
    }
    refuse!(doc, table;
        "length", !freeze.is_valid(), "must be shorter than every", "reduce length, or increase every";
    );
    Some(freeze)
}

/// Reads the part of the drive over which files are scattered.
fn spread<'a>(
    doc: &mut Document<'a>,
    root: &ShapedTable<'a>,
    scenario: &Scenario,
    files: bool,
) -> Option<u64> {
    let entry = root.entry("spread")?;
    let spread = entry.size(doc)?;
    let used = scenario.spaces.first().copied().unwrap_or(0);
    let size = scenario.drive.size().unwrap_or(u64::MAX);
    let (what, help) = if !files {
        let what = "requires layout = \"files\"".to_owned();
        (what, "set layout = \"files\"".to_owned())
    } else if spread > size {
        let what = "must be at most the size of the drive".to_owned();
        (what, format!("write at most \"{}\"", ByteSize(size)))
    } else if !Scattered::is_valid(used, spread, size) {
        let what = format!(
            "must have room for the files, which take {}",
            ByteSize(used)
        );
        (
            what,
            "increase spread, or reduce size of the clients".to_owned(),
        )
    } else {
        return Some(spread);
    };
    doc.report(&entry, what, &help);
    None
}

/// Reads the contracts that replace others during the run.
fn changes<'a>(
    doc: &mut Document<'a>,
    root: &ShapedTable<'a>,
    stated: &StatedScenario,
) -> Vec<Change> {
    let mut changes = Vec::new();
    for (_, table) in doc.tables(root, "change", &CHANGE) {
        let at = doc.required(&table, "when", "write when = \"2s\"");
        let at = at.and_then(|e| e.time(doc));
        let whose = doc.required(&table, "whose", "write whose = \"reader\"");
        let whose = whose.and_then(|e| promised(doc, &e, stated));
        let contract = contract(doc, &table);
        if let (Some(at), Some(group)) = (at, whose) {
            changes.push(Change {
                at,
                group,
                contract,
            });
        }
    }
    changes
}

/// Reads a reference to a group, or to a client in a group of its own.
fn promised<'a>(
    doc: &mut Document<'a>,
    entry: &KeyEntry<'a>,
    stated: &StatedScenario,
) -> Option<GroupId> {
    let name = entry.text(doc, "a group's or a client's name", "")?;
    let declared = stated.groups.len();
    // The groups of single clients were added after the declared groups.
    let alone = |c: &&ClientSpec| c.group.0 as usize > declared;
    let clients = stated.scenario.clients.iter().filter(alone);
    let names = stated.groups.iter().map(|g| &g.0);
    let names = names.chain(clients.map(|c| &c.name)).map(String::as_str);
    if !names.clone().any(|n| n == name) {
        let what = format!(
            "{} is neither a group nor a client in a group of its own",
            quoted(name)
        );
        doc.report(entry, what, &nearest::help(name, names));
    }
    stated.group_of(name)
}

/// Reads the name of a client, a group or a scenario.
pub(super) fn name<'a>(doc: &mut Document<'a>, table: &ShapedTable<'a>) -> Option<String> {
    let entry = doc.required(table, "name", "write name = \"reader\"")?;
    let name = entry.text(doc, "a name", "\"reader\"")?;
    checked(doc, &entry, name)
}

/// Returns a name if it is valid, and reports it otherwise.
pub(super) fn checked(doc: &mut Document<'_>, entry: &KeyEntry<'_>, name: &str) -> Option<String> {
    if is_name(name) {
        return Some(name.to_owned());
    }
    let what = format!("{} is not a valid name", quoted(name));
    let help = "use 1 to 64 letters, digits, dots, dashes and underscores, beginning with a letter or digit";
    doc.report(entry, what, help);
    None
}

/// Adds the declared groups. Returns the name of each, and whether it states a class.
fn groups<'a>(
    doc: &mut Document<'a>,
    root: &ShapedTable<'a>,
    scenario: &mut Scenario,
) -> Vec<(String, bool)> {
    let mut groups: Vec<(String, bool)> = Vec::new();
    for (entry, table) in doc.tables(root, "group", &GROUP) {
        // A group without a valid name is added too, so that the numbers of the later groups are
        // right.
        let name = name(doc, &table).unwrap_or_default();
        if groups.iter().any(|g| g.0 == name) && !name.is_empty() {
            let what = format!("two groups have the name {}", quoted(&name));
            doc.report(&entry, what, "rename one of them");
        }
        let parent = table.entry("parent").and_then(|e| group(doc, &e, &groups));
        let contract = contract(doc, &table);
        let knobs = knobs(doc, &table);
        scenario.add_group(parent.unwrap_or(ROOT), contract, knobs);
        groups.push((name, table.entry("class").is_some()));
    }
    groups
}

/// Reads a reference to a group.
fn group<'a>(
    doc: &mut Document<'a>,
    entry: &KeyEntry<'a>,
    groups: &[(String, bool)],
) -> Option<GroupId> {
    let name = entry.text(doc, "a group's name", "")?;
    let found = groups.iter().zip(1..).find(|(g, _)| g.0 == name);
    if found.is_none() {
        let what = format!(
            "unknown group {}; a parent must be defined before its members",
            quoted(name)
        );
        let help = nearest::help(name, groups.iter().map(|g| g.0.as_str()));
        doc.report(entry, what, &help);
    }
    found.map(|(_, id)| GroupId(id))
}

fn clients<'a>(
    doc: &mut Document<'a>,
    root: &ShapedTable<'a>,
    stated: &StatedScenario,
    buffered: Buffered,
    traces: &TraceFiles,
) -> Option<Vec<ClientDeclaration>> {
    let example = "add [[client]] with name, rw, bs and size for each kind of client";
    let entry = doc.required(root, "client", example)?;
    let entries = entry.array(doc, "[[client]]")?;
    let found = doc.problem_count();
    let mut count = 0;
    let mut all = Vec::new();
    for entry in &entries {
        let Some(clients) = client::clients(doc, entry, stated, buffered, traces) else {
            continue;
        };
        count += clients.names.len();
        if count > CLIENTS {
            let what =
                format!("the scenario has too many clients; at most {CLIENTS} are permitted");
            doc.report(entry, what, "use fewer clients with a higher iodepth");
            return None;
        }
        all.push(clients);
    }
    if count == 0 && doc.problem_count() == found {
        doc.report(&entry, "the scenario has no client", example);
    }
    // Clients with problems are missing in `all`, so that the two lists would not correspond.
    if all.len() == entries.len() {
        same_names(doc, &entries, &all);
        inner_groups(doc, &entries, &all, stated);
    }
    Some(all)
}

/// Reports names that occur twice, and names that results use for all or other clients.
fn same_names<'a>(doc: &mut Document<'a>, entries: &[KeyEntry<'a>], all: &[ClientDeclaration]) {
    let mut known = std::collections::BTreeSet::from(RESERVED);
    for (clients, entry) in all.iter().zip(entries) {
        let twice = clients.names.iter().find(|n| !known.insert(n));
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

/// Reports clients in a group that contains other groups.
fn inner_groups<'a>(
    doc: &mut Document<'a>,
    entries: &[KeyEntry<'a>],
    all: &[ClientDeclaration],
    stated: &StatedScenario,
) {
    for (clients, entry) in all.iter().zip(entries) {
        let group = clients.first.group;
        if group != ROOT && stated.scenario.groups.iter().any(|g| g.parent == group) {
            let name = quoted(&stated.groups[group.0 as usize - 1].0);
            let what = format!("group {name} contains groups, so that it cannot contain a client");
            let help =
                "create a group for this client; clients must be in groups without subgroups";
            doc.report(entry, what, help);
        }
    }
}

/// Reads the contract of a table, and reports it if its keys contradict each other.
fn contract<'a>(doc: &mut Document<'a>, table: &ShapedTable<'a>) -> Contract {
    let before = doc.problem_count();
    let contract = read_contract(doc, table);
    // The check builds a layer. It is skipped for the default contract, which most clients have.
    if contract != Contract::DEFAULT
        && doc.problem_count() == before
        && let Some((key, what, help)) = contradiction_in(&contract)
    {
        doc.report_span(&table.span_of(key), &join(&table.path, key), what, help);
    }
    contract
}

/// Returns the first key of a contract in a table.
fn first_of_contract<'a>(table: &ShapedTable<'a>) -> Option<KeyEntry<'a>> {
    key::CONTRACTS.iter().find_map(|k| table.entry(k.name))
}
