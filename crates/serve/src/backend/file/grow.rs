//! Enlarges an image while it is served.
//!
//! If the added space is to be allocated, this is done beyond the end of the file first, so that a
//! full file system refuses before the size has changed. A crash leaves the image with its old size
//! or with its new one. If it is the new one, the configuration may still state the old size. The
//! image is therefore marked with the size that a server has given it. A server that starts
//! afterwards recognises from the mark that no other program has changed the size.

use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{FallocateFlags, XattrFlags};
use weir_uring::Errno;

use super::super::found;
use super::super::interface::{Grow, Growth};
use super::error::{self, OpenError};
use super::medium::Medium;
use super::permitted;

/// The extended attribute with the size to which a server has grown an image, in bytes as decimal
/// digits.
const MARK: &str = "user.weir.grown";
/// The number of digits of the longest size (2^64 - 1).
const DIGITS: usize = 20;

/// An image that is open for writing, and its block size in bytes.
#[derive(Debug)]
pub(super) struct Image {
    pub(super) medium: Arc<Medium>,
    pub(super) block: u32,
}

impl Image {
    /// Returns true if the image must be enlarged. Returns false if its owner has already given it
    /// the new size.
    fn is_smaller(&self, growth: &Growth) -> Result<bool, OpenError> {
        let path = || self.medium.path.clone();
        let actual = self.medium.size();
        let actual = actual.map_err(OpenError::system(&self.medium.path, "open"))?;
        if actual == growth.to {
            return Ok(false);
        }
        if actual < growth.from {
            return Err(OpenError::Cut {
                path: path(),
                actual,
                was: growth.from,
            });
        }
        if actual != growth.from {
            // The owner has given the image another size.
            error::size_as_stated(&self.medium.path, actual, Some(growth.to))?;
        }
        error::whole_blocks(&self.medium.path, growth.to, self.block)?;
        permitted(growth.to).map_err(self.refused(growth))?;
        Ok(true)
    }

    fn refused(&self, growth: &Growth) -> impl FnOnce(io::Error) -> OpenError + use<> {
        let (path, growth): (PathBuf, Growth) = (self.medium.path.clone(), *growth);
        move |source| OpenError::Grow {
            path,
            growth,
            source,
        }
    }

    fn enlarge(&self, growth: &Growth) -> Result<(), Errno> {
        let Growth { from, to, .. } = *growth;
        let fd = &self.medium.fd;
        if growth.allocate {
            // `KEEP_SIZE` allocates beyond the end of the file without changing the size
            // (fallocate(2)).
            let keep = FallocateFlags::KEEP_SIZE;
            while let Err(errno) = rustix::fs::fallocate(fd, keep, from, to - from) {
                if errno != Errno::INTR {
                    return Err(errno);
                }
            }
        }
        // Some file systems do not have extended attributes. Without the mark, a start after a
        // crash refuses the image and prints the size to configure.
        let _ = rustix::fs::fsetxattr(fd, MARK, to.to_string().as_bytes(), XattrFlags::empty());
        rustix::fs::ftruncate(fd, to)?;
        rustix::fs::fsync(fd)
    }

    /// Restores the old size, unless another program has changed the size.
    fn reduce(&self, growth: &Growth) -> Result<(), Errno> {
        let fd = &self.medium.fd;
        let actual = rustix::fs::fstat(fd)?.st_size.cast_unsigned();
        if actual == growth.from || actual == growth.to {
            rustix::fs::ftruncate(fd, growth.from)?;
            // The mark can be absent, because it is optional.
            let _ = rustix::fs::fremovexattr(fd, MARK);
            rustix::fs::fsync(fd)?;
        }
        Ok(())
    }
}

impl Grow for Image {
    fn look(&self, growth: &Growth) -> io::Result<()> {
        if !self.is_smaller(growth)? || !growth.allocate {
            return Ok(());
        }
        let refused = self.refused(growth);
        let path = &self.medium.path;
        let system = rustix::fs::fstatvfs(&self.medium.fd);
        let free = found::free(&system.map_err(OpenError::system(path, "open"))?);
        if growth.to - growth.from > free {
            return Err(refused(Errno::NOSPC.into()).into());
        }
        Ok(())
    }

    fn grow(&self, growth: &Growth) -> io::Result<bool> {
        // `look` checks the free space, so that a file system without enough space is not filled
        // first.
        self.look(growth)?;
        if !self.is_smaller(growth)? {
            return Ok(false);
        }
        self.enlarge(growth).map_err(|errno| {
            let refused = self.refused(growth);
            self.restore_size(growth);
            refused(errno.into())
        })?;
        Ok(true)
    }

    fn restore_size(&self, growth: &Growth) {
        if let Err(errno) = self.reduce(growth) {
            let image = self.medium.path.display();
            let error = weir_config::os_error::message(&errno.into());
            tracing::error!(%image, error, "the server cannot restore the size of an image; the image stays larger than its volume");
        }
    }
}

/// Returns true if a server has grown an image to `actual` bytes.
pub(super) fn is_marked(fd: impl AsFd, actual: u64) -> bool {
    let mut digits = [0; DIGITS];
    let found = rustix::fs::fgetxattr(fd, MARK, &mut digits);
    let text = found.ok().and_then(|length| digits.get(..length));
    text.is_some_and(|text| *text == *actual.to_string().as_bytes())
}
