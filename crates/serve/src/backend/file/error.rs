//! Why a file or a device is not served.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use weir_uring::Errno;

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
        "{} has {actual} bytes, but the volume's `size` is {stated}: leave `size` out to serve it as it is, or resize it yourself (what an interrupted creation left behind can be removed)",
        .path.display()
    )]
    Size {
        /// The file or device.
        path: PathBuf,
        /// Its size in bytes.
        actual: u64,
        /// The size it should have.
        stated: u64,
    },
    /// It is not a whole number of blocks long, or empty.
    #[error(
        "{} has {actual} bytes, which is not a whole number of blocks of {block} bytes (one at least): resize it, or say `cache = \"host\"`, which cannot carry a min",
        .path.display()
    )]
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
        "cannot create {} with {size} bytes{}: {source}{}",
        .path.display(),
        if_allocated(.preallocate),
        if_not_made(source, .preallocate)
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
    /// The file system knows only reads and writes through the page cache.
    #[error(
        "{} cannot be opened past the page cache (O_DIRECT): {source}; its file system does not offer that (ext4, xfs and btrfs do): move the image, or say `cache = \"host\"`, which cannot carry a min",
        .path.display()
    )]
    NoDirect {
        /// The file.
        path: PathBuf,
        /// What the system answered.
        source: io::Error,
    },
    /// Its blocks are larger than supported.
    #[error(
        "{} is read and written in blocks of {block} bytes; at most 4096 are supported: put the volume elsewhere, or an image on it with `cache = \"host\"`",
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
        "{} is in use by another program, which holds a lock on it (a server, or a virtual machine): stop that first; lslocks(8) says which it is",
        .path.display()
    )]
    Locked {
        /// The file or device.
        path: PathBuf,
    },
    /// The system itself uses it.
    #[error(
        "{} is in use: {}; it was not opened: end that use first, or name another",
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
    #[error("cannot {call} {}: {source}", .path.display())]
    System {
        /// The file or device.
        path: PathBuf,
        /// What was tried.
        call: &'static str,
        /// What the system answered.
        source: io::Error,
    },
}

const DEVICE: &str = "a block device";
const FILE: &str = "a regular file";

impl OpenError {
    pub(in crate::backend) fn system(
        path: &Path,
        call: &'static str,
    ) -> impl FnOnce(Errno) -> Self {
        let path = path.to_path_buf();
        move |errno| Self::System {
            path,
            call,
            source: errno.into(),
        }
    }

    pub(in crate::backend) fn lock(path: &Path) -> impl FnOnce(Errno) -> Self {
        let path = path.to_path_buf();
        move |errno| match errno {
            Errno::AGAIN => Self::Locked { path },
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
            | OpenError::NoDirect { source, .. }
            | OpenError::System { source, .. } => source.kind(),
            OpenError::Missing { .. } => io::ErrorKind::NotFound,
            OpenError::Locked { .. } | OpenError::InUse { .. } => io::ErrorKind::ResourceBusy,
            _ => io::ErrorKind::InvalidInput,
        };
        Self::new(kind, error)
    }
}

fn if_missing(read_only: &bool) -> &'static str {
    if *read_only {
        "a read-only volume is not created; make the image first"
    } else {
        "give the volume a `size` to have it created"
    }
}

/// What to write for what the path names.
fn if_other(found: &str) -> &'static str {
    match found {
        FILE => "name it with `file = \"...\"`",
        DEVICE => "name it with `device = \"...\"`",
        _ => "name an image or a device such as /dev/sdb",
    }
}

fn if_allocated(preallocate: &bool) -> &'static str {
    if *preallocate {
        ", all of them allocated because something was promised"
    } else {
        ""
    }
}

/// What to do about an image that could not be made.
fn if_not_made(source: &io::Error, preallocate: &bool) -> &'static str {
    match Errno::from_io_error(source) {
        Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => {
            "; make room, or give the volume a smaller `size`"
        }
        Some(Errno::OPNOTSUPP) if *preallocate => {
            "; this file system cannot allocate: write an image full of data yourself, or promise nothing"
        }
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
