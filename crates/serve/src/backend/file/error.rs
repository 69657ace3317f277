//! The error type of images and devices.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Stat};
use weir_config::units::ByteSize;
use weir_uring::Errno;

use crate::backend::Growth;
use crate::backend::found;
use crate::holder::Holder;
use weir_config::os_error;

/// The reason why an image or a device was not opened. The message names the file and the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file does not exist, and may not be created.
    #[error("{} does not exist: {}", .path.display(), if_missing(.read_only))]
    Missing {
        /// The path of the file.
        path: PathBuf,
        /// True if the volume is read-only.
        read_only: bool,
    },
    /// The path of an image is not that of a regular file.
    #[error(
        "{} is {found}, not a regular file: {}",
        .path.display(),
        if_other(found)
    )]
    NotAnImage {
        /// The path of the file.
        path: PathBuf,
        /// The kind of file that is there.
        found: &'static str,
    },
    /// The path of a device is not that of a block device.
    #[error(
        "{} is {found}, not a block device: {}",
        .path.display(),
        if_other(found)
    )]
    NotADevice {
        /// The path of the file.
        path: PathBuf,
        /// The kind of file that is there.
        found: &'static str,
    },
    /// The file does not have the size that the configuration states.
    #[error(
        "{} has {}, but the volume's `size` is {}; remove `size` to serve the file as it is, or resize the file (if it remained from an interrupted creation, remove it)",
        .path.display(),
        ByteSize(*.actual),
        ByteSize(*.stated)
    )]
    Size {
        /// The path of the file or device.
        path: PathBuf,
        /// The actual size in bytes.
        actual: u64,
        /// The stated size in bytes.
        stated: u64,
    },
    /// The image of a volume that is served has become smaller.
    #[error(
        "{} has {}, but its volume has {}: another program has truncated the file, and the data behind its end is lost; run `truncate -s {was}`, restore the data, and then grow the volume",
        .path.display(),
        ByteSize(*.actual),
        ByteSize(*.was)
    )]
    Cut {
        /// The path of the file.
        path: PathBuf,
        /// The actual size in bytes.
        actual: u64,
        /// The size of the volume in bytes.
        was: u64,
    },
    /// The image cannot be enlarged.
    #[error(
        "cannot grow {} from {} to {}{}: {}{}",
        .path.display(),
        ByteSize(.growth.from),
        ByteSize(.growth.to),
        if_allocated(&.growth.allocate),
        os_error::message(source),
        if_not_grown(source, .growth.allocate)
    )]
    Grow {
        /// The path of the file, which has its old size.
        path: PathBuf,
        /// The requested growth.
        growth: Growth,
        /// The error of the system.
        source: io::Error,
    },
    /// The size is zero, or is not a multiple of the block size.
    #[error("{} {}", .path.display(), if_partial(*.actual, *.block))]
    Partial {
        /// The path of the file or device.
        path: PathBuf,
        /// The actual size in bytes.
        actual: u64,
        /// The block size in bytes.
        block: u32,
    },
    /// The image could not be created.
    #[error(
        "cannot create {} with {}{}: {}{}",
        .path.display(),
        ByteSize(*.size),
        if_allocated(.preallocate),
        os_error::message(source),
        if_not_made(path, source, .preallocate)
    )]
    Create {
        /// The path of the file, which does not exist.
        path: PathBuf,
        /// The intended size in bytes.
        size: u64,
        /// True if its space was to be allocated.
        preallocate: bool,
        /// The error of the system.
        source: io::Error,
    },
    /// The fully allocated image would be larger than the free space.
    #[error(
        "cannot create {}: it needs {}, and the file system has {} free. (Volumes with a promise are fully allocated when they are created.) Free some space, or reduce `size`",
        .path.display(),
        ByteSize(*.size),
        ByteSize(*.free)
    )]
    Space {
        /// The path of the file, which does not exist.
        path: PathBuf,
        /// The intended size in bytes.
        size: u64,
        /// The number of free bytes.
        free: u64,
    },
    /// The file system does not support direct I/O.
    #[error(
        "{} cannot be opened past the page cache (O_DIRECT): {}; the file system does not support this. Move the image, for example to ext4, xfs or btrfs, or set `cache = \"host\"`, which excludes a min",
        .path.display(),
        os_error::message(source)
    )]
    NoDirect {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The block size is larger than supported.
    #[error(
        "{} has blocks of {block} bytes; at most 4096 are supported. Use another device, or an image on this one with `cache = \"host\"`",
        .path.display()
    )]
    Block {
        /// The path of the file or device.
        path: PathBuf,
        /// The block size in bytes.
        block: u32,
    },
    /// Another program holds a lock on the file or device.
    #[error(
        "{} is in use by {}",
        .path.display(),
        by_whom(.holder.as_ref())
    )]
    Locked {
        /// The path of the file or device.
        path: PathBuf,
        /// The process that holds the lock, if it is visible.
        holder: Option<Holder>,
    },
    /// The system uses the file or device itself.
    #[error(
        "{} is in use: {}; end that use first, or use another path",
        .path.display(),
        .uses.join("; ")
    )]
    InUse {
        /// The path of the file or device.
        path: PathBuf,
        /// The uses, each in the form "is mounted on /srv (ext4)".
        uses: Vec<String>,
    },
    /// A system call returned an unexpected error.
    #[error("cannot {call} {}: {}{}", .path.display(), os_error::message(source), if_refused(source))]
    System {
        /// The path of the file or device.
        path: PathBuf,
        /// The operation that failed, as a verb for the message.
        call: &'static str,
        /// The error of the system.
        source: io::Error,
    },
}

