//! The submission queues of a drive, from which the controller fetches commands in turn.

use super::SsdConfig;
use super::blocks::UNIT;
use std::collections::VecDeque;
use weir_core::{Instant, Op, Tag};

/// A command that has arrived at the drive.
#[derive(Clone, Copy, Debug)]
pub(super) struct ArrivedCommand {
    pub(super) tag: Tag,
    pub(super) queue: u16,
    pub(super) op: Op,
    pub(super) fua: bool,
    pub(super) start: u64,
    pub(super) end: u64,
    /// The time from which the controller can start the command.
    pub(super) ready: Instant,
    pub(super) sequence: u64,
}

/// Round-robin arbitration with a burst (`NVMe` Base Specification 1.4, section 4.13.1), and a
/// bound on what is fetched before the controller starts it.
#[derive(Debug)]
pub(super) struct Arbiter {
    queues: Vec<VecDeque<ArrivedCommand>>,
    /// The queue whose turn it is, and the number of commands that it can still have in this turn.
    turn: usize,
    left: u16,
    burst: u16,
    /// The bytes that were fetched and not started, and the number of them from which nothing more
    /// is fetched.
    fetched: u64,
    most: u64,
}

impl Arbiter {
    /// Creates empty queues, or `None` if the controller fetches every command at once.
    pub(super) fn new(config: &SsdConfig) -> Option<Self> {
        let queue = || VecDeque::with_capacity(config.tags.into());
        (config.fetch > 0).then(|| Self {
            queues: std::iter::repeat_with(queue)
                .take(config.queues.into())
                .collect(),
            turn: 0,
            left: config.burst,
            burst: config.burst,
            fetched: 0,
            most: config.fetch,
        })
    }

    pub(super) fn push(&mut self, command: ArrivedCommand) {
        self.queues[usize::from(command.queue)].push_back(command);
    }

    /// Fetches the next command, if there is one and the bound permits it.
    pub(super) fn fetch(&mut self) -> Option<ArrivedCommand> {
        if self.fetched >= self.most {
            return None;
        }
        // In the last step, the first queue has its turn again, with a whole burst.
        for _ in 0..=self.queues.len() {
            if self.left > 0
                && let Some(command) = self.queues[self.turn].pop_front()
            {
                self.left -= 1;
                self.fetched += cost(command.start, command.end);
                return Some(command);
            }
            self.turn = (self.turn + 1) % self.queues.len();
            self.left = self.burst;
        }
        None
    }

    /// Accounts for the start of a fetched command of this range.
    pub(super) fn started(&mut self, start: u64, end: u64) {
        debug_assert!(self.fetched >= cost(start, end), "the command was fetched");
        self.fetched -= cost(start, end);
    }
}

/// The bytes of a command as part of the bound. A command without data counts as one unit.
fn cost(start: u64, end: u64) -> u64 {
    (end - start).max(UNIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An arbiter of three queues and 16 tags each.
    fn arbiter(burst: u16, fetch: u64) -> Arbiter {
        let config = SsdConfig {
            queues: 3,
            tags: 16,
            burst,
            fetch,
            ..SsdConfig::generic()
        };
        Arbiter::new(&config).unwrap()
    }

    fn command(tag: u32, queue: u16) -> ArrivedCommand {
        ArrivedCommand {
            tag: Tag(tag),
            queue,
            op: Op::Read,
            fua: false,
            start: 0,
            end: 2 * UNIT,
            ready: Instant::ZERO,
            sequence: u64::from(tag),
        }
    }

    fn tags(arbiter: &mut Arbiter) -> Vec<u32> {
        std::iter::from_fn(|| arbiter.fetch().map(|c| c.tag.0)).collect()
    }

    #[test]
    fn queues_take_turns_of_a_burst() {
        for (burst, order) in [
            (1, [0, 4, 6, 1, 5, 2, 3]),
            (2, [0, 1, 4, 5, 6, 2, 3]),
            (9, [0, 1, 2, 3, 4, 5, 6]),
        ] {
            let mut arbiter = arbiter(burst, 1 << 20);
            for (tag, queue) in [(0, 0), (1, 0), (2, 0), (3, 0), (4, 1), (5, 1), (6, 2)] {
                arbiter.push(command(tag, queue));
            }
            assert_eq!(tags(&mut arbiter), order, "{burst}");
        }
    }

    #[test]
    fn no_more_is_fetched_until_fetched_commands_start() {
        let mut arbiter = arbiter(1, 5 * UNIT);
        for tag in 0..6 {
            arbiter.push(command(tag, 0));
        }
        // Each has two units, so that the third reaches the bound.
        assert_eq!(tags(&mut arbiter), [0, 1, 2]);
        arbiter.started(0, 2 * UNIT);
        // A command of another queue passes those that were not fetched.
        arbiter.push(command(9, 1));
        assert_eq!(tags(&mut arbiter), [9]);
        arbiter.started(0, 2 * UNIT);
        assert_eq!(tags(&mut arbiter), [3]);
    }
}
