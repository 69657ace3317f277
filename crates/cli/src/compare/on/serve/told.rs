//! What the server itself counts: where the time of requests went, and what keeps clients from
//! more, second by second. The verdicts are those of the server's metrics.

use std::time::Duration;
use weir_measure::SplitUs;
use weir_measure::promise::Blame;
use weir_serve::{Causes, DriveFigures, Server, VolumeFigures};

/// The server's figures when the measurement began and as they were last, and the causes after each
/// second in between.
#[derive(Debug, Default)]
pub(super) struct Told {
    first: Option<Vec<DriveFigures>>,
    last: Vec<DriveFigures>,
    seconds: Vec<Vec<(String, Causes)>>,
}

impl Told {
    /// Asks the server if a second of the measurement, which begins after `warm_up`, has passed since the last time.
    pub(super) fn watch(&mut self, warm_up: Duration, passed: Duration, server: &Server) {
        let seconds = self.seconds.len() as u64 + u64::from(self.first.is_some());
        if passed < warm_up + Duration::from_secs(seconds) {
            return;
        }
        // A run goes on without figures.
        let drives = server.watch().figures().unwrap_or_default();
        if self.first.is_none() {
            self.first = Some(drives);
            return;
        }
        let volumes = drives.iter().flat_map(|drive| &drive.volumes);
        let causes = volumes.map(|volume| (volume.name.clone(), volume.causes.clone()));
        self.seconds.push(causes.collect());
        self.last = drives;
    }

    /// What kept a client from more in each second. `names`: the clients by their numbers.
    pub(super) fn blames(&self, client: &str, names: &[String]) -> Vec<Option<Blame>> {
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

    /// Where the time of a client's mean request went; `None` if there was no request.
    pub(super) fn split(&self, client: &str) -> Option<SplitUs> {
        let earlier = volume(self.first.as_ref()?, client);
        volume(&self.last, client)?.mean_since(earlier)
    }

    /// For how much of the time the drive was busy, in whole percent.
    pub(super) fn busy_percent(&self) -> Option<u64> {
        let (now, then) = (self.last.first()?, self.first.as_ref()?.first()?);
        let (busy, served) = (now.busy_ns - then.busy_ns, now.served_ns - then.served_ns);
        (served > 0).then(|| (busy.min(served) as f64 / served as f64 * 100.0).round() as u64)
    }
}

fn volume<'a>(drives: &'a [DriveFigures], name: &str) -> Option<&'a VolumeFigures> {
    let mut volumes = drives.iter().flat_map(|drive| &drive.volumes);
    volumes.find(|volume| volume.name == name)
}
