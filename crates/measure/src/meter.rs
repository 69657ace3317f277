//! All measurements of one client in one run.

use crate::apart::{Apart, Kind};
use crate::late::Late;
use crate::occupancy::Occupancy;
use crate::promise::{Beside, Judge, Judged, Second, Terms, Watch};
use crate::{Breakdown, Course, Histogram, SECOND_NS, Series, Split, Window, mb_per_s};
use weir_core::{Op, Span, Waits};

/// The measurements of one client between two instants.
///
/// Requests answered before the start (during warm-up) or after the end are not measured. Rates are about the client's own time within that
/// interval: see [`Meter::lasted`]. Memory is allocated once, at construction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meter {
    start_ns: u64,
    end_ns: u64,
    /// When the client could send its first request, from the start on.
    begin_ns: u64,
    /// When it could send its last request, or had the reply to that, at the latest the end. Rates are about the time from `begin_ns` to here.
    until_ns: u64,
    bytes: u64,
    failed: u64,
    latency: Histogram,
    split: Split,
    seconds: Series,
    plot: Series,
    watch: Watch,
    /// The seconds that have ended.
    watched: Vec<Second>,
    /// Their maximum number.
    whole: usize,
    places: Occupancy,
    course: Option<Box<Course>>,
    late: Option<Box<Late>>,
    apart: Option<Box<[Option<Apart>; Kind::ALL.len()]>>,
    unanswered_ns: u64,
}

impl Meter {
    /// The step of the series for plots: 100 ms.
    pub const PLOT_STEP_NS: u64 = SECOND_NS / 10;

    /// A measurement that starts at `start_ns` and lasts `length_ns` nanoseconds.
    pub fn new(start_ns: u64, length_ns: u64) -> Self {
        let seconds = Series::covering(start_ns, SECOND_NS, length_ns);
        Self {
            start_ns,
            end_ns: start_ns.saturating_add(length_ns),
            begin_ns: start_ns,
            until_ns: start_ns.saturating_add(length_ns),
            bytes: 0,
            failed: 0,
            latency: Histogram::new(),
            split: Split::new(),
            watch: Watch::new(start_ns),
            watched: Vec::with_capacity((length_ns / SECOND_NS) as usize),
            whole: (length_ns / SECOND_NS) as usize,
            places: Occupancy::new(start_ns),
            seconds,
            plot: Series::covering(start_ns, Self::PLOT_STEP_NS, length_ns),
            course: None,
            late: None,
            apart: None,
            unanswered_ns: 0,
        }
    }

    /// Counts from now on the reads and writes that are answered later than `deadline_ns` after they were due, or fail.
    pub fn deadline(&mut self, deadline_ns: u64) {
        self.late = Some(Box::new(Late::new(deadline_ns)));
    }

    /// `requests` more requests were due and could not even be sent in time, if they are counted.
    pub fn missed(&mut self, requests: u64) {
        if let Some(late) = &mut self.late {
            late.missed(requests);
        }
    }

    /// Reads and writes that were due in the measurement and not answered by their deadline, as far as that passed before its end.
    /// `None`: they are not counted.
    pub fn late(&self) -> Option<u64> {
        let late = self.late.as_deref();
        late.map(|late| late.count(self.start_ns, self.end_ns))
    }

    /// Records latencies over time from now on, in windows of `step_ns` counted from the start.
    pub fn follow(&mut self, step_ns: u64) {
        let length = self.end_ns - self.start_ns;
        let course = Course::covering(self.start_ns, step_ns, length);
        self.course = Some(Box::new(course));
    }

    /// The client sent an operation at `now_ns` that is to move `bytes`.
    #[inline]
    pub fn issued(&mut self, op: Op, now_ns: u64, bytes: u64) {
        if op == Op::Flush {
            self.flushing(now_ns);
        } else {
            self.sent(now_ns);
            self.watch.asks(bytes);
        }
    }

