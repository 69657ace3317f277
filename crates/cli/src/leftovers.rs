//! Files and directories that must not remain if a command is interrupted.

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use weir_manage::api::log;

/// The files and directories that are removed when the command ends, however it ends.
#[derive(Debug, Clone, Default)]
pub(crate) struct Leftovers {
    paths: Arc<Mutex<Vec<PathBuf>>>,
    interrupt: Interrupt,
}

/// A file or directory that is removed when this value is dropped, unless it is kept.
#[derive(Debug)]
pub(crate) struct Leftover {
    path: PathBuf,
    all: Leftovers,
    /// True if the path stays when this value is dropped.
    kept: bool,
}

impl Leftovers {
    /// Makes signals remove all leftovers and end the process from now on, unless they are [held
    /// off](Self::interrupt).
    pub(crate) fn watch() -> Result<Self, Failure> {
        let failed = |e| Failure::Run(format!("cannot watch for signals: {e}"));
        let all = Self::default();
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(failed)?;
        let shared = all.clone();
        let watcher = thread::Builder::new().name("signals".into());
        let work = move || {
            // SIGHUP is never noted: without a terminal, nobody would see partial results.
            let is_noted = |signal: &i32| *signal != SIGHUP && shared.interrupt.note(*signal);
            if let Some(signal) = signals.forever().find(|signal| !is_noted(signal)) {
                // The lock is held until the process ends, so that no other thread adds a path in
                // between.
                let paths = shared.lock();
                paths.iter().for_each(|path| remove(path));
                log::flush();
                std::process::exit(128 + signal);
            }
        };
        watcher.spawn(work).map_err(failed)?;
        Ok(all)
    }

    /// Creates a file or directory and adds it. An interrupt waits in the meantime, so either
    /// nothing was created, or it is known and will be removed.
    pub(crate) fn make<T>(
        &self,
        path: &Path,
        make: impl FnOnce(&Path) -> io::Result<T>,
    ) -> io::Result<(T, Leftover)> {
        let mut paths = self.lock();
        let made = make(path)?;
        paths.push(path.to_owned());
        let leftover = Leftover {
            path: path.to_owned(),
            all: self.clone(),
            kept: false,
        };
        Ok((made, leftover))
    }

    /// Returns the interrupt, which can hold signals off. SIGHUP, which reports the loss of the
    /// terminal, always ends the process.
    pub(crate) fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    fn lock(&self) -> MutexGuard<'_, Vec<PathBuf>> {
        self.paths.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Leftover {
    /// Keeps the file or directory, also after an interrupt.
    pub(crate) fn keep(mut self) {
        self.kept = true;
    }

    /// Returns the path of the file or directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Leftover {
    fn drop(&mut self) {
        let mut paths = self.all.lock();
        // The path is removed from the list under the lock, so that an interrupt does not remove a
        // file that another command creates in the same place later.
        paths.retain(|path| *path != self.path);
        if !self.kept {
            remove(&self.path);
        }
    }
}

/// The number of attempts to remove a directory in which other threads can still create files, for
/// example the socket of a server that has just started.
const TRIES: u32 = 1_000;

/// Removes a file, or a directory with its content. Errors are ignored, because somebody else has
/// removed it, or it cannot be removed at all.
fn remove(path: &Path) {
    for _ in 0..TRIES {
        let removed = match fs::symlink_metadata(path) {
            Ok(data) if data.is_dir() => fs::remove_dir_all(path),
            Ok(_) => fs::remove_file(path),
            Err(_) => Ok(()),
        };
        match removed {
            // Another thread has created a file after the directory was listed.
            Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => thread::yield_now(),
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_paths_are_removed_and_kept_paths_stay() {
        let base = std::env::temp_dir().join(format!("weir-leftovers-{}", std::process::id()));
        fs::create_dir(&base).unwrap();
        let all = Leftovers::default();
        let (dir, file) = (base.join("dir"), base.join("file"));
        let ((), a) = all.make(&dir, |dir| fs::create_dir(dir)).unwrap();
        fs::write(dir.join("inside"), "").unwrap();
        let ((), b) = all.make(&file, |file| fs::write(file, "")).unwrap();
        drop(a);
        b.keep();
        assert!(!dir.exists() && file.exists());
        assert!(all.lock().is_empty());
        fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn an_interrupt_waits_while_something_is_made() {
        let all = Leftovers::default();
        // The thread that handles an interrupt needs the same lock.
        let locked = |_: &Path| Ok(all.paths.try_lock().is_err());
        let (locked, leftover) = all.make(Path::new("/nowhere/at/all"), locked).unwrap();
        assert!(locked);
        assert_eq!(leftover.path(), Path::new("/nowhere/at/all"));
        let refused = all.make(Path::new("x"), |_| Err::<(), _>(io::Error::other("no")));
        assert!(refused.is_err());
        assert_eq!(all.lock().len(), 1);
    }

    #[test]
    fn a_directory_that_another_thread_fills_is_removed() {
        let base = std::env::temp_dir().join(format!("weir-emptied-{}", std::process::id()));
        fs::create_dir(&base).unwrap();
        let path = base.clone();
        let busy = thread::spawn(move || {
            // The thread ends when the directory no longer exists.
            (0..2_000).all(|n| fs::write(path.join(n.to_string()), "").is_ok())
        });
        remove(&base);
        busy.join().unwrap();
        assert!(!base.exists());
    }
}
