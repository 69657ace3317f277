//! Error numbers of Linux, in which the server reports the outcome of a request to the front end of
//! each protocol.

use rustix::io::Errno;

/// The volume is read-only, and the request would change it.
pub(crate) const EPERM: u16 = number(Errno::PERM);
/// The storage failed.
pub(crate) const EIO: u16 = number(Errno::IO);
/// The remote server that has the data is not connected.
pub(crate) const ENOTCONN: u16 = number(Errno::NOTCONN);
/// There is no memory for the reply.
pub(crate) const ENOMEM: u16 = number(Errno::NOMEM);
/// The request is invalid.
pub(crate) const EINVAL: u16 = number(Errno::INVAL);
/// The storage is full.
pub(crate) const ENOSPC: u16 = number(Errno::NOSPC);
/// The storage does not support the operation, or zeroing would not be faster than writing.
pub(crate) const ENOTSUP: u16 = number(Errno::NOTSUP);
/// The request was cancelled before it reached the drive.
pub(crate) const ESHUTDOWN: u16 = number(Errno::SHUTDOWN);

/// Returns a number in the type in which the core stores it. Linux has no error number above 4095
/// (`MAX_ERRNO` in `include/linux/err.h`), so that none is truncated.
const fn number(errno: Errno) -> u16 {
    errno.raw_os_error() as u16
}
