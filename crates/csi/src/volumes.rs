//! The driver's volumes, as they are in the server's configuration.

use std::path::{Path, PathBuf};

use serde_json::json;
use tonic::Status;
use weir_manage::api::{Error, JsonTable, List, ManagementClient, Outcome, Volume};

use crate::driver::CsiDriver;
use crate::error::{no_volume, refused};
use crate::images;
use crate::rpc;

/// The volumes of a server whose files belong to the driver.
#[derive(Debug)]
pub(crate) struct Volumes<'a> {
    driver: &'a CsiDriver,
    client: ManagementClient,
}

impl<'a> Volumes<'a> {
    pub(crate) fn new(driver: &'a CsiDriver) -> Result<Self, Status> {
        let client = ManagementClient::new(&driver.options.manage);
        let client = client.map_err(|error| Status::internal(error.to_string()))?;
        Ok(Self { driver, client })
    }

    /// Returns the state of the server.
    pub(crate) fn status(&self) -> Result<weir_manage::api::Status, Status> {
        self.client.get("/v1/status").map_err(|e| refused(&e))
    }

    /// Returns all volumes of the driver, sorted by name.
    pub(crate) fn all(&self) -> Result<Vec<Volume>, Status> {
        let list = self.client.get("/v1/volumes").map_err(|e| refused(&e))?;
        let List::Volumes(mut all) = list else {
            // An empty list is deserialised as one of volumes.
            return Err(Status::internal(
                "the server's list does not contain volumes",
            ));
        };
        all.retain(|volume| self.is_own(volume));
        for volume in &mut all {
            self.measure(volume);
        }
        // The pages of a list depend on this order.
        all.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    /// Returns the volume with a name, whether it belongs to the driver or not.
    pub(crate) fn named(&self, name: &str) -> Result<Option<Volume>, Status> {
        match self.client.get(&path(name)) {
            Ok(mut volume) => {
                self.measure(&mut volume);
                Ok(Some(volume))
            }
            Err(Error::Refused { status: 404, .. }) => Ok(None),
            Err(error) => Err(refused(&error)),
        }
    }

    /// Returns the volume of the driver with a name.
    pub(crate) fn find(&self, name: &str) -> Result<Volume, Status> {
        let found = self.named(name)?.filter(|volume| self.is_own(volume));
        found.ok_or_else(|| no_volume(name))
    }

    /// Sets the size of a volume to that of its file, because the server notices a change only
    /// within a second.
    fn measure(&self, volume: &mut Volume) {
        // If the file cannot be read, the size is the one that the server reports.
        if let Some(Ok(size)) = self.file(volume).map(|file| images::size(&file)) {
            volume.size_bytes = size;
        }
    }

    /// Returns the file of a volume, or `None` if the volume does not belong to the driver.
    pub(crate) fn file(&self, volume: &Volume) -> Option<PathBuf> {
        let file = Path::new(volume.config.get("file")?.as_str()?);
        let own = self.driver.images.is_of(file, &volume.drive, &volume.name);
        own.then(|| file.to_owned())
    }

    /// Returns true if a volume belongs to the driver, that is, if the driver made its file.
    pub(crate) fn is_own(&self, volume: &Volume) -> bool {
        self.file(volume).is_some()
    }

    /// Adds a volume to the server, or only checks the addition.
    pub(crate) fn add(
        &self,
        name: &str,
        words: &JsonTable,
        try_only: bool,
    ) -> Result<Outcome, Error> {
        let path = format!("{}?dry_run={try_only}", path(name));
        self.client.send("PUT", &path, words, None)
    }

    /// Changes a volume, provided that its configuration is still the same. The server can execute
    /// a request of an earlier driver late, which must not undo later changes.
    pub(crate) fn change(&self, volume: &Volume, words: &JsonTable) -> Result<Outcome, Status> {
        let (path, etag) = (path(&volume.name), Some(&volume.etag[..]));
        let changed = self.client.send("PATCH", &path, words, etag);
        changed.map_err(|e| refused(&e))
    }

    /// Returns true if a change would have no effect, as determined by the server.
    pub(crate) fn has_terms(&self, name: &str, words: &JsonTable) -> Result<bool, Status> {
        let path = format!("{}?dry_run=true", path(name));
        match self.client.send::<Outcome>("PATCH", &path, words, None) {
            Ok(outcome) => Ok(outcome.change.lines.is_empty()),
            // A change that would be refused has an effect.
            Err(Error::Refused { status: 422, .. }) => Ok(false),
            Err(error) => Err(refused(&error)),
        }
    }

    /// Removes a volume from the server, provided that its configuration is still the same. A
    /// volume that was made under its name in the meantime stays. Succeeds if there is no such
    /// volume.
    pub(crate) fn forget(&self, volume: &Volume) -> Result<(), Status> {
        let (path, etag) = (path(&volume.name), Some(&volume.etag[..]));
        let gone = self
            .client
            .send::<Outcome>("DELETE", &path, &json!({}), etag);
        match gone {
            Ok(_) | Err(Error::Refused { status: 404, .. }) => Ok(()),
            // The volume still has clients.
            Err(error @ Error::Refused { status: 422, .. }) => {
                Err(Status::failed_precondition(refused(&error).message()))
            }
            Err(error) => Err(refused(&error)),
        }
    }
}

/// Returns the description of a volume for Kubernetes.
pub(crate) fn volume_message(driver: &CsiDriver, volume: &Volume) -> rpc::Volume {
    rpc::Volume {
        capacity_bytes: i64::try_from(volume.size_bytes).unwrap_or(i64::MAX),
        volume_id: driver.id(&volume.name),
        accessible_topology: vec![driver.topology()],
        ..rpc::Volume::default()
    }
}

/// Returns the condition of a volume, with a summary of its promise.
pub(crate) fn condition(volume: &Volume) -> rpc::VolumeCondition {
    let message = if volume.now.sync_failed {
        "a flush has failed; data may be lost, and every later flush fails until the server is restarted".to_owned()
    } else {
        let seconds = &volume.seconds;
        let (kept, short) = (seconds.kept, seconds.all_short());
        format!("served; its promise was met in {kept} seconds and missed in {short}")
    };
    rpc::VolumeCondition {
        abnormal: volume.now.sync_failed,
        message,
    }
}

fn path(name: &str) -> String {
    weir_manage::api::path("volume", name)
}
