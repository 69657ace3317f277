//! One call at a time for each volume.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use tonic::Status;

/// The volumes that a call works on.
#[derive(Debug, Default)]
pub(crate) struct Busy(Mutex<BTreeSet<String>>);

/// A volume that no other call works on until this is dropped.
#[derive(Debug)]
#[must_use = "the volume is free again when this is dropped"]
pub(crate) struct Taken<'a> {
    busy: &'a Busy,
    name: String,
}

impl Busy {
    /// Takes a volume.
    ///
    /// # Errors
    /// `ABORTED`, as the interface has it, if another call works on it: Kubernetes asks again.
    pub(crate) fn take(&self, name: &str) -> Result<Taken<'_>, Status> {
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
