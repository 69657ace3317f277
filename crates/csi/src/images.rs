//! The files of the driver's volumes: `DIRECTORY/DRIVE/VOLUME@ATTEMPT.img`.
//!
//! Each attempt to make a volume has a file of its own. The server can still execute a request of
//! an earlier attempt, which must not affect the file of a later one. The file of the volume is the
//! one that the server's configuration names.
//!
//! The driver runs as root, and a drive's directory can belong to the server's user. Files are
//! therefore opened through [`Dir`], so that this user cannot make the driver open a file of
//! another user through a link.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use weir_config::trusted::{self, Dir};

/// The separator between a volume's name, which cannot contain it, and the attempt.
const AT: &str = "@";
/// The ending of the name of each file.
const END: &str = ".img";
/// The permissions of a volume's file.
const MODE: u32 = 0o600;
/// The maximum length of a file's name in bytes, as in common file systems.
const NAME_MAX: usize = 255;

/// The directory with a subdirectory for each drive on which the driver can make volumes.
#[derive(Clone, Debug)]
pub(crate) struct Images {
    directory: PathBuf,
}

impl Images {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Returns the directory for the files of a drive. The drive itself is mounted there.
    pub(crate) fn of_drive(&self, drive: &str) -> PathBuf {
        self.directory.join(weir_manage::api::encoded(drive))
    }

    /// Returns true if the driver can make volumes on a drive, that is, if the drive's directory
    /// exists.
    pub(crate) fn has_drive(&self, drive: &str) -> bool {
        self.of_drive(drive).is_dir()
    }

    /// Returns a new file name for an attempt to make a volume, or `None` if the volume's name is
    /// too long.
    pub(crate) fn for_attempt(&self, drive: &str, volume: &str) -> Option<PathBuf> {
        // A clock before 1970 gives attempt 0. A name that is taken is refused when the file is
        // created.
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let attempt = now.unwrap_or_default().as_nanos();
        let name = format!("{}{attempt:x}{END}", start(volume));
        (name.len() <= NAME_MAX).then(|| self.of_drive(drive).join(name))
    }

    /// Returns true if a file is that of an attempt to make a volume.
    pub(crate) fn is_of(&self, file: &Path, drive: &str, volume: &str) -> bool {
        file.parent() == Some(&self.of_drive(drive))
            && (file.file_name().and_then(|name| name.to_str())).is_some_and(|name| {
                name.strip_suffix(END)
                    .and_then(|name| name.strip_prefix(&start(volume)))
                    .is_some_and(|attempt| !attempt.contains(AT))
            })
    }

