//! Excludes concurrent calls for the same volume.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use tonic::Status;

/// The set of volumes that calls are working on.
#[derive(Debug, Default)]
pub(crate) struct BusyVolumes(Mutex<BTreeSet<String>>);

/// A guard: no other call works on the volume until this is dropped.
#[derive(Debug)]
#[must_use = "the volume is free again when this is dropped"]
pub(crate) struct BusyGuard<'a> {
    busy: &'a BusyVolumes,
    name: String,
}

impl BusyVolumes {
    /// Marks a volume as in use.
    ///
    /// # Errors
    /// Returns `ABORTED` if another call works on it, as the interface specifies. Kubernetes tries
    /// again.
    pub(crate) fn take(&self, name: &str) -> Result<BusyGuard<'_>, Status> {
        // Inserting and removing cannot panic halfway, so that the set is consistent even if
        // poisoned.
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !names.insert(name.to_owned()) {
            let said = format!("another call is in progress for volume {name:?}; try again");
            return Err(Status::aborted(said));
        }
        Ok(BusyGuard {
            busy: self,
            name: name.to_owned(),
        })
    }
}

impl Drop for BusyGuard<'_> {
    fn drop(&mut self) {
        let names = self.busy.0.lock();
        names
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_is_taken_once_and_free_again() {
        let busy = BusyVolumes::default();
        let taken = busy.take("a").unwrap();
        assert_eq!(busy.take("a").unwrap_err().code(), tonic::Code::Aborted);
        assert!(busy.take("b").is_ok());
        drop(taken);
        assert!(busy.take("a").is_ok());
    }
}
