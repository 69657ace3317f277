//! Collects the figures of the server itself during a run: the split of the requests' time, and the
//! cause that limits each client in each second. The verdicts are the same as those in the server's
//! metrics.

use std::time::Duration;
use weir_measure::SplitUs;
use weir_measure::promise::Blame;
use weir_serve::{Causes, DriveFigures, LiveServer, VolumeFigures};

/// The server's figures at the start and at the end of the measurement, and the causes after each
/// second in between.
#[derive(Debug, Default)]
pub(super) struct ServerFigures {
    /// The figures at the start of the measurement, or `None` before it.
    first: Option<Vec<DriveFigures>>,
    /// The figures of the most recent second.
    last: Vec<DriveFigures>,
    /// The causes of each volume, by name, after each second.
    seconds: Vec<Vec<(String, Causes)>>,
}

impl ServerFigures {
    /// Queries the server if another second of the measurement has passed. The measurement begins
    /// after `warm_up`.
    pub(super) fn poll_server(&mut self, warm_up: Duration, passed: Duration, server: &LiveServer) {
        // The first query is due at the end of the warm-up, and each further one a second later.
        let seconds = self.seconds.len() as u64 + u64::from(self.first.is_some());
        if passed < warm_up + Duration::from_secs(seconds) {
            return;
        }
        // A run continues without figures, because the measurements of the clients do not depend on
        // them.
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

    /// Returns the cause that limited a client in each second. `names` has the clients in the order
    /// of their numbers.
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

    /// Returns the split of a client's mean request, or `None` if it had no request.
    pub(super) fn split(&self, client: &str) -> Option<SplitUs> {
        let earlier = volume(self.first.as_ref()?, client);
        volume(&self.last, client)?.mean_since(earlier)
    }

    /// Returns the part of the time in which the drive was busy, in whole percent.
    pub(super) fn busy_percent(&self) -> Option<u64> {
        let (now, then) = (self.last.first()?, self.first.as_ref()?.first()?);
        let (busy, served) = (now.busy_ns - then.busy_ns, now.served_ns - then.served_ns);
        // `busy` is limited, so that the result is at most 100 %.
        (served > 0).then(|| (busy.min(served) as f64 / served as f64 * 100.0).round() as u64)
    }
}

fn volume<'a>(drives: &'a [DriveFigures], name: &str) -> Option<&'a VolumeFigures> {
    let mut volumes = drives.iter().flat_map(|drive| &drive.volumes);
    volumes.find(|volume| volume.name == name)
}
