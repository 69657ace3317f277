//! The contracts for disks and throttle groups, as tables of the server's file.

use super::found::{ImportedDisk, ImportedInput, Place, Source, ThrottleGroup};
use super::throttle::{ThrottleLimits, line};
use crate::problem::Problem;
use crate::text::{Quoted, one_line, quoted, toml_key};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The longest line of a comment.
const COLUMNS: usize = 100;
/// The maximum length of the name of a volume or a tenant in bytes.
const NAME_MAX: usize = 255;

/// The tables that an input is translated to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImportedContracts {
    /// The tables `[tenant.NAME]` and `[volume.NAME]` of a server's file, with each remark as a
    /// comment.
    pub text: String,
    /// The differences between the input and the contracts, and parts that a user must add.
    pub remarks: Vec<Problem>,
}

/// A table with the remarks about it.
struct ContractTable<'a> {
    found: &'a ImportedInput,
    /// The number of disks in each group.
    members: &'a BTreeMap<String, usize>,
    path: String,
    place: Place,
    /// The lines with keys.
    keys: String,
    /// The remarks, each with the limit to which it applies.
    remarks: Vec<(String, Problem)>,
}

impl ContractTable<'_> {
    /// Adds a remark about a limit, or about the whole table if the name of the limit is empty.
    fn remark(&mut self, limit: &str, message: String, help: &str) {
        let about = if limit.is_empty() { "" } else { ": " };
        let path = format!("{}{about}{limit}", self.path);
        let problem = Problem::new(&self.found.file, self.place, &path, message, help);
        self.remarks.push((format!("{limit}{about}"), problem));
    }

    fn key(&mut self, key: &str, value: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.keys, "{key} = {}", Quoted(value));
    }

    /// Adds the max for limits, and a remark for each difference.
    fn max(&mut self, limits: &ThrottleLimits) {
        let (max, differences) = limits.max();
        for difference in differences {
            self.remark(&difference.key, difference.message, "");
        }
        let _ = writeln!(self.keys, "{}", line(&max));
    }

    /// Adds the keys of a tenant.
    fn tenant(&mut self, group: &ThrottleGroup) {
        self.max(&group.limits);
        // Limits that are printed alone, such as those of `qom-get`, do not name their disks. The
        // tenant is useful all the same, but only if the user knows that it limits nothing yet.
        if self.members[&group.name] == 0 {
            let name = Quoted(&group.name);
            let help = format!("add tenant = {name} to the volumes that share the limits");
            self.remark(
                "",
                "No disk of the input is in this group".to_owned(),
                &help,
            );
        }
    }

    /// Adds the keys of a volume.
    fn volume(&mut self, disk: &ImportedDisk) {
        self.storage(disk);
        let (found, members) = (self.found, self.members);
        // The limits of a group with a single disk are those of the disk alone.
        let (alone, mut shared): (Vec<&String>, Vec<&String>) =
            disk.groups.iter().partition(|group| members[*group] == 1);
        // Weir has two levels of contracts, tenant and volume, so a chain of one shared group and
        // one of the disk alone is expressed exactly, and each further group is not.
        if !shared.is_empty() {
            self.key("tenant", shared.remove(0));
        }
        for group in shared {
            let group = quoted(group);
            let what = format!(
                "The disk is also in the group {group}. A volume is in one tenant at most, so this group does not limit the volume"
            );
            self.remark("", what, "use a smaller max for the volume");
        }
        let of_groups = found
            .groups
            .iter()
            .filter(|group| alone.contains(&&group.name));
        let mut own = disk.own.iter().chain(of_groups.map(|group| &group.limits));
        if let Some(own) = own.next() {
            self.max(own);
        }
        for other in own {
            let what = format!(
                "The disk passes several throttle groups of its own. A volume has one max, so the limits {} do not apply",
                line(&other.max().0)
            );
            self.remark("", what, "combine them in max");
        }
    }

    /// Adds the storage of a volume.
    fn storage(&mut self, disk: &ImportedDisk) {
        match &disk.source {
            Source::File(path) => self.key("file", path),
            Source::Device(path) => self.key("device", path),
            Source::Image { path, format } => {
                let what = format!(
                    "Weir serves raw images, and {} has the format {format}",
                    quoted(path)
                );
                let help = "convert it with `qemu-img convert -O raw`, with the virtual machine shut down, to the file below";
                self.remark("", what, help);
                // The file does not exist yet, so `weir check` refuses the volume until the user
                // has converted the image. Serving the image itself would show its metadata as
                // data, and the guest would destroy it.
                let stem = path.strip_suffix(&format!(".{format}")).unwrap_or(path);
                self.key("file", &format!("{stem}.raw"));
            }
            Source::Other(why) => {
                let what = format!("The volume has no storage yet, because {why}");
                self.remark("", what, "add file, device or nbd");
            }
        }
    }

    /// Appends the remarks as comments and the table to a file.
    fn write(self, to: &mut ImportedContracts) {
        to.text.push('\n');
        for (about, remark) in self.remarks {
            let help = remark.help.as_deref();
            let help = help.map_or_else(String::new, |help| format!("; {help}"));
            comment(&format!("{about}{}{help}.", remark.message), &mut to.text);
            to.remarks.push(remark);
        }
        let _ = write!(to.text, "[{}]\n{}", self.path, self.keys);
    }
}

