//! What the server says keeps clients from more, second by second: the same verdict as its metrics have.

use std::time::Duration;
use weir_measure::promise::Blame;
use weir_serve::{Causes, Server};

/// What the server said of each volume after each second of the measurement.
#[derive(Debug, Default)]
pub(super) struct Told {
    seconds: Vec<Vec<(String, Causes)>>,
}

impl Told {
    /// Asks the server if a second of the measurement, which begins after `warm_up`, has passed since the last time.
    pub(super) fn watch(&mut self, warm_up: Duration, passed: Duration, server: &Server) {
        let due = warm_up + Duration::from_secs(self.seconds.len() as u64 + 1);
        if passed < due {
            return;
        }
        let drives = server.watch().figures().unwrap_or_default();
        let volumes = drives.into_iter().flat_map(|drive| drive.volumes);
        self.seconds
            .push(volumes.map(|volume| (volume.name, volume.causes)).collect());
    }

    /// What kept a client from more in each second. `names`: the clients by their numbers.
    pub(super) fn of(&self, client: &str, names: &[String]) -> Vec<Option<Blame>> {
        let second = |volumes: &Vec<(String, Causes)>| {
            let (_, causes) = volumes.iter().find(|(name, _)| name == client)?;
            let neighbour = causes.neighbour.as_ref();
            let place = neighbour.and_then(|name| names.iter().position(|n| n == name));
            Some(Blame {
                cause: causes.last?,
                neighbour: place.map(|place| place as u32),
            })
        };
        self.seconds.iter().map(second).collect()
    }
}
