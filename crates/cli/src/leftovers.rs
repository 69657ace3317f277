//! What a command that is interrupted must not leave behind.

use crate::failure::Failure;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Files and directories that go when the command does, however it ends.
#[derive(Debug, Clone, Default)]
pub(crate) struct Leftovers(Arc<Mutex<Vec<PathBuf>>>);

/// One of them: it goes when this is dropped.
#[derive(Debug)]
pub(crate) struct Leftover {
    path: PathBuf,
    all: Leftovers,
    kept: bool,
}

impl Leftovers {
    /// From here on an interrupt or a call to end removes what was added, and ends the process.
    pub(crate) fn watch() -> Result<Self, Failure> {
        let failed = |e| Failure::Run(format!("cannot watch for signals: {e}"));
        let all = Self::default();
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(failed)?;
        let watched = all.clone();
        let watcher = thread::Builder::new().name("signals".into());
        let work = move || {
            if let Some(signal) = signals.forever().next() {
                // Kept locked to the end, so that nothing is added any more.
                let paths = watched.0.lock().unwrap_or_else(PoisonError::into_inner);
                paths.iter().for_each(|path| remove(path));
                std::process::exit(128 + signal);
            }
        };
        watcher.spawn(work).map_err(failed)?;
        Ok(all)
    }

    /// Adds a file or directory, made just now or just about to be.
    pub(crate) fn add(&self, path: &Path) -> Leftover {
        let mut paths = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        paths.push(path.to_owned());
        Leftover {
            path: path.to_owned(),
            all: self.clone(),
            kept: false,
        }
    }
}

impl Leftover {
    /// It stays.
    pub(crate) fn keep(mut self) {
        self.kept = true;
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Leftover {
    fn drop(&mut self) {
        let mut paths = self.all.0.lock().unwrap_or_else(PoisonError::into_inner);
        paths.retain(|path| *path != self.path);
        if !self.kept {
            remove(&self.path);
        }
    }
}

/// Removes a file, or a directory with what is in it. What cannot be removed was removed by someone else, or stays.
fn remove(path: &Path) {
    let _ = match fs::symlink_metadata(path) {
        Ok(data) if data.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => Ok(()),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_goes_and_what_is_kept_stays() {
        let base = std::env::temp_dir().join(format!("weir-leftovers-{}", std::process::id()));
        fs::create_dir(&base).unwrap();
        let all = Leftovers::default();
        let (dir, file) = (base.join("dir"), base.join("file"));
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("inside"), "").unwrap();
        fs::write(&file, "").unwrap();
        let (a, b) = (all.add(&dir), all.add(&file));
        drop(a);
        b.keep();
        assert!(!dir.exists() && file.exists());
        assert!(all.0.lock().unwrap().is_empty());
        drop(all.add(&base));
        assert!(!base.exists());
    }
}
