//! What a start or a reload has made: one that is refused leaves nothing that was not there before.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file that was made just now, or a socket. It goes when this is dropped, unless it is kept; only what was made goes, and what has
/// come to its place since stays.
#[derive(Debug)]
#[must_use = "what was made goes when this is dropped"]
pub struct Created {
    path: PathBuf,
    /// Device and inode; nothing once it is kept.
    made: Option<(u64, u64)>,
    /// Where what was in its place before is meanwhile.
    aside: Option<PathBuf>,
}

impl Created {
    /// What is at the path was made just now. What was there before was moved `aside`, if anything was, and comes back with a refusal.
    pub(crate) fn at(path: &Path, aside: Option<PathBuf>) -> io::Result<Self> {
        let mut created = Self {
            path: path.to_owned(),
            made: None,
            aside,
        };
        created.made = Some(identity(&fs::symlink_metadata(path)?));
        Ok(created)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Nothing can be refused any more: what was moved aside goes.
    pub(crate) fn settle(&mut self) {
        if let Some(aside) = self.aside.take() {
            // It is a socket that nobody listens on.
            let _ = fs::remove_file(aside);
        }
    }

    /// It stays. What is returned can make it go after all.
    pub(crate) fn keep(mut self) -> Kept {
        self.settle();
        Kept {
            path: self.path.clone(),
            made: self.made.take(),
        }
    }
}

/// A file that was made and stays.
#[derive(Debug)]
pub(crate) struct Kept {
    path: PathBuf,
    made: Option<(u64, u64)>,
}

impl Kept {
    /// It goes with what is returned, unless that is kept.
    pub(crate) fn claim(self) -> Created {
        Created {
            path: self.path,
            made: self.made,
            aside: None,
        }
    }
}

impl Drop for Created {
    fn drop(&mut self) {
        let there = fs::symlink_metadata(&self.path).ok();
        let ours = self.made.is_some() && there.as_ref().map(identity) == self.made;
        // What cannot be removed has gone, or stays: there is nobody to be told.
        if ours {
            let _ = fs::remove_file(&self.path);
        }
        if let Some(aside) = self.aside.take()
            && (ours || there.is_none())
        {
            let _ = fs::rename(aside, &self.path);
        }
    }
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_made_goes_and_what_was_aside_comes_back() {
        let base = std::env::temp_dir().join(format!("weir-created-{}", std::process::id()));
        fs::create_dir(&base).unwrap();
        let (path, aside) = (base.join("file"), base.join("aside"));
        let make = |text: &str| {
            fs::write(&path, text).unwrap();
            Created::at(&path, aside.exists().then(|| aside.clone())).unwrap()
        };
        drop(make("gone"));
        assert!(!path.exists());
        drop(make("kept").keep().claim().keep());
        assert_eq!(fs::read(&path).unwrap(), b"kept");
        fs::rename(&path, &aside).unwrap();
        drop(make("new"));
        assert_eq!(fs::read(&path).unwrap(), b"kept");
        assert!(!aside.exists());
        fs::rename(&path, &aside).unwrap();
        let mut settled = make("new");
        settled.settle();
        assert!(path.exists() && !aside.exists());
        // Somebody puts another file in its place.
        fs::write(base.join("other"), "other").unwrap();
        fs::rename(base.join("other"), &path).unwrap();
        drop(settled);
        assert_eq!(fs::read(&path).unwrap(), b"other");
        fs::remove_dir_all(base).unwrap();
    }
}
