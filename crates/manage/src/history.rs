//! The last hour: a curve for each drive, tenant and volume, and the short seconds.
//!
//! A curve has a point of 16 bytes for every ten seconds, so that an object takes at most 6 kB.
//! Curves are kept in memory only, and begin again with the server.

use std::collections::{BTreeMap, VecDeque};

use crate::api::{Curve, CurvePoint, ShortSecond, ShortSeconds};

use crate::sample::ServerSample;

/// The number of seconds that a point covers.
const STEP: u32 = 10;
/// The length of the history in milliseconds.
const SPAN_MS: u64 = 3_600_000;
/// The maximum number of points of a curve.
const POINTS: usize = SPAN_MS as usize / (1_000 * STEP as usize);
/// The maximum number of short seconds. It bounds the memory of a server on which every promise is
/// short.
const SHORT: usize = 1_000;

/// The curves and the short seconds of the last hour.
#[derive(Debug, Default)]
pub(crate) struct FigureHistory {
    /// The number of seconds in the unfinished point.
    seconds: u32,
    /// The ends of all points in milliseconds since 1970. A curve with fewer points has the last of
    /// these.
    ends: VecDeque<u64>,
    drives: Curves,
    tenants: Curves,
    volumes: Curves,
    short: VecDeque<ShortSecond>,
}

type Curves = BTreeMap<String, StoredCurve>;

/// A curve, and its unfinished point.
#[derive(Debug, Default)]
struct StoredCurve {
    /// The sum of the unfinished point. `None` if the object has not occurred since the last point.
    sum: Option<Point>,
    points: VecDeque<Point>,
}

/// Rates: those of a point, or the sum of those of its seconds.
#[derive(Clone, Copy, Debug, Default)]
struct Point {
    // f32 keeps a point at 16 bytes.
    bytes: f32,
    requests: f32,
    busy: f32,
    short: u32,
}

impl FigureHistory {
    /// Adds the figures of a second.
    pub(crate) fn add(&mut self, sample: &ServerSample) {
        let second = &sample.second;
        for of in &second.drives {
            let point = Point::new(of.bytes_per_second, of.requests_per_second, false);
            let busy = of.busy as f32;
            note(&mut self.drives, &of.name, Point { busy, ..point });
        }
        for of in &second.tenants {
            let is_short = of.short.is_some();
            let point = Point::new(of.bytes_per_second, of.requests_per_second, is_short);
            note(&mut self.tenants, &of.name, point);
        }
        for of in &second.volumes {
            let is_short = of.short.is_some();
            let point = Point::new(of.bytes_per_second, of.requests_per_second, is_short);
            note(&mut self.volumes, &of.name, point);
        }
        self.short.extend(sample.short.iter().cloned());
        let oldest = sample.at_ms.saturating_sub(SPAN_MS);
        while self.short.len() > SHORT || self.short.front().is_some_and(|s| s.at_ms < oldest) {
            self.short.pop_front();
        }
        self.seconds += 1;
        if self.seconds == STEP {
            self.complete(sample.at_ms);
        }
    }

    /// Completes a point. Objects that did not occur in it have been removed, and are forgotten.
    fn complete(&mut self, at_ms: u64) {
        self.seconds = 0;
        push(&mut self.ends, at_ms);
        for curves in [&mut self.drives, &mut self.tenants, &mut self.volumes] {
            curves.retain(|_, kept| {
                let Some(sum) = kept.sum.take() else {
                    return false;
                };
                push(&mut kept.points, sum.mean());
                true
            });
        }
    }

    /// Returns the curve of an object of a kind (`drive`, `tenant` or `volume`), or `None` if the
    /// object is unknown.
    pub(crate) fn curve(&self, kind: &str, name: &str) -> Option<Curve> {
        let curves = match kind {
            "drive" => &self.drives,
            "tenant" => &self.tenants,
            _ => &self.volumes,
        };
        let points = &curves.get(name)?.points;
        // A curve of a later object has fewer points.
        let ends = self.ends.iter().skip(self.ends.len() - points.len());
        let points = ends.zip(points).map(|(at_ms, point)| CurvePoint {
            at_ms: *at_ms,
            bytes_per_second: point.bytes.round() as u64,
            requests_per_second: point.requests.round() as u64,
            busy: (kind == "drive").then(|| f64::from(point.busy)),
            short_seconds: u64::from(point.short),
        });
        Some(Curve {
            points: points.collect(),
            ..empty(kind, name)
        })
    }

    /// Returns the short seconds, newest first.
    pub(crate) fn short(&self) -> ShortSeconds {
        ShortSeconds {
            short: self.short.iter().rev().cloned().collect(),
        }
    }
}

/// Returns the empty curve of an object that is too new to have a point.
pub(crate) fn empty(kind: &str, name: &str) -> Curve {
    Curve {
        of: format!("{kind}.{name}"),
        step_ms: u64::from(STEP) * 1_000,
        points: Vec::new(),
    }
}

