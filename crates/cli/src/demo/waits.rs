//! Where the time of requests went, as the server itself counts it.

use weir_measure::{SplitUs, Waits};
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
        let now = self.volume(volume)?;
        let then = earlier.volume(volume);
        let (answered, waits) = then.map(|v| (v.answered, v.waits)).unwrap_or_default();
        mean(now.answered - answered, now.waits, waits)
    }

    /// Between an earlier count and this one, for how much of the time the drive was busy, in whole percent.
    pub(crate) fn busy_percent(&self, earlier: &Self) -> Option<u64> {
        let (now, then) = (self.0.first()?, earlier.0.first()?);
        let (busy, served) = (now.busy_ns - then.busy_ns, now.served_ns - then.served_ns);
        (served > 0).then(|| (busy.min(served) as f64 / served as f64 * 100.0).round() as u64)
    }
}

fn mean(requests: u64, now: Waits, then: Waits) -> Option<SplitUs> {
    let mean = |now: u64, then: u64| (now - then) as f64 / 1e3 / requests as f64;
    (requests > 0).then(|| SplitUs {
        limit: mean(now.limit_ns, then.limit_ns),
        elevator: mean(now.elevator_ns, then.elevator_ns),
        drive: mean(now.drive_ns, then.drive_ns),
        ..SplitUs::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_come_to_a_mean_request() {
        let waits = |factor: u64| Waits {
            limit_ns: 0,
            elevator_ns: 2_000 * factor,
            drive_ns: 5_000 * factor,
        };
        let split = mean(2, waits(5), waits(1)).expect("there were two requests");
        assert!((split.elevator - 4.0).abs() < 1e-9 && (split.drive - 10.0).abs() < 1e-9);
        assert_eq!(mean(0, waits(1), waits(1)), None);
    }
}
