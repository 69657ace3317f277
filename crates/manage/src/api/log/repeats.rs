//! Replaces repeated lines of the log by a count.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The maximum number of different lines that are remembered.
const REMEMBERED: usize = 64;
/// The period after which a repeated line is reported with its count.
const PERIOD: Duration = Duration::from_secs(30);
/// The number of times that a line is written in a period before its repetitions are only counted.
/// Users who try something again still see each message.
const WRITTEN: u32 = 3;

/// The lines that were written recently, with the numbers of their repetitions.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    /// The remembered lines, in the order in which their periods end.
    lines: VecDeque<RepeatedLine>,
}

#[derive(Debug)]
struct RepeatedLine {
    /// The latest occurrence of the line, with its time and without the line feed.
    last: Vec<u8>,
    /// The number of times that it was written in this period.
    written: u32,
    /// The number of repetitions that were not written.
    repeated: u64,
    /// The end of the line's period.
    end: Instant,
}

/// Returns a line without its time, which ends at the first space.
fn text(line: &[u8]) -> &[u8] {
    // A line without a space is compared as a whole.
    let space = line.iter().position(|byte| *byte == b' ');
    &line[space.unwrap_or(0)..]
}

impl RepeatedLine {
    /// Returns the line with the number of its repetitions, if there were any.
    fn sum(&self) -> Option<Vec<u8>> {
        let (times, seconds) = (self.repeated, PERIOD.as_secs());
        let sum = format!(" (repeated {times} times in {seconds} s)\n");
        (times > 0).then(|| [&self.last, sum.as_bytes()].concat())
    }
}

impl Repeats {
    /// Takes a line with its line feed. Returns the lines to write: the line itself, unless it is a
    /// repetition, and the count of a line that is forgotten to make space.
    pub(super) fn take(&mut self, line: Vec<u8>, now: Instant) -> [Option<Vec<u8>>; 2] {
        let last = line.strip_suffix(b"\n").unwrap_or(&line).to_vec();
        let known = self.lines.iter_mut();
        if let Some(known) = { known }.find(|known| text(&known.last) == text(&last)) {
            // The report has the time of the last repetition.
            known.last = last;
            if known.written < WRITTEN {
                known.written += 1;
                return [None, Some(line)];
            }
            known.repeated += 1;
            return [None, None];
        }
        self.lines.push_back(RepeatedLine {
            last,
            written: 1,
            repeated: 0,
            end: now + PERIOD,
        });
        // The count of the forgotten line must not be lost.
        let forgotten = (self.lines.len() > REMEMBERED).then(|| self.lines.pop_front());
        [forgotten.flatten().and_then(|line| line.sum()), Some(line)]
    }

    /// Returns the count of a line whose period has ended, if there is one. If it was repeated, its
    /// repetitions are only counted in the next period. Otherwise, it is forgotten.
    pub(super) fn sum(&mut self, now: Instant) -> Option<Vec<u8>> {
        while self.due().is_some_and(|end| end <= now) {
            let mut line = self.lines.pop_front()?;
            if let Some(sum) = line.sum() {
                line.repeated = 0;
                line.end = now + PERIOD;
                self.lines.push_back(line);
                return Some(sum);
            }
        }
        None
    }

    /// Returns the end of the period that ends first.
    pub(super) fn due(&self) -> Option<Instant> {
        self.lines.front().map(|line| line.end)
    }

    /// Returns the counts of all lines, at the end of the log.
    pub(super) fn end(&mut self) -> impl Iterator<Item = Vec<u8>> {
        self.lines.drain(..).filter_map(|line| line.sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(repeats: &mut Repeats, line: &str, now: Instant) -> Vec<String> {
        let written = repeats.take(line.into(), now).into_iter().flatten();
        written
            .map(|line| String::from_utf8(line).unwrap())
            .collect()
    }

    fn sums(repeats: &mut Repeats, now: Instant) -> Vec<String> {
        let sums = std::iter::from_fn(|| repeats.sum(now));
        sums.map(|line| String::from_utf8(line).unwrap()).collect()
    }

    #[test]
    fn a_line_that_repeats_is_written_three_times_and_then_summed_up_once_in_a_period() {
        let (mut repeats, begun) = (Repeats::default(), Instant::now());
        for second in 0..100 {
            let now = begun + Duration::from_secs(second);
            let line = format!("{second}Z  WARN away\n");
            let expected = if second < 3 {
                vec![line.clone()]
            } else {
                vec![]
            };
            let sum = |times| {
                format!(
                    "{}Z  WARN away (repeated {times} times in 30 s)\n",
                    second - 1
                )
            };
            let summed = match second {
                // Three of the first 30 lines were written. In later periods, all are only counted.
                30 => vec![sum(27)],
                60 | 90 => vec![sum(30)],
                _ => vec![],
            };
            assert_eq!(sums(&mut repeats, now), summed, "{second}");
            assert_eq!(written(&mut repeats, &line, now), expected, "{second}");
        }
        let end: Vec<_> = repeats.end().collect();
        assert_eq!(end, [b"99Z  WARN away (repeated 10 times in 30 s)\n"]);
    }

    #[test]
    fn a_line_that_has_not_come_for_a_period_is_written_again() {
        let (mut repeats, mut now) = (Repeats::default(), Instant::now());
        for _ in 0..5 {
            written(&mut repeats, "1Z a\n", now);
        }
        for expected in [1, 0] {
            now = repeats.due().unwrap();
            assert_eq!(sums(&mut repeats, now).len(), expected);
        }
        assert_eq!(repeats.due(), None);
        assert_eq!(written(&mut repeats, "2Z a\n", now), ["2Z a\n"]);
    }

    #[test]
    fn remembered_lines_are_bounded_and_no_count_is_lost() {
        let (mut repeats, now) = (Repeats::default(), Instant::now());
        let mut all = Vec::new();
        for number in 0..1000 {
            for _ in 0..5 {
                all.extend(written(&mut repeats, &format!("0Z {number}\n"), now));
            }
            assert!(repeats.lines.len() <= REMEMBERED);
        }
        let end = repeats.end().count();
        assert_eq!(all.len() + end, 1000 * 4, "three times and a sum");
    }
}