/// The text for a device that another program has opened exclusively.
pub(in crate::backend) const CLAIMED: &str = "another program has claimed it";
const DEVICE: &str = "a block device";
const FILE: &str = "a regular file";

impl OpenError {
    pub(in crate::backend) fn system<E: Into<io::Error>>(
        path: &Path,
        call: &'static str,
    ) -> impl FnOnce(E) -> Self + use<E> {
        let path = path.to_path_buf();
        move |error| Self::System {
            path,
            call,
            source: error.into(),
        }
    }

    /// Returns true if the holder of the lock or claim is not visible, or is this process itself.
    pub(crate) fn is_held_by_unknown(&self) -> bool {
        match self {
            Self::Locked { holder, .. } => holder.is_none(),
            Self::InUse { uses, .. } => uses.iter().any(|of| of == CLAIMED),
            _ => false,
        }
    }

    /// Returns a function that converts the error of a lock. `stat` is that of the file or device.
    pub(in crate::backend) fn lock(path: &Path, stat: &Stat) -> impl FnOnce(Errno) -> Self {
        let path = path.to_path_buf();
        let (dev, inode) = (stat.st_dev, stat.st_ino);
        move |errno| match errno {
            // fcntl(2) returns `EAGAIN` for a lock that conflicts with another one.
            Errno::AGAIN => Self::Locked {
                path,
                holder: Holder::of_file(|m| (m.dev(), m.ino()) == (dev, inode)),
            },
            _ => Self::System {
                path,
                call: "lock",
                source: errno.into(),
            },
        }
    }
}

impl From<OpenError> for io::Error {
    /// Converts the error to one of the same kind. Its text is that of the [`OpenError`].
    fn from(error: OpenError) -> Self {
        let kind = match &error {
            OpenError::Create { source, .. }
            | OpenError::Grow { source, .. }
            | OpenError::NoDirect { source, .. }
            | OpenError::System { source, .. } => source.kind(),
            OpenError::Missing { .. } => io::ErrorKind::NotFound,
            OpenError::Locked { .. } | OpenError::InUse { .. } => io::ErrorKind::ResourceBusy,
            OpenError::Space { .. } => io::ErrorKind::StorageFull,
            _ => io::ErrorKind::InvalidInput,
        };
        Self::new(kind, error)
    }
}

fn if_missing(read_only: &bool) -> &'static str {
    if *read_only {
        "create the image first, because a read-only volume is not created"
    } else {
        "set `size` to have it created"
    }
}

/// Returns the advice for a file of another kind.
fn if_other(found: &str) -> &'static str {
    match found {
        FILE => "use `file = \"...\"` for it",
        DEVICE => "use `device = \"...\"` for it",
        _ => "use an image or a block device, for example /dev/sdb",
    }
}

fn if_allocated(preallocate: &bool) -> &'static str {
    if *preallocate {
        ", fully allocated because of a promise"
    } else {
        ""
    }
}

