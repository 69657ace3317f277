//! The channels and dies of a flash drive, with the times at which each becomes idle.

use super::SsdConfig;
use weir_core::random::{SplitMix, Xorshift};
use weir_core::{Instant, Span};

const SECOND: u128 = 1_000_000_000;

/// The result of a read of the flash.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageReadTimes {
    /// The times at which the first and the last page have left the flash.
    pub(super) first: Instant,
    pub(super) last: Instant,
    /// The number of pages that were read again.
    pub(super) retries: u32,
}

/// The busy-until times of channels and dies.
///
/// A page occupies its die, then its channel. Consecutive pages are on different channels first,
/// then on different dies.
#[derive(Debug)]
pub(super) struct Flash {
    dies: Vec<Die>,
    channels: Vec<Instant>,
    page: u64,
    rate: u64,
    read: Span,
    /// The read time of an upper page, and the pages that are read again. `None` if the read times
    /// of all pages are equal.
    varying: Option<VaryingReads>,
    program: Span,
    suspend: Span,
    /// The die that is written next.
    next: usize,
}

/// A die, which reads or programs one page at a time. A read suspends a program operation.
#[derive(Clone, Copy, Debug)]
struct Die {
    reading: Instant,
    writing: Instant,
}

impl Flash {
    pub(super) fn new(config: &SsdConfig, seed: u64) -> Self {
        let channels = usize::from(config.channels);
        let die = Die {
            reading: Instant::ZERO,
            writing: Instant::ZERO,
        };
        Self {
            dies: std::vec![die; channels * usize::from(config.dies)],
            channels: std::vec![Instant::ZERO; channels],
            page: config.page.into(),
            rate: config.channel,
            read: config.read,
            varying: VaryingReads::new(config, seed),
            program: config.program,
            suspend: config.suspend,
            next: 0,
        }
    }

    /// Reads a range from `t` on.
    pub(super) fn read(&mut self, t: Instant, start: u64, end: u64) -> PageReadTimes {
        let (mut first, mut last) = (Instant::MAX, t);
        let (mut from, mut retries) = (start, 0);
        while from < end {
            let page = from / self.page;
            let to = end.min((page + 1) * self.page);
            let (at, again) = self.read_page(t, page, to - from);
            retries += u32::from(again);
            (first, last) = (first.min(at), last.max(at));
            from = to;
        }
        PageReadTimes {
            first: first.min(last),
            last,
            retries,
        }
    }

    /// The time until the first page of a read of `bytes` has left idle flash.
    pub(super) fn idle_read_time(&self, bytes: u64) -> Span {
        self.read + self.channel_time(bytes.min(self.page))
    }

    /// Returns the time at which a page has left the flash, and true if it was read again.
    fn read_page(&mut self, t: Instant, page: u64, bytes: u64) -> (Instant, bool) {
        // Consecutive pages alternate between channels before they reach a second die of the same
        // channel.
        let at = (page % self.dies.len() as u64) as usize;
        let channel = at % self.channels.len();
        let time = self.channel_time(bytes);
        let (mut read, mut again) = (self.read, false);
        if let Some(varying) = &mut self.varying {
            (read, again) = varying.read_time(self.read, t, page / self.dies.len() as u64);
        }
        let die = &mut self.dies[at];
        let mut begins = t.max(die.reading);
        if die.writing > begins {
            // The program operation on the die is suspended, and resumed after the read.
            begins = die.writing.min(begins + self.suspend);
            die.writing += read;
        }
        die.reading = begins + read;
        let out = &mut self.channels[channel];
        *out = die.reading.max(*out) + time;
        (*out, again)
    }

    /// Programs a page on the next die in turn, for `times` / 1024 of the time of a page. Returns
    /// the time at which the page is durable.
    ///
    /// The factor includes the cost of cleaning, which is spread over the pages that cause it.
    pub(super) fn write(&mut self, t: Instant, times: u64) -> Instant {
        // Writes go to the dies in turn, whatever their addresses, because the drive writes a log.
        let at = self.next;
        self.next = (at + 1) % self.dies.len();
        let channel = at % self.channels.len();
        let time = self.channel_time(self.page);
        let in_ = &mut self.channels[channel];
        *in_ = t.max(*in_) + time;
        let cost = Span::from_nanos(self.program.as_nanos() * times / 1024);
        let die = &mut self.dies[at];
        // The channel transfers the page before the die programs it.
        die.writing = die.writing.max(die.reading).max(*in_) + cost;
        die.writing
    }

    /// Erases a block on every die, because a block of the model spans all dies.
    pub(super) fn erase(&mut self, t: Instant, time: Span) {
        for die in &mut self.dies {
            die.writing = die.writing.max(t) + time;
        }
    }

    fn channel_time(&self, bytes: u64) -> Span {
        Span::from_nanos((u128::from(bytes) * SECOND / u128::from(self.rate)) as u64)
    }
}

/// The time for which the probability of a retry is constant.
const RETRY_PERIOD: Span = Span::from_secs(5);

/// Read times that differ from page to page and over time.
#[derive(Debug)]
struct VaryingReads {
    /// The read time of an upper page, if it differs from that of a lower one.
    upper: Option<Span>,
    /// The maximum probability of a retry in thousandths.
    most: u64,
    /// The probability of a retry in thousandths at present, and the period to which it belongs.
    present: u64,
    period: Option<u64>,
    seed: u64,
    random: Xorshift,
}

impl VaryingReads {
    fn new(config: &SsdConfig, seed: u64) -> Option<Self> {
        let upper = Some(config.read_upper).filter(|time| *time > Span::ZERO);
        (upper.is_some() || config.retries > 0).then(|| Self {
            upper,
            most: config.retries.into(),
            present: 0,
            period: None,
            seed,
            // The generator must not start with zero.
            random: Xorshift::new(SplitMix::new(seed).next_u64() | 1),
        })
    }

    /// Returns the read time of a page at `t`, and true if the page is read again. `read` is the
    /// time of a lower page, and `row` the position of the page on its die.
    fn read_time(&mut self, read: Span, t: Instant, row: u64) -> (Span, bool) {
        // The pages of a word line alternate, as far as the model knows them.
        let time = self.upper.filter(|_| row % 2 == 1).unwrap_or(read);
        if self.most == 0 {
            return (time, false);
        }
        let period = t.as_nanos() / RETRY_PERIOD.as_nanos();
        if self.period != Some(period) {
            // A function of the period needs no state for periods without reads.
            let drawn = SplitMix::new(self.seed ^ period).next_u64();
            (self.period, self.present) = (Some(period), drawn % (self.most + 1));
        }
        let again = self.random.next_u64() % 1000 < self.present;
        (if again { time + time } else { time }, again)
    }
}
