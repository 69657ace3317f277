//! Why a file or a device is not served.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Stat};
use weir_config::units::Size;
use weir_uring::Errno;

use crate::backend::Growth;
use crate::backend::found;
use crate::holder::Holder;
use weir_config::os_error;

/// Why an image or a device was not opened: what is wrong, with which, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is no such file, and it may not be created.
    #[error("{} does not exist: {}", .path.display(), if_missing(.read_only))]
    Missing {
        /// The file.
        path: PathBuf,
        /// The volume is read-only.
        read_only: bool,
    },
    /// The path of an image names something else.
    #[error(
        "{} is {found}, not a regular file: {}",
        .path.display(),
        if_other(found)
    )]
    NotAnImage {
        /// The path.
        path: PathBuf,
        /// What it is.
        found: &'static str,
    },
    /// The path of a device names something else.
    #[error(
        "{} is {found}, not a block device: {}",
        .path.display(),
        if_other(found)
    )]
    NotADevice {
        /// The path.
        path: PathBuf,
        /// What it is.
        found: &'static str,
    },
    /// It is not as large as the volume should be.
    #[error(
        "{} has {}, but the volume's `size` is {}; remove `size` to serve the file as it is, or resize the file (if it remained from an interrupted creation, remove it)",
        .path.display(),
        Size(*.actual),
        Size(*.stated)
    )]
    Size {
        /// The file or device.
        path: PathBuf,
        /// Its size in bytes.
        actual: u64,
        /// The size it should have.
        stated: u64,
    },
    /// The image of a volume that is served has become smaller.
    #[error(
        "{} has {}, but its volume has {}: another program has truncated the file, and the data behind its end is lost; run `truncate -s {was}`, restore the data, and then grow the volume",
        .path.display(),
        Size(*.actual),
        Size(*.was)
    )]
    Cut {
        /// The file.
        path: PathBuf,
        /// Its size in bytes.
        actual: u64,
        /// Bytes of the volume.
        was: u64,
    },
    /// The image cannot be made larger.
    #[error(
        "cannot grow {} from {} to {}{}: {}{}",
        .path.display(),
        Size(.growth.from),
        Size(.growth.to),
        if_allocated(&.growth.allocate),
        os_error::message(source),
        if_not_grown(source, .growth.allocate)
    )]
    Grow {
        /// The file; it has the size that it had.
        path: PathBuf,
        /// What was wanted.
        growth: Growth,
        /// What the system answered.
        source: io::Error,
    },
    /// It is not a whole number of blocks long, or empty.
    #[error("{} {}", .path.display(), if_partial(*.actual, *.block))]
    Partial {
        /// The file or device.
        path: PathBuf,
        /// Its size in bytes.
        actual: u64,
        /// Bytes of a block.
        block: u32,
    },
    /// The image could not be made.
    #[error(
        "cannot create {} with {}{}: {}{}",
        .path.display(),
        Size(*.size),
        if_allocated(.preallocate),
        os_error::message(source),
        if_not_made(path, source, .preallocate)
    )]
    Create {
        /// The file; it is not there.
        path: PathBuf,
        /// The size in bytes it should have got.
        size: u64,
        /// Its space was to be allocated.
        preallocate: bool,
        /// What the system answered.
        source: io::Error,
    },
    /// The image, all of it allocated, is larger than what is free.
    #[error(
        "cannot create {}: it needs {}, and the file system has {} free. (Volumes with a promise are fully allocated when they are created.) Free some space, or reduce `size`",
        .path.display(),
        Size(*.size),
        Size(*.free)
    )]
    Space {
        /// The file; it is not there.
        path: PathBuf,
        /// The size in bytes it would have.
        size: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// The file system knows only reads and writes through the page cache.
    #[error(
        "{} cannot be opened past the page cache (O_DIRECT): {}; the file system does not support this. Move the image, for example to ext4, xfs or btrfs, or set `cache = \"host\"`, which excludes a min",
        .path.display(),
        os_error::message(source)
    )]
    NoDirect {
        /// The file.
        path: PathBuf,
        /// What the system answered.
        source: io::Error,
    },
    /// Its blocks are larger than supported.
    #[error(
        "{} has blocks of {block} bytes; at most 4096 are supported. Use another device, or an image on this one with `cache = \"host\"`",
        .path.display()
    )]
    Block {
        /// The file or device.
        path: PathBuf,
        /// Bytes of a block.
        block: u32,
    },
    /// Another program holds a lock on it.
    #[error(
        "{} is in use by {}",
        .path.display(),
        by_whom(.holder.as_ref())
    )]
    Locked {
        /// The file or device.
        path: PathBuf,
        /// The process that holds it, as far as can be seen.
        holder: Option<Holder>,
    },
    /// The system itself uses it.
    #[error(
        "{} is in use: {}; end that use first, or use another path",
        .path.display(),
        .uses.join("; ")
    )]
    InUse {
        /// The file or device.
        path: PathBuf,
        /// By what, each as "is mounted on /srv (ext4)".
        uses: Vec<String>,
    },
    /// The system answered something else.
    #[error("cannot {call} {}: {}{}", .path.display(), os_error::message(source), if_refused(source))]
    System {
        /// The file or device.
        path: PathBuf,
        /// What was tried.
        call: &'static str,
        /// What the system answered.
        source: io::Error,
    },
}

/// The use of a device that a program has opened as its own.
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

    /// Whether it is locked or claimed by a program that cannot be seen, or by this one.
    pub(crate) fn is_held_by_unknown(&self) -> bool {
        match self {
            Self::Locked { holder, .. } => holder.is_none(),
            Self::InUse { uses, .. } => uses.iter().any(|of| of == CLAIMED),
            _ => false,
        }
    }

    /// `stat`: of the file or device.
    pub(in crate::backend) fn lock(path: &Path, stat: &Stat) -> impl FnOnce(Errno) -> Self {
        let path = path.to_path_buf();
        let (dev, inode) = (stat.st_dev, stat.st_ino);
        move |errno| match errno {
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
    /// An error of the system keeps its kind; the text says all.
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

/// What to write for what the path names.
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

/// What is wrong with a size that is no whole number of blocks.
fn if_partial(actual: u64, block: u32) -> String {
    match actual {
        0 => "is empty; write the volume's data to it, or remove it and set `size`".to_owned(),
        _ => format!(
            "has {actual} bytes, which is not a multiple of its block size of {block} bytes; resize it, or set `cache = \"host\"`, which excludes a min"
        ),
    }
}

/// The process that has a lock, and what to do.
fn by_whom(holder: Option<&Holder>) -> String {
    match holder {
        Some(holder) => format!("{holder}, which holds a lock on it; stop that program first"),
        None => "another program, which holds a lock on it, for example a server or a virtual machine; stop that program first (lslocks(8) shows it)"
            .to_owned(),
    }
}

/// What to do about an image that could not be made.
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

/// What to do about an image that could not be made larger.
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

/// What to do about what the system refused.
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

/// What a path names, in words.
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

/// The size is the stated one, if one is stated.
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

/// The size is one block or several.
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

/// Nothing uses it.
pub(in crate::backend) fn unused(path: &Path, uses: Vec<String>) -> Result<(), OpenError> {
    if uses.is_empty() {
        return Ok(());
    }
    Err(OpenError::InUse {
        path: path.to_path_buf(),
        uses,
    })
}
