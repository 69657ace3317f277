//! The survey of a drive, which checks whether its data may be overwritten.

use crate::calibrate::stamp::{self, BLOCK};
use std::collections::BTreeMap;
use std::ops::Range;
use weir_core::{Flags, Instant, Op};
use weir_model::load::{Io, RequestSource, Step};

/// The number of bytes at either end that are read completely. Partition tables, file systems and
/// volume managers keep their metadata there.
const WHOLE: u64 = 1 << 20;
/// The number of requests in flight.
const DEPTH: usize = 32;

/// The kind of data on a drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SurveyVerdict {
    /// Only zeroes were found.
    Empty,
    /// Only zeroes and blocks of measurements were found.
    Own,
    /// Other data was found in the block at this offset.
    Foreign(u64),
    /// The block at this offset could not be read.
    Unreadable(u64),
}

/// A source of reads that samples a drive: the first and the last MiB, and evenly spaced blocks of
/// the data between them. It reads all data if there are few blocks.
#[derive(Debug)]
pub struct Survey {
    /// The offsets of blocks that were not requested yet, in descending order.
    places: Vec<u64>,
    issued: u64,
    /// The blocks that are being read, by the numbers of their requests.
    open: BTreeMap<u64, Vec<u8>>,
    own: u64,
    foreign: Option<u64>,
    unreadable: Option<u64>,
}

impl Survey {
    /// Creates a survey of a drive of `size` bytes, in which only the ranges in `data` can contain
    /// data. It reads the first block of each range, and at most `samples` further blocks between
    /// the drive's ends. Bytes after the last whole block are not read.
    pub fn new(size: u64, data: &[Range<u64>], samples: u64) -> Self {
        let blocks = size / BLOCK;
        let edge = WHOLE / BLOCK;
        let inner = data.iter().map(|range| {
            let end = range.end.div_ceil(BLOCK).min(blocks.saturating_sub(edge));
            (range.start / BLOCK).max(edge)..end
        });
        let all: u64 = inner.clone().map(|r| r.end.saturating_sub(r.start)).sum();
        let between = all.div_ceil(samples.max(1)).max(1);
        let middle = inner.flat_map(|range| range.step_by(between as usize));
        let mut places: Vec<u64> = (0..blocks.min(edge))
            .chain(middle)
            .chain(blocks.saturating_sub(edge)..blocks)
            .map(|block| block * BLOCK)
            .collect();
        // Descending, so that blocks are taken from the end of the list in ascending order.
        places.sort_unstable_by(|a, b| b.cmp(a));
        places.dedup();
        Self {
            places,
            issued: 0,
            open: BTreeMap::new(),
            own: 0,
            foreign: None,
            unreadable: None,
        }
    }

    /// Returns the verdict of a finished survey.
    pub fn verdict(&self) -> SurveyVerdict {
        match (self.foreign, self.unreadable) {
            // Foreign data weighs more than an unreadable block.
            (Some(at), _) => SurveyVerdict::Foreign(at),
            (None, Some(at)) => SurveyVerdict::Unreadable(at),
            (None, None) if self.own > 0 => SurveyVerdict::Own,
            (None, None) => SurveyVerdict::Empty,
        }
    }
}

impl RequestSource for Survey {
    fn next(&mut self, now: Instant) -> Step {
        // One foreign or unreadable block decides, so that the rest need not be read.
        let ends = self.foreign.is_some() || self.unreadable.is_some() || self.places.is_empty();
        if ends {
            return if self.open.is_empty() {
                Step::Finished
            } else {
                Step::WaitForCompletion
            };
        }
        if self.open.len() >= DEPTH {
            return Step::WaitForCompletion;
        }
        let Some(offset) = self.places.pop() else {
            return Step::Finished;
        };
        let number = self.issued;
        self.issued += 1;
        self.open.insert(number, vec![0; BLOCK as usize]);
        Step::Issue(Io {
            number,
            op: Op::Read,
            flags: Flags::NONE,
            offset,
            length: BLOCK as u32,
            due: now,
        })
    }

    fn completed(&mut self, _: Instant, io: &Io, failed: bool) {
        let Some(block) = self.open.remove(&io.number) else {
            return;
        };
        if failed {
            self.unreadable.get_or_insert(io.offset);
        } else if stamp::is_own(io.offset, &block) {
            self.own += 1;
        } else if block.iter().any(|byte| *byte != 0) {
            self.foreign.get_or_insert(io.offset);
        }
    }

