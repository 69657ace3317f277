//! Undoes changes from the journal, the last one first.

use crate::boot;
use crate::cgroups::Cgroups;
use crate::change::{Also, Change, Entry, Ident};
use crate::device::Device;
use crate::failed::Failed;
use crate::files::Files;
use crate::journal::{Journal, JournalError};
use crate::knob::{Knob, Scope};
use crate::plan::{Action, Plan};
use crate::run::allowlist::Allowlist;
use crate::said::Said;
use rustix::io::Errno;
use std::collections::BTreeSet;

/// The numbers of changes that were undone or left.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Restored {
    /// The number of changes that were undone.
    pub undone: usize,
    /// The number of changes that had already been undone, or that disappeared with a cgroup, an
    /// elevator or the last boot.
    pub gone: usize,
    /// The number of values that another program has changed since. They are left as they are.
    pub changed: usize,
    /// The number of changes that could not be undone. They stay in the journal.
    pub kept: usize,
}

/// Undoes all changes in the journal, and removes it if no entry is left. A value that another
/// program has changed since is left as it is.
///
/// # Errors
/// Returns an error if the journal cannot be written. A step that cannot be undone is reported
/// through `say` and stays in the journal.
pub fn restore(
    files: &mut dyn Files,
    journal: &mut Journal,
    say: &mut dyn FnMut(&Said),
) -> Result<Restored, Failed> {
    from(files, journal, 0, say)
}

/// Undoes the changes from this entry on.
pub(super) fn from(
    files: &mut dyn Files,
    journal: &mut Journal,
    first: u64,
    say: &mut dyn FnMut(&Said),
) -> Result<Restored, Failed> {
    let entries = journal.entries().filter(|e| e.id >= first);
    let all: Vec<Entry> = entries.cloned().collect();
    let restored = undo(files, journal, &all, say)?;
    journal.close()?;
    Ok(restored)
}

/// Undoes the changes that are not in a plan.
pub(super) fn what_is_not_in(
    files: &mut dyn Files,
    plan: &Plan,
    journal: &mut Journal,
    say: &mut dyn FnMut(&Said),
) -> Result<Restored, Failed> {
    // A file with a line for each device is identified together with the device.
    let number = |device: &Ident| device.number.clone();
    let planned = plan.actions.iter().map(|action| match action {
        Action::Make(path) | Action::Enable(path) | Action::Unit { file: path, .. } => (path, None),
        Action::Set { file, device, .. } => (file, Some(number(&plan.devices[*device].ident))),
    });
    let planned: BTreeSet<(&str, Option<String>)> = planned
        .map(|(path, number)| (path.as_str(), number))
        .collect();
    let is_own =
        |entry: &Entry| planned.contains(&(entry.change.path(), entry.device.as_ref().map(number)));
    let entries = journal.entries().filter(|e| !is_own(e));
    let all: Vec<Entry> = entries.cloned().collect();
    undo(files, journal, &all, say)
}

/// Removes the entries of earlier boots. The reboot has reset their changes.
pub(super) fn of_other_boots(plan: &Plan, journal: &mut Journal) -> Result<(), Failed> {
    let others = journal.entries().filter(|e| e.boot != plan.boot);
    for id in others.map(|e| e.id).collect::<Vec<_>>() {
        journal.undone(id)?;
    }
    Ok(())
}

/// Returns the value of a device in the content of a file, whether it is a knob's or not.
pub(super) fn value(file: &str, text: &str, number: &str) -> String {
    match knob_of(file) {
        Some(knob) => knob.value(text, number),
        None => text.trim().to_owned(),
    }
}

/// Returns the knob that a file belongs to.
fn knob_of(file: &str) -> Option<Knob> {
    let name = match file.find("/queue/") {
        Some(at) => &file[at + 1..],
        None => file.rsplit('/').next()?,
    };
    Knob::find(name)
}

/// Undoes these entries, the last one first, and reloads systemd if a drop-in has changed.
fn undo(
    files: &mut dyn Files,
    journal: &mut Journal,
    entries: &[Entry],
    say: &mut dyn FnMut(&Said),
) -> Result<Restored, Failed> {
    let mut undo = Undo {
        boot: boot::id(files),
        allowlist: Allowlist::of(files),
        files,
        journal,
        say,
        restored: Restored::default(),
        units: false,
        unwritten: None,
    };
    // The last change first, because each old value is the one that the change before it had made.
    for entry in entries.iter().rev() {
        undo.entry(entry);
    }
    if undo.units {
        match undo.files.reload_units() {
            Ok(()) => (undo.say)(&Said::Reloaded),
            Err(error) => {
                let failed = Failed::step("systemd", "reload its units", error);
                (undo.say)(&left("systemd", failed.to_string()));
            }
        }
    }
    match undo.unwritten {
        None => Ok(undo.restored),
        Some(error) => Err(error.into()),
    }
}

