//! How volumes and virtual machines wake each other.

use crate::words::words;
use weir_core::Span;

/// How a volume and the virtual machines that use it wake each other (`[volume.NAME.listen]`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Notify {
    /// When queues are looked at.
    pub wakes: Wakes,
    /// By which rule guests are called.
    pub calls: CallRule,
    /// Answered requests at which a guest is called; at most 1 is "for each". Under a rule that decides by itself no more are
    /// answered before a call; at most 1 is as many as that likes.
    pub call_count: u32,
    /// Time since the first of them was answered at which a guest is called, too; none is "at once". Under [`CallRule::Vic`] none is as
    /// long as that likes; under [`CallRule::Spdk`] the time between calls at twice the rate from which it delays.
    pub call_delay: Span,
}

/// By which rule guests are called.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CallRule {
    /// By number and time.
    #[default]
    Gather,
    /// By commands in flight, as vIC does.
    Vic,
    /// By the rate of answers, as SPDK does.
    Spdk,
}

words! {
    CallRule: "gather" Gather, "vic" Vic, "spdk" Spdk;
}

impl Default for Notify {
    /// At once, in both directions.
    fn default() -> Self {
        Self {
            wakes: Wakes::AtOnce,
            calls: CallRule::Gather,
            call_count: 1,
            call_delay: Span::ZERO,
        }
    }
}

/// When the queues of virtual machines are looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Wakes {
    /// With each kick; later, if kicks come without work.
    #[default]
    AtOnce,
    /// For this time after the last request they are looked at all the time.
    Spin(Span),
    /// At most once in this time.
    Sleep(Span),
}
