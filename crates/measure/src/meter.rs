//! Everything that is measured about one client over one run.

use crate::{Busy, Course, Histogram, Judged, SECOND_NS, Series, Split, Waits, Within, judge};

/// The measurements of one client between two instants.
///
/// Requests answered before the start (a warm-up) or from the end on are not measured, so that every figure is about
/// the same interval. Memory is taken once, at construction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meter {
    start_ns: u64,
    end_ns: u64,
    bytes: u64,
    failed: u64,
    latency: Histogram,
    split: Split,
    seconds: Series,
    plot: Series,
    busy: Busy,
    course: Option<Box<Course>>,
}

impl Meter {
    /// A gap of at most 1 ms between a reply and the next request does not end a client's waiting: see [`Busy`].
    pub const GAP_NS: u64 = 1_000_000;

    /// The step of the series for plots: 100 ms.
    pub const PLOT_STEP_NS: u64 = SECOND_NS / 10;

    /// Measures from `start_ns` for `length_ns` nanoseconds.
    pub fn new(start_ns: u64, length_ns: u64) -> Self {
        let seconds = Series::covering(start_ns, SECOND_NS, length_ns);
        Self {
            start_ns,
            end_ns: start_ns.saturating_add(length_ns),
            bytes: 0,
            failed: 0,
            latency: Histogram::new(),
            split: Split::new(),
            busy: Busy::new(&seconds, Self::GAP_NS),
            seconds,
            plot: Series::covering(start_ns, Self::PLOT_STEP_NS, length_ns),
            course: None,
        }
    }

    /// From now on keeps the course of latencies, in windows of `step_ns` from the start on.
    pub fn follow(&mut self, step_ns: u64) {
        let length = self.end_ns - self.start_ns;
        let course = Course::covering(self.start_ns, step_ns, length);
        self.course = Some(Box::new(course));
    }

    /// The client sent a request at `now_ns`.
    #[inline]
    pub fn sent(&mut self, now_ns: u64) {
        self.busy.enter(now_ns);
    }

    /// A request sent at `sent_ns` was answered at `now_ns` and had moved `bytes`.
    #[inline]
    pub fn done(&mut self, sent_ns: u64, now_ns: u64, bytes: u64) {
        self.busy.leave(now_ns);
        if self.measures(now_ns) {
            self.bytes += bytes;
            self.latency.record(now_ns.saturating_sub(sent_ns));
            self.seconds.add(now_ns, bytes);
            self.plot.add(now_ns, bytes);
            if let Some(course) = &mut self.course {
                course.add(now_ns, now_ns.saturating_sub(sent_ns));
            }
        }
    }

    /// Where the time of a request went that was answered at `now_ns`; only for those who know.
    #[inline]
    pub fn waited(&mut self, now_ns: u64, waits: Waits) {
        if self.measures(now_ns) {
            self.split.record(waits);
        }
    }

    /// What lay within the waits of a request that was answered at `now_ns`; only for those who know.
    #[inline]
    pub fn waited_within(&mut self, now_ns: u64, within: Within) {
        if self.measures(now_ns) {
            self.split.record_within(within);
        }
    }

    /// A request was answered with an error at `now_ns`. It is counted, and in no other figure.
    pub fn failed(&mut self, now_ns: u64) {
        self.busy.leave(now_ns);
        self.failed += u64::from(self.measures(now_ns));
    }

    /// Ends the measurement at `now_ns` if that is before its planned end.
    pub fn cut(&mut self, now_ns: u64) {
        self.end_ns = now_ns.clamp(self.start_ns, self.end_ns);
    }

    /// Adds another client's figures over the same interval, for a total. When the two were waiting is not merged: a
    /// promise is one client's. Nor is the course of latencies.
    ///
    /// # Panics
    /// If the two were made for different intervals.
    pub fn merge(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.failed += other.failed;
        self.latency.merge(&other.latency);
        self.split.merge(&other.split);
        self.seconds.merge(&other.seconds);
        self.plot.merge(&other.plot);
        self.end_ns = self.end_ns.min(other.end_ns);
    }

