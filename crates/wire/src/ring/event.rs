//! Conditions under which an index that moves reaches the position at which the other side needs an
//! event.
//!
//! Xen names the value that the index must reach, virtio the entry that it must pass. Indices are
//! free-running and wrap, so both conditions compare distances instead of values.

/// Returns true if a 32-bit index that moves from `old` to `new` reaches `event`, that is, if
/// `event` is in (`old`, `new`].
///
/// This is the rule of Xen's rings (`io/ring.h`), where `event` is the value of the index that
/// requires an event. `new` must be at most 2^31 ahead of `old`.
#[inline]
pub fn crossed32(event: u32, old: u32, new: u32) -> bool {
    // The distance from the event back to the new index is smaller than the step.
    new.wrapping_sub(event) < new.wrapping_sub(old)
}

/// Returns true if a 16-bit index that moves from `old` to `new` passes `event`, that is, if
/// `event` is in [`old`, `new`).
///
/// This is virtio's rule (specification 1.2, section 2.7.7.2), where `event` is the entry that
/// requires an event. It corresponds to Xen's `event` minus one.
#[inline]
pub fn crossed16(event: u16, old: u16, new: u16) -> bool {
    // `vring_need_event` of the specification.
    new.wrapping_sub(event.wrapping_add(1)) < new.wrapping_sub(old)
}
