//! Domains and disks of libvirt: `<iotune>`, `<throttlegroups>` and `<throttlefilters>`.
//!
//! The elements are those of libvirt's "Domain XML format", sections "Hard drives, floppy disks,
//! CDROMs" and "Disk Throttle Group Management". Zero means no limit, a total excludes limits on
//! reads and writes, and disks of one `group_name` share their limits. Names of groups are those of
//! one domain, so the name of the domain is put in front of them.

use super::found::{ImportedDisk, ImportedInput, Place, Source};
use super::throttle::{LIBVIRT, ThrottleLimits};
use crate::text::quoted;
use roxmltree::{Document, Error, Node, ParsingOptions};

/// The maximum number of elements and texts of a document.
const NODES_MAX: u32 = 1 << 20;

/// Reads a `<domain>`, a `<domstatus>` or a `<disk>`.
pub(super) fn read(text: &str, found: &mut ImportedInput) {
    let options = ParsingOptions {
        nodes_limit: NODES_MAX,
        ..ParsingOptions::default()
    };
    let document = match Document::parse_with_options(text, options) {
        Ok(document) => document,
        Err(error) => {
            let at = error.pos();
            found.place = (at.row.max(1), at.col.max(1));
            // The position at the end of the parser's message is stated in front.
            let message = error.to_string().replace(&format!(" at {at}"), "");
            return match error {
                Error::DtdDetected => found.refuse(
                    "",
                    "has a document type (<!DOCTYPE>), which could define entities",
                    "remove it; libvirt writes none",
                ),
                _ => found.refuse("", format!("is not XML: {message}"), ""),
            };
        }
    };
    let root = document.root_element();
    found.place = place(&root);
    match root.tag_name().name() {
        "domain" => domain(&root, found),
        // The file of a running domain in /run/libvirt/qemu.
        "domstatus" => {
            for root in children(&root, "domain") {
                domain(&root, found);
            }
        }
        "disk" => disk(&root, "", found),
        other => {
            let what = format!("the outermost element is {}", quoted(other));
            let help = "use the output of `virsh dumpxml`, or a file that contains only a <disk>";
            found.refuse("", what, help);
        }
    }
}

fn place(node: &Node<'_, '_>) -> Place {
    let at = node.document().text_pos_at(node.range().start);
    (at.row, at.col)
}

fn children<'a, 'i>(
    node: &Node<'a, 'i>,
    name: &'static str,
) -> impl Iterator<Item = Node<'a, 'i>> + use<'a, 'i> {
    let all = node.children().filter(Node::is_element);
    all.filter(move |child| child.tag_name().name() == name)
}

/// Returns the attribute of the first element with this name.
fn attribute<'a>(node: &Node<'a, '_>, child: &'static str, name: &str) -> Option<&'a str> {
    children(node, child).next()?.attribute(name)
}

/// Returns the text of an element without the space around it.
fn text<'a>(node: &Node<'a, '_>) -> &'a str {
    node.text().unwrap_or_default().trim()
}

fn domain(node: &Node<'_, '_>, found: &mut ImportedInput) {
    // Two domains can have a target `vda` and a group `data`, which are not related.
    let name = children(node, "name").next();
    let prefix = name.map_or_else(String::new, |name| format!("{}-", text(&name)));
    for group in children(node, "throttlegroups").flat_map(|all| children(&all, "throttlegroup")) {
        let (limits, name) = limits(&group, "throttlegroup", found);
        match name {
            Some(name) => found.add_group(&format!("{prefix}{name}"), limits),
            None => found.refuse("throttlegroup", "has no group_name", "add <group_name>"),
        }
    }
    for node in children(node, "devices").flat_map(|all| children(&all, "disk")) {
        found.place = place(&node);
        disk(&node, &prefix, found);
    }
}

fn disk(node: &Node<'_, '_>, prefix: &str, found: &mut ImportedInput) {
    let Some(target) = attribute(node, "target", "dev").filter(|target| !target.is_empty()) else {
        let what = "has no target, so that it has no name";
        return found.refuse("disk", what, "add <target dev='vda'/>");
    };
    let mut disk = ImportedDisk {
        name: format!("{prefix}{target}"),
        source: source(node),
        own: None,
        groups: Vec::new(),
        place: place(node),
    };
    let filters = children(node, "throttlefilters");
    for filter in filters.flat_map(|all| children(&all, "throttlefilter")) {
        match filter.attribute("group") {
            Some(group) => disk.groups.push(format!("{prefix}{group}")),
            None => found.refuse(
                &disk.name,
                "has a <throttlefilter> without group",
                "write <throttlefilter group='NAME'/>",
            ),
        }
    }
    let mut tunes = children(node, "iotune");
    let Some(tune) = tunes.next() else {
        return found.add_disk(disk);
    };
    // libvirt would use the first and ignore the other.
    if tunes.next().is_some() {
        found.refuse(&disk.name, "has two <iotune>", "remove one of the two");
    }
    let (limits, group) = limits(&tune, &disk.name, found);
    // libvirt passes the limits of each disk to QEMU, so QEMU's rules for groups apply.
    found.add_limited(disk, limits, group.map(|group| format!("{prefix}{group}")));
}

/// Returns the limits and the `group_name` of an element. `owner` is the name of its owner in
/// problems.
fn limits(
    node: &Node<'_, '_>,
    owner: &str,
    found: &mut ImportedInput,
) -> (ThrottleLimits, Option<String>) {
    let (mut limits, mut group) = (ThrottleLimits::new(&LIBVIRT), None);
    for child in node.children().filter(Node::is_element) {
        found.place = place(&child);
        match child.tag_name().name() {
            "group_name" if group.is_some() => {
                found.refuse(
                    &format!("{owner}.group_name"),
                    "is written twice",
                    "remove one",
                );
            }
            // libvirt does not distinguish an empty name from none.
            "group_name" => group = Some(text(&child).to_owned()).filter(|name| !name.is_empty()),
            name => found.set(&mut limits, (owner, name), Some(text(&child))),
        }
    }
    found.place = place(node);
    (limits, group)
}

/// Returns the storage of a disk. Without a format, libvirt uses raw.
fn source(node: &Node<'_, '_>) -> Source {
    let format = attribute(node, "driver", "type").unwrap_or("raw");
    let kind = node.attribute("type").unwrap_or("file");
    let path = match kind {
        "file" => attribute(node, "source", "file"),
        "block" => attribute(node, "source", "dev"),
        _ => return Source::Other(format!("the disk has the type {}", quoted(kind))),
    };
    match path.map(|path| Source::of(path, Some(format))) {
        // A device can have any path, such as that of a link outside of /dev.
        Some(Source::File(path)) if kind == "block" => Source::Device(path),
        Some(source) => source,
        None => Source::Other("the disk has no source".to_owned()),
    }
}
