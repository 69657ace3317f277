//! Applies a plan to a host. Each change is in the journal before it is made.
//!
//! [`apply`] makes the changes, [`preview`] shows them, and [`restore`] undoes them.

mod allowlist;
mod undo;

use crate::cgroups::Cgroups;
use crate::change::{Also, Change, Entry, Ident};
use crate::failed::Failed;
use crate::files::Files;
use crate::journal::Journal;
use crate::knob::Knob;
use crate::plan::{Action, Plan, Target};
use crate::said::Said;

pub use undo::{Restored, restore};

/// The numbers of steps in which a plan was applied.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Applied {
    /// The number of steps that changed something.
    pub done: usize,
    /// The number of steps that had nothing to change.
    pub same: usize,
    /// The number of steps after which the kernel had another value than was written. They are also
    /// in `done`.
    pub other: usize,
}

/// Makes all changes of a plan that are not in force yet. Earlier changes that are not in the plan
/// any more are undone.
///
/// # Errors
/// Returns the error of the first step that fails. The changes that this call had made are undone
/// as far as possible.
pub fn apply(
    files: &mut dyn Files,
    plan: &Plan,
    journal: &mut Journal,
    say: &mut dyn FnMut(&Said),
) -> Result<Applied, Failed> {
    // The reboot has reset these changes, so that nothing may be written for them.
    undo::of_other_boots(plan, journal)?;
    // This comes first, so that a value that is changed again is recorded as it was before any
    // change.
    undo::what_is_not_in(files, plan, journal, say)?;
    // If this call fails, its own changes are undone. Earlier ones stay.
    let first = journal.entries().next_back().map_or(0, |e| e.id + 1);
    let mut run = Run {
        files,
        plan,
        journal,
        say,
        applied: Applied::default(),
    };
    let done = run.all();
    let applied = run.applied;
    match done {
        Ok(()) => Ok(applied),
        Err(failed) => {
            // The caller needs the first error. Changes that cannot be undone either stay in the
            // journal.
            let _ = undo::from(files, journal, first, say);
            Err(failed)
        }
    }
}

/// Returns the changes that [`apply`] would make. The effects of one change on later ones are not
/// predicted, for example the new elevator's tunables, or the files of a cgroup that does not exist
/// yet.
pub fn preview(files: &dyn Files, plan: &Plan, journal: &Journal) -> Vec<Said> {
    let mut all = Vec::new();
    for action in &plan.actions {
        let said = match action {
            Action::Make(folder) if !files.exists(folder) => Said::Made(folder.clone()),
            Action::Enable(folder) if !Cgroups::is_enabled(files, folder) => {
                Said::Enabled(folder.clone())
            }
            Action::Unit { file, text } if files.read(file).ok().as_ref() != Some(text) => {
                Said::Unit(file.clone())
            }
            Action::Set {
                device,
                file,
                knob,
                value,
            } => {
                let target = &plan.devices[*device];
                let number = &target.device.number;
                let from = match files.read(file) {
                    Ok(text) => knob.value(&text, number),
                    // The file appears with a cgroup or an elevator that an earlier step makes.
                    Err(_) => "not there yet".to_owned(),
                };
                if is_so(journal, (file, &target.ident), *knob, &from, value) {
                    continue;
                }
                Said::Set {
                    file: file.clone(),
                    from,
                    to: knob.line(number, value),
                }
            }
            _ => continue,
        };
        all.push(said);
    }
    all
}

/// Returns true if a value is the one that is wanted, or the one that the kernel made of it before.
fn is_so(
    journal: &Journal,
    (file, device): (&str, &Ident),
    knob: Knob,
    is: &str,
    asked: &str,
) -> bool {
    let before = || live(journal, file, Some(device), asked);
    knob.is(is, asked) || before().is_some_and(|(_, now)| now.as_deref() == Some(is))
}

/// Returns the entry of the journal that gave a file this value (for this device, if the file has
/// lines), and the value that was read back.
fn live(
    journal: &Journal,
    path: &str,
    device: Option<&Ident>,
    asked: &str,
) -> Option<(u64, Option<String>)> {
    // A file can have a line for each device, so that the devices must agree as well.
    let number = |ident: Option<&Ident>| ident.map(|i| i.number.clone());
    let own = |entry: &&Entry| number(entry.device.as_ref()) == number(device);
    let last = journal.entries_of(path).rev().find(own)?;
    match &last.change {
        Change::Set { new, .. } | Change::Unit { new, .. } if new == asked => {
            Some((last.id, last.now.clone()))
        }
        _ => None,
    }
}

/// The state of applying a plan.
struct Run<'a> {
    files: &'a mut dyn Files,
    plan: &'a Plan,
    journal: &'a mut Journal,
    say: &'a mut dyn FnMut(&Said),
    applied: Applied,
}

