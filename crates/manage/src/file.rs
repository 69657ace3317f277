//! The configuration's file: read, compared, and replaced as a whole.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use weir_config::Problem;
use weir_config::trusted::{self, Dir};

/// The file, and what it said when it was read or written last.
#[derive(Debug)]
pub(crate) struct ConfigFile {
    path: PathBuf,
    pub(crate) text: String,
}

/// A text that lies beside the file, ready to take its place. It goes when this is dropped.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// Where a link leads, if the file is one.
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

    /// Whether somebody else has changed it since.
    pub(crate) fn is_changed(&self) -> Result<bool, Vec<Problem>> {
        Ok(weir_config::file_text(&self.path)?.1 != self.text)
    }

    /// Writes a text beside the file, with its mode and owner, and makes it durable. Whatever is put in the place of the file or of its
    /// directory in the meantime, only a file with the text that was read last is replaced.
    pub(crate) fn prepare(&self, text: String) -> io::Result<Prepared> {
        let target = fs::canonicalize(&self.path)?;
        let (parent, name) = trusted::split(&target)?;
        let directory = Dir::open(parent)?;
        let like = self.unchanged(&directory, name)?.metadata()?;
        let mut temporary = OsString::from(".");
        temporary.push(name);
        temporary.push(".weir-new");
        // What a server that was killed in between left.
        directory.remove(&temporary)?;
        let mut file = directory.create_new(&temporary, 0o600)?;
        let prepared = Prepared {
            name: name.to_owned(),
            directory,
            temporary,
            text,
        };
        file.set_permissions(Permissions::from_mode(like.mode() & 0o7777))?;
        let own = file.metadata()?;
        if (own.uid(), own.gid()) != (like.uid(), like.gid()) {
            match fchown(&file, Some(like.uid()), Some(like.gid())) {
                // A server that may write in the directory and give no files away becomes the owner, as of what an editor writes.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                given => given?,
            }
        }
        file.write_all(prepared.text.as_bytes())?;
        file.sync_all()?;
        Ok(prepared)
    }

    /// The file with this name, if it still has the text that was read last.
    fn unchanged(&self, directory: &Dir, name: &OsStr) -> io::Result<File> {
        let changed =
            || io::Error::other("it has been changed since the server read it; reload it first");
        // Before it is opened, because opening a device can have effects.
        if !directory.metadata(name)?.is_file() {
            return Err(changed());
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let flags = flags | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(directory, name, flags, Mode::empty())?);
        let mut text = Vec::new();
        let most = self.text.len() as u64 + 1;
        (&file).take(most).read_to_end(&mut text)?;
        if text != self.text.as_bytes() {
            return Err(changed());
        }
        Ok(file)
    }

    /// Puts what was prepared in the file's place.
    pub(crate) fn replace(&mut self, mut prepared: Prepared) -> io::Result<()> {
        let directory = &prepared.directory;
        rustix::fs::renameat(directory, &prepared.temporary, directory, &prepared.name)?;
        self.text = std::mem::take(&mut prepared.text);
        prepared.directory.sync()
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        // After it took the file's place it is not there.
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
            // After it was found unchanged, the owner of the directory was quick.
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
