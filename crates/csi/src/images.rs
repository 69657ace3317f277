//! The files of the driver's volumes: `DIRECTORY/DRIVE/VOLUME.img`.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

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

    /// The file of a volume; `None` if its name is too long for one.
    pub(crate) fn of_volume(&self, drive: &str, volume: &str) -> Option<PathBuf> {
        let name = weir_api::encoded(volume) + ".img";
        (name.len() <= NAME_MAX).then(|| self.of_drive(drive).join(name))
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
        let tried = new(&from).and_then(|source| {
            source.set_len(4096)?;
            rustix::fs::ioctl_ficlone(new(&to)?, source).map_err(io::Error::from)
        });
        for path in [&from, &to] {
            // They are of this question alone.
            let _ = fs::remove_file(path);
        }
        tried.is_ok()
    }

    /// The drives that have a file of this name.
    pub(crate) fn leftovers<'a>(
        &'a self,
        drives: impl Iterator<Item = &'a str> + 'a,
        volume: &'a str,
    ) -> impl Iterator<Item = PathBuf> + 'a {
        let files = drives.filter_map(move |drive| self.of_volume(drive, volume));
        files.filter(|path| path.symlink_metadata().is_ok())
    }
}

/// Makes a file that shares all of another's blocks, of `size` bytes, and belongs to the directory's owner, as the server's own files do. It is
/// whole and on stable storage, or not there.
pub(crate) fn clone(from: &Path, to: &Path, size: u64) -> io::Result<()> {
    let made = write_clone(from, to, size);
    if made.is_err() {
        let _ = fs::remove_file(to);
    }
    made
}

fn write_clone(from: &Path, to: &Path, size: u64) -> io::Result<()> {
    let file = new(to)?;
    rustix::fs::ioctl_ficlone(&file, File::open(from)?).map_err(|errno| match errno {
        Errno::OPNOTSUPP | Errno::NOTTY | Errno::XDEV | Errno::INVAL => {
            io::Error::from(io::ErrorKind::Unsupported)
        }
        other => other.into(),
    })?;
    file.set_len(size)?;
    let directory = to.parent().unwrap_or(to);
    let owner = fs::metadata(directory)?;
    fchown(&file, Some(owner.uid()), Some(owner.gid()))?;
    file.sync_all()?;
    File::open(directory)?.sync_all()
}

fn new(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path)
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
        let of = |volume| images.of_volume("fast/1", volume);
        assert_eq!(of("pvc-1"), Some("/d/fast%2F1/pvc-1.img".into()));
        assert_eq!(of("../a"), Some("/d/fast%2F1/..%2Fa.img".into()));
        assert_eq!(of(&"x".repeat(252)), None);
    }

    #[test]
    fn what_volumes_may_yet_write_is_no_room() {
        let directory = tempfile::tempdir().unwrap();
        let images = Images::new(directory.path().to_owned());
        fs::create_dir(images.of_drive("d")).unwrap();
        let before = images.room("d").unwrap();
        let file = File::create(images.of_volume("d", "v").unwrap()).unwrap();
        file.set_len(before).unwrap();
        assert_eq!(images.room("d").unwrap(), 0);
    }
}
