//! The changes that were made, and what they replaced: bounded.

use std::collections::VecDeque;

use crate::api::Change;

use crate::document::Replaced;

/// Changes that are remembered.
const CHANGES: usize = 256;
/// Bytes that they may take together, about.
const BYTES: usize = 8 << 20;

/// What takes a change back.
#[derive(Clone, Debug)]
pub(crate) enum Back {
    /// What its edits replaced, in their order.
    Edits(Vec<Replaced>),
    /// The whole text of before, as long as the text is this one still.
    Text { before: String, after: String },
}

impl Back {
    fn bytes(&self) -> usize {
        match self {
            // An edit is a key and two values, seldom long ones.
            Self::Edits(edits) => edits.len() * 1024,
            Self::Text { before, after } => before.len() + after.len(),
        }
    }
}

#[derive(Debug)]
struct Entry {
    change: Change,
    /// Nothing if it was undone, or if it takes too much room.
    back: Option<Back>,
    bytes: usize,
}

/// The last changes.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    entries: VecDeque<Entry>,
    bytes: usize,
}

impl Journal {
    /// Remembers a change, and forgets the oldest ones if there are too many.
    pub(crate) fn add(&mut self, mut change: Change, back: Back) {
        if let Some(undone) = change.undoes
            && let Some(entry) = self.entry_mut(undone)
        {
            entry.back = None;
        }
        let lines: usize = change.lines.iter().map(|line| line.len() + 32).sum();
        if lines > BYTES / 4 {
            let all = change.lines.len();
            change.lines.truncate(1000);
            change
                .lines
                .push(format!("and {} more", all - change.lines.len()));
        }
        let bytes = back.bytes();
        let back = (bytes <= BYTES / 4).then_some(back);
        let bytes = 256 + lines.min(BYTES / 4) + if back.is_some() { bytes } else { 0 };
        self.entries.push_back(Entry {
            change,
            back,
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

    /// The changes, the last one first.
    pub(crate) fn changes(&self) -> impl Iterator<Item = &Change> {
        self.entries.iter().rev().map(|entry| &entry.change)
    }

    /// A change that can be undone, and what takes it back: the one of that number, or the last one.
    pub(crate) fn back(&self, number: Option<u64>) -> Result<(&Change, &Back), String> {
        let Some(number) = number else {
            let mut last = self.entries.iter().rev();
            let last = last.find(|e| e.back.is_some() && e.change.undoes.is_none());
            let last = last.and_then(|e| Some((&e.change, e.back.as_ref()?)));
            return last.ok_or_else(|| "no change can be undone".to_owned());
        };
        let entry = self.entries.iter().find(|e| e.change.number == number);
        let entry = entry.ok_or_else(|| {
            format!("unknown change {number}; `weir ctl changes` lists the changes that are kept")
        })?;
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

    fn entry_mut(&mut self, number: u64) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|e| e.change.number == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(number: u64, undoes: Option<u64>, length: usize) -> (Change, Back) {
        let change = Change {
            number,
            undoes,
            lines: vec!["x".repeat(100); length / 100],
            ..Change::default()
        };
        let text = || "y".repeat(length);
        let back = Back::Text {
            before: text(),
            after: text(),
        };
        (change, back)
    }

    #[test]
    fn it_is_bounded_in_number_and_in_bytes() {
        let mut journal = Journal::default();
        for number in 1..=1000 {
            let (change, back) = change(number, None, (number as usize % 50) * 100_000);
            journal.add(change, back);
            assert!(journal.entries.len() <= CHANGES && journal.bytes <= BYTES);
            let held = |e: &Entry| e.back.as_ref().map_or(0, Back::bytes);
            assert!(journal.entries.iter().map(held).sum::<usize>() <= BYTES);
        }
        assert_eq!(journal.changes().next().unwrap().number, 1000);
    }

    #[test]
    fn the_last_change_that_is_no_undo_is_undone_first() {
        let mut journal = Journal::default();
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
