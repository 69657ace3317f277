//! Excludes concurrent calls for the same volume.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use tonic::Status;

/// The set of volumes that calls are working on.
#[derive(Debug, Default)]
pub(crate) struct Busy(Mutex<BTreeSet<String>>);

/// A guard: no other call works on the volume until this is dropped.
#[derive(Debug)]
#[must_use = "the volume is free again when this is dropped"]
pub(crate) struct Taken<'a> {
    busy: &'a Busy,
    name: String,
}

impl Busy {
    /// Marks a volume as in use.
    ///
    /// # Errors
    /// Returns `ABORTED` if another call works on it, as the interface specifies. Kubernetes tries
    /// again.
    pub(crate) fn take(&self, name: &str) -> Result<Taken<'_>, Status> {
        // Inserting and removing cannot panic halfway, so that the set is consistent even if
        // poisoned.
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !names.insert(name.to_owned()) {
            let said = format!("another call is in progress for volume {name:?}; try again");
            return Err(Status::aborted(said));
        }
        Ok(Taken {
            busy: self,
            name: name.to_owned(),
        })
    }
}

impl Drop for Taken<'_> {
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
        let busy = Busy::default();
        let taken = busy.take("a").unwrap();
        assert_eq!(busy.take("a").unwrap_err().code(), tonic::Code::Aborted);
        assert!(busy.take("b").is_ok());
        drop(taken);
        assert!(busy.take("a").is_ok());
    }
}
