//! Whether an index that moves passes the place at which the other side asked for an event.

/// Whether a 32-bit index that moves from `old` to `new` reaches `event`: whether `event` is in (`old`, `new`].
///
/// The rule of Xen's rings, where `event` is the value of the index that is worth an event. Indices run freely and wrap; `new` is at
/// most 2^31 ahead of `old`.
#[inline]
pub fn crossed32(event: u32, old: u32, new: u32) -> bool {
    new.wrapping_sub(event) < new.wrapping_sub(old)
}

/// Whether a 16-bit index that moves from `old` to `new` passes `event`: whether `event` is in [`old`, `new`).
///
/// virtio's rule, where `event` is the entry that is worth an event: Xen's `event` less one.
#[inline]
pub fn crossed16(event: u16, old: u16, new: u16) -> bool {
    new.wrapping_sub(event.wrapping_add(1)) < new.wrapping_sub(old)
}