/// Describes a size that is not a multiple of the block size.
fn if_partial(actual: u64, block: u32) -> String {
    match actual {
        0 => "is empty; write the volume's data to it, or remove it and set `size`".to_owned(),
        _ => format!(
            "has {actual} bytes, which is not a multiple of its block size of {block} bytes; resize it, or set `cache = \"host\"`, which excludes a min"
        ),
    }
}

/// Describes the process that holds a lock, and the remedy.
fn by_whom(holder: Option<&Holder>) -> String {
    match holder {
        Some(holder) => format!("{holder}, which holds a lock on it; stop that program first"),
        None => "another program, which holds a lock on it, for example a server or a virtual machine; stop that program first (lslocks(8) shows it)"
            .to_owned(),
    }
}

/// Returns the advice for an image that could not be created.
fn if_not_made(path: &Path, source: &io::Error, preallocate: &bool) -> String {
    let directory = found::directory(path).display();
    match Errno::from_io_error(source) {
        Some(Errno::NOENT) => format!("; create the directory {directory} first"),
        Some(Errno::NOTDIR) => format!("; use another path; {directory} is not a directory"),
        Some(Errno::ACCESS | Errno::PERM) => {
            format!("; give the server's user write permission for the directory {directory}")
        }
        Some(Errno::ROFS) => "; use a file system that is not read-only".to_owned(),
        Some(Errno::NOSPC | Errno::DQUOT) => {
            "; free some space, or reduce `size`".to_owned()
        }
        Some(Errno::FBIG) => "; reduce `size`".to_owned(),
        Some(Errno::OPNOTSUPP) if *preallocate => {
            "; this file system cannot allocate space. Write a full image yourself, or remove the promise"
                .to_owned()
        }
        _ => String::new(),
    }
}

/// Returns the advice for an image that could not be enlarged.
fn if_not_grown(source: &io::Error, allocate: bool) -> &'static str {
    match Errno::from_io_error(source) {
        Some(Errno::NOSPC | Errno::DQUOT) => {
            "; the volume is unchanged. Free some space on the file system, or grow the volume by less"
        }
        Some(Errno::FBIG) => "; the volume is unchanged. Grow it by less",
        Some(Errno::OPNOTSUPP) if allocate => {
            "; this file system cannot allocate space. Append data to the image yourself, or remove the promise"
        }
        _ => "; the volume is unchanged",
    }
}

/// Returns the advice for an operation that the system refused.
fn if_refused(source: &io::Error) -> &'static str {
    match Errno::from_io_error(source) {
        Some(Errno::ACCESS | Errno::PERM) => {
            "; give the server's user permission to read and write it"
        }
        Some(Errno::ROFS) => {
            "; set `read_only = true`, or move it to a file system that is not read-only"
        }
        Some(Errno::NOENT) => "; use one that exists",
        _ => "",
    }
}

/// Returns the description of a kind of file.
pub(in crate::backend) fn name(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => FILE,
        FileType::BlockDevice => DEVICE,
        FileType::Directory => "a directory",
        FileType::CharacterDevice => "a character device",
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        _ => "something else",
    }
}

/// Checks that the size is the stated one, if one is stated.
pub(in crate::backend) fn size_as_stated(
    path: &Path,
    actual: u64,
    stated: Option<u64>,
) -> Result<(), OpenError> {
    match stated.filter(|stated| *stated != actual) {
        Some(stated) => Err(OpenError::Size {
            path: path.to_path_buf(),
            actual,
            stated,
        }),
        None => Ok(()),
    }
}

/// Checks that the size consists of one or more whole blocks.
pub(in crate::backend) fn whole_blocks(
    path: &Path,
    actual: u64,
    block: u32,
) -> Result<(), OpenError> {
    if actual > 0 && actual.is_multiple_of(u64::from(block)) {
        return Ok(());
    }
    Err(OpenError::Partial {
        path: path.to_path_buf(),
        actual,
        block,
    })
}

/// Checks that the system does not use the file or device.
pub(in crate::backend) fn unused(path: &Path, uses: Vec<String>) -> Result<(), OpenError> {
    if uses.is_empty() {
        return Ok(());
    }
    Err(OpenError::InUse {
        path: path.to_path_buf(),
        uses,
    })
}
