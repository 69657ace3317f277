//! Where the time of requests went, as the server itself counts it.

use weir_measure::SplitUs;
use weir_serve::{DriveFigures, VolumeFigures};

/// What the server had counted at one time.
#[derive(Debug, Default)]
pub(crate) struct Counted(Vec<DriveFigures>);

impl Counted {
    /// What it says of its drives.
    pub(crate) fn of(drives: Vec<DriveFigures>) -> Self {
        Self(drives)
    }

    fn volume(&self, name: &str) -> Option<&VolumeFigures> {
        let mut volumes = self.0.iter().flat_map(|drive| &drive.volumes);
        volumes.find(|volume| volume.name == name)
    }

    /// Where a mean request's time went between an earlier count and this one; `None` if there was no request.
    pub(crate) fn since(&self, earlier: &Self, volume: &str) -> Option<SplitUs> {
        self.volume(volume)?.mean_since(earlier.volume(volume))
    }

    /// Between an earlier count and this one, for how much of the time the drive was busy, in whole percent.
    pub(crate) fn busy_percent(&self, earlier: &Self) -> Option<u64> {
        let (now, then) = (self.0.first()?, earlier.0.first()?);
        let (busy, served) = (now.busy_ns - then.busy_ns, now.served_ns - then.served_ns);
        (served > 0).then(|| (busy.min(served) as f64 / served as f64 * 100.0).round() as u64)
    }
}
