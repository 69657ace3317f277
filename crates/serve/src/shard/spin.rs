//! Polling for a short time before a sleep, for a client that waits for each answer.
//!
//! To wake a sleeping thread takes longer than to answer a small request: the kernel interrupts the
//! idle processor, and in a virtual machine the hypervisor has to run the processor first. A shard
//! whose client sends the next request soon after each answer can avoid that. It polls its ring,
//! which costs no system call, and sleeps if nothing has happened for [`LONGEST`].
//!
//! Polling uses a processor that the client itself may need. The shard therefore polls only if
//! [`FEWEST`] waits in succession were short, if each of them followed a single answer, and if no
//! drive has work. After polls in vain, many more short waits are required.

use weir_core::Span;

/// The longest time for which a shard polls.
pub(super) const LONGEST: Span = Span::from_micros(50);
/// The longest sleep that is short. It includes the time in which the kernel wakes the shard, which
/// a poll does not need.
const SHORT: Span = Span::from_micros(100);
/// The number of short waits in succession after which a shard polls.
const FEWEST: u32 = 16;
/// The largest number of short waits that is required after polls in vain.
const MOST: u32 = 16_384;
/// The number of successful polls in succession that are worth one in vain.
const WORTH: u32 = 16;

/// The history of waits that decides whether a shard polls.
#[derive(Debug)]
pub(super) struct Spin {
    /// The number of answers since the last wait.
    answers: u32,
    /// The number of short waits in succession.
    short: u32,
    /// The number of short waits in succession that are required.
    required: u32,
    /// The number of successful polls in succession.
    found: u32,
}

impl Default for Spin {
    fn default() -> Self {
        Self {
            answers: 0,
            short: 0,
            required: FEWEST,
            found: 0,
        }
    }
}

impl Spin {
    /// Counts an answer.
    pub(super) fn note_answer(&mut self) {
        self.answers = self.answers.saturating_add(1);
    }

    /// Returns true if the next wait is for a client that waits for each answer.
    pub(super) fn is_shallow(&self) -> bool {
        self.answers == 1
    }

    /// Returns true if the shard polls before the next sleep.
    pub(super) fn is_on(&self) -> bool {
        self.is_shallow() && self.short >= self.required
    }

    /// Records a poll, and whether something happened during it.
    pub(super) fn note_poll(&mut self, found: bool) {
        if found {
            self.answers = 0;
            self.found = self.found.saturating_add(1);
            return;
        }
        self.required = if self.found >= WORTH {
            FEWEST
        } else {
            (self.required * 2).min(MOST)
        };
        (self.found, self.short) = (0, 0);
    }

    /// Records a sleep of this length.
    pub(super) fn note_sleep(&mut self, length: Span) {
        self.short = if self.is_shallow() && length <= SHORT {
            self.short.saturating_add(1)
        } else {
            0
        };
        self.answers = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Span = Span::from_micros(101);

    /// Records waits of a client that waits for each answer, until the shard polls.
    fn short_waits(spin: &mut Spin) -> u32 {
        for count in 0..=MOST {
            spin.note_answer();
            if spin.is_on() {
                return count;
            }
            spin.note_sleep(SHORT);
        }
        panic!("the shard never polls");
    }

    #[test]
    fn short_waits_in_succession_begin_it() {
        let mut spin = Spin::default();
        assert_eq!(short_waits(&mut spin), FEWEST);
        // The poll has found the next request, and the shard polls after the next answer.
        spin.note_poll(true);
        assert!(!spin.is_on());
        spin.note_answer();
        assert!(spin.is_on());
    }

    #[test]
    fn a_long_wait_or_several_answers_prevent_it() {
        let mut spin = Spin::default();
        for answers in [0, 2, 1] {
            for _ in 1..FEWEST {
                spin.note_answer();
                spin.note_sleep(SHORT);
            }
            for _ in 0..answers {
                spin.note_answer();
            }
            spin.note_sleep(if answers == 1 { LONG } else { SHORT });
            spin.note_answer();
            assert!(!spin.is_on(), "{answers} answers");
        }
        assert_eq!(short_waits(&mut Spin::default()), FEWEST);
    }

    #[test]
    fn polls_in_vain_make_it_rare() {
        let mut spin = Spin::default();
        let mut waits = Vec::new();
        for _ in 0..12 {
            waits.push(short_waits(&mut spin));
            spin.note_poll(false);
            spin.note_sleep(LONG);
        }
        assert_eq!(waits[..3], [FEWEST, 2 * FEWEST, 4 * FEWEST]);
        assert_eq!(waits.last(), Some(&MOST));
        // Polls that pay for themselves make it as frequent as in the beginning.
        short_waits(&mut spin);
        for _ in 0..WORTH {
            assert!(spin.is_on());
            spin.note_poll(true);
            spin.note_answer();
        }
        spin.note_poll(false);
        spin.note_sleep(LONG);
        assert_eq!(short_waits(&mut spin), FEWEST);
    }
}
