//! Undoes changes from the journal, the last one first.

use crate::boot;
use crate::cgroups::Cgroups;
use crate::change::{HostChange, Ident, JournalEntry, SideEffect};
use crate::device::HostDevice;
use crate::failed::StepError;
use crate::files::HostFiles;
use crate::journal::{ApplyJournal, JournalError};
use crate::knob::{Knob, Scope};
use crate::plan::{HostPlan, PlanAction};
use crate::run::allowlist::Allowlist;
use crate::said::StepReport;
use rustix::io::Errno;
use std::collections::BTreeSet;

/// The numbers of changes that were undone or left.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RestoreCounts {
    /// The number of changes that were undone.
    pub undone: usize,
    /// The number of changes that had already been undone, or that disappeared with a cgroup, an
    /// elevator or the last boot.
    pub gone: usize,
    /// The number of values that another program has changed since or made use of, and of those
    /// whose device was removed. They are left as they are.
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
    files: &mut dyn HostFiles,
    journal: &mut ApplyJournal,
    say: &mut dyn FnMut(&StepReport),
) -> Result<RestoreCounts, StepError> {
    from(files, journal, 0, say)
}

/// Undoes the changes from this entry on.
pub(super) fn from(
    files: &mut dyn HostFiles,
    journal: &mut ApplyJournal,
    first: u64,
    say: &mut dyn FnMut(&StepReport),
) -> Result<RestoreCounts, StepError> {
    let entries = journal.entries().filter(|e| e.id >= first);
    let all: Vec<JournalEntry> = entries.cloned().collect();
    let restored = undo(files, journal, &all, say)?;
    journal.close()?;
    Ok(restored)
}

/// Undoes the changes that are not in a plan.
pub(super) fn undo_unplanned(
    files: &mut dyn HostFiles,
    plan: &HostPlan,
    journal: &mut ApplyJournal,
    say: &mut dyn FnMut(&StepReport),
) -> Result<RestoreCounts, StepError> {
    // A file with a line for each device is identified together with the device.
    let number = |device: &Ident| device.number.clone();
    let planned = plan.actions.iter().map(|action| match action {
        PlanAction::Make(path) | PlanAction::Enable(path) | PlanAction::Unit { file: path, .. } => {
            (path, None)
        }
        PlanAction::Set { file, device, .. } => (file, Some(number(&plan.devices[*device].ident))),
    });
    let planned: BTreeSet<(&str, Option<String>)> = planned
        .map(|(path, number)| (path.as_str(), number))
        .collect();
    let is_own = |entry: &JournalEntry| {
        planned.contains(&(entry.change.path(), entry.device.as_ref().map(number)))
    };
    let entries = journal.entries().filter(|e| !is_own(e));
    let all: Vec<JournalEntry> = entries.cloned().collect();
    undo(files, journal, &all, say)
}

/// Removes the entries of earlier boots. The reboot has reset their changes.
pub(super) fn forget_other_boots(
    plan: &HostPlan,
    journal: &mut ApplyJournal,
) -> Result<(), StepError> {
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
    files: &mut dyn HostFiles,
    journal: &mut ApplyJournal,
    entries: &[JournalEntry],
    say: &mut dyn FnMut(&StepReport),
) -> Result<RestoreCounts, StepError> {
    let mut undo = Undo {
        boot: boot::id(files),
        allowlist: Allowlist::of(files),
        files,
        journal,
        say,
        restored: RestoreCounts::default(),
        units: false,
        unwritten: None,
    };
    // The last change first, because each old value is the one that the change before it had made.
    for entry in entries.iter().rev() {
        undo.entry(entry);
    }
    if undo.units {
        match undo.files.reload_units() {
            Ok(()) => (undo.say)(&StepReport::Reloaded),
            Err(error) => {
                let failed = StepError::step("systemd", "reload its units", error);
                (undo.say)(&left("systemd", failed.to_string()));
            }
        }
    }
    match undo.unwritten {
        None => Ok(undo.restored),
        Some(error) => Err(error.into()),
    }
}

