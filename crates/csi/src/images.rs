//! The files of the driver's volumes: `DIRECTORY/DRIVE/VOLUME@ATTEMPT.img`.
//!
//! Each attempt to make a volume has a file of its own, so that a request of an earlier attempt, which the server may yet come to, is never
//! about a file that a later one has made. The volume's is the one that the server's configuration names.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

/// Stands behind a volume's name, in which it cannot be, before the attempt.
const AT: &str = "@";
/// What each file ends with.
const END: &str = ".img";
/// Longest name of a file, bytes, as file systems have it.
const NAME_MAX: usize = 255;

/// The directory with a directory for each drive that has volumes of the driver's.
#[derive(Clone, Debug)]
pub(crate) struct Images {
    directory: PathBuf,
}

impl Images {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Where the files of a drive lie: on the drive itself, which is mounted there.
    pub(crate) fn of_drive(&self, drive: &str) -> PathBuf {
        self.directory.join(weir_api::encoded(drive))
    }

    /// Whether a drive has volumes of the driver's: it does where its directory is there.
    pub(crate) fn has_drive(&self, drive: &str) -> bool {
        self.of_drive(drive).is_dir()
    }

    /// A file for an attempt to make a volume; `None` if the volume's name is too long for one.
    pub(crate) fn for_attempt(&self, drive: &str, volume: &str) -> Option<PathBuf> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let attempt = now.unwrap_or_default().as_nanos();
        let name = format!("{}{attempt:x}{END}", start(volume));
        (name.len() <= NAME_MAX).then(|| self.of_drive(drive).join(name))
    }

    /// Whether a file is that of an attempt to make a volume.
    pub(crate) fn is_of(&self, file: &Path, drive: &str, volume: &str) -> bool {
        file.parent() == Some(&self.of_drive(drive))
            && (file.file_name().and_then(|name| name.to_str())).is_some_and(|name| {
                name.strip_suffix(END)
                    .and_then(|name| name.strip_prefix(&start(volume)))
                    .is_some_and(|attempt| !attempt.contains(AT))
            })
    }

    /// Takes away the files of a volume on these drives, except the one that it has.
    pub(crate) fn tidy<'a>(
        &self,
        drives: impl Iterator<Item = &'a str>,
        volume: &str,
        except: Option<&Path>,
    ) -> io::Result<()> {
        for drive in drives.filter(|drive| self.has_drive(drive)) {
            for entry in fs::read_dir(self.of_drive(drive))? {
                let path = entry?.path();
                if self.is_of(&path, drive, volume) && Some(path.as_path()) != except {
                    remove(&path)?;
                }
            }
        }
        Ok(())
    }

    /// Bytes that a further volume of a drive may have: what its file system has left, without what the volumes that are there may yet write.
    pub(crate) fn room(&self, drive: &str) -> io::Result<u64> {
        let directory = self.of_drive(drive);
        let system = rustix::fs::statvfs(&directory)?;
        let mut owed = 0;
        for entry in fs::read_dir(&directory)? {
            let file = entry?.metadata()?;
            if file.is_file() {
                owed += file.len().saturating_sub(file.blocks() * 512);
            }
        }
        Ok((system.f_bavail * system.f_frsize).saturating_sub(owed))
    }

    /// Whether the file system of a drive can share what two files have in common: found by trying it.
    pub(crate) fn shares(&self, drive: &str) -> bool {
        let directory = self.of_drive(drive);
        let [from, to] = ["from", "to"].map(|end| directory.join(format!(".share-{end}")));
        // What a driver that was killed here has left.
        let tidy = || [&from, &to].map(|path| remove(path).is_ok());
        let _ = tidy();
        let tried = new(&from).and_then(|source| {
            source.set_len(4096)?;
            rustix::fs::ioctl_ficlone(new(&to)?, source).map_err(io::Error::from)
        });
        tried.is_ok() & tidy().iter().all(|gone| *gone)
    }
}

/// What the files of a volume begin with.
fn start(volume: &str) -> String {
    weir_api::encoded(volume) + AT
}

/// Makes a file of `size` bytes with room for all of them, that of another (`from`) with its content where there is one. It belongs to the
/// directory's owner, as the server's own files do, and is whole and on stable storage, or not there.
///
/// # Errors
/// `Unsupported` where the file system cannot share what two files have in common; else what the system says.
pub(crate) fn make(path: &Path, size: u64, from: Option<&Path>) -> io::Result<()> {
    let made = write(path, size, from);
    if made.is_err() {
        let _ = fs::remove_file(path);
    }
    made
}

fn write(path: &Path, size: u64, from: Option<&Path>) -> io::Result<()> {
    let file = new(path)?;
    if let Some(from) = from {
        rustix::fs::ioctl_ficlone(&file, File::open(from)?).map_err(|errno| match errno {
            Errno::OPNOTSUPP | Errno::NOTTY | Errno::XDEV | Errno::INVAL => {
                io::Error::from(io::ErrorKind::Unsupported)
            }
            other => other.into(),
        })?;
    }
    fill(&file, size)?;
    let directory = path.parent().unwrap_or(path);
    let owner = fs::metadata(directory)?;
    fchown(&file, Some(owner.uid()), Some(owner.gid()))?;
    file.sync_all()?;
    File::open(directory)?.sync_all()
}

/// Makes a file as large as that, if it is smaller.
pub(crate) fn grow(path: &Path, size: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    fill(&file, size)?;
    file.sync_all()
}

/// Sets room aside for what a file has not yet of these bytes: a write must not wait for it, or fail.
fn fill(file: &File, size: u64) -> io::Result<()> {
    let there = file.metadata()?.len();
    if size > there {
        rustix::fs::fallocate(file, FallocateFlags::empty(), there, size - there)?;
    }
    Ok(())
}

/// A file that is not there yet.
fn new(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).open(path)
}

/// Takes a file away, if it is there.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_lie_with_their_drive_under_names_that_any_volume_can_have() {
        let images = Images::new("/d".into());
        for name in ["pvc-1", "../a", "a@b", "ä"] {
            let file = images.for_attempt("fast/1", name).unwrap();
            assert_eq!(file.parent(), Some(Path::new("/d/fast%2F1")));
            assert!(images.is_of(&file, "fast/1", name));
            assert!(!images.is_of(&file, "fast", name));
            assert!(!images.is_of(&file, "fast/1", "pvc"));
        }
        assert_eq!(images.for_attempt("fast", &"x".repeat(252)), None);
    }

    #[test]
    fn what_other_attempts_have_left_is_taken_away() {
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
    fn a_file_has_room_for_all_of_it_and_grows() {
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
    fn what_volumes_may_yet_write_is_no_room() {
        let directory = tempfile::tempdir().unwrap();
        let images = Images::new(directory.path().to_owned());
        fs::create_dir(images.of_drive("d")).unwrap();
        let before = images.room("d").unwrap();
        let file = File::create(images.for_attempt("d", "v").unwrap()).unwrap();
        file.set_len(before).unwrap();
        assert_eq!(images.room("d").unwrap(), 0);
    }
}
