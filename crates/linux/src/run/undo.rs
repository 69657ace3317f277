//! Putting back what was changed, the last first.

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

/// What came of putting back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Restored {
    /// Changes that were undone.
    pub undone: usize,
    /// Changes that were undone already, or went with a cgroup, an elevator or the last boot.
    pub gone: usize,
    /// Values that somebody else has changed since: they stay.
    pub changed: usize,
    /// Changes that could not be undone: they stay in the journal.
    pub kept: usize,
}

/// Puts everything back that the journal says, and removes it when nothing is left in it. A value that somebody has changed since is left
/// as it is.
///
/// # Errors
/// The journal cannot be written. A step that cannot be undone is told, and stays in the journal.
pub fn restore(
    files: &mut dyn Files,
    journal: &mut Journal,
    say: &mut dyn FnMut(&Said),
) -> Result<Restored, Failed> {
    from(files, journal, 0, say)
}

/// Undoes what was done from this entry on.
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

/// Undoes what a plan does not do.
pub(super) fn what_is_not_in(
    files: &mut dyn Files,
    plan: &Plan,
    journal: &mut Journal,
    say: &mut dyn FnMut(&Said),
) -> Result<Restored, Failed> {
    // Lines for several devices are in one file.
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

/// Forgets what was changed before the last boot: it went with that.
pub(super) fn of_other_boots(plan: &Plan, journal: &mut Journal) -> Result<(), Failed> {
    let others = journal.entries().filter(|e| e.boot != plan.boot);
    for id in others.map(|e| e.id).collect::<Vec<_>>() {
        journal.undone(id)?;
    }
    Ok(())
}

/// The value in the text of a file, of a knob or not, for a device.
pub(super) fn value(file: &str, text: &str, number: &str) -> String {
    match knob_of(file) {
        Some(knob) => knob.value(text, number),
        None => text.trim().to_owned(),
    }
}

/// The knob whose file it is.
fn knob_of(file: &str) -> Option<Knob> {
    let name = match file.find("/queue/") {
        Some(at) => &file[at + 1..],
        None => file.rsplit('/').next()?,
    };
    Knob::find(name)
}

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

struct Undo<'a> {
    boot: String,
    allowlist: Allowlist,
    files: &'a mut dyn Files,
    journal: &'a mut Journal,
    say: &'a mut dyn FnMut(&Said),
    restored: Restored,
    units: bool,
    /// Why the journal could not be written. What is put back without a note is found to be so the next time.
    unwritten: Option<JournalError>,
}

/// What became of one change.
enum Outcome {
    Undone,
    /// There was nothing to undo.
    Gone,
    /// Somebody changed it since.
    Changed(String),
    /// It could not be undone.
    Kept(String),
}

impl Undo<'_> {
    fn entry(&mut self, entry: &Entry) {
        let outcome = match &entry.change {
            // All of it is in the kernel's memory or in /run.
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
            Outcome::Kept(why) => {
                self.restored.kept += 1;
                (self.say)(&left(path, why));
                return;
            }
        }
        let noted = self.journal.undone(entry.id);
        self.note(noted);
    }

    fn note(&mut self, noted: Result<(), JournalError>) {
        if let Err(error) = noted {
            self.unwritten.get_or_insert(error);
        }
    }

    /// The device of an entry as it is now; `None`: it is gone.
    fn device(&self, entry: &Entry) -> Option<Device> {
        let ident = entry.device.as_ref()?;
        let device = Device::find(self.files, &ident.link).ok();
        // The link may lead to another one by now, and the one that was set be there under another name.
        let same = |device: &Device| match ident.diskseq {
            Some(_) => device.diskseq == ident.diskseq,
            None => device.number == ident.number && device.name == ident.name,
        };
        device.filter(same).or_else(|| {
            let all = Device::all(self.files).unwrap_or_default();
            all.into_iter().find(same)
        })
    }

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
            // An elevator's files go with it, a cgroup's with the cgroup.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NOENT) => {
                return Outcome::Gone;
            }
            Err(error) => return kept(&Failed::step(&file, "read it", error)),
        };
        let is = knob.value(&text, &device.number);
        let is_ours = entry.now.as_deref() == Some(&is) || knob.is(&is, new);
        if is != *old && !is_ours && !entry.undoing {
            return Outcome::Changed(format!(
                "another program has changed it since: it is {is:?}, while weir apply set {new:?} in place of {old:?}"
            ));
        }
        let mut outcome = Outcome::Gone;
        if is != *old {
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

    /// Puts back what was reset with another value, where the kernel has not done so itself.
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
                Some(Errno::NOENT) => Outcome::Gone,
                Some(Errno::BUSY | Errno::NOTEMPTY) => Outcome::Kept(
                    "it is not empty; run weir apply --restore again when it is".to_owned(),
                ),
                _ => kept(&Failed::step(folder, "remove it", error)),
            },
        }
    }

    fn enable(&mut self, folder: &str) -> Outcome {
        let file = format!("{folder}/cgroup.subtree_control");
        if !Cgroups::is_enabled(self.files, folder) {
            return Outcome::Gone;
        }
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

    /// A cgroup directly below in which somebody has set something of the controller.
    fn user_of_io(&self, folder: &str) -> Option<String> {
        let below = Cgroups::below(self.files, folder);
        below.into_iter().find(|child| {
            let is_set = |knob: Knob| {
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

/// A file of a device that may have another name by now.
fn moved(file: &str, before: &Ident, now: &Device) -> String {
    let directory = format!("/sys/block/{}/", before.name);
    match file.strip_prefix(&directory) {
        Some(rest) => format!("{}/{rest}", now.directory()),
        None => file.to_owned(),
    }
}
