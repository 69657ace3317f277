//! The configuration file: reads it, compares it, and replaces it atomically.
//!
//! [`ConfigFile::prepare`] writes the new text to a temporary file before a change is applied, and
//! [`ConfigFile::replace`] renames it afterwards.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use weir_config::Problem;
use weir_config::trusted::{self, Dir};

/// The configuration file, with the text that it had when it was last read or written.
#[derive(Debug)]
pub(crate) struct ConfigFile {
    path: PathBuf,
    pub(crate) text: String,
}

/// A temporary file with the new text, ready to replace the configuration file. It is removed when
/// this is dropped.
#[derive(Debug)]
pub(crate) struct PreparedFile {
    /// The directory of the file. If the path is a symbolic link, that of its target.
    directory: Dir,
    name: OsString,
    temporary: OsString,
    text: String,
}

impl ConfigFile {
    pub(crate) fn new(path: PathBuf, text: String) -> Self {
        Self { path, text }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if the file no longer has the text that was last read or written.
    pub(crate) fn is_changed(&self) -> Result<bool, Vec<Problem>> {
        Ok(weir_config::file_text(&self.path)?.1 != self.text)
    }

    /// Writes a text durably to a temporary file next to the configuration file, with its mode and
    /// owner.
    ///
    /// If the file or its directory is replaced in the meantime, the result is an error, unless the
    /// new file has the text that was last read.
    pub(crate) fn prepare(&self, text: String) -> io::Result<PreparedFile> {
        let target = fs::canonicalize(&self.path)?;
        let (parent, name) = trusted::split(&target)?;
        let directory = Dir::open(parent)?;
        let like = self.unchanged(&directory, name)?.metadata()?;
        let mut temporary = OsString::from(".");
        temporary.push(name);
        temporary.push(".weir-new");
        // A server that was killed in the meantime can have left the file.
        directory.remove(&temporary)?;
        // The file is private until it has the mode and owner of the original.
        let mut file = directory.create_new(&temporary, 0o600)?;
        let prepared = PreparedFile {
            name: name.to_owned(),
            directory,
            temporary,
            text,
        };
        file.set_permissions(Permissions::from_mode(like.mode() & 0o7777))?;
        let own = file.metadata()?;
        if (own.uid(), own.gid()) != (like.uid(), like.gid()) {
            match fchown(&file, Some(like.uid()), Some(like.gid())) {
                // If the server may write to the directory but not change the owner of files, it
                // becomes the owner, as with a file saved by an editor.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                given => given?,
            }
        }
        file.write_all(prepared.text.as_bytes())?;
        // The content must be durable before the rename makes it visible.
        file.sync_all()?;
        Ok(prepared)
    }

    /// Opens the file with this name, provided that it still has the text that was last read.
    fn unchanged(&self, directory: &Dir, name: &OsStr) -> io::Result<File> {
        let changed =
            || io::Error::other("it has been changed since the server read it; reload it first");
        // This is checked before opening, because opening a device can have effects.
        if !directory.metadata(name)?.is_file() {
            return Err(changed());
        }
        // O_NOFOLLOW and O_NONBLOCK: the name can be replaced by a link or a pipe after the check.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let flags = flags | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(directory, name, flags, Mode::empty())?);
        let mut text = Vec::new();
        // One byte more than expected is enough to notice any difference.
        let most = self.text.len() as u64 + 1;
        (&file).take(most).read_to_end(&mut text)?;
        if text != self.text.as_bytes() {
            return Err(changed());
        }
        Ok(file)
    }

    /// Renames the prepared file to the configuration file.
    pub(crate) fn replace(&mut self, mut prepared: PreparedFile) -> io::Result<()> {
        let directory = &prepared.directory;
        rustix::fs::renameat(directory, &prepared.temporary, directory, &prepared.name)?;
        self.text = std::mem::take(&mut prepared.text);
        // The rename must be durable as well.
        prepared.directory.sync()
    }
}

impl Drop for PreparedFile {
    fn drop(&mut self) {
        // After `replace`, the temporary file does not exist any more.
        let _ = self.directory.remove(&self.temporary);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::os::unix::fs::symlink;

    #[test]
    fn only_the_file_that_was_read_is_replaced() {
        let base = std::env::temp_dir().join(format!("weir-file-{}", std::process::id()));
        let at = |name: &str| base.join(name);
        fs::create_dir(&base).unwrap();
        fs::write(at("other"), "other").unwrap();
        fs::write(at("real.toml"), "text").unwrap();
        symlink("real.toml", at("c.toml")).unwrap();
        let mut file = ConfigFile::new(at("c.toml"), "text".to_owned());
        assert_eq!(file.is_changed(), Ok(false));
        let prepared = file.prepare("next".to_owned()).unwrap();
        file.replace(prepared).unwrap();
        assert_eq!(fs::read_to_string(at("real.toml")).unwrap(), "next");
        assert!(at("c.toml").is_symlink());

        let replace = |place: &dyn Fn(&Path)| {
            fs::remove_file(at("c.toml")).unwrap();
            place(&at("c.toml"));
            // The owner of the directory replaces the file after it was found unchanged.
            let refused = file.prepare("last".to_owned()).unwrap_err();
            (refused.to_string(), file.is_changed())
        };
        let (refused, changed) = replace(&|path| symlink("other", path).unwrap());
        assert!(refused.contains("has been changed"), "{refused}");
        assert_eq!(changed, Ok(true));
        for (device, kind) in [("/dev/zero", "a character device"), ("pipe", "a pipe")] {
            let (_, changed) = replace(&|path| {
                if device == "pipe" {
                    rustix::fs::mkfifoat(rustix::fs::CWD, path, Mode::RWXU).unwrap();
                } else {
                    symlink(device, path).unwrap();
                }
            });
            let said = changed.unwrap_err().remove(0).message;
            assert_eq!(said, format!("is {kind}, not a regular file"));
        }
        assert_eq!(fs::read_to_string(at("other")).unwrap(), "other");
        assert_eq!(fs::read_dir(&base).unwrap().count(), 3);
        fs::remove_dir_all(base).unwrap();
    }
}