fn left(path: &str, why: impl Into<String>) -> StepReport {
    StepReport::Left {
        path: path.to_owned(),
        why: why.into(),
    }
}

/// The state of undoing changes.
struct Undo<'a> {
    boot: String,
    allowlist: Allowlist,
    files: &'a mut dyn HostFiles,
    journal: &'a mut ApplyJournal,
    say: &'a mut dyn FnMut(&StepReport),
    restored: RestoreCounts,
    units: bool,
    /// The first error of writing the journal. A change that is undone without a record is found to
    /// be undone the next time.
    unwritten: Option<JournalError>,
}

/// The result of undoing one change.
enum UndoOutcome {
    Undone,
    /// There was nothing to undo.
    Gone,
    /// Another program has changed the value since or has made use of it, or the device was
    /// removed.
    Changed(String),
    /// The change could not be undone.
    Kept(String),
}

impl Undo<'_> {
    /// Undoes one entry, and records the result.
    fn entry(&mut self, entry: &JournalEntry) {
        let outcome = match &entry.change {
            // All changes are in the kernel's memory or in /run, which a reboot clears.
            _ if entry.boot != self.boot => UndoOutcome::Gone,
            change if !self.allowlist.permits(change) => UndoOutcome::Kept(
                "weir apply never changes this file; remove the line from the journal".to_owned(),
            ),
            HostChange::Set { .. } => self.set(entry),
            HostChange::Make { folder } => self.make(folder),
            HostChange::Enable { folder } => self.enable(folder),
            HostChange::Unit { file, old, new } => self.unit(file, old.as_deref(), new),
        };
        let path = entry.change.path();
        match outcome {
            UndoOutcome::Undone => self.restored.undone += 1,
            UndoOutcome::Gone => self.restored.gone += 1,
            UndoOutcome::Changed(why) => {
                self.restored.changed += 1;
                (self.say)(&left(path, why));
            }
            // The entry stays in the journal, so that the next restore tries again.
            UndoOutcome::Kept(why) => {
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
    fn device(&self, entry: &JournalEntry) -> Option<HostDevice> {
        let ident = entry.device.as_ref()?;
        let device = HostDevice::find(self.files, &ident.link).ok();
        // The link can lead to another device by now, and the device can have another name.
        let same = |device: &HostDevice| match ident.diskseq {
            // The sequence number stays the same if the device is renamed, and is not reused.
            Some(_) => device.diskseq == ident.diskseq,
            None => device.number == ident.number && device.name == ident.name,
        };
        device.filter(same).or_else(|| {
            let all = HostDevice::all(self.files).unwrap_or_default();
            all.into_iter().find(same)
        })
    }

    /// Restores the value of a knob, unless another program has changed it.
    fn set(&mut self, entry: &JournalEntry) -> UndoOutcome {
        let (
            HostChange::Set {
                file,
                knob,
                old,
                new,
                also,
            },
            Some(ident),
        ) = (&entry.change, &entry.device)
        else {
            return UndoOutcome::Gone;
        };
        let Some(knob) = Knob::find(knob) else {
            return UndoOutcome::Kept(format!("unknown control {knob}"));
        };
        let Some(device) = self.device(entry) else {
            return UndoOutcome::Changed(format!(
                "{} ({}) was removed together with its settings",
                ident.name, ident.link
            ));
        };
        let file = current_path(file, ident, &device);
        let text = match self.files.read(&file) {
            Ok(text) => text,
            // The tunables of an elevator disappear with it, and the files of a cgroup with the
            // cgroup.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NOENT) => {
                return UndoOutcome::Gone;
            }
            Err(error) => return kept(&StepError::step(&file, "read it", error)),
        };
        let is = knob.value(&text, &device.number);
        // `now` is missing if the process was killed after the write and before the record.
        let is_ours = entry.now.as_deref() == Some(&is) || knob.is_equivalent(&is, new);
        if is != *old && !is_ours && !entry.undoing {
            return UndoOutcome::Changed(format!(
                "another program has changed it since: it is {is:?}, while weir apply set {new:?} in place of {old:?}"
            ));
        }
        let mut outcome = UndoOutcome::Gone;
        if is != *old {
            // An interrupted restore is recognised by this record. The next one restores the values
            // in `also` even if this value is restored already.
            let noted = self.journal.undoing(entry.id);
            self.note(noted);
            let written = self.files.write(&file, &knob.line(&device.number, old));
            if let Err(error) = written {
                return kept(&StepError::knob(knob, &file, old, error));
            }
            (self.say)(&StepReport::Restored {
                file: file.clone(),
                to: old.clone(),
            });
            outcome = UndoOutcome::Undone;
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
    fn also(&mut self, also: &SideEffect, ident: &Ident, device: &HostDevice) {
        let file = current_path(&also.file, ident, device);
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
            Ok(()) => StepReport::Restored {
                file,
                to: also.old.clone(),
            },
            Err(error) => left(&file, StepError::step(&file, "write it", error).to_string()),
        };
        (self.say)(&said);
    }

    fn make(&mut self, folder: &str) -> UndoOutcome {
        if !self.files.exists(folder) {
            return UndoOutcome::Gone;
        }
        match self.files.remove(folder) {
            Ok(()) => {
                (self.say)(&StepReport::Removed(folder.to_owned()));
                UndoOutcome::Undone
            }
            Err(error) => match Errno::from_io_error(&error) {
                // Another program has removed it in the meantime.
                Some(Errno::NOENT) => UndoOutcome::Gone,
                Some(Errno::BUSY | Errno::NOTEMPTY) => UndoOutcome::Kept(
                    "it is not empty; run weir apply --restore again when it is".to_owned(),
                ),
                _ => kept(&StepError::step(folder, "remove it", error)),
            },
        }
    }

    /// Disables the controller again, unless a cgroup below uses it.
    fn enable(&mut self, folder: &str) -> UndoOutcome {
        let file = format!("{folder}/cgroup.subtree_control");
        if !Cgroups::is_enabled(self.files, folder) {
            return UndoOutcome::Gone;
        }
        // Disabling the controller would remove the other program's settings.
        if let Some(user) = self.user_of_io(folder) {
            return UndoOutcome::Changed(format!("{user} now uses the io controller"));
        }
        match self.files.write(&file, "-io") {
            Ok(()) => {
                (self.say)(&StepReport::Disabled(folder.to_owned()));
                UndoOutcome::Undone
            }
            Err(error) => kept(&StepError::step(&file, "disable the controller", error)),
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
    fn unit(&mut self, file: &str, old: Option<&str>, new: &str) -> UndoOutcome {
        let is = self.files.read(file).ok();
        if is.as_deref() == old {
            return UndoOutcome::Gone;
        }
        if is.as_deref().is_some_and(|is| is != new) {
            return UndoOutcome::Changed("another program has changed it since".to_owned());
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
                    Some(_) => StepReport::Unit(file),
                    None => StepReport::Removed(file),
                });
                UndoOutcome::Undone
            }
            Err(error) => kept(&StepError::step(file, "restore it", error)),
        }
    }
}

fn kept(failed: &StepError) -> UndoOutcome {
    UndoOutcome::Kept(failed.to_string())
}

/// Returns the path of a file of a device that can have another name by now.
fn current_path(file: &str, before: &Ident, now: &HostDevice) -> String {
    let directory = format!("/sys/block/{}/", before.name);
    match file.strip_prefix(&directory) {
        Some(rest) => format!("{}/{rest}", now.directory()),
        None => file.to_owned(),
    }
}