/// Returns the contracts for the contents of an input, on the drive with this name. `None` if
/// there are problems: those of the input, of the names in it, or that nothing is limited.
pub(super) fn contracts(found: &mut ImportedInput, drive: &str) -> Option<ImportedContracts> {
    let members = members(found);
    // A group that was refused is missing, so that further problems could follow from the first.
    if found.problems.is_empty() {
        check(found, &members);
    }
    if !found.problems.is_empty() {
        return None;
    }
    let mut printed = ImportedContracts {
        text: String::new(),
        remarks: found.remarks.clone(),
    };
    let file = if found.file.is_empty() {
        "standard input"
    } else {
        &found.file
    };
    let at = table("drive", drive);
    let head = format!("Contracts from {file}. Add them to a configuration with [{at}].");
    comment(&head, &mut printed.text);
    for remark in &found.remarks {
        comment(
            &format!("{}: {}.", remark.key, remark.message),
            &mut printed.text,
        );
    }
    let table_of = |path, place| {
        let (found, members) = (&*found, &members);
        let keys = format!("drive = {}\n", Quoted(drive));
        let remarks = Vec::new();
        ContractTable {
            found,
            members,
            path,
            place,
            keys,
            remarks,
        }
    };
    for group in found
        .groups
        .iter()
        .filter(|group| members[&group.name] != 1)
    {
        let mut tenant = table_of(table("tenant", &group.name), group.place);
        tenant.tenant(group);
        tenant.write(&mut printed);
    }
    for disk in &found.disks {
        let path = table("volume", &disk.name);
        // The comment tells a disk that was left out on purpose from one that was overlooked.
        if disk.own.is_none() && disk.groups.is_empty() {
            printed.text.push('\n');
            let what = format!("[{path}] is left out, because the disk has no limits.");
            comment(&what, &mut printed.text);
        } else {
            let mut volume = table_of(path, disk.place);
            volume.volume(disk);
            volume.write(&mut printed);
        }
    }
    Some(printed)
}

/// Returns the number of disks in each group.
fn members(found: &ImportedInput) -> BTreeMap<String, usize> {
    let groups = found.groups.iter().map(|group| (group.name.clone(), 0));
    let mut members: BTreeMap<String, usize> = groups.collect();
    for group in found.disks.iter().flat_map(|disk| &disk.groups) {
        if let Some(count) = members.get_mut(group) {
            *count += 1;
        }
    }
    members
}

/// Checks the names of disks and groups, the groups of disks, and that something is limited.
fn check(found: &mut ImportedInput, members: &BTreeMap<String, usize>) {
    let groups = found
        .groups
        .iter()
        .map(|group| (group.place, group.name.clone()));
    let disks = found
        .disks
        .iter()
        .map(|disk| (disk.place, disk.name.clone()));
    for (place, name) in groups.chain(disks).collect::<Vec<_>>() {
        if name.is_empty() || name.len() > NAME_MAX || name.chars().any(char::is_control) {
            found.place = place;
            let what = format!("{} is not a valid name", quoted(&name));
            found.refuse("", what, "use 1 to 255 bytes without control characters");
        }
    }
    // QEMU refuses to start with a group that does not exist. Without its limits, the volume would
    // have none, and nobody would notice.
    for disk in found.disks.clone() {
        found.place = disk.place;
        for group in disk
            .groups
            .iter()
            .filter(|group| !members.contains_key(*group))
        {
            let what = format!(
                "uses the throttle group {}, which has no limits here",
                quoted(group)
            );
            let help = "add the group to the input, or remove it from the disk";
            found.refuse(&disk.name, what, help);
        }
    }
    if found.groups.is_empty() && found.disks.iter().all(|disk| disk.own.is_none()) {
        found.place = (1, 1);
        let what = "has no limits of libvirt's <iotune> or of QEMU's throttle groups";
        let help = "use the output of `virsh dumpxml`, a command line of QEMU, or its JSON";
        found.refuse("", what, help);
    }
}

/// Returns the path of a table.
fn table(kind: &str, name: &str) -> String {
    format!("{kind}.{}", toml_key(name))
}

/// Appends a text as a comment, in lines of at most [`COLUMNS`] characters unless a word is longer.
fn comment(text: &str, to: &mut String) {
    let mut column = 0;
    for word in one_line(text).split(' ') {
        let width = word.chars().count() + 1;
        if column == 0 || column + width > COLUMNS {
            to.push_str(if column == 0 { "#" } else { "\n#" });
            column = 1;
        }
        to.push(' ');
        to.push_str(word);
        column += width;
    }
    to.push('\n');
}
