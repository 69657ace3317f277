//! Error numbers of Linux: how a request's outcome is told, whatever protocol its client speaks.

/// Not permitted: a change of what is read-only.
pub(crate) const EPERM: u16 = 1;
/// The storage failed.
pub(crate) const EIO: u16 = 5;
/// There is no memory for the answer.
pub(crate) const ENOMEM: u16 = 12;
/// The request is wrong.
pub(crate) const EINVAL: u16 = 22;
/// The storage is full.
pub(crate) const ENOSPC: u16 = 28;
/// The storage cannot do that: zeroing is not faster than writing.
pub(crate) const ENOTSUP: u16 = 95;
/// The request was given up before it reached the drive.
pub(crate) const ESHUTDOWN: u16 = 108;
