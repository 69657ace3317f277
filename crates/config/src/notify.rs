//! Rules for notifications between volumes and virtual machines.

use crate::words::words;
use weir_core::Span;

/// The rules for notifications between a volume and the virtual machines that use it
/// (`[volume.NAME.listen]`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotifyRules {
    /// The rule for polls of the queues.
    pub wakes: WakeRule,
    /// The rule for calls.
    pub calls: CallRule,
    /// The number of completed requests that causes a call. At most 1 means a call for each. Under
    /// another rule than [`CallRule::Gather`], it is the maximum number of replies before a call,
    /// and at most 1 means no such maximum.
    pub call_count: u32,
    /// The time after the first completed request when a guest is called. Zero means at once. Under
    /// [`CallRule::Vic`], it is the maximum time, and zero means no maximum. Under
    /// [`CallRule::Spdk`], it is the time between calls at twice the rate above which calls are
    /// delayed.
    pub call_delay: Span,
}

/// The rule for calling guests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CallRule {
    /// A decision by number and time.
    #[default]
    Gather,
    /// A decision by the number of commands in flight, as in vIC.
    Vic,
    /// A decision by the rate of replies, as in SPDK.
    Spdk,
}

words! {
    CallRule: "gather" Gather, "vic" Vic, "spdk" Spdk;
}

impl Default for NotifyRules {
    /// Returns notifications at once in both directions.
    fn default() -> Self {
        Self {
            wakes: WakeRule::AtOnce,
            calls: CallRule::Gather,
            call_count: 1,
            call_delay: Span::ZERO,
        }
    }
}

/// The rule for polling the queues of virtual machines.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WakeRule {
    /// A poll after each kick. It is delayed if kicks arrive repeatedly without requests.
    #[default]
    AtOnce,
    /// Continuous polls for this time after the last request.
    Spin(Span),
    /// At most one poll in this time.
    Sleep(Span),
}
