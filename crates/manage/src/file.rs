//! The configuration's file: read, compared, and replaced as a whole.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

/// The file, and what it said when it was read or written last.
#[derive(Debug)]
pub(crate) struct ConfigFile {
    path: PathBuf,
    pub(crate) text: String,
}

/// A text that lies beside the file, ready to take its place. It goes when this is dropped.
#[derive(Debug)]
pub(crate) struct Prepared {
    temporary: PathBuf,
    /// Where a link leads, if the file is one.
    target: PathBuf,
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
    pub(crate) fn is_changed(&self) -> io::Result<bool> {
        Ok(fs::read(&self.path)? != self.text.as_bytes())
    }

    /// Writes a text beside the file, with its mode and owner, and makes it durable.
    pub(crate) fn prepare(&self, text: String) -> io::Result<Prepared> {
        let target = fs::canonicalize(&self.path)?;
        let mut name = std::ffi::OsString::from(".");
        name.push(target.file_name().unwrap_or_default());
        name.push(".weir-new");
        let temporary = target.with_file_name(name);
        // What a server that was killed in between left.
        let _ = fs::remove_file(&temporary);
        let like = fs::metadata(&target)?;
        let prepared = Prepared {
            temporary,
            target,
            text,
        };
        let mut file = File::create_new(&prepared.temporary)?;
        file.set_permissions(fs::Permissions::from_mode(like.mode() & 0o7777))?;
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

    /// Puts what was prepared in the file's place.
    pub(crate) fn replace(&mut self, mut prepared: Prepared) -> io::Result<()> {
        fs::rename(&prepared.temporary, &prepared.target)?;
        self.text = std::mem::take(&mut prepared.text);
        let directory = prepared.target.parent().unwrap_or_else(|| Path::new("/"));
        File::open(directory)?.sync_all()
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        // After it took the file's place it is not there.
        let _ = fs::remove_file(&self.temporary);
    }
}
