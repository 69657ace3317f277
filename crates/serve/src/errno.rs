//! Error numbers of Linux: how a request's outcome is told, whatever protocol its client speaks.

use rustix::io::Errno;

/// Not permitted: a change of what is read-only.
pub(crate) const EPERM: u16 = number(Errno::PERM);
/// The storage failed.
pub(crate) const EIO: u16 = number(Errno::IO);
/// The remote server that has the data is away.
pub(crate) const ENOTCONN: u16 = number(Errno::NOTCONN);
/// There is no memory for the answer.
pub(crate) const ENOMEM: u16 = number(Errno::NOMEM);
/// The request is wrong.
pub(crate) const EINVAL: u16 = number(Errno::INVAL);
/// The storage is full.
pub(crate) const ENOSPC: u16 = number(Errno::NOSPC);
/// The storage cannot do that: zeroing is not faster than writing.
pub(crate) const ENOTSUP: u16 = number(Errno::NOTSUP);
/// The request was given up before it reached the drive.
pub(crate) const ESHUTDOWN: u16 = number(Errno::SHUTDOWN);

/// As the core keeps it; Linux has none above 4095.
const fn number(errno: Errno) -> u16 {
    errno.raw_os_error() as u16
}