    /// An operation that was [issued](Self::issued) at `sent_ns` ended at `now_ns`, with an error if `failed`.
    #[inline]
    pub fn ended(&mut self, op: Op, sent_ns: u64, now_ns: u64, bytes: u64, failed: bool) {
        match (op, failed) {
            (Op::Flush, true) => self.flush_failed(now_ns),
            (Op::Flush, false) => self.flushed(sent_ns, now_ns),
            (_, true) => self.failed(now_ns, bytes),
            (_, false) => self.done(sent_ns, now_ns, bytes),
        }
        if !failed
            && self.apart.is_some()
            && self.measures(now_ns)
            && let Some(kind) = Kind::of(op)
        {
            self.count(kind, now_ns.saturating_sub(sent_ns), bytes);
        }
    }

    /// The client sent a request other than a flush at `now_ns`.
    #[inline]
    pub fn sent(&mut self, now_ns: u64) {
        self.pass(now_ns);
        self.watch.sent(false);
        self.places.take(now_ns.min(self.end_ns));
        if let Some(late) = &mut self.late {
            late.sent(now_ns);
        }
    }

    /// The client sent a flush at `now_ns`. Promises do not cover flushes.
    #[inline]
    fn flushing(&mut self, now_ns: u64) {
        self.pass(now_ns);
        self.places.take(now_ns.min(self.end_ns));
    }

    /// A request sent at `sent_ns` completed at `now_ns` and transferred `bytes`.
    #[inline]
    pub fn done(&mut self, sent_ns: u64, now_ns: u64, bytes: u64) {
        self.pass(now_ns);
        self.watch.over(false);
        if self.measures(now_ns) {
            self.watch.served(bytes);
            self.watch.answered(Waits::default());
            self.seconds.add(now_ns, bytes);
        }
        if let Some(late) = &mut self.late {
            late.answered(sent_ns, now_ns);
        }
        self.answered(sent_ns, now_ns, bytes);
    }

    /// A flush sent at `sent_ns` completed at `now_ns`.
    fn flushed(&mut self, sent_ns: u64, now_ns: u64) {
        self.pass(now_ns);
        self.answered(sent_ns, now_ns, 0);
    }

    #[inline]
    fn answered(&mut self, sent_ns: u64, now_ns: u64, bytes: u64) {
        self.places.give(now_ns.min(self.end_ns));
        if now_ns >= self.end_ns {
            self.unanswered(sent_ns);
        } else if self.measures(now_ns) {
            self.bytes += bytes;
            self.latency.record(now_ns.saturating_sub(sent_ns));
            self.plot.add(now_ns, bytes);
            if let Some(course) = &mut self.course {
                course.add(now_ns, now_ns.saturating_sub(sent_ns));
            }
        }
    }

    /// Where a request that completed at `now_ns` spent its time, if the caller knows.
    #[inline]
    pub fn waited(&mut self, now_ns: u64, of: &Breakdown) {
        if self.measures(now_ns) {
            self.split.record(of);
            self.pass(now_ns);
            self.spread(now_ns, of.waits);
        }
    }

    /// `count` requests of `bytes`, each sent when the one before completed, the first at `from_ns`, and completed `each_ns` (at least 1)
    /// later without having waited for anything. The same as [`Self::sent`], [`Self::done`] and [`Self::waited`] for each, and faster.
    pub fn streak(&mut self, mut from_ns: u64, each_ns: u64, bytes: u64, mut count: u64) {
        while count > 0 {
            // Those that complete in the same window of everything that is kept by windows.
            let first = from_ns + each_ns;
            let n = count.min((self.window_end(first) - 1 - first) / each_ns + 1);
            let last = from_ns + n * each_ns;
            self.sent(from_ns);
            self.pass(last);
            self.watch.over(false);
            self.places.give(last.min(self.end_ns));
            if let Some(late) = &mut self.late {
                late.answered(from_ns, first);
                for done in (1..n).map(|k| first + k * each_ns) {
                    late.sent(done - each_ns);
                    late.answered(done - each_ns, done);
                }
            }
            if self.measures(first) {
                self.watch.completed(bytes, n);
                self.bytes += bytes * n;
                self.latency.record_n(each_ns, n);
                self.seconds.add_n(first, bytes, n);
                self.plot.add_n(first, bytes, n);
                if let Some(course) = &mut self.course {
                    course.add_n(first, each_ns, n);
                }
                self.split.record_none(n);
            } else if first >= self.end_ns {
                self.unanswered(from_ns);
            }
            (from_ns, count) = (last, count - n);
        }
    }

