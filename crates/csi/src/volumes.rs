//! The driver's volumes, as the configuration of the server holds them.

use std::path::{Path, PathBuf};

use serde_json::json;
use tonic::Status;
use weir_manage::api::{Client, Error, List, Outcome, Volume, Words};

use crate::driver::Driver;
use crate::error::{no_volume, refused};
use crate::images;
use crate::rpc;

/// The volumes of a server whose files are the driver's.
#[derive(Debug)]
pub(crate) struct Volumes<'a> {
    driver: &'a Driver,
    client: Client,
}

impl<'a> Volumes<'a> {
    pub(crate) fn new(driver: &'a Driver) -> Result<Self, Status> {
        let client = Client::new(&driver.options.manage);
        let client = client.map_err(|error| Status::internal(error.to_string()))?;
        Ok(Self { driver, client })
    }

    /// How the whole server stands.
    pub(crate) fn status(&self) -> Result<weir_manage::api::Status, Status> {
        self.client.get("/v1/status").map_err(|e| refused(&e))
    }

    /// Every volume of the driver's, by name.
    pub(crate) fn all(&self) -> Result<Vec<Volume>, Status> {
        let list = self.client.get("/v1/volumes").map_err(|e| refused(&e))?;
        let List::Volumes(mut all) = list else {
            // An empty list is one of volumes.
            return Err(Status::internal(
                "the server's list does not contain volumes",
            ));
        };
        all.retain(|volume| self.is_own(volume));
        for volume in &mut all {
            self.measure(volume);
        }
        all.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    /// A volume of that name, whose ever it is.
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

    /// A volume of the driver's.
    pub(crate) fn find(&self, name: &str) -> Result<Volume, Status> {
        let found = self.named(name)?.filter(|volume| self.is_own(volume));
        found.ok_or_else(|| no_volume(name))
    }

    /// A volume is as large as its file, of which the server knows within a second.
    fn measure(&self, volume: &mut Volume) {
        if let Some(Ok(size)) = self.file(volume).map(|file| images::size(&file)) {
            volume.size_bytes = size;
        }
    }

    /// The file of a volume of the driver's; nothing of another.
    pub(crate) fn file(&self, volume: &Volume) -> Option<PathBuf> {
        let file = Path::new(volume.config.get("file")?.as_str()?);
        let own = self.driver.images.is_of(file, &volume.drive, &volume.name);
        own.then(|| file.to_owned())
    }

    /// Whether a volume is the driver's: its file is one that the driver makes.
    pub(crate) fn is_own(&self, volume: &Volume) -> bool {
        self.file(volume).is_some()
    }

    /// Has the server take a volume, or say what would come of it.
    pub(crate) fn add(&self, name: &str, words: &Words, try_only: bool) -> Result<Outcome, Error> {
        let path = format!("{}?dry_run={try_only}", path(name));
        self.client.send("PUT", &path, words, None)
    }

    /// Has the server change one, if it is still as it was found: a request of a driver that has ended, to which the server comes late, must not undo what was
    /// asked for since.
    pub(crate) fn change(&self, volume: &Volume, words: &Words) -> Result<Outcome, Status> {
        let (path, etag) = (path(&volume.name), Some(&volume.etag[..]));
        let changed = self.client.send("PATCH", &path, words, etag);
        changed.map_err(|e| refused(&e))
    }

    /// Whether a change would change nothing, by the server's own reading of both.
    pub(crate) fn is_so(&self, name: &str, words: &Words) -> Result<bool, Status> {
        let path = format!("{}?dry_run=true", path(name));
        match self.client.send::<Outcome>("PATCH", &path, words, None) {
            Ok(outcome) => Ok(outcome.change.lines.is_empty()),
            // What it would refuse is not so.
            Err(Error::Refused { status: 422, .. }) => Ok(false),
            Err(error) => Err(refused(&error)),
        }
    }

    /// Has the server forget one, if it is still as it was found: one that was made since under its name stays. It is no error if there is none.
    pub(crate) fn forget(&self, volume: &Volume) -> Result<(), Status> {
        let (path, etag) = (path(&volume.name), Some(&volume.etag[..]));
        let gone = self
            .client
            .send::<Outcome>("DELETE", &path, &json!({}), etag);
        match gone {
            Ok(_) | Err(Error::Refused { status: 404, .. }) => Ok(()),
            // Its clients are still there.
            Err(error @ Error::Refused { status: 422, .. }) => {
                Err(Status::failed_precondition(refused(&error).message()))
            }
            Err(error) => Err(refused(&error)),
        }
    }
}

/// How a volume is told to Kubernetes.
pub(crate) fn told(driver: &Driver, volume: &Volume) -> rpc::Volume {
    rpc::Volume {
        capacity_bytes: i64::try_from(volume.size_bytes).unwrap_or(i64::MAX),
        volume_id: driver.id(&volume.name),
        accessible_topology: vec![driver.topology()],
        ..rpc::Volume::default()
    }
}

/// Whether a volume is well, and how its promise was kept.
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
