//! Throttle groups of QEMU: command lines, commands of its monitor (QMP) and their results.
//!
//! The forms are those of QEMU's `docs/throttle.txt` and of its QMP reference: `-drive` with
//! `throttling.*`, `-object throttle-group`, `-blockdev` with the driver `throttle`, the commands
//! `object-add`, `blockdev-add` and `block_set_io_throttle`, and the results of `qom-get` for
//! `limits` and of `query-block`. Objects, commands and results of other kinds have no limits and
//! are skipped.

use super::found::{ImportedDisk, ImportedInput, Source};
use super::throttle::{MONITOR, OPTIONS, ThrottleLimits};
use super::value::QemuValue;
use std::collections::{BTreeMap, BTreeSet};

/// The maximum number of block nodes on top of each other, so that a circle ends.
const CHAIN_MAX: usize = 32;

/// The name of limits that are printed without a name.
const UNNAMED: &str = "limits";

/// The nodes of `-blockdev` and `blockdev-add`, by their names.
type Nodes = BTreeMap<String, QemuValue>;

/// Reads a command line as a shell splits it, or with zero bytes between its words as in
/// `/proc/PID/cmdline`. Returns false if it has none of the options.
pub(super) fn read_command_line(text: &str, found: &mut ImportedInput) -> bool {
    let words = if text.contains('\0') {
        text.split('\0').map(str::to_owned).collect()
    } else if let Some(words) = shlex::split(text) {
        words
    } else {
        found.refuse(
            "",
            "a quotation mark is not closed",
            "copy the whole command",
        );
        return true;
    };
    let (mut nodes, mut is_qemu, mut drives) = (Nodes::new(), false, 0..);
    let mut words = words.into_iter().peekable();
    while let Some(word) = words.next() {
        let implied = match word.trim_start_matches('-') {
            // A word without a dash is the value of another option.
            option if option == word => continue,
            "object" => "qom-type",
            "blockdev" => "driver",
            "drive" => "",
            _ => continue,
        };
        is_qemu = true;
        // Neither option takes a value that begins with a dash, so the value was forgotten.
        let Some(value) = words.next_if(|value| !value.starts_with('-')) else {
            found.refuse(&word, "has no value", "add the value");
            continue;
        };
        let value = if value.starts_with('{') {
            serde_json::from_str(&value).map_err(|error| format!("is not JSON: {error}"))
        } else {
            QemuValue::option(&value, implied)
        };
        match value {
            Err(what) => found.refuse(&word, what, "correct the option"),
            Ok(value) if implied == "qom-type" => object(&value, found),
            Ok(value) if implied == "driver" => node(value, &mut nodes, found),
            Ok(value) => drive(&value, &mut drives, found),
        }
    }
    // A node can refer to a node that follows it, so all of them must be known.
    chains(&nodes, found);
    is_qemu
}

/// Reads commands of QMP and their results: one or more values of JSON.
pub(super) fn read_json(text: &str, found: &mut ImportedInput) {
    let mut nodes = Nodes::new();
    for value in serde_json::Deserializer::from_str(text).into_iter::<QemuValue>() {
        match value {
            Ok(value) => message(&value, &mut nodes, found),
            Err(error) => {
                found.place = (error.line().max(1) as u32, error.column().max(1) as u32);
                // The position at the end of the parser's message is stated in front.
                let what = error.to_string();
                let what = what.split(" at line ").next().unwrap_or_default();
                return found.refuse("", format!("is not JSON: {what}"), "");
            }
        }
    }
    chains(&nodes, found);
}