    /// When the window ends in which `now_ns` is: the shortest of all that are kept.
    fn window_end(&self, now_ns: u64) -> u64 {
        if now_ns < self.start_ns {
            return self.start_ns;
        }
        if now_ns >= self.end_ns {
            return u64::MAX;
        }
        let ends = self
            .seconds
            .window_end(now_ns)
            .min(self.plot.window_end(now_ns));
        let ends = ends.min(self.end_ns);
        (self.course.as_deref()).map_or(ends, |course| ends.min(course.window_end(now_ns)))
    }

    /// A request of `bytes` failed at `now_ns`. It is counted; apart from that it only affects the shortfall of a promise.
    pub fn failed(&mut self, now_ns: u64, bytes: u64) {
        self.pass(now_ns);
        self.watch.over(false);
        self.watch.failed(bytes);
        if let Some(late) = &mut self.late {
            late.failed();
        }
        self.flush_failed(now_ns);
    }

    /// A flush failed at `now_ns`.
    fn flush_failed(&mut self, now_ns: u64) {
        self.places.give(now_ns.min(self.end_ns));
        self.failed += u64::from(self.measures(now_ns));
    }

    /// Ends the measurement at `now_ns` if that is before its planned end.
    pub fn cut(&mut self, now_ns: u64) {
        self.pass(now_ns);
        self.places.pass(now_ns.min(self.end_ns));
        self.end_ns = now_ns.clamp(self.start_ns, self.end_ns);
        self.until_ns = self.until_ns.min(self.end_ns);
        self.begin_ns = self.begin_ns.min(self.until_ns);
    }

    /// Says what the client's own time is: from its first possible request at `begin_ns` to its last one, or the reply to that, which is before
    /// `until_ns`. `None`: it goes on to the end. Rates are about the part of this time that is measured, whatever other clients do before and
    /// after it. If this is not called, the client's own time is the whole measurement.
    pub fn lasted(&mut self, begin_ns: u64, until_ns: Option<u64>) {
        self.until_ns = until_ns.map_or(self.end_ns, |ns| ns.clamp(self.start_ns, self.end_ns));
        self.begin_ns = begin_ns.clamp(self.start_ns, self.until_ns);
    }

    /// Adds another client's figures, for a total over the time of both. Promises are per client, so the times at which clients
    /// waited are not merged; neither are latencies over time.
    ///
    /// # Panics
    /// If the two measure different intervals.
    pub fn merge(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.failed += other.failed;
        self.latency.merge(&other.latency);
        self.split.merge(&other.split);
        self.seconds.merge(&other.seconds);
        self.plot.merge(&other.plot);
        self.unanswered_ns = self.unanswered_ns.max(other.unanswered_ns);
        self.end_ns = self.end_ns.min(other.end_ns);
        self.begin_ns = self.begin_ns.min(other.begin_ns);
        self.until_ns = self.until_ns.max(other.until_ns);
    }

