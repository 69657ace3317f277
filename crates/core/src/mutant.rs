//! Known bugs, built in behind the feature `mutants` and selected at run time: the tests of the auditors.
//!
//! With the feature off, `is` is a constant `false` and costs nothing. With it on, `select` switches one bug on for the whole
//! process; 0 is none. Every bug must be caught by the auditor or test that its entry in [`ALL`] names.
//!
//! A bug is `if mutant::is(mutant::NAME)` and what goes wrong then, beside the line that is right and reads as if there were no bug.

/// A bug that can be switched on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mutant {
    /// What `select` takes; never 0, never reused.
    pub number: u32,
    /// What goes wrong.
    pub bug: &'static str,
    /// The auditor that must notice.
    pub caught_by: &'static str,
}

macro_rules! mutants {
    ($($number:literal $name:ident $bug:literal $caught_by:literal)*) => {
        $(#[doc = $bug] pub const $name: u32 = $number;)*
        /// Every bug there is.
        pub const ALL: &[Mutant] = &[$(Mutant { number: $number, bug: $bug, caught_by: $caught_by }),*];
    };
}

mutants! {
    1 TAG_FREED_ON_CANCEL "cancelling a request in flight frees its tag before the drive has answered" "tags"
    3 RESUME_LOST "a paused stream is never resumed" "flow"
    4 ANCESTOR_LIMIT_SKIPPED "only the leaf's limits are checked" "ledger"
    5 REFILL_TRUNCATED "the remainder of a token refill is thrown away" "ledger"
    6 LATER_TIMER_OVERWRITES "a later timer replaces an earlier one" "wake"
    7 FLUSH_JOINS_RUNNING "a flush joins one that the drive has already begun" "durability"
    8 DONE_TWICE "a request that failed in two pieces ends twice" "once"
    9 BUSY_LOSES_PIECE "a piece that found the drive's queue busy is forgotten" "once"
    10 WEIGHT_KEPT "the weight sum keeps the weight of what was deactivated" "oracle"
    11 IDLE_RESTARTS_AT_V "an idle entity restarts at V and forgets what it has used" "oracle"
    13 CHARGED_BY_REQUEST "a budget is charged one sector a request" "fair"
    14 IDLE_CLASS_STARVED "the idle class is never promoted" "starvation"
    15 FLUSH_IGNORED "a flush is answered without syncing" "durability"
    16 FUA_IGNORED "FUA is dropped on the way to the drive" "durability"
    17 FLUSH_OWN_CONNECTION "a flush covers only its own connection's writes" "durability"
    18 ANSWER_BEFORE_SYNC "a flush is answered before the sync is done" "durability"
    19 RESERVATION_NOT_CHARGED "reserved service does not count against the share" "fair"
    20 BOUND_IGNORED "the bytes of others in flight are not bounded" "promise"
    21 HELD_STREAM_DISPATCHED "a stream on hold is dispatched all the same" "flow"
    22 TIMEOUT_IGNORED "a budget's timeout never expires" "starvation"
    23 ELIGIBILITY_IGNORED "the smallest finish time is taken whether it may start or not" "oracle"
    24 DEBT_FORGIVEN "a request larger than its bucket leaves no debt" "ledger"
    25 ADMISSION_SKIPPED "promises are accepted without adding them up" "admission"
    26 LATENCY_PLACE_KEPT "a request that io.latency counts keeps its place when it is given up" "wake"
    27 DEPTH_IGNORED "every request gets a scheduler tag" "depth"
    28 SEEKY_STAY_MERGED "streams that share a queue share it for good" "split"
    29 MIN_IOPS_IGNORED "a min in requests is not kept" "promise"
    30 TENANT_PROMISE_IGNORED "a min of a group with members is not kept" "promise"
    31 PROMISE_FORGOTTEN_ON_CHANGE "a change of contracts forgets the mins there were" "promise"
    32 BEHIND_IGNORED "a client behind its promise is served by its share" "precedence"
    33 REALTIME_NOT_URGENT "a client that is ahead of its promise, or has none, goes before a realtime client" "realtime"
    34 IDLE_MEMBER_STARVED "the idle class is promoted only at the root" "idle"
    35 REALTIME_STARVES_PROMISES "realtime clients let no client pass that is behind its promise by far" "promise"
    36 MERGED_MEMBER_LOST "the last of the requests merged into a command is never answered" "once"
    37 PROMISES_STARVE_REALTIME "a promise that was behind goes before a realtime client by more than its admission covers" "realtime"
    40 MERGED_BEYOND_LIMIT "a merged command is longer than the drive takes" "once"
    41 MERGED_GIVEN_UP_SENT "a merged request that is given up goes to the drive with its command" "once"
    42 AGED_WAIT "what has aged waits for higher priorities all the same" "priority"
    43 PRIORITY_LEFT_EARLY "a lower priority goes while a higher one is in the drive" "priority"
    44 DEADLINE_IGNORED "what is overdue does not begin the next batch" "starvation"
    47 ANSWERS_FOR_NOTHING "a call that answered nothing asks to be called again at once" "wake"
    60 COST_BUDGET_IGNORED "a request that waits for budget under io.cost goes on" "fair"
    61 COST_TIMER_LOST "nothing wakes requests that wait for budget under io.cost" "cost"
    62 COST_DONE_FORGOTTEN "what io.cost has charged never leaves the drive" "cost"
    63 COST_DEBT_FORGOTTEN "what goes on without budget under io.cost is owed by nobody" "cost"
    64 COST_NOTHING_DONATED "a share that is not used under io.cost is lost" "cost"
    65 COST_WEIGHTS_STALE "changed weights under io.cost never count" "cost"
    90 LOW_TIMER_LOST "nothing wakes requests that wait under io.low" "low"
    91 LOW_NEVER_DOWN "io.low lets everyone go on when one has fallen below its low limit" "low"
    92 LOW_NEVER_IDLE "io.low holds everyone back for the sake of one that is idle" "low"
    93 LOW_NOT_CHARGED "what goes on under io.low does not count against the limit" "low"
    70 BUSY_QUEUE_HOLDS_ALL "a busy hardware queue holds back the next one as well" "conserve"
    71 QUEUE_TAG_LOST "a scheduler tag of one of several hardware queues is not given back" "conserve"
    72 QUEUES_SHARE_FLUSH "a flush command ends the flushes of another hardware queue's" "once"
    80 KYBER_BATCH_ENDLESS "a batch of kyber's goes on while its domain has requests" "starvation"
    81 KYBER_TOKEN_LOST "a place in the drive that kyber gave is not given back" "conserve"
    82 KYBER_DEPTH_IGNORED "a domain has as many requests in the drive as it likes under kyber" "order"
    83 KYBER_TOTAL_IN_DRIVE "what kyber takes for the total latency leaves out the wait for the drive" "depth"
    84 KYBER_NEVER_THROTTLED "a domain within its target keeps its places under kyber though the drive is congested" "depth"
    85 KYBER_HISTOGRAM_KEPT "kyber goes on counting latencies that it has judged" "depth"
    100 CFQ_WEIGHT_IGNORED "under cfq the time that a group has used is not divided by its part" "fair"
    101 CFQ_SLICE_ENDLESS "under cfq a slice is never over" "starvation"
    102 CFQ_FIFO_IGNORED "under cfq what is overdue does not begin a turn" "overdue"
    103 CFQ_LEVEL_IGNORED "under cfq a slice is as long whatever the level" "levels"
    104 CFQ_GROUP_RETURNS_EARLY "under cfq a group that was idle comes back with the time it had then" "returns"
    105 CFQ_NOBODY_COOPERATES "under cfq streams that read one thing together share no queue" "cooperate"
    106 CFQ_NEVER_PARTED "under cfq streams that share a queue share it for good" "part"
    107 CFQ_REALTIME_WAITS "under cfq the realtime class waits for the slice in service to end" "realtime"
    108 CFQ_QUANTUM_IGNORED "under cfq a queue that is not alone has as many in the drive as it likes" "quantum"
    109 CFQ_REQUESTS_UNLIMITED "under cfq there are requests without end" "requests"
    110 SLICES_ABOVE_IGNORED "what passes at once under io.max is held against its own group's limit alone" "slices"
    111 SLICES_TIMER_LOST "nothing wakes requests that wait for a slice under io.max" "slices"
    114 ABSENT_IGNORED "under contract what others are ahead of a client whose requests are all in the drive by is forgotten" "shallow"
    115 STALLED_SPACE_GOES_ON "a space that stalls has half of what it had before it answers anything" "stalls"
    116 STALLED_TAG_REUSED "the name of a piece that has stalled is given to another" "tags"
    117 STALL_NEVER_ENDS "what waits for a space that stalled is not let in when it answers" "once"
    113 SLICES_UNCHARGED "what goes on after it waited does not count against the limit under io.max" "slices"
}

#[cfg(feature = "mutants")]
static SELECTED: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(0);

/// Switches bug `number` on, 0 for none.
#[cfg(feature = "mutants")]
pub fn select(number: u32) {
    SELECTED.store(number, core::sync::atomic::Ordering::Relaxed);
}

/// A test that has this is the only one that switches bugs on.
#[cfg(all(test, feature = "mutants"))]
pub(crate) fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ALONE
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// True if bug `number` is switched on.
#[cfg(feature = "mutants")]
pub fn is(number: u32) -> bool {
    SELECTED.load(core::sync::atomic::Ordering::Relaxed) == number
}

/// True if some bug is switched on.
#[cfg(all(feature = "mutants", debug_assertions))]
pub(crate) fn is_any() -> bool {
    SELECTED.load(core::sync::atomic::Ordering::Relaxed) != 0
}

/// True if some bug is switched on: never, in this build.
#[cfg(all(not(feature = "mutants"), debug_assertions))]
pub(crate) const fn is_any() -> bool {
    false
}

/// True if bug `number` is switched on: never, in this build.
#[cfg(not(feature = "mutants"))]
#[inline]
pub const fn is(_number: u32) -> bool {
    false
}