/// Reads a command, a result, or a part of either.
fn message(value: &QemuValue, nodes: &mut Nodes, found: &mut ImportedInput) {
    if let QemuValue::List(all) = value {
        for part in all {
            message(part, nodes, found);
        }
    } else if let Some(result) = value.get("return") {
        message(result, nodes, found);
    } else if let Some(command) = value.text("execute") {
        let arguments = value.get("arguments").unwrap_or(value);
        match command {
            "object-add" => object(arguments, found),
            "blockdev-add" => node(arguments.clone(), nodes, found),
            "block_set_io_throttle" => set_throttle(arguments, found),
            // A log of a session has many commands that have nothing to do with limits.
            _ => {}
        }
    } else if value.get("qom-type").is_some() {
        object(value, found);
    } else if let Some(inserted) = value.get("inserted") {
        block(value, inserted, found);
    } else if value.get("driver").is_some() {
        node(value.clone(), nodes, found);
    } else if value.get("limits").is_some() || !part(value, is_option).is_empty() {
        group(UNNAMED, value, found);
    }
}

fn is_option(key: &str) -> bool {
    OPTIONS.names().iter().any(|name| name == key)
}

/// Returns the entries of an object whose keys are selected.
fn part(value: &QemuValue, is_selected: impl Fn(&str) -> bool) -> Vec<&(String, QemuValue)> {
    let entries = value.entries().iter();
    entries.filter(|entry| is_selected(&entry.0)).collect()
}

/// Sets limits of a disk or a group. Names can begin with `x-`.
fn set(
    limits: &mut ThrottleLimits,
    owner: &str,
    entries: &[&(String, QemuValue)],
    found: &mut ImportedInput,
) {
    for (key, value) in entries {
        let key = key.strip_prefix("x-").unwrap_or(key);
        found.set(limits, (owner, key), value.scalar());
    }
}

/// Reads an `-object`. Kinds other than throttle groups are skipped.
fn object(value: &QemuValue, found: &mut ImportedInput) {
    if value.text("qom-type") == Some("throttle-group") {
        match value.text("id") {
            Some(id) => group(id, value, found),
            None => found.refuse("throttle-group", "has no id", "add id=NAME"),
        }
    }
}

/// Reads the limits of a throttle group: in `limits`, or as its own keys.
fn group(name: &str, value: &QemuValue, found: &mut ImportedInput) {
    let mut limits = ThrottleLimits::new(&OPTIONS);
    if let Some(inner) = value.get("limits") {
        set(&mut limits, name, &part(inner, |_| true), found);
    }
    // The names of both forms are the same, so a limit that is in both is found to be set twice.
    let own = part(value, |key| !["qom-type", "id", "limits"].contains(&key));
    set(&mut limits, name, &own, found);
    found.add_group(name, limits);
}

fn disk(name: &str, source: Source, found: &ImportedInput) -> ImportedDisk {
    ImportedDisk {
        name: name.to_owned(),
        source,
        own: None,
        groups: Vec::new(),
        place: found.place,
    }
}

/// Returns the storage with this path. The drivers of files and devices are not formats.
fn source(path: Option<&str>, format: Option<&str>) -> Source {
    let format = format.filter(|format| !["throttle", "file", "host_device"].contains(format));
    path.map_or_else(
        || Source::Other("the disk has no file".to_owned()),
        |path| Source::of(path, format),
    )
}

/// Reads a `-drive`. `numbers` are those for drives without a name.
fn drive(value: &QemuValue, numbers: &mut impl Iterator<Item = u32>, found: &mut ImportedInput) {
    // The images of firmware are not disks, and QEMU does not limit them.
    if value.text("if") == Some("pflash") {
        return;
    }
    let name = value.text("id").or_else(|| value.text("node-name"));
    let name = name.map(str::to_owned);
    let name = name
        .or_else(|| Some(format!("drive{}", numbers.next()?)))
        .unwrap_or_default();
    // `file=PATH`, `file.filename=PATH` below a format, or `file.file.filename=PATH` below a
    // throttle node and a format.
    let file = value.get("file");
    let inner = file.and_then(|file| file.get("file"));
    let path = [file, inner]
        .into_iter()
        .flatten()
        .find_map(|file| file.text("filename"));
    let path = path.or_else(|| value.text("file"));
    let format = value.text("format").or_else(|| value.text("driver"));
    let mut disk = disk(&name, source(path, format), found);
    disk.groups
        .extend(value.text("throttle-group").map(str::to_owned));
    let Some(throttling) = value.get("throttling") else {
        return found.add_disk(disk);
    };
    let mut limits = ThrottleLimits::new(&OPTIONS);
    set(
        &mut limits,
        &name,
        &part(throttling, |key| key != "group"),
        found,
    );
    found.add_limited(disk, limits, throttling.text("group").map(str::to_owned));
}