impl Run<'_> {
    /// Carries out the actions of the plan in order.
    fn all(&mut self) -> Result<(), Failed> {
        let plan = self.plan;
        let mut units = false;
        for action in &plan.actions {
            let before = self.applied.done;
            match action {
                Action::Make(folder) => self.make(folder)?,
                Action::Enable(folder) => self.enable(folder)?,
                Action::Set {
                    device,
                    file,
                    knob,
                    value,
                } => self.set(&plan.devices[*device], file, *knob, value)?,
                Action::Unit { file, text } => {
                    self.unit(file, text)?;
                    units |= self.applied.done > before;
                }
            }
            if self.applied.done == before {
                self.applied.same += 1;
            }
        }
        if units {
            // One reload is enough for all drop-ins, because it reads all units.
            let reloaded = self.files.reload_units();
            reloaded.map_err(|e| Failed::step("systemd", "reload its units", e))?;
            (self.say)(&Said::Reloaded);
        }
        Ok(())
    }

    fn change(&mut self, device: Option<&Ident>, change: Change) -> Result<u64, Failed> {
        let id = self
            .journal
            .change(&self.plan.boot, device.cloned(), change);
        Ok(id?)
    }

    // In each of the following methods, the journal is written before the host is changed.
    fn make(&mut self, folder: &str) -> Result<(), Failed> {
        if self.files.exists(folder) {
            return Ok(());
        }
        let owned = folder.to_owned();
        self.change(
            None,
            Change::Make {
                folder: owned.clone(),
            },
        )?;
        let made = self.files.make(folder);
        made.map_err(|e| Failed::step(folder, "create it", e))?;
        self.did(&Said::Made(owned));
        Ok(())
    }

    fn enable(&mut self, folder: &str) -> Result<(), Failed> {
        if Cgroups::is_enabled(self.files, folder) {
            return Ok(());
        }
        let file = format!("{folder}/cgroup.subtree_control");
        let owned = folder.to_owned();
        self.change(
            None,
            Change::Enable {
                folder: owned.clone(),
            },
        )?;
        let written = self.files.write(&file, "+io");
        written.map_err(|e| Failed::step(&file, "enable the io controller", e))?;
        self.did(&Said::Enabled(owned));
        Ok(())
    }

    /// Sets a knob, and reads it back.
    fn set(&mut self, target: &Target, file: &str, knob: Knob, value: &str) -> Result<(), Failed> {
        let number = &target.device.number;
        let text = self.files.read(file);
        let text = text.map_err(|e| Failed::knob(knob, file, value, e))?;
        let old = knob.value(&text, number);
        if is_so(self.journal, (file, &target.ident), knob, &old, value) {
            return Ok(());
        }
        // A value that is in the journal was changed by another program since. Its entry keeps the
        // value from before the first change.
        let repaired = live(self.journal, file, Some(&target.ident), value);
        let id = if let Some((id, _)) = &repaired {
            *id
        } else {
            let also = self.also(target, file, knob);
            let change = Change::Set {
                file: file.to_owned(),
                knob: knob.to_string(),
                old: old.clone(),
                new: value.to_owned(),
                also,
            };
            self.change(Some(&target.ident), change)?
        };
        let written = self.files.write(file, &knob.line(number, value));
        written.map_err(|e| Failed::knob(knob, file, value, e))?;
        let text = self.files.read(file);
        let text = text.map_err(|e| Failed::step(file, "read it back", e))?;
        let now = knob.value(&text, number);
        // The value as the kernel has rounded it. If it differs later, another program has changed
        // it.
        self.journal.done(id, now.clone())?;
        let said = if !knob.is(&now, value) {
            self.applied.other += 1;
            Said::Other {
                file: file.to_owned(),
                asked: value.to_owned(),
                ignored: now == old,
                is: now,
            }
        } else if repaired.is_some() {
            Said::Repaired {
                file: file.to_owned(),
                from: old,
                to: now,
            }
        } else {
            Said::Set {
                file: file.to_owned(),
                from: old,
                to: now,
            }
        };
        self.did(&said);
        Ok(())
    }

    /// Returns the values that the kernel resets together with a knob, as they are now.
    fn also(&self, target: &Target, file: &str, knob: Knob) -> Vec<Also> {
        let directory = target.device.directory();
        let mut all: Vec<String> = match knob {
            Knob::Scheduler => {
                let tunables = format!("{directory}/queue/iosched");
                let names = self.files.list(&tunables).unwrap_or_default();
                let tunables = names.iter().map(|name| format!("{tunables}/{name}"));
                ["nr_requests", "async_depth", "wbt_lat_usec"]
                    .map(|name| format!("{directory}/queue/{name}"))
                    .into_iter()
                    .chain(tunables)
                    .collect()
            }
            Knob::NrRequests => ["queue/async_depth", "queue/iosched/async_depth"]
                .map(|name| format!("{directory}/{name}"))
                .into(),
            Knob::CostQos => vec![format!("{directory}/queue/wbt_lat_usec")],
            _ => Vec::new(),
        };
        if knob == Knob::Scheduler {
            // Weights of bfq are removed when the device loses bfq.
            let text = self.files.read(file).unwrap_or_default();
            if Knob::Scheduler.value(&text, "") == "bfq" {
                let weights = self.plan.cgroups.all(self.files).into_iter();
                all.extend(weights.map(|d| format!("{d}/{}", Knob::BfqWeight)));
            }
        }
        let number = &target.device.number;
        let also = all.into_iter().filter_map(|file| {
            let text = self.files.read(&file).ok()?;
            let old = undo::value(&file, &text, number);
            Some(Also { file, old })
        });
        also.collect()
    }

    /// Writes a drop-in of systemd.
    fn unit(&mut self, file: &str, text: &str) -> Result<(), Failed> {
        let old = self.files.read(file).ok();
        if old.as_deref() == Some(text) {
            return Ok(());
        }
        // An existing entry has the content from before the first run, which must not be lost.
        if live(self.journal, file, None, text).is_none() {
            let change = Change::Unit {
                file: file.to_owned(),
                old,
                new: text.to_owned(),
            };
            self.change(None, change)?;
        }
        let written = self.files.replace(file, text);
        written.map_err(|e| Failed::step(file, "write it", e))?;
        self.did(&Said::Unit(file.to_owned()));
        Ok(())
    }

    fn did(&mut self, said: &Said) {
        self.applied.done += 1;
        (self.say)(said);
    }
}

#[cfg(test)]
mod tests;
