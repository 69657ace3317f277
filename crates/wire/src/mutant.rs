//! Known bugs of the rings and of notification, built in behind the feature `mutants` and selected at run time.
//!
//! With the feature off, `is` is a constant `false` and costs nothing. With it on, `select` switches one bug on for the whole
//! process; 0 is none. The model checker must fail with each of them (`tests/model.rs`).

/// A bug that can be switched on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mutant {
    /// What `select` takes; never 0, never reused.
    pub number: u32,
    /// What goes wrong.
    pub bug: &'static str,
    /// Which models must notice: of each of these families, whose names start so, at least one.
    pub caught_by: &'static [&'static str],
}

macro_rules! mutants {
    ($($number:literal $name:ident $bug:literal $caught_by:expr;)*) => {
        $(#[doc = $bug] pub const $name: u32 = $number;)*
        /// Every bug there is.
        pub const ALL: &[Mutant] = &[$(Mutant { number: $number, bug: $bug, caught_by: $caught_by }),*];
    };
}

mutants! {
    1 NO_FINAL_CHECK "a side that armed its event sleeps without looking once more" &["ring: xen", "ring: split by index", "ring: split by flag"];
    2 NO_FENCE_AT_REQUESTS "no barrier between publishing requests and reading the other's event" &["ring: xen", "ring: split by index", "ring: split by flag"];
    3 NO_FENCE_ARMING_REQUESTS "no barrier between arming the event for requests and looking once more" &["ring: xen", "ring: split by index", "ring: split by flag"];
    4 NO_FENCE_AT_RESPONSES "no barrier between publishing responses and reading the other's event" &["ring: xen", "ring: split by index", "ring: split by flag"];
    5 NO_FENCE_ARMING_RESPONSES "no barrier between arming the event for responses and looking once more" &["ring: xen", "ring: split by index", "ring: split by flag"];
    9 OFF_BY_ONE "the entry that the other side waits for does not count" &["ring: xen", "ring: split by index"];
    10 EARLY_KICK_DROPPED "a kick before the queue is enabled is forgotten" &["notify: a kick before"];
    11 CALL_TIMER_LOST "nothing ends the delay of a call" &["notify: calls"];
    12 THROTTLE_NEVER_REARMS "a throttled guest is never listened to again" &["notify: throttle"];
}

#[cfg(feature = "mutants")]
static SELECTED: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

/// Switches bug `number` on, 0 for none.
#[cfg(feature = "mutants")]
pub fn select(number: u32) {
    SELECTED.store(number, std::sync::atomic::Ordering::Relaxed);
}

/// True if bug `number` is switched on.
#[cfg(feature = "mutants")]
pub fn is(number: u32) -> bool {
    SELECTED.load(std::sync::atomic::Ordering::Relaxed) == number
}

/// True if bug `number` is switched on: never, in this build.
#[cfg(not(feature = "mutants"))]
#[inline]
pub const fn is(_number: u32) -> bool {
    false
}