/// Reads the arguments of `block_set_io_throttle`.
fn set_throttle(arguments: &QemuValue, found: &mut ImportedInput) {
    let Some(name) = arguments.text("id").or_else(|| arguments.text("device")) else {
        return found.refuse("block_set_io_throttle", "has no id and no device", "add id");
    };
    let source = Source::Other("the command does not contain the storage".to_owned());
    let own = part(arguments, |key| !["id", "device", "group"].contains(&key));
    let mut limits = ThrottleLimits::new(&MONITOR);
    set(&mut limits, name, &own, found);
    let disk = disk(name, source, found);
    found.add_limited(disk, limits, arguments.text("group").map(str::to_owned));
}

/// Reads an element of the result of `query-block`. Its other fields describe the image.
fn block(device: &QemuValue, inserted: &QemuValue, found: &mut ImportedInput) {
    let names = [
        device.text("device"),
        device.text("qdev"),
        inserted.text("node-name"),
    ];
    let Some(name) = names.into_iter().flatten().find(|name| !name.is_empty()) else {
        return found.refuse(
            "query-block",
            "has no device, qdev or node-name",
            "add a name",
        );
    };
    // `iops` and `bps` are always there, but the bursts only if they are set.
    let known = MONITOR.names();
    let own = part(inserted, |key| known.iter().any(|name| name == key));
    let mut limits = ThrottleLimits::new(&MONITOR);
    set(&mut limits, name, &own, found);
    let disk = disk(
        name,
        source(inserted.text("file"), inserted.text("drv")),
        found,
    );
    found.add_limited(disk, limits, inserted.text("group").map(str::to_owned));
}

/// Remembers a node of `-blockdev` by its name.
fn node(value: QemuValue, nodes: &mut Nodes, found: &mut ImportedInput) {
    let Some(name) = value.text("node-name").map(str::to_owned) else {
        return found.refuse("blockdev", "has no node-name", "add node-name=NAME");
    };
    if nodes.insert(name.clone(), value).is_some() {
        found.refuse(&name, "is the name of two nodes", "rename one of the two");
    }
}

/// Adds a disk for each throttle node on which no other throttle node is.
fn chains(nodes: &Nodes, found: &mut ImportedInput) {
    let throttles = || {
        nodes
            .iter()
            .filter(|node| node.1.text("driver") == Some("throttle"))
    };
    // A chain is a disk of the guest only at its top.
    let below: BTreeSet<&str> = throttles().filter_map(|node| node.1.text("file")).collect();
    for (name, top) in throttles().filter(|node| !below.contains(node.0.as_str())) {
        let (mut groups, mut format, mut path) = (Vec::new(), None, None);
        let mut next = Some(top);
        for _ in 0..CHAIN_MAX {
            let Some(node) = next else { break };
            match node.text("driver") {
                Some("throttle") => match node.text("throttle-group") {
                    Some(group) => groups.push(group.to_owned()),
                    None => found.refuse(name, "has no throttle-group", "add throttle-group=NAME"),
                },
                Some("file" | "host_device") => path = node.text("filename"),
                // The first driver below the throttle nodes is that of the image's format.
                driver => format = format.or(driver),
            }
            next = match node.get("file") {
                Some(QemuValue::Scalar(name)) => nodes.get(name),
                file => file,
            };
        }
        let mut disk = disk(name, source(path, format), found);
        disk.groups = groups;
        found.add_disk(disk);
    }
}
