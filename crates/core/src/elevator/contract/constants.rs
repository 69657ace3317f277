//! Constants of `contract`: the one table of the numbers that its decisions depend on.
//!
//! Each constant has its unit, its reason, and the effect of another value or of leaving out its
//! rule, as measured in 500 runs with admitted promises (`docs/ablation.md` explains the letters).
//! Numbers of fraction bits and sizes of tables are not tuning, so they are next to the code that
//! uses them.

use super::unit::Cost;
use crate::Span;

/// One row of the table of constants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Constant {
    /// Part of the elevator that uses the constant.
    pub area: &'static str,
    /// Name of the constant in the source.
    pub name: &'static str,
    /// Value of the constant in [`unit`](Self::unit).
    pub value: u64,
    /// Unit of the value: a noun, a fraction such as `1/64`, or `1/n` if the value is a divisor.
    pub unit: &'static str,
    /// Purpose of the constant.
    pub reason: &'static str,
    /// Effect of another value, or of leaving out the rule that it belongs to.
    pub loss: &'static str,
}

/// Converts a constant of any type into a `u64`.
macro_rules! number {
    (Span, $name:ident) => {
        $name.as_nanos()
    };
    (Cost, $name:ident) => {
        $name.as_nanos()
    };
    ($type:ident, $name:ident) => {
        $name as u64
    };
}

