//! The journal of changes, with the values that they replaced. It is bounded in number and in
//! bytes.

use std::collections::VecDeque;

use crate::api::Change;

use crate::document::ReplacedValue;

/// The maximum number of changes.
const CHANGES: usize = 256;
/// The approximate maximum size of all changes in bytes.
const BYTES: usize = 8 << 20;

/// The data with which a change can be undone.
#[derive(Clone, Debug)]
pub(crate) enum UndoData {
    /// The values that the edits replaced, in the order of the edits.
    Edits(Vec<ReplacedValue>),
    /// The whole text before the change, and the text after it. The change can be undone as long as
    /// the text is still the latter.
    Text { before: String, after: String },
}

impl UndoData {
    fn bytes(&self) -> usize {
        match self {
            // An edit has a key and two values, which are seldom long.
            Self::Edits(edits) => edits.len() * 1024,
            Self::Text { before, after } => before.len() + after.len(),
        }
    }
}

#[derive(Debug)]
struct RememberedChange {
    change: Change,
    /// `None` if the change was undone, if the data take too much memory, or if an earlier run of
    /// the server made the change.
    back: Option<UndoData>,
    is_of_earlier_run: bool,
    bytes: usize,
}

/// The last changes, with the data for undoing them.
#[derive(Debug, Default)]
pub(crate) struct ChangeJournal {
    entries: VecDeque<RememberedChange>,
    bytes: usize,
}

impl ChangeJournal {
    /// Returns a journal with the changes of earlier runs, oldest first. They cannot be undone.
    pub(crate) fn after(earlier: Vec<Change>) -> Self {
        let mut journal = Self::default();
        // Only the last ones are remembered.
        let forgotten = earlier.len().saturating_sub(CHANGES);
        for change in earlier.into_iter().skip(forgotten) {
            journal.add(change, UndoData::Edits(Vec::new()));
        }
        for entry in &mut journal.entries {
            (entry.back, entry.is_of_earlier_run) = (None, true);
        }
        journal
    }

    /// Adds a change. Removes the oldest changes if the bounds are exceeded.
    pub(crate) fn add(&mut self, mut change: Change, back: UndoData) {
        if let Some(undone) = change.undoes
            && let Some(entry) = self.entry_mut(undone)
        {
            // A change can be undone once.
            entry.back = None;
        }
        // A string has some bytes of overhead in addition to its text.
        let lines: usize = change.lines.iter().map(|line| line.len() + 32).sum();
        // A quarter, so that a single large change cannot displace most others.
        if lines > BYTES / 4 {
            let all = change.lines.len();
            change.lines.truncate(1000);
            change
                .lines
                .push(format!("and {} more", all - change.lines.len()));
        }
        let bytes = back.bytes();
        let back = (bytes <= BYTES / 4).then_some(back);
        // 256 bytes is an estimate for the entry itself.
        let bytes = 256 + lines.min(BYTES / 4) + if back.is_some() { bytes } else { 0 };
        self.entries.push_back(RememberedChange {
            change,
            back,
            is_of_earlier_run: false,
            bytes,
        });
        self.bytes += bytes;
        while self.entries.len() > CHANGES || self.bytes > BYTES {
            let Some(oldest) = self.entries.pop_front() else {
                break;
            };
            self.bytes -= oldest.bytes;
        }
    }

    /// Returns the changes, newest first.
    pub(crate) fn changes(&self) -> impl Iterator<Item = &Change> {
        self.entries.iter().rev().map(|entry| &entry.change)
    }

    /// Returns a change that can be undone, with the data for it: the one with a number, or the
    /// last one. An undo itself is only found by its number.
    pub(crate) fn back(&self, number: Option<u64>) -> Result<(&Change, &UndoData), String> {
        let Some(number) = number else {
            let mut last = self.entries.iter().rev();
            // Undos are skipped, so that repeated undos go back step by step.
            let last = last.find(|e| e.back.is_some() && e.change.undoes.is_none());
            let last = last.and_then(|e| Some((&e.change, e.back.as_ref()?)));
            return last.ok_or_else(|| "no change can be undone".to_owned());
        };
        let entry = self.entries.iter().find(|e| e.change.number == number);
        let entry = entry.ok_or_else(|| {
            format!("unknown change {number}; `weir ctl changes` lists the changes that are kept")
        })?;
        if entry.is_of_earlier_run {
            return Err(format!(
                "change {number} was made before the server was started and cannot be undone; set the values before it again"
            ));
        }
        let back = entry.back.as_ref().ok_or_else(|| {
            let undone = self
                .entries
                .iter()
                .find(|e| e.change.undoes == Some(number));
            undone.map_or_else(
                || format!("change {number} cannot be undone, because it was too large to be kept"),
                |by| {
                    format!(
                        "change {number} has already been undone by change {}",
                        by.change.number
                    )
                },
            )
        })?;
        Ok((&entry.change, back))
    }

    fn entry_mut(&mut self, number: u64) -> Option<&mut RememberedChange> {
        self.entries.iter_mut().find(|e| e.change.number == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(number: u64, undoes: Option<u64>, length: usize) -> (Change, UndoData) {
        let change = Change {
            number,
            undoes,
            lines: vec!["x".repeat(100); length / 100],
            ..Change::default()
        };
        let text = || "y".repeat(length);
        let back = UndoData::Text {
            before: text(),
            after: text(),
        };
        (change, back)
    }

    #[test]
    fn a_journal_is_bounded_in_number_and_in_bytes() {
        let mut journal = ChangeJournal::default();
        for number in 1..=1000 {
            let (change, back) = change(number, None, (number as usize % 50) * 100_000);
            journal.add(change, back);
            assert!(journal.entries.len() <= CHANGES && journal.bytes <= BYTES);
            let held = |e: &RememberedChange| e.back.as_ref().map_or(0, UndoData::bytes);
            assert!(journal.entries.iter().map(held).sum::<usize>() <= BYTES);
        }
        assert_eq!(journal.changes().next().unwrap().number, 1000);
    }

    #[test]
    fn changes_of_earlier_runs_are_listed_and_cannot_be_undone() {
        let earlier = (1..=300).map(|number| change(number, None, 100).0);
        let mut journal = ChangeJournal::after(earlier.collect());
        assert_eq!(journal.changes().count(), CHANGES);
        let error = journal.back(Some(300)).unwrap_err();
        assert!(error.contains("before the server was started"), "{error}");
        assert!(journal.back(None).is_err());
        let (next, back) = change(301, None, 100);
        journal.add(next, back);
        assert_eq!(journal.back(None).unwrap().0.number, 301);
    }

    #[test]
    fn undo_skips_changes_that_are_undos_or_undone() {
        let mut journal = ChangeJournal::default();
        for (number, undoes) in [(1, None), (2, None), (3, Some(2))] {
            let (change, back) = change(number, undoes, 100);
            journal.add(change, back);
        }
        assert_eq!(journal.back(None).unwrap().0.number, 1);
        assert_eq!(
            journal.back(Some(3)).unwrap().0.number,
            3,
            "an undo can be undone by its number"
        );
        let error = |number| journal.back(Some(number)).unwrap_err();
        assert_eq!(error(2), "change 2 has already been undone by change 3");
        assert_eq!(
            error(9),
            "unknown change 9; `weir ctl changes` lists the changes that are kept"
        );
    }
}