    /// The total of these clients, whose measurements were planned to start at `start_ns` and to last `length_ns`. Its time begins with that of
    /// the first client, and ends with that of the last.
    pub fn total<'a>(
        start_ns: u64,
        length_ns: u64,
        clients: impl IntoIterator<Item = &'a Self>,
    ) -> Self {
        let mut total = Self::new(start_ns, length_ns);
        (total.begin_ns, total.until_ns) = (total.end_ns, start_ns);
        for client in clients {
            total.merge(client);
        }
        total.begin_ns = total.begin_ns.min(total.until_ns);
        total
    }

    /// Judges a promise over the whole seconds of the measurement.
    pub fn judge(&self, terms: &Terms, beside: &Beside<'_>) -> Judged {
        let mut until = self.clone();
        until.pass(self.end_ns);
        let whole = ((self.end_ns - self.start_ns) / SECOND_NS) as usize;
        let all = beside.all.complete(self.end_ns);
        let (mut judge, mut judged) = (Judge::default(), Judged::default());
        for (k, second) in until.watched.iter().take(whole).enumerate() {
            let all = all.get(k).copied().unwrap_or_default();
            let second = Second {
                others: Window {
                    bytes: all.bytes.saturating_sub(second.done.bytes),
                    requests: all.requests.saturating_sub(second.done.requests),
                },
                host_ns: beside.host_ns.get(k).copied().unwrap_or(0),
                told: beside.told.get(k).copied().flatten(),
                standing: beside.standings.get(&self.second_of_clock(k)).copied(),
                ..*second
            };
            let owed = terms.rate.during(second.waited_ns);
            let verdict = judge.second(&second, terms, owed);
            judged.waited_ns += second.waited_ns;
            judged.add(verdict, owed, k as u64);
        }
        judged.seconds = *judge.seconds();
        judged
    }

    /// The second of the caller's clock that has most of a second of the measurement, which may begin within a second.
    fn second_of_clock(&self, second: usize) -> u64 {
        (self.start_ns + SECOND_NS / 2) / SECOND_NS + second as u64
    }

    /// Bandwidth in the worst second, in MB/s: the least of any whole second of the client's own time. The first second begins with that
    /// time and includes the rest of the tenth of a second in which that time began. The last includes the part of a second that is left
    /// after it. So the result is never more than the mean. `None` if that time is shorter than a second.
    pub fn worst_second_mb_per_s(&self) -> Option<f64> {
        let length = self.length_ns();
        if length < SECOND_NS {
            return None;
        }
        let plot = self.plot.complete(self.until_ns);
        let step = Self::PLOT_STEP_NS;
        let first = (self.begin_ns - self.start_ns).div_ceil(step);
        let aligned = self.start_ns + first * step;
        // All but the last, which is measured by the total.
        let whole = (self.until_ns.saturating_sub(aligned) / SECOND_NS).saturating_sub(1);
        let (mut worst, mut from, mut before) = (f64::INFINITY, self.begin_ns, 0);
        for second in 1..=whole {
            let until = aligned + second * SECOND_NS;
            let windows = &plot[..((until - self.start_ns) / step) as usize];
            let bytes = windows.iter().map(|w| w.bytes).sum::<u64>();
            worst = worst.min(mb_per_s(bytes - before, until - from));
            (from, before) = (until, bytes);
        }
        debug_assert!(before <= self.bytes, "the seconds are a part of the whole");
        Some(worst.min(mb_per_s(self.bytes - before, self.until_ns - from)))
    }

    /// Measures reads, writes and flushes apart from now on, too, if the client has several of these kinds: those of which `has` says
    /// that it has them, in the order of [`Kind::ALL`].
    pub fn tell_apart(&mut self, has: [bool; Kind::ALL.len()]) {
        if has.iter().filter(|has| **has).count() > 1 {
            let apart = has.map(|has| has.then(Apart::default));
            self.apart = Some(Box::new(apart));
        }
    }

    #[inline(never)]
    fn count(&mut self, kind: Kind, latency_ns: u64, bytes: u64) {
        let apart = self.apart.as_mut().and_then(|a| a[kind as usize].as_mut());
        if let Some(apart) = apart {
            apart.add(latency_ns, bytes);
        }
    }

    /// The operations of a kind, if they are [told apart](Self::tell_apart).
    pub fn of(&self, kind: Kind) -> Option<&Apart> {
        self.apart.as_ref()?[kind as usize].as_ref()
    }

    /// A request that was due at `due_ns` is not answered when the measurement ends, which is not cut any more.
    pub fn unanswered(&mut self, due_ns: u64) {
        let waited = self.end_ns.saturating_sub(due_ns);
        self.unanswered_ns = self.unanswered_ns.max(waited);
    }

    /// For how long the oldest request has waited that is not answered at the end of the measurement, in nanoseconds; 0 if all are.
    pub fn unanswered_ns(&self) -> u64 {
        self.unanswered_ns
    }

    /// Mean think time per request in microseconds: the time in which the client's `depth` slots for requests were empty.
    pub fn think_us(&self, depth: u32) -> f64 {
        let places = u128::from(depth) * u128::from(self.length_ns());
        let empty = places.saturating_sub(self.places.area(self.until_ns));
        empty as f64 / 1e3 / self.requests().max(1) as f64
    }

    /// When the measurement ends, in nanoseconds.
    pub fn end_ns(&self) -> u64 {
        self.end_ns
    }

    /// When the client's own time begins, in nanoseconds from the start of the measurement on.
    pub fn begins_ns(&self) -> u64 {
        self.begin_ns - self.start_ns
    }

    /// How long the client's own time lasts, in nanoseconds: see [`Self::lasted`].
    pub fn length_ns(&self) -> u64 {
        self.until_ns - self.begin_ns
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

    /// Latency from sending to reply, of the requests answered without error.
    pub fn latency(&self) -> &Histogram {
        &self.latency
    }

    /// Where they spent their time, as far as [`Meter::waited`] was told.
    pub fn split(&self) -> &Split {
        &self.split
    }

    /// Bytes and requests in each second; flushes, which promises do not cover, are none of these.
    pub fn seconds(&self) -> &Series {
        &self.seconds
    }

    /// Bytes and requests in each tenth of a second.
    pub fn plot(&self) -> &Series {
        &self.plot
    }

    /// Latencies over time, if they are recorded.
    pub fn course(&self) -> Option<&Course> {
        self.course.as_deref()
    }

    /// Advances the time to `now_ns`.
    #[inline]
    fn pass(&mut self, now_ns: u64) {
        while now_ns >= self.watch.ends() && self.watched.len() < self.whole {
            let second = self.watch.end();
            self.watched.push(second);
        }
        self.watch.advance(now_ns);
    }

    /// Spreads waits that end now over the current second and those before.
    fn spread(&mut self, now_ns: u64, waits: Waits) {
        let begin = self.watch.ends() - SECOND_NS;
        self.watch.waited(waits);
        let mut rest = waits - waits.last(Span::from_nanos(now_ns.saturating_sub(begin)));
        for second in self.watched.iter_mut().rev() {
            if rest.total() == Span::ZERO {
                break;
            }
            let part = rest.last(Span::from_nanos(SECOND_NS));
            second.parts += part;
            rest = rest - part;
        }
    }

    #[inline]
    fn measures(&self, now_ns: u64) -> bool {
        (self.start_ns..self.end_ns).contains(&now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::promise::{Cause, Rate};

    const MS: u64 = 1_000_000;

    /// A closed loop of `size` bytes every `period`, from before the start until after the end.
    fn looped(meter: &mut Meter, period: u64, size: u64, until: u64) {
        let mut now = 0;
        while now < until {
            meter.sent(now);
            meter.done(now, now + period, size);
            now += period;
        }
    }

    /// Judges a promise of `rate` bytes per second with no other client on the drive.
    fn judged(meter: &Meter, min: u64) -> Judged {
        let terms = Terms {
            rate: Rate::new(min, 0).unwrap(),
            alone: None,
        };
        meter.judge(&terms, &Beside::new(meter.seconds()))
    }

    #[test]
    fn warm_up_and_after_run_are_not_measured() {
        let mut m = Meter::new(SECOND_NS, 2 * SECOND_NS);
        looped(&mut m, 10 * MS, 1000, 5 * SECOND_NS);
        assert_eq!((m.requests(), m.bytes()), (200, 200_000));
        assert_eq!(judged(&m, 100_000).fraction(), Some(1.0));
        assert_eq!(judged(&m, 104_000).fraction(), Some(0.0));
        assert_eq!(m.plot().complete(m.end_ns()).len(), 20);
    }

    #[test]
    fn a_cut_run_is_shorter() {
        let mut m = Meter::new(0, 10 * SECOND_NS);
        looped(&mut m, 10 * MS, 1000, 3 * SECOND_NS);
        m.cut(2_500 * MS);
        assert_eq!(m.length_ns(), 2_500 * MS);
        assert_eq!(judged(&m, 1).seconds.promised, 2);
        m.cut(20 * SECOND_NS);
        assert_eq!(m.length_ns(), 2_500 * MS, "never longer");
    }

    #[test]
    fn a_streak_is_its_requests_one_by_one() {
        let mut rng = 1u64;
        let mut draw = |below: u64| {
            rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (rng >> 33) % below
        };
        for _ in 0..200 {
            let mut one = Meter::new(draw(2 * SECOND_NS), 2 * SECOND_NS + draw(SECOND_NS));
            if draw(2) == 0 {
                one.follow(1 + draw(SECOND_NS));
            }
            if draw(2) == 0 {
                one.deadline(draw(30 * MS));
            }
            let mut streaks = one.clone();
            let mut now = 0;
            while now < 5 * SECOND_NS {
                now += draw(200 * MS);
                let (each, bytes, count) = (1 + draw(40 * MS), draw(9_000), draw(60));
                streaks.streak(now, each, bytes, count);
                for _ in 0..count {
                    one.sent(now);
                    now += each;
                    one.done(now - each, now, bytes);
                    one.waited(now, &Breakdown::default());
                }
                assert!(one == streaks);
            }
        }
    }

    #[test]
    fn failures_are_counted_apart() {
        let mut m = Meter::new(0, SECOND_NS);
        m.sent(0);
        m.failed(5, 10);
        m.failed(2 * SECOND_NS, 10);
        assert_eq!((m.failures(), m.requests(), m.bytes()), (1, 0, 0));
    }

    #[test]
    fn its_own_flushes_are_not_what_others_were_served() {
        let mut m = Meter::new(0, SECOND_NS);
        for n in 0..10 {
            let (sent, written) = (n * 100 * MS, n * 100 * MS + 50 * MS);
            m.sent(sent);
            m.done(sent, written, 1000);
            m.issued(Op::Flush, written, 0);
            m.ended(Op::Flush, written, written + 40 * MS, 0, false);
        }
        let terms = Terms {
            rate: Rate::new(0, 36).unwrap(),
            alone: None,
        };
        let short = m.judge(&terms, &Beside::new(m.seconds())).short;
        assert_eq!((short[0].by, short[0].why.cause), (8, Cause::SlowDrive));
    }

    #[test]
    fn a_total_is_the_sum() {
        let (mut a, mut b) = (Meter::new(0, SECOND_NS), Meter::new(0, SECOND_NS));
        looped(&mut a, 10 * MS, 1000, SECOND_NS);
        looped(&mut b, 20 * MS, 4000, SECOND_NS);
        b.waited(5, &Breakdown::default());
        a.merge(&b);
        // The last request of each completes at the end and so is not measured.
        assert_eq!((a.requests(), a.bytes()), (99 + 49, 99_000 + 196_000));
        assert_eq!(a.seconds().complete(SECOND_NS)[0].bytes, a.bytes());
        assert_eq!(a.split().drive.count(), 1);
    }

    /// Pages that are there already are read without waiting: a client that gets its min so has it.
    #[test]
    fn a_client_that_got_its_min_kept_it_whatever_it_waited() {
        let mut m = Meter::new(0, 3 * SECOND_NS);
        for second in 0..3 {
            m.sent(second * SECOND_NS + 5);
            m.done(second * SECOND_NS + 5, second * SECOND_NS + 5, 14_000_000);
        }
        let seconds = judged(&m, 1_000_000).seconds;
        assert_eq!((seconds.kept, seconds.all_excused()), (3, 0));
        let seconds = judged(&m, 15_000_000).seconds;
        assert_eq!(
            (seconds.kept, seconds.all_excused()),
            (0, 3),
            "idle for the rest"
        );
    }

    #[test]
    fn the_worst_second_is_never_above_the_mean() {
        let mut m = Meter::new(0, 2_500 * MS);
        for (at, bytes) in [(100, 30), (1_100, 30), (2_100, 10)] {
            m.sent(at * MS);
            m.done(at * MS, at * MS + 1, bytes * 1_000_000);
        }
        let mean = mb_per_s(m.bytes(), m.length_ns());
        let worst = m.worst_second_mb_per_s().unwrap();
        assert!(
            (worst - 40.0 / 1.5).abs() < 1e-9 && worst <= mean,
            "{worst} of {mean}"
        );
        m.cut(900 * MS);
        assert_eq!(m.worst_second_mb_per_s(), None, "there is no whole second");
    }

    #[test]
    fn rates_are_about_the_time_of_the_client() {
        let mut late = Meter::new(0, 10 * SECOND_NS);
        let begins = 7_250 * MS;
        for n in 0..200 {
            late.sent(begins + n * 10 * MS);
            late.done(
                begins + n * 10 * MS,
                begins + n * 10 * MS + 5 * MS,
                1_000_000,
            );
        }
        late.lasted(begins, Some(begins + 2 * SECOND_NS));
        assert_eq!(
            (late.length_ns(), late.begins_ns()),
            (2 * SECOND_NS, begins)
        );
        let worst = late.worst_second_mb_per_s().unwrap();
        assert!((worst - 100.0).abs() < 1e-9, "{worst}");
        assert!((late.think_us(1) - 5_000.0).abs() < 1e-9);

        let mut early = Meter::new(0, 10 * SECOND_NS);
        early.sent(0);
        early.done(0, MS, 1_000_000);
        early.lasted(0, Some(SECOND_NS));
        let total = Meter::total(0, 10 * SECOND_NS, [&late, &early]);
        assert_eq!((total.begins_ns(), total.length_ns()), (0, 9_250 * MS));
        let own = Meter::total(0, 10 * SECOND_NS, [&late]);
        assert_eq!((own.begins_ns(), own.length_ns()), (begins, 2 * SECOND_NS));

        // One that ended during the warm-up has no time in the measurement.
        let mut gone = Meter::new(5 * SECOND_NS, SECOND_NS);
        gone.lasted(SECOND_NS, Some(2 * SECOND_NS));
        assert_eq!((gone.length_ns(), gone.worst_second_mb_per_s()), (0, None));
    }

    #[test]
    fn kinds_are_measured_apart_where_there_are_several() {
        let mut m = Meter::new(0, SECOND_NS);
        m.tell_apart([true, true, false]);
        for (op, ms, bytes) in [(Op::Read, 1, 10), (Op::Write, 2, 20), (Op::Read, 3, 30)] {
            m.issued(op, 0, bytes);
            m.ended(op, 0, ms * MS, bytes, false);
        }
        let of = |kind| {
            m.of(kind)
                .map(|apart| (apart.bytes(), apart.latency().count()))
        };
        assert_eq!(of(Kind::Read), Some((40, 2)));
        assert_eq!(of(Kind::Write), Some((20, 1)));
        assert_eq!(of(Kind::Flush), None, "it has none");
        let mut one = Meter::new(0, SECOND_NS);
        one.tell_apart([false, true, false]);
        assert_eq!(one.of(Kind::Write), None, "one kind is the whole");
    }

    #[test]
    fn a_request_without_an_answer_has_waited_until_the_end() {
        let mut m = Meter::new(0, 5 * SECOND_NS);
        m.sent(SECOND_NS);
        m.done(SECOND_NS, 6 * SECOND_NS, 4096);
        assert_eq!((m.requests(), m.unanswered_ns()), (0, 4 * SECOND_NS));
    }

    #[test]
    fn an_unfinished_request_is_no_think_time() {
        let mut m = Meter::new(SECOND_NS, SECOND_NS);
        looped(&mut m, 10 * MS, 1000, SECOND_NS + 500 * MS);
        m.sent(SECOND_NS + 500 * MS);
        m.cut(2 * SECOND_NS);
        assert!(m.think_us(1).abs() < 1e-9, "{}", m.think_us(1));
        assert!(
            (m.think_us(2) - 20_000.0).abs() < 500.0,
            "50 requests in 1 s"
        );
    }

    #[test]
    fn a_hang_is_short_in_each_of_its_seconds_for_what_it_was_in() {
        let mut m = Meter::new(0, 3 * SECOND_NS);
        m.sent(0);
        m.done(0, 2_900 * MS, 4096);
        let waits = Waits {
            elevator: Span::from_millis(2_800),
            drive: Span::from_millis(100),
            ..Waits::default()
        };
        let of = Breakdown {
            waits,
            ..Breakdown::default()
        };
        m.waited(2_900 * MS, &of);
        let seconds = judged(&m, 1_000_000).seconds;
        assert_eq!((seconds.promised, seconds.all_short()), (3, 3));
        assert_eq!(seconds.short[Cause::Idling as usize], 3);
        let lacking = 2_900_000 - 4096;
        assert_eq!(seconds.lacking.bytes, lacking);
    }
}