fn left(path: &str, why: impl Into<String>) -> Said {
    Said::Left {
        path: path.to_owned(),
        why: why.into(),
    }
}

/// The state of undoing changes.
struct Undo<'a> {
    boot: String,
    allowlist: Allowlist,
    files: &'a mut dyn Files,
    journal: &'a mut Journal,
    say: &'a mut dyn FnMut(&Said),
    restored: Restored,
    units: bool,
    /// The first error of writing the journal. A change that is undone without a record is found to
    /// be undone the next time.
    unwritten: Option<JournalError>,
}

/// The result of undoing one change.
enum Outcome {
    Undone,
    /// There was nothing to undo.
    Gone,
    /// Another program has changed the value since, or has made use of it.
    Changed(String),
    /// The change could not be undone.
    Kept(String),
}

impl Undo<'_> {
    /// Undoes one entry, and records the result.
    fn entry(&mut self, entry: &Entry) {
        let outcome = match &entry.change {
            // All changes are in the kernel's memory or in /run, which a reboot clears.
            _ if entry.boot != self.boot => Outcome::Gone,
            change if !self.allowlist.permits(change) => Outcome::Kept(
                "weir apply never changes this file; remove the line from the journal".to_owned(),
            ),
            Change::Set { .. } => self.set(entry),
            Change::Make { folder } => self.make(folder),
            Change::Enable { folder } => self.enable(folder),
            Change::Unit { file, old, new } => self.unit(file, old.as_deref(), new),
        };
        let path = entry.change.path();
        match outcome {
            Outcome::Undone => self.restored.undone += 1,
            Outcome::Gone => self.restored.gone += 1,
            Outcome::Changed(why) => {
                self.restored.changed += 1;
                (self.say)(&left(path, why));
            }
            // The entry stays in the journal, so that the next restore tries again.
            Outcome::Kept(why) => {
                self.restored.kept += 1;
                (self.say)(&left(path, why));
                return;
            }
        }
        let noted = self.journal.undone(entry.id);
        self.note(noted);
    }

    /// Keeps the first error of the journal. The remaining changes are undone all the same.
    fn note(&mut self, noted: Result<(), JournalError>) {
        if let Err(error) = noted {
            self.unwritten.get_or_insert(error);
        }
    }

    /// Returns the device of an entry under its present name, or `None` if it was removed.
    fn device(&self, entry: &Entry) -> Option<Device> {
        let ident = entry.device.as_ref()?;
        let device = Device::find(self.files, &ident.link).ok();
        // The link can lead to another device by now, and the device can have another name.
        let same = |device: &Device| match ident.diskseq {
            // The sequence number stays the same if the device is renamed, and is not reused.
            Some(_) => device.diskseq == ident.diskseq,
            None => device.number == ident.number && device.name == ident.name,
        };
        device.filter(same).or_else(|| {
            let all = Device::all(self.files).unwrap_or_default();
            all.into_iter().find(same)
        })
    }

    /// Restores the value of a knob, unless another program has changed it.
    fn set(&mut self, entry: &Entry) -> Outcome {
        let (
            Change::Set {
                file,
                knob,
                old,
                new,
                also,
            },
            Some(ident),
        ) = (&entry.change, &entry.device)
        else {
            return Outcome::Gone;
        };
        let Some(knob) = Knob::find(knob) else {
            return Outcome::Kept(format!("unknown control {knob}"));
        };
        let Some(device) = self.device(entry) else {
            return Outcome::Changed(format!(
                "{} ({}) was removed together with its settings",
                ident.name, ident.link
            ));
        };
        let file = moved(file, ident, &device);
        let text = match self.files.read(&file) {
            Ok(text) => text,
            // The tunables of an elevator disappear with it, and the files of a cgroup with the
            // cgroup.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NOENT) => {
                return Outcome::Gone;
            }
            Err(error) => return kept(&Failed::step(&file, "read it", error)),
        };
        let is = knob.value(&text, &device.number);
        // `now` is missing if the process was killed after the write and before the record.
        let is_ours = entry.now.as_deref() == Some(&is) || knob.is(&is, new);
        if is != *old && !is_ours && !entry.undoing {
            return Outcome::Changed(format!(
                "another program has changed it since: it is {is:?}, while weir apply set {new:?} in place of {old:?}"
            ));
        }
        let mut outcome = Outcome::Gone;
        if is != *old {
            // An interrupted restore is recognised by this record. The next one restores the values
            // in `also` even if this value is restored already.
            let noted = self.journal.undoing(entry.id);
            self.note(noted);
            let written = self.files.write(&file, &knob.line(&device.number, old));
            if let Err(error) = written {
                return kept(&Failed::knob(knob, &file, old, error));
            }
            (self.say)(&Said::Restored {
                file: file.clone(),
                to: old.clone(),
            });
            outcome = Outcome::Undone;
        } else if !entry.undoing {
            return outcome;
        }
        for also in also {
            self.also(also, ident, &device);
        }
        outcome
    }

    /// Restores a value that was reset together with another one, unless the kernel has restored it
    /// itself.
    fn also(&mut self, also: &Also, ident: &Ident, device: &Device) {
        let file = moved(&also.file, ident, device);
        let Ok(text) = self.files.read(&file) else {
            return;
        };
        if value(&file, &text, &device.number) == also.old {
            return;
        }
        let line = match knob_of(&file) {
            Some(knob) => knob.line(&device.number, &also.old),
            None => also.old.clone(),
        };
        let said = match self.files.write(&file, &line) {
            Ok(()) => Said::Restored {
                file,
                to: also.old.clone(),
            },
            Err(error) => left(&file, Failed::step(&file, "write it", error).to_string()),
        };
        (self.say)(&said);
    }

    fn make(&mut self, folder: &str) -> Outcome {
        if !self.files.exists(folder) {
            return Outcome::Gone;
        }
        match self.files.remove(folder) {
            Ok(()) => {
                (self.say)(&Said::Removed(folder.to_owned()));
                Outcome::Undone
            }
            Err(error) => match Errno::from_io_error(&error) {
                // Another program has removed it in the meantime.
                Some(Errno::NOENT) => Outcome::Gone,
                Some(Errno::BUSY | Errno::NOTEMPTY) => Outcome::Kept(
                    "it is not empty; run weir apply --restore again when it is".to_owned(),
                ),
                _ => kept(&Failed::step(folder, "remove it", error)),
            },
        }
    }

    /// Disables the controller again, unless a cgroup below uses it.
    fn enable(&mut self, folder: &str) -> Outcome {
        let file = format!("{folder}/cgroup.subtree_control");
        if !Cgroups::is_enabled(self.files, folder) {
            return Outcome::Gone;
        }
        // Disabling the controller would remove the other program's settings.
        if let Some(user) = self.user_of_io(folder) {
            return Outcome::Changed(format!("{user} now uses the io controller"));
        }
        match self.files.write(&file, "-io") {
            Ok(()) => {
                (self.say)(&Said::Disabled(folder.to_owned()));
                Outcome::Undone
            }
            Err(error) => kept(&Failed::step(&file, "disable the controller", error)),
        }
    }

    /// Returns a cgroup directly below in which another program uses the controller.
    fn user_of_io(&self, folder: &str) -> Option<String> {
        let below = Cgroups::below(self.files, folder);
        below.into_iter().find(|child| {
            let is_set = |knob: Knob| {
                // These are the initial contents of the files, for io.max, the weights and
                // io.prio.class.
                let text = self.files.read(&format!("{child}/{knob}"));
                let text = text.unwrap_or_default();
                !matches!(text.trim(), "" | "default 100" | "no-change")
            };
            let groups = Knob::all()
                .into_iter()
                .filter(|k| k.scope() == Scope::Group);
            Cgroups::is_enabled(self.files, child) || groups.into_iter().any(is_set)
        })
    }

    /// Restores or removes a drop-in of systemd.
    fn unit(&mut self, file: &str, old: Option<&str>, new: &str) -> Outcome {
        let is = self.files.read(file).ok();
        if is.as_deref() == old {
            return Outcome::Gone;
        }
        if is.as_deref().is_some_and(|is| is != new) {
            return Outcome::Changed("another program has changed it since".to_owned());
        }
        let done = match old {
            Some(old) => self.files.replace(file, old),
            None => self.files.unlink(file),
        };
        match done {
            Ok(()) => {
                self.units = true;
                let file = file.to_owned();
                (self.say)(&match old {
                    Some(_) => Said::Unit(file),
                    None => Said::Removed(file),
                });
                Outcome::Undone
            }
            Err(error) => kept(&Failed::step(file, "restore it", error)),
        }
    }
}

fn kept(failed: &Failed) -> Outcome {
    Outcome::Kept(failed.to_string())
}

/// Returns the path of a file of a device that can have another name by now.
fn moved(file: &str, before: &Ident, now: &Device) -> String {
    let directory = format!("/sys/block/{}/", before.name);
    match file.strip_prefix(&directory) {
        Some(rest) => format!("{}/{rest}", now.directory()),
        None => file.to_owned(),
    }
}