    /// Removes the files of a volume on these drives, except the one that the volume has.
    pub(crate) fn tidy<'a>(
        &self,
        drives: impl Iterator<Item = &'a str>,
        volume: &str,
        except: Option<&Path>,
    ) -> io::Result<()> {
        // The server can have drives that the driver does not use.
        for drive in drives.filter(|drive| self.has_drive(drive)) {
            let directory = self.of_drive(drive);
            let dir = Dir::open(&directory)?;
            for name in dir.names()? {
                let path = directory.join(&name);
                if self.is_of(&path, drive, volume) && Some(path.as_path()) != except {
                    dir.remove(&name)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the maximum size of a further volume on a drive in bytes. It is the free space of
    /// the file system, minus the space that sparse files of existing volumes can still occupy.
    pub(crate) fn room(&self, drive: &str) -> io::Result<u64> {
        let dir = Dir::open(&self.of_drive(drive))?;
        let system = rustix::fs::fstatvfs(&dir)?;
        let mut owed = 0;
        for name in dir.names()? {
            let file = dir.metadata(&name)?;
            if file.is_file() {
                // st_blocks counts units of 512 bytes, whatever the block size of the file system
                // (stat(2)).
                owed += file.len().saturating_sub(file.blocks() * 512);
            }
        }
        Ok((system.f_bavail * system.f_frsize).saturating_sub(owed))
    }

    /// Returns true if the drive's file system supports reflinks, which is found by trying.
    pub(crate) fn shares(&self, drive: &str) -> bool {
        let Ok(dir) = Dir::open(&self.of_drive(drive)) else {
            return false;
        };
        let [from, to] = [".share-from", ".share-to"].map(OsStr::new);
        // A driver that was killed here can have left the files.
        let tidy = || [from, to].map(|name| dir.remove(name).is_ok());
        let _ = tidy();
        let tried = dir.create_new(from, MODE).and_then(|source| {
            source.set_len(4096)?;
            let target = dir.create_new(to, MODE)?;
            rustix::fs::ioctl_ficlone(target, source).map_err(io::Error::from)
        });
        // `&` evaluates both sides, so that the files are removed in any case.
        tried.is_ok() & tidy().iter().all(|gone| *gone)
    }
}

/// Returns the common beginning of the names of a volume's files.
fn start(volume: &str) -> String {
    weir_manage::api::encoded(volume) + AT
}

/// Makes a file of `size` bytes whose space is allocated. If `from` is given, the file begins with
/// the content of that file.
///
/// The file belongs to the owner of the directory, like the server's own files. It is either
/// complete and on stable storage, or does not exist.
///
/// # Errors
/// Returns `Unsupported` if the file system does not support reflinks, and otherwise the system's
/// error.
pub(crate) fn make(path: &Path, size: u64, from: Option<&Path>) -> io::Result<()> {
    let (dir, name) = place(path)?;
    // The source is opened first, so that an error leaves no new file.
    let source = from.map(open).transpose()?;
    let file = dir.create_new(name, MODE)?;
    let made = write(&dir, &file, size, source.as_ref());
    if made.is_err() {
        // The first error is the one that matters. A file that stays is removed by `Images::tidy`.
        let _ = dir.remove(name);
    }
    made
}

/// Fills a new file, and makes it and its name durable.
fn write(dir: &Dir, file: &File, size: u64, source: Option<&File>) -> io::Result<()> {
    if let Some(source) = source {
        rustix::fs::ioctl_ficlone(file, source).map_err(|errno| match errno {
            Errno::OPNOTSUPP | Errno::NOTTY | Errno::XDEV | Errno::INVAL => {
                io::Error::from(io::ErrorKind::Unsupported)
            }
            other => other.into(),
        })?;
    }
    fill(file, size)?;
    let (owner, group) = dir.owner();
    fchown(file, Some(owner), Some(group))?;
    file.sync_all()?;
    dir.sync()
}

/// Grows a file to a size, with allocated space. Does nothing if the file is not smaller.
pub(crate) fn grow(path: &Path, size: u64) -> io::Result<()> {
    let file = open(path)?;
    fill(&file, size)?;
    file.sync_all()
}

/// Allocates the missing bytes of a file, so that a write neither waits for space nor fails for
/// lack of it.
fn fill(file: &File, size: u64) -> io::Result<()> {
    let there = file.metadata()?.len();
    if size > there {
        rustix::fs::fallocate(file, FallocateFlags::empty(), there, size - there)?;
    }
    Ok(())
}

/// Opens a volume's file, which must belong to the owner of its directory.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let (dir, name) = place(path)?;
    dir.write(name)
}

/// Returns the size of a volume's file in bytes.
pub(crate) fn size(path: &Path) -> io::Result<u64> {
    let (dir, name) = place(path)?;
    let found = dir.metadata(name)?;
    if found.is_file() {
        return Ok(found.len());
    }
    Err(Errno::INVAL.into())
}

/// Removes a file if it exists.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    let (dir, name) = place(path)?;
    dir.remove(name)
}

/// Opens the directory of a volume's file. Returns it with the file's name.
fn place(path: &Path) -> io::Result<(Dir, &OsStr)> {
    let (directory, name) = trusted::split(path)?;
    Ok((Dir::open(directory)?, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{chown, symlink};

    #[test]
    fn images_are_in_a_directory_per_drive_with_escaped_names() {
        let images = Images::new("/d".into());
        for name in ["pvc-1", "../a", "a@b", "ä"] {
            let file = images.for_attempt("fast/1", name).unwrap();
            assert_eq!(file.parent(), Some(Path::new("/d/fast%2F1")));
            assert!(images.is_of(&file, "fast/1", name));
            assert!(!images.is_of(&file, "fast", name));
            assert!(!images.is_of(&file, "fast/1", "pvc"));
        }
        // With the separator, the attempt and the ending, 252 bytes become more than 255.
        assert_eq!(images.for_attempt("fast", &"x".repeat(252)), None);
    }

    #[test]
    fn files_of_other_attempts_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let images = Images::new(directory.path().to_owned());
        fs::create_dir(images.of_drive("d")).unwrap();
        let make = |volume| {
            let file = images.for_attempt("d", volume).unwrap();
            fs::write(&file, "").unwrap();
            file
        };
        let all = [make("a"), make("a"), make("a.b")];
        images
            .tidy(["d", "none"].into_iter(), "a", Some(&all[1]))
            .unwrap();
        assert_eq!(
            all.each_ref().map(|file| file.exists()),
            [false, true, true]
        );
        images.tidy(["d"].into_iter(), "a", None).unwrap();
        assert!(!all[1].exists());
    }

    #[test]
    fn an_image_is_fully_allocated_and_grows() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        for (size, of) in [
            (1 << 20, make as fn(&Path, u64, Option<&Path>) -> _),
            (3 << 20, |p, s, _| grow(p, s)),
            (2 << 20, |p, s, _| grow(p, s)),
        ] {
            of(&path, size, None).unwrap();
            let found = fs::metadata(&path).unwrap();
            assert_eq!(found.len(), size.max(found.len()));
            assert!(found.blocks() * 512 >= found.len());
        }
        assert_eq!(fs::metadata(&path).unwrap().len(), 3 << 20);
        assert!(make(&directory.path().join("b"), u64::MAX >> 2, None).is_err());
        assert!(!directory.path().join("b").exists());
    }

    #[test]
    fn a_link_in_place_of_a_file_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let images = Images::new(directory.path().to_owned());
        let drive = images.of_drive("d");
        let (secret, image) = (directory.path().join("secret"), drive.join("a"));
        fs::create_dir(&drive).unwrap();
        fs::write(&secret, "secret").unwrap();
        symlink(&secret, &image).unwrap();
        assert!(grow(&image, 1 << 20).is_err());
        assert!(make(&image, 1 << 20, None).is_err());
        let clone = make(&drive.join("b"), 1 << 20, Some(&image)).unwrap_err();
        assert_ne!(clone.kind(), io::ErrorKind::Unsupported);
        assert!(!drive.join("b").exists());
        assert!(size(&image).is_err());
        assert_eq!(fs::read(&secret).unwrap(), b"secret");
        remove(&image).unwrap();
        assert!(secret.exists());
        if !rustix::process::geteuid().is_root() {
            return; // Giving a directory away takes root.
        }
        // The server's user owns the directory, and has given another user's file a name there.
        let other = Some(65_534);
        chown(&drive, other, None).unwrap();
        fs::hard_link(&secret, &image).unwrap();
        assert!(grow(&image, 1 << 20).is_err());
        make(&drive.join("b"), 1 << 20, None).unwrap();
        grow(&drive.join("b"), 2 << 20).unwrap();
        // A link in its directory leads elsewhere.
        symlink(directory.path(), drive.join("e")).unwrap();
        assert!(make(&drive.join("e/c"), 1 << 20, None).is_err());
        assert!(!directory.path().join("c").exists());
    }

    #[test]
    fn unwritten_space_of_volumes_is_not_free() {
        let directory = tempfile::tempdir().unwrap();
        let images = Images::new(directory.path().to_owned());
        fs::create_dir(images.of_drive("d")).unwrap();
        let before = images.room("d").unwrap();
        let file = File::create(images.for_attempt("d", "v").unwrap()).unwrap();
        file.set_len(before).unwrap();
        assert_eq!(images.room("d").unwrap(), 0);
    }
}
