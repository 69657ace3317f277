//! Applies a plan to a host. Each change is in the journal before it is made.
//!
//! [`apply`] makes the changes, [`preview`] shows them, and [`restore`] undoes them.

mod allowlist;
mod undo;

use crate::cgroups::Cgroups;
use crate::change::{HostChange, Ident, JournalEntry, SideEffect};
use crate::failed::StepError;
use crate::files::HostFiles;
use crate::journal::ApplyJournal;
use crate::knob::Knob;
use crate::plan::{DeviceTarget, HostPlan, PlanAction};
use crate::said::StepReport;

pub use undo::{RestoreCounts, restore};

/// The numbers of steps in which a plan was applied.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ApplyCounts {
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
    files: &mut dyn HostFiles,
    plan: &HostPlan,
    journal: &mut ApplyJournal,
    say: &mut dyn FnMut(&StepReport),
) -> Result<ApplyCounts, StepError> {
    // The reboot has reset these changes, so that nothing may be written for them.
    undo::forget_other_boots(plan, journal)?;
    // This comes first, so that a value that is changed again is recorded as it was before any
    // change.
    undo::undo_unplanned(files, plan, journal, say)?;
    // If this call fails, its own changes are undone. Earlier ones stay.
    let first = journal.entries().next_back().map_or(0, |e| e.id + 1);
    let mut run = ApplyRun {
        files,
        plan,
        journal,
        say,
        applied: ApplyCounts::default(),
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
pub fn preview(files: &dyn HostFiles, plan: &HostPlan, journal: &ApplyJournal) -> Vec<StepReport> {
    let mut all = Vec::new();
    for action in &plan.actions {
        let said = match action {
            PlanAction::Make(folder) if !files.exists(folder) => StepReport::Made(folder.clone()),
            PlanAction::Enable(folder) if !Cgroups::is_enabled(files, folder) => {
                StepReport::Enabled(folder.clone())
            }
            PlanAction::Unit { file, text } if files.read(file).ok().as_ref() != Some(text) => {
                StepReport::Unit(file.clone())
            }
            PlanAction::Set {
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
                if is_in_force(journal, (file, &target.ident), *knob, &from, value) {
                    continue;
                }
                StepReport::Set {
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
fn is_in_force(
    journal: &ApplyJournal,
    (file, device): (&str, &Ident),
    knob: Knob,
    is: &str,
    asked: &str,
) -> bool {
    let before = || live_entry(journal, file, Some(device), asked);
    knob.is_equivalent(is, asked) || before().is_some_and(|(_, now)| now.as_deref() == Some(is))
}

/// Returns the entry of the journal that gave a file this value (for this device, if the file has
/// lines), and the value that was read back.
fn live_entry(
    journal: &ApplyJournal,
    path: &str,
    device: Option<&Ident>,
    asked: &str,
) -> Option<(u64, Option<String>)> {
    // A file can have a line for each device, so that the devices must agree as well.
    let number = |ident: Option<&Ident>| ident.map(|i| i.number.clone());
    let own = |entry: &&JournalEntry| number(entry.device.as_ref()) == number(device);
    let last = journal.entries_of(path).rev().find(own)?;
    match &last.change {
        HostChange::Set { new, .. } | HostChange::Unit { new, .. } if new == asked => {
            Some((last.id, last.now.clone()))
        }
        _ => None,
    }
}

/// The state of applying a plan.
struct ApplyRun<'a> {
    files: &'a mut dyn HostFiles,
    plan: &'a HostPlan,
    journal: &'a mut ApplyJournal,
    say: &'a mut dyn FnMut(&StepReport),
    applied: ApplyCounts,
}

impl ApplyRun<'_> {
    /// Carries out the actions of the plan in order.
    fn all(&mut self) -> Result<(), StepError> {
        let plan = self.plan;
        let mut units = false;
        for action in &plan.actions {
            let before = self.applied.done;
            match action {
                PlanAction::Make(folder) => self.make(folder)?,
                PlanAction::Enable(folder) => self.enable(folder)?,
                PlanAction::Set {
                    device,
                    file,
                    knob,
                    value,
                } => self.set(&plan.devices[*device], file, *knob, value)?,
                PlanAction::Unit { file, text } => {
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
            reloaded.map_err(|e| StepError::step("systemd", "reload its units", e))?;
            (self.say)(&StepReport::Reloaded);
        }
        Ok(())
    }

    fn change(&mut self, device: Option<&Ident>, change: HostChange) -> Result<u64, StepError> {
        let id = self
            .journal
            .change(&self.plan.boot, device.cloned(), change);
        Ok(id?)
    }

    // In each of the following methods, the journal is written before the host is changed.
    fn make(&mut self, folder: &str) -> Result<(), StepError> {
        if self.files.exists(folder) {
            return Ok(());
        }
        let owned = folder.to_owned();
        self.change(
            None,
            HostChange::Make {
                folder: owned.clone(),
            },
        )?;
        let made = self.files.make(folder);
        made.map_err(|e| StepError::step(folder, "create it", e))?;
        self.report_step(&StepReport::Made(owned));
        Ok(())
    }

    fn enable(&mut self, folder: &str) -> Result<(), StepError> {
        if Cgroups::is_enabled(self.files, folder) {
            return Ok(());
        }
        let file = format!("{folder}/cgroup.subtree_control");
        let owned = folder.to_owned();
        self.change(
            None,
            HostChange::Enable {
                folder: owned.clone(),
            },
        )?;
        let written = self.files.write(&file, "+io");
        written.map_err(|e| StepError::step(&file, "enable the io controller", e))?;
        self.report_step(&StepReport::Enabled(owned));
        Ok(())
    }

    /// Sets a knob, and reads it back.
    fn set(
        &mut self,
        target: &DeviceTarget,
        file: &str,
        knob: Knob,
        value: &str,
    ) -> Result<(), StepError> {
        let number = &target.device.number;
        let text = self.files.read(file);
        let text = text.map_err(|e| StepError::knob(knob, file, value, e))?;
        let old = knob.value(&text, number);
        if is_in_force(self.journal, (file, &target.ident), knob, &old, value) {
            return Ok(());
        }
        // A value that is in the journal was changed by another program since. Its entry keeps the
        // value from before the first change.
        let repaired = live_entry(self.journal, file, Some(&target.ident), value);
        let id = if let Some((id, _)) = &repaired {
            *id
        } else {
            let also = self.also(target, file, knob);
            let change = HostChange::Set {
                file: file.to_owned(),
                knob: knob.to_string(),
                old: old.clone(),
                new: value.to_owned(),
                also,
            };
            self.change(Some(&target.ident), change)?
        };
        let written = self.files.write(file, &knob.line(number, value));
        written.map_err(|e| StepError::knob(knob, file, value, e))?;
        let text = self.files.read(file);
        let text = text.map_err(|e| StepError::step(file, "read it back", e))?;
        let now = knob.value(&text, number);
        // The value as the kernel has rounded it. If it differs later, another program has changed
        // it.
        self.journal.done(id, now.clone())?;
        let said = if !knob.is_equivalent(&now, value) {
            self.applied.other += 1;
            StepReport::Other {
                file: file.to_owned(),
                asked: value.to_owned(),
                ignored: now == old,
                is: now,
            }
        } else if repaired.is_some() {
            StepReport::Repaired {
                file: file.to_owned(),
                from: old,
                to: now,
            }
        } else {
            StepReport::Set {
                file: file.to_owned(),
                from: old,
                to: now,
            }
        };
        self.report_step(&said);
        Ok(())
    }

    /// Returns the values that the kernel resets together with a knob, as they are now.
    fn also(&self, target: &DeviceTarget, file: &str, knob: Knob) -> Vec<SideEffect> {
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
            Some(SideEffect { file, old })
        });
        also.collect()
    }

    /// Writes a drop-in of systemd.
    fn unit(&mut self, file: &str, text: &str) -> Result<(), StepError> {
        let old = self.files.read(file).ok();
        if old.as_deref() == Some(text) {
            return Ok(());
        }
        // An existing entry has the content from before the first run, which must not be lost.
        if live_entry(self.journal, file, None, text).is_none() {
            let change = HostChange::Unit {
                file: file.to_owned(),
                old,
                new: text.to_owned(),
            };
            self.change(None, change)?;
        }
        let written = self.files.replace(file, text);
        written.map_err(|e| StepError::step(file, "write it", e))?;
        self.report_step(&StepReport::Unit(file.to_owned()));
        Ok(())
    }

    fn report_step(&mut self, said: &StepReport) {
        self.applied.done += 1;
        (self.say)(said);
    }
}

#[cfg(test)]
mod tests;