/// Defines the constants of each area, and the table of them. The documentation comment of a
/// constant is its reason.
macro_rules! constants {
    ($($area:literal { $(
        $(#[doc = $reason:literal])+
        $name:ident: $type:ident = $value:expr, $unit:literal, $loss:literal;
    )* })*) => {
        $($($(#[doc = $reason])+ pub(super) const $name: $type = $value;)*)*

        /// All constants, in the order of their areas.
        pub const CONSTANTS: &[Constant] = &[$($(Constant {
            area: $area,
            name: stringify!($name),
            value: number!($type, $name),
            unit: $unit,
            reason: concat!($($reason),+).trim_ascii(),
            loss: $loss,
        }),*),*];
    };
}

constants! {
    "general" {
        /// Promises are kept by the second, so nothing is delayed or remembered for their sake for
        /// longer: hidden work, a delayed flush, the limit of written data, a realtime client that
        /// sends nothing, and reserved service that counts against a share in advance.
        SECOND: Span = Span::from_secs(1), "ns",
            "for hidden work, a quarter: S +1, T +1, B +1; for realtime clients, a quarter: L +1, \
             S +1; other uses: P -1 at most";
        /// Shortest round of learning and of restraint. A shorter one contains too few pieces.
        ROUND: Span = Span::from_millis(10), "ns",
            "learning, a quarter: P +3, L -1, S +2; four times: L +1, S +1, T +2, B +1; \
             restraint, a quarter: T -1";
        /// Pieces end at multiples of this size and are not made smaller, because direct I/O and
        /// the sectors of drives need it.
        GRAIN: u64 = 4096, "bytes", "not measured, the format of drives sets it";
        /// Part of the newest sample in a moving average: think times, outstanding requests,
        /// latencies and durations of flushes. The limit of written data grows by this part with
        /// each flush that is short enough, and is given up if it is less than this part of the
        /// data that were written.
        AVERAGE_PART: u64 = 8, "1/n",
            "for the limit of written data, a quarter or four times as much: no count changed; \
             other uses: not measured";
    }
    "costs" {
        /// For the first estimate, a drive with a lower stated bandwidth, or without one, is
        /// assumed to reach this one, because the stated bandwidth is the worst case.
        SLOWEST: u64 = 100_000_000, "bytes/s",
            "a quarter: P +8, L +1, S +1; four times: S +1, T -2, B +4";
        /// The cost of a far request is first assumed to be that of this many bytes if no rate of
        /// requests is stated, and that of a near request that of `GRAIN`. It is also the upper
        /// limit of the smallest size to which pieces are cut.
        FAR_BYTES: u64 = 32 << 10, "bytes",
            "as the limit, a quarter: P +3, R +1, L +1, T -1, B -3; four times: T -3, B -2";
        /// A read of at most this size is not cut, because a drive may take the parts for a
        /// sequential stream, and read ahead in vain.
        WHOLE_READ: u32 = 64 << 10, "bytes",
            "without the rule, four random readers on a drive that reads 1 MiB ahead get 15 instead \
             of 110 % of their throughput under `none`";
        /// Pieces are not cut to a size whose transfer takes less than this many times the cost per
        /// request.
        EFFICIENT: u64 = 4, "times", "without the rule: P +3, R +1, T +2, B -2";
        /// Pieces are not cut to a size at which a byte costs more than at larger sizes by more
        /// than this part.
        DEAR: u64 = 2, "1/n", "a quarter: P -4, L -3, T -41, B -11; four times: T -4, B -2";
        /// Smallest number of pieces in a round of learning.
        ENDS: u32 = 8, "pieces",
            "a quarter: P +5, R +1, S +1, I +1, T -6, B +2; four times: P +4, L +1, T +4, B -4";
        /// Longest round of learning, with however few pieces.
        LONGEST: Span = Span::from_millis(100), "ns",
            "a quarter: P +3, R +1, S +2, T -3, B -2; four times: P +2, T -1, B -1";
        /// Pieces in the drive for each tag, on average, at which all tags count as used. A real
        /// host never has all of them in use all the time.
        FULL: u64 = 15, "1/16", "a quarter or four times as much: no count changed";
        /// Rounds of far pieces that are needed to know the drive and its seek cost. In as many
        /// rounds of a kind, errors are corrected by the part for cheaper pieces in both
        /// directions.
        KNOWN: u32 = 6, "rounds",
            "for knowing the seek cost, 1: P +1, L +1, I +1, T -6, B -2; 16: P +2, S +1, T +5, \
             B +2; for correcting errors, 3: P +3, R +1, T -7, B -1; 48: P +2, S +1, T +7, B +1";
        /// Seek cost from which a drive counts as seek-bound and has turns.
        SEEK_COSTLY: Cost = Cost::from_nanos(200_000), "ns", "a quarter: T +1; four times: T +1";
        /// Part of an error that is corrected if reads were cheaper than predicted, or if a kind of
        /// pieces is new.
        CHEAPER: i64 = 2, "1/n", "a quarter: S +1, B -1; four times: P +4, S +6, T +2, B +2";
        /// Part of an error that is corrected if pieces were more expensive than predicted and
        /// waited for one another, or if writes were cheaper, because a cache makes writes look
        /// cheap.
        DEARER: i64 = 4, "1/n",
            "a quarter: P +1, S +1, T +3, B +1; four times: P -2, L +1, S +1, B +2";
        /// Part of an error that is corrected if pieces were more expensive than predicted and did
        /// not wait for one another, because the drive may have had too little work to show its
        /// speed.
        DEARER_UNTOLD: i64 = 512, "1/n", "a quarter: P +1, S +1; four times: T +1";
        /// The cost of a byte changes by this part of the change of the cost of a request, because
        /// it hardly varies on one drive.
        BYTE_PART: i64 = 4, "1/n", "without the rule: P +3, L +1, S +4, T -3, B +2";
        /// An error counts as at most this multiple of the prediction, so that a single round does
        /// not change a cost by orders of magnitude.
        ERROR_MAX: i64 = 4, "times", "not measured: it bounds a step of learning";
    }
    "window" {
        /// Average number of pieces in flight from which a round shows whether the drive works on
        /// one piece at a time.
        SEVERAL: u64 = 28, "1/16", "a quarter: P +1, T +1; four times: P +1";
        /// A drive works on several pieces at a time if in the shortest time of any piece at least
        /// this many of them end.
        PARALLEL: u64 = 24, "1/16", "without the rule: P +1, T -1";
        /// The window is this many times the work that keeps the drive busy, so that it can grow.
        GAIN: u64 = 2, "times",
            "a quarter: P +3, S +1, T +30, B +14; four times: P +3, R +1, S +1, T -3";
        /// Smallest window, because a real host, unlike the simulator, is sometimes late by this
        /// time. It is also the first allowance for a driver that is later.
        BOUND_MIN: Cost = Cost::from_nanos(250_000), "ns",
            "a quarter: P -1; four times: P -1, B -1";
        /// The largest piece is forgotten after one to two times this time.
        MEMORY: Span = Span::from_millis(500), "ns",
            "a quarter: L +1, T +2, B -1; four times: L +1, S +1, T -2, B +1";
        /// Pieces that are sent one at a time at the beginning, and number of pieces of which the
        /// shortest shows the delay.
        MEASURED_PIECES: u32 = 3, "pieces", "not measured";
        /// Time without a piece that has the drive to itself, after which the delay is measured on
        /// purpose. It is for drives that change.
        MEASURE: Span = Span::from_secs(5), "ns",
            "without the rule, a client next to one whose server hangs gets a quarter of its rate";
        /// Seek cost from which a drive has no window, because it chooses better among more
        /// requests.
        SEEK_CHOOSES: Cost = Cost::from_nanos(1_000_000), "ns",
            "200 us: shares of 1 : 10 on `hitachi-hts72755` result in 1 : 1.2; a quarter: 0; four \
             times: P -1, T +3";
    }
    "hidden work" {
        /// Shortest time between two doublings of hidden work.
        GROW: Span = Span::from_millis(50), "ns",
            "a quarter: P +3, R +1; four times: P +4, T -7, B -1";
        /// Time between two decreases of hidden work on a drive that is known not to be seek-bound.
        /// It is short, because such a drive shows by its latency that it hides nothing.
        FALL: Span = Span::from_millis(200), "ns",
            "with `FALL_SEEKING`, a quarter: P +1, T -3, B -1; four times: T +1, B +1";
        /// Time between two decreases of hidden work on a drive that is or may be seek-bound, whose
        /// latency is too uneven to tell.
        FALL_SEEKING: Span = Span::from_millis(1_000), "ns", "see `FALL`";
        /// Part by which hidden work decreases each time.
        FALL_PART: u16 = 8, "1/n", "not measured";
        /// A far write on a seek-bound drive hides at least this part of the cost of a far read.
        HIDDEN_FAR_PART: u64 = 2, "1/n",
            "without the rule: a disk with writes in its cache reaches 80 % instead of 93 % of \
             its throughput under `none`";
        /// A request or a flush reveals hidden work if it took this much longer than `HIDDEN_TIMES`
        /// times its usual time, or the time of the shortest flush.
        HIDDEN: Span = Span::from_micros(500), "ns",
            "a quarter: T +6, B +1; four times: P +1, T -2, B -2";
        /// Multiple of its usual time after which a request reveals hidden work. Other pieces may
        /// have joined it in the drive.
        HIDDEN_TIMES: u64 = 3, "times", "2: S +1, T +9, B +3";
    }
    "clients" {
        /// A client is expected to send again within a multiple of its think time plus this time.
        SOON: Span = Span::from_micros(100), "ns", "a quarter: B +1; four times: T +1";
        /// This multiple of the average think time.
        SOON_THINKS: u64 = 2, "times", "not measured";
        /// A longer pause of a group does not count as think time, because it shows nothing about
        /// the next one.
        PAUSE_MAX: Span = Span::from_millis(20), "ns", "a quarter: T +1; four times: B -1";
    }
    "promises" {
        /// Part of the promised rate that is reserved in addition, so that a second that ends
        /// between two requests or turns also keeps the promise. On flash, it may be less, so that
        /// it does not use up the time that the promise leaves next to the client's own latency.
        HEADROOM: u64 = 5, "1/64",
            "a quarter: P +21, R +1, L +1, T -2; four times: P +2, R +3, L +3, T +2, B -1";
        /// A client that is behind by more has the drive to itself, and writes of others wait so
        /// that its flushes are short. A client with requests that cost more than admission
        /// assumes misses its deadline by no more, as far as other promises are concerned.
        STRICT: Span = Span::from_millis(15), "ns", "a quarter: P +2, L -1; four times: P +1, B +1";
        /// Limit of the time until the next request of a client must be started, regardless of the
        /// number of outstanding requests.
        DEADLINE_MAX: Span = Span::from_millis(50), "ns",
            "a quarter: P +2, R +1, S +1, T +6, B -1; four times: P +14, R +1, S +2, T -7, B -2";
        /// On a drive across a network, latency varies by itself. The headroom grows by this part
        /// of the spread of a client's latency relative to its average, and `DEADLINE_MAX` is this
        /// many times as long.
        VARIES: u64 = 2, "1/n, times",
            "without the headroom, a modelled pool with pauses keeps 95 instead of 100 % of its \
             seconds; without the time, a pool with long latencies reaches 67 instead of 98 % of \
             its throughput under `none`";
        /// Maximum lead on a seek-bound drive, and its limit on other drives. The lead is the time
        /// by which the clock of a reservation may be later than the present. The headroom permits
        /// this much.
        LEAD_MAX: Span = Span::from_millis(60), "ns", "a quarter: T +2; four times: P +1";
        /// The maximum lead in largest pieces on other drives, so that others are not stopped for
        /// each request.
        LEAD_PIECES: u64 = 2, "pieces", "not measured";
        /// Number of reservations that are considered for each piece, realtime ones and others
        /// separately. It bounds the work of a decision.
        LOOKED_AT: usize = 4, "reservations",
            "a quarter: P +3, R +1, L -1, T -7, B -4; four times: 0";
        /// If all waiting clients are behind by more than this multiple of `catch_up`, the time
        /// base of the promises slows down at once.
        STANDSTILL: u64 = 2, "times", "without the rule: P +2";
        /// Part of the slack that a client leaves to others as long as it is behind by little.
        LEFT_ON_TIME: u64 = 2, "1/n", "without the rule: S +1";
        /// Part of its period that a client leaves to others if its own latency keeps it from its
        /// promise.
        LEFT_LIMITED: u64 = 7, "1/8", "without the rule: no count changed";
        /// Others may have this multiple of the latency of a realtime client in flight.
        REALTIME_OWN: u64 = 2, "times",
            "not measured: it sets the bound of three times the latency without contention";
        /// A piece of a client that is behind by more than `YIELD` may exceed the limit of a
        /// realtime client by this multiple of the excess.
        REALTIME_LAG: u64 = 2, "times", "without the rule: P +7, R +3, L +3, T +4, B +1";
        /// Others may always have the delay and this many pieces in flight next to a realtime
        /// client, because that keeps the drive busy.
        BUSY_PIECES: u64 = 2, "pieces", "not measured";
        /// A piece costs at most this part of the slack of the most urgent promise, or of the
        /// restrained window, so that several fit into it.
        PIECE_PARTS: u64 = 2, "1/n", "without the rule: L +1, T -2, B +1";
        /// Slice for others next to a promise for which the drive is too slow.
        SLICE: Span = Span::from_millis(10), "ns",
            "a quarter or four times as much: same decisions";
        /// A promise counts as reachable if the latency without contention exceeds the permitted
        /// time by at most this part.
        REACHABLE_PART: u64 = 8, "1/n",
            "without the rule and `PAUSES_PART`, ten readers next to one another on \
             `plextor-px-256m5s` get 59 instead of 98 % of their throughput under `none`";
        /// A client misses its promise because of its pauses if its latency without contention is
        /// within this part of its period.
        PAUSES_PART: u64 = 2, "1/n", "see `REACHABLE_PART`";
        /// Upper limit of the delay of a client for each unit of work of others. Reservations with
        /// a latest start later than this multiple of the work in the drive are not considered.
        INTERFERENCE_MAX: u64 = 8, "times", "not measured";
        /// Part by which the latency without contention approaches a longer sample that had nothing
        /// in front of it.
        OWN_RISE: u64 = 16, "1/n", "not measured";
        /// On a drive across a network, number of samples in the averages of the line through work
        /// of others and latency.
        SLOPE_WEIGHT: i64 = 64, "samples", "not measured";
        /// The line is used if the variance of the work of others exceeds this part of its squared
        /// mean, because constant work shows nothing.
        SLOPE_VARIES: i64 = 64, "1/n", "not measured";
    }
    "flushes" {
        /// A flush is delayed for at most this many times the duration of a flush, so that flushes
        /// get at least 1/17 of the time of the drive.
        HOLD_FACTOR: u64 = 16, "times", "a quarter: T +1; four times: 0";
        /// Part by which the shortest duration of a flush grows with each flush, so that a slower
        /// drive is noticed.
        LEAST_GROWTH: u64 = 64, "1/n", "not measured";
        /// Number of reservations that are considered for a flush.
        SYNC_LOOKED_AT: usize = 32, "reservations",
            "4: readers next to 16 clients that sync get less than 45 %";
        /// A flush may take this part of the time that a promise leaves between two flushes, or of
        /// the period of a client that waits. The limit of written data falls at least to this part
        /// with each flush that takes longer.
        FLUSH_PART: u64 = 2, "1/n", "not measured";
        /// Assumed time between two flushes of a client without a promise.
        CYCLE_OF_ANOTHER: Span = Span::from_millis(100), "ns",
            "without it, a client that is promised 400 kB/s gets 330 kB/s next to a client that \
             syncs";
    }
    "choice" {
        /// Largest cost of a piece, so that no client waits longer for the piece before its own.
        PIECE_MAX: Cost = Cost::from_nanos(1_000_000), "ns",
            "a quarter: P +2, L -1, T +1, B +1; four times: P +2, L +1, T -2";
        /// Time after which others get a slice next to a promise that cannot be kept, or a piece
        /// next to one that can. It is also the longest time in which the drive counts as unknown.
        /// Without a limit that time would not end if flushes spoil every round.
        HELD_MAX: Span = Span::from_millis(300), "ns",
            "a quarter or four times as much: no count changed";
        /// A realtime client lets promised clients pass that are behind by more.
        YIELD: Span = Span::from_millis(10), "ns",
            "a quarter: P -1, T -1; four times: P -1, R +1, B +1";
    }
    "shares" {
        /// Shortest round of restraint in windows.
        WINDOWS: u64 = 4, "times",
            "without it, a client that cannot reach its promise takes half of the drive; four \
             times: T +1";
        /// Number of rounds with restraint before the next rounds without.
        RESTRAINED: u32 = 30, "rounds", "a quarter: T +1; four times: T +1";
        /// Factor of this number while restraint costs no throughput.
        RESTRAINED_LONGER: u32 = 4, "times", "1: shares of 1 : 10 result in 1 : 8.4";
        /// Number of rounds without restraint that follow. In the first of them, the drive and its
        /// write cache fill up.
        FREE: u32 = 3, "rounds",
            "2: in the case `ext4-reader` of `compare journal`, the reader gets 219 instead of 353 \
             MB/s";
        /// Part of the possible throughput below which the drive counts as not busy, so that no
        /// client is restrained.
        BUSY: u64 = 512, "1/1024", "a quarter: same decisions; four times: S +1, B +1";
        /// Rounds without restraint at the beginning, while costs are learned.
        FIRST: u32 = 8, "rounds", "a quarter: T +1; four times: T +1";
        /// Part by which the restrained part of the window grows if restraint costs too much.
        PART_GROWTH: u64 = 4, "1/n", "not measured";
        /// Limit of the credit of restraint, as a part of the speed without restraint.
        CREDIT_MAX: i64 = 4, "1/n",
            "without a credit, `samsung-970-pro` loses 17 % of its throughput";
        /// Restraint may cost this part of what an absent client would gain without contention.
        GAIN_PART: u32 = 8, "1/n",
            "without the rule, `samsung-970-pro` and `samsung-860-500gb` lose 13 and 11 % of their \
             throughput in the case `all-random` of `bandwidth-latency`";
        /// Length of a turn, so that a disk with a seek cost of 11 ms still uses 90 % of its speed.
        TURN: Span = Span::from_millis(100), "ns",
            "as a limit of nine seek costs, a quarter: R +1, S +3, T +11, B +3; four times: T -1";
        /// A piece that begins at most this much after the end of another is near, because read-
        /// ahead leaves gaps.
        NEAR_BYTES: u64 = 128 << 10, "bytes", "a quarter: P -1, L +1; four times: 0";
    }
}
