//! A drive behind an ATA adapter.

use std::collections::VecDeque;
use weir_core::{Dispatch, DriveShape, Instant, Op};
use weir_model::drive::{DriveModel, QueueFull, TimedCompletion};

/// A drive that receives flushes only while it is empty (see
/// `Adapter::ata` of the scenario).
#[derive(Debug)]
pub(crate) struct Ata {
    drive: Box<dyn DriveModel>,
    /// The commands after a flush that waits or is in the drive. A waiting flush is the first of
    /// them.
    waiting: VecDeque<Dispatch>,
    /// True while a flush is in the drive.
    flushing: bool,
    tags: u32,
}

impl Ata {
    pub(crate) fn new(drive: Box<dyn DriveModel>) -> Self {
        let shape = drive.shape();
        let tags = u32::from(shape.queues) * u32::from(shape.tags);
        Self {
            drive,
            waiting: VecDeque::with_capacity(tags as usize),
            flushing: false,
            tags,
        }
    }

    /// Submits commands from the queue as far as the flush rule permits.
    fn send(&mut self, now: Instant) {
        while let Some(command) = self.waiting.front().filter(|_| !self.flushing) {
            let flush = command.op == Op::Flush;
            // A flush is not a queued command of ATA, so it needs an empty drive
            // (`ata_std_qc_defer`).
            if flush && self.drive.in_flight() > 0 || self.drive.submit(now, command).is_err() {
                return;
            }
            self.flushing = flush;
            self.waiting.pop_front();
        }
    }
}

impl DriveModel for Ata {
    fn submit(&mut self, now: Instant, command: &Dispatch) -> Result<(), QueueFull> {
        if self.waiting.is_empty() && !self.flushing && command.op != Op::Flush {
            return self.drive.submit(now, command);
        }
        // A waiting command holds its tag, as in Linux.
        if self.in_flight() >= self.tags {
            return Err(QueueFull);
        }
        self.waiting.push_back(*command);
        self.send(now);
        Ok(())
    }

    fn next_completion(&self) -> Option<Instant> {
        self.drive.next_completion()
    }

    fn pop(&mut self, now: Instant) -> Option<TimedCompletion> {
        let ended = self.drive.pop(now);
        if ended.is_some() && self.drive.in_flight() == 0 {
            // An empty drive has completed the flush, if there was one.
            self.flushing = false;
            self.send(now);
        }
        ended
    }

    fn in_flight(&self) -> u32 {
        self.drive.in_flight() + self.waiting.len() as u32
    }

    fn shape(&self) -> DriveShape {
        self.drive.shape()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::Tag;
    use weir_model::drive::null;

    fn command(tag: u32, op: Op) -> Dispatch {
        Dispatch {
            tag: Tag(tag),
            ..Dispatch::new(op, 0, if op == Op::Flush { 0 } else { 4096 })
        }
    }

    #[test]
    fn a_flush_is_alone_in_the_drive() {
        let drive = null::NullConfig {
            link: 0,
            ..null::NullConfig::demo()
        };
        let mut ata = Ata::new(Box::new(drive.build().unwrap()));
        let ops = [Op::Write, Op::Flush, Op::Read, Op::Read, Op::Flush];
        let mut now = Instant::ZERO;
        for (tag, op) in (0..).zip(ops) {
            ata.submit(now, &command(tag, op)).unwrap();
        }
        assert_eq!((ata.in_flight(), ata.drive.in_flight()), (5, 1));
        let mut ends = Vec::new();
        while let Some(next) = ata.next_completion() {
            now = next;
            while let Some(ended) = ata.pop(now) {
                ends.push((ended.completion.tag.0, now.as_nanos() / 30_000));
            }
        }
        // Each takes 30 us: the write, the flush, the two reads in parallel, the second flush.
        assert_eq!(ends, [(0, 1), (1, 2), (2, 3), (3, 3), (4, 4)]);
        assert_eq!(ata.in_flight(), 0);
    }
}