    fn received(&mut self, io: &Io, at: u64, bytes: &[u8]) {
        let block = self.open.get_mut(&io.number);
        let from = usize::try_from(at).unwrap_or(usize::MAX);
        // A server may send more bytes than were requested, which are ignored.
        if let Some(rest) = block.and_then(|block| block.get_mut(from..)) {
            let length = rest.len().min(bytes.len());
            rest[..length].copy_from_slice(&bytes[..length]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::slice;

    const SAMPLES: u64 = 4096;

    /// Surveys a drive whose blocks `fill` writes.
    fn survey(size: u64, fill: impl Fn(u64, &mut Vec<u8>)) -> SurveyVerdict {
        let mut survey = Survey::new(size, slice::from_ref(&(0..size)), SAMPLES);
        let mut looked = 0;
        loop {
            match survey.next(Instant::ZERO) {
                Step::Issue(io) => {
                    assert!(io.offset + u64::from(io.length) <= size);
                    let mut block = Vec::new();
                    fill(io.offset, &mut block);
                    // A server may send a block in several parts.
                    survey.received(&io, 0, &block[..100]);
                    survey.received(&io, 100, &block[100..]);
                    survey.completed(Instant::ZERO, &io, false);
                    looked += 1;
                }
                Step::Finished => break,
                other => panic!("{other:?}"),
            }
        }
        assert!(looked <= SAMPLES + 2 * WHOLE / BLOCK);
        survey.verdict()
    }

    fn zeroes(_: u64, into: &mut Vec<u8>) {
        into.resize(BLOCK as usize, 0);
    }

    #[test]
    fn zeroes_are_empty_and_stamped_blocks_are_own() {
        for size in [0, BLOCK, 3 << 20, (1 << 40) + 512] {
            assert_eq!(survey(size, zeroes), SurveyVerdict::Empty);
        }
        let half = |at: u64, into: &mut Vec<u8>| {
            if at < 1 << 30 {
                stamp::block(at, into);
            } else {
                zeroes(at, into);
            }
        };
        assert_eq!(survey(1 << 33, half), SurveyVerdict::Own);
    }

    #[test]
    fn a_single_foreign_byte_at_either_end_is_found() {
        let size = 1 << 34;
        // The offsets of the MBR, the magic number of ext4, the superblock of Btrfs, the end of the
        // first MiB, the backup header of a GPT, and the last byte.
        for at in [0, 1080, 65_536, (1 << 20) - 1, size - 512, size - 1] {
            let fill = |offset: u64, into: &mut Vec<u8>| {
                zeroes(offset, into);
                if (offset..offset + BLOCK).contains(&at) {
                    into[(at - offset) as usize] = 1;
                }
            };
            let found = survey(size, fill);
            assert_eq!(found, SurveyVerdict::Foreign(at / BLOCK * BLOCK), "{at}");
        }
    }

    #[test]
    fn little_data_of_a_large_file_is_read_as_a_whole() {
        let size = 1 << 34;
        let data = [
            0..4096,
            5 << 30..(5 << 30) + (1 << 20),
            7 << 30..(7 << 30) + 1,
        ];
        let mut survey = Survey::new(size, &data, SAMPLES);
        let mut read = 0;
        while let Step::Issue(io) = survey.next(Instant::ZERO) {
            let is_data = data.iter().any(|range| range.contains(&io.offset));
            read += u64::from(is_data && io.offset >= WHOLE);
            survey.completed(Instant::ZERO, &io, false);
        }
        // All blocks of the second range and the only one of the third. The first range is within
        // the first MiB.
        assert_eq!(read, (1 << 20) / BLOCK + 1);
    }

    #[test]
    fn a_small_drive_is_read_as_a_whole() {
        let size = 8 << 20;
        for at in (0..size / BLOCK).map(|block| block * BLOCK) {
            let fill = |offset: u64, into: &mut Vec<u8>| {
                zeroes(offset, into);
                into[7] = u8::from(offset == at);
            };
            assert_eq!(survey(size, fill), SurveyVerdict::Foreign(at));
        }
    }

    #[test]
    fn an_unreadable_drive_is_not_overwritten() {
        let mut survey = Survey::new(1 << 30, slice::from_ref(&(0..1 << 30)), SAMPLES);
        let Step::Issue(io) = survey.next(Instant::ZERO) else {
            panic!("it begins at once")
        };
        // Bytes that a server sends beyond the requested range are ignored.
        survey.received(&io, u64::MAX, &[1; 9]);
        // The part within the block is read, and the rest is ignored.
        survey.received(&io, 4000, &[0; 9000]);
        survey.completed(Instant::ZERO, &io, true);
        assert_eq!(survey.next(Instant::ZERO), Step::Finished);
        assert_eq!(survey.verdict(), SurveyVerdict::Unreadable(0));
    }
}