/// Adds a second to the unfinished point of an object.
fn note(curves: &mut Curves, name: &str, second: Point) {
    if let Some(kept) = curves.get_mut(name) {
        let sum = kept.sum.get_or_insert_default();
        sum.bytes += second.bytes;
        sum.requests += second.requests;
        sum.busy += second.busy;
        sum.short += second.short;
        return;
    }
    let kept = StoredCurve {
        sum: Some(second),
        ..StoredCurve::default()
    };
    curves.insert(name.to_owned(), kept);
}

/// Appends to a queue of at most [`POINTS`] elements.
fn push<T>(all: &mut VecDeque<T>, one: T) {
    if all.len() == POINTS {
        all.pop_front();
    }
    all.push_back(one);
}

impl Point {
    fn new(bytes: u64, requests: u64, is_short: bool) -> Self {
        Self {
            bytes: bytes as f32,
            requests: requests as f32,
            busy: 0.0,
            short: u32::from(is_short),
        }
    }

    /// Divides a sum by the number of its seconds.
    fn mean(self) -> Self {
        let seconds = STEP as f32;
        Self {
            bytes: self.bytes / seconds,
            requests: self.requests / seconds,
            busy: self.busy / seconds,
            short: self.short,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{DriveFigures, VolumeFigures};

    /// Returns second `at` of a drive and a volume. The volume is short in every fifth second.
    fn sample(at: u64, bytes: u64) -> ServerSample {
        let mut sample = ServerSample {
            at_ms: at * 1_000,
            ..ServerSample::default()
        };
        sample.second.drives.push(DriveFigures {
            name: "fast".into(),
            busy: 0.5,
            ..DriveFigures::default()
        });
        let is_short = at.is_multiple_of(5);
        sample.second.volumes.push(VolumeFigures {
            name: "alpha".into(),
            bytes_per_second: bytes,
            short: is_short.then(|| "others".into()),
            ..VolumeFigures::default()
        });
        sample.short.extend(is_short.then(|| ShortSecond {
            at_ms: sample.at_ms,
            of: "volume.alpha".into(),
            cause: "neighbour".into(),
            neighbour: None,
            lacking: 1,
        }));
        sample
    }

    #[test]
    fn a_point_is_the_mean_of_10_s_and_counts_short_seconds() {
        let mut history = FigureHistory::default();
        (1..=29).for_each(|at| history.add(&sample(at, at * 1_000)));
        let curve = history.curve("volume", "alpha").unwrap();
        assert_eq!((curve.of.as_str(), curve.step_ms), ("volume.alpha", 10_000));
        let points = curve
            .points
            .iter()
            .map(|p| (p.at_ms, p.bytes_per_second, p.short_seconds));
        let points: Vec<(u64, u64, u64)> = points.collect();
        // The means of 1,000 to 10,000 and of 11,000 to 20,000. Seconds 5, 10, 15 and 20 are short.
        assert_eq!(points, [(10_000, 5_500, 2), (20_000, 15_500, 2)]);
        let drive = history.curve("drive", "fast").unwrap();
        assert_eq!(drive.points[1].busy, Some(0.5));
        assert_eq!(history.curve("volume", "fast"), None);
        let short = history.short().short;
        // Seconds 5 to 25 in steps of 5.
        assert_eq!((short.len(), short[0].at_ms), (5, 25_000));
    }

    #[test]
    fn an_hour_is_kept_and_no_more() {
        let mut history = FigureHistory::default();
        (1..=9_000).for_each(|at| history.add(&sample(at, 1)));
        let curve = history.curve("volume", "alpha").unwrap();
        assert_eq!(curve.points.len(), 360);
        // 360 points of 10 s each, of which the last one ends at 9,000 s.
        assert_eq!(curve.points[0].at_ms, (9_000 - 3_590) * 1_000);
        let short = history.short().short;
        assert_eq!(short.last().unwrap().at_ms, (9_000 - 3_600) * 1_000);
        // If every second of many volumes is short, the newest are kept.
        let mut crowd = sample(9_005, 1);
        crowd.short = vec![crowd.short[0].clone(); 5_000];
        history.add(&crowd);
        assert_eq!(history.short().short.len(), 1_000);
    }

    #[test]
    fn removed_objects_are_forgotten_and_later_ones_have_their_own_times() {
        let mut history = FigureHistory::default();
        (1..=10).for_each(|at| history.add(&sample(at, 1)));
        for at in 11..=30 {
            let mut other = sample(at, 2);
            other.second.volumes[0].name = "beta".into();
            history.add(&other);
        }
        assert_eq!(history.curve("volume", "alpha"), None);
        let beta = history.curve("volume", "beta").unwrap();
        let ends: Vec<u64> = beta.points.iter().map(|p| p.at_ms).collect();
        assert_eq!(ends, [20_000, 30_000]);
    }
}