    /// How a promise of `min` bytes a second fared in the seconds in which this client was waiting throughout.
    pub fn judge(&self, min: u64) -> Judged {
        judge(&self.seconds, &self.busy, self.end_ns, min)
    }

    /// When the measurement ends, in nanoseconds.
    pub fn end_ns(&self) -> u64 {
        self.end_ns
    }

    /// How long it lasts, in nanoseconds.
    pub fn length_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }

    /// Requests answered without error.
    pub fn requests(&self) -> u64 {
        self.latency.count()
    }

    /// Bytes moved by these.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Requests answered with an error.
    pub fn failures(&self) -> u64 {
        self.failed
    }

    /// From sending to the answer, of the requests answered without error.
    pub fn latency(&self) -> &Histogram {
        &self.latency
    }

    /// Where their time went, as far as [`Meter::waited`] was told.
    pub fn split(&self) -> &Split {
        &self.split
    }

    /// Bytes and requests in each second.
    pub fn seconds(&self) -> &Series {
        &self.seconds
    }

    /// Bytes and requests in each tenth of a second.
    pub fn plot(&self) -> &Series {
        &self.plot
    }

    /// Latencies over time, if they were asked for.
    pub fn course(&self) -> Option<&Course> {
        self.course.as_deref()
    }

    #[inline]
    fn measures(&self, now_ns: u64) -> bool {
        (self.start_ns..self.end_ns).contains(&now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A closed loop of `size` bytes every `period`, from before the start to beyond the end.
    fn looped(meter: &mut Meter, period: u64, size: u64, until: u64) {
        let mut now = 0;
        while now < until {
            meter.sent(now);
            meter.done(now, now + period, size);
            now += period;
        }
    }

    #[test]
    fn warm_up_and_after_run_are_not_measured() {
        let mut m = Meter::new(SECOND_NS, 2 * SECOND_NS);
        looped(&mut m, 10 * MS, 1000, 5 * SECOND_NS);
        assert_eq!((m.requests(), m.bytes()), (200, 200_000));
        assert_eq!(m.judge(100_000).fraction(), Some(1.0));
        assert_eq!(m.judge(102_000).fraction(), Some(0.0));
        assert_eq!(m.plot().complete(m.end_ns()).len(), 20);
    }

    #[test]
    fn a_cut_run_is_shorter() {
        let mut m = Meter::new(0, 10 * SECOND_NS);
        looped(&mut m, 10 * MS, 1000, 3 * SECOND_NS);
        m.cut(2_500 * MS);
        assert_eq!(m.length_ns(), 2_500 * MS);
        assert_eq!(m.judge(1).windows, 2);
        m.cut(20 * SECOND_NS);
        assert_eq!(m.length_ns(), 2_500 * MS, "never longer");
    }

    #[test]
    fn failures_are_counted_apart() {
        let mut m = Meter::new(0, SECOND_NS);
        m.sent(0);
        m.failed(5);
        m.failed(2 * SECOND_NS);
        assert_eq!((m.failures(), m.requests(), m.bytes()), (1, 0, 0));
    }

    #[test]
    fn a_total_is_the_sum() {
        let (mut a, mut b) = (Meter::new(0, SECOND_NS), Meter::new(0, SECOND_NS));
        looped(&mut a, 10 * MS, 1000, SECOND_NS);
        looped(&mut b, 20 * MS, 4000, SECOND_NS);
        b.waited(
            5,
            Waits {
                drive_ns: 7,
                ..Waits::default()
            },
        );
        a.merge(&b);
        // The last request of each is answered at the end and so not measured.
        assert_eq!((a.requests(), a.bytes()), (99 + 49, 99_000 + 196_000));
        assert_eq!(a.seconds().complete(SECOND_NS)[0].bytes, a.bytes());
        assert_eq!(a.split().drive.count(), 1);
    }
}
