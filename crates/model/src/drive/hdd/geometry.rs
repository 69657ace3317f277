//! The positions of bytes on the platters.

use weir_core::Span;

const SECOND: u128 = 1_000_000_000;

/// A zone: a part of the drive in which all tracks have the same capacity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Zone {
    /// The size in bytes: a multiple of 4096, at least 1 MiB.
    pub bytes: u64,
    /// The rate of a long sequential transfer in the zone in bytes per second, including head and
    /// track switches: 10^6 to 10^9.
    pub rate: u64,
}

/// A position on the platters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PlatterPosition {
    /// The number of the track, counted from the outer edge.
    pub(super) track: u32,
    /// The time within a revolution at which the position passes under the head, in nanoseconds.
    pub(super) angle: u64,
    /// The index of the zone.
    pub(super) zone: usize,
}

/// All zones as one spiral, outermost first.
///
/// Consecutive addresses pass under the head one after the other, so that a sequential transfer has
/// its zone's rate, and an address determines its angle. Real drives skew their tracks for the same
/// purpose.
#[derive(Debug)]
pub(super) struct Geometry {
    zones: Vec<Spiral>,
    revolution: u64,
}

#[derive(Clone, Copy, Debug)]
struct Spiral {
    start: u64,
    first_track: u32,
    track_bytes: u64,
    rate: u64,
}

impl Geometry {
    pub(super) fn new(zones: &[Zone], revolution: Span) -> Self {
        let revolution = revolution.as_nanos();
        let (mut start, mut first_track) = (0, 0);
        let zones = zones.iter().map(|zone| {
            let track_bytes = track_bytes(zone.rate, revolution);
            let spiral = Spiral {
                start,
                first_track,
                track_bytes,
                rate: zone.rate,
            };
            start += zone.bytes;
            first_track += zone.bytes.div_ceil(track_bytes) as u32;
            spiral
        });
        Self {
            zones: zones.collect(),
            revolution,
        }
    }

    /// The position of a byte. Addresses beyond the end count as the innermost zone.
    pub(super) fn place(&self, byte: u64) -> PlatterPosition {
        // The first zone starts at zero, so there is always one.
        let zone = self.zones.partition_point(|z| z.start <= byte) - 1;
        let spiral = &self.zones[zone];
        let within = byte - spiral.start;
        let past = within % spiral.track_bytes;
        PlatterPosition {
            track: spiral.first_track + (within / spiral.track_bytes) as u32,
            angle: past * self.revolution / spiral.track_bytes,
            zone,
        }
    }

    /// The time that `bytes` take to pass under the head. A transfer across the end of a zone
    /// counts as part of the zone in which it begins.
    pub(super) fn passing(&self, zone: usize, bytes: u64) -> Span {
        let rate = self.zones[zone].rate;
        // The product fits into 64 bits for up to 18 GB, which covers all commands. The wider type
        // is slower.
        let nanos = match bytes.checked_mul(SECOND as u64) {
            Some(product) => product.div_ceil(rate),
            None => (u128::from(bytes) * SECOND).div_ceil(rate.into()) as u64,
        };
        Span::from_nanos(nanos)
    }

    /// The number of bytes that pass under the head in `time`.
    pub(super) fn passed(&self, zone: usize, time: Span) -> u64 {
        let rate = self.zones[zone].rate;
        match time.as_nanos().checked_mul(rate) {
            Some(product) => product / SECOND as u64,
            None => (u128::from(time.as_nanos()) * u128::from(rate) / SECOND) as u64,
        }
    }

    /// The number of tracks of all zones together.
    pub(super) fn tracks(zones: &[Zone], revolution: Span) -> u64 {
        let revolution = revolution.as_nanos();
        let tracks = |z: &Zone| z.bytes.div_ceil(track_bytes(z.rate, revolution));
        zones.iter().map(tracks).sum()
    }
}

fn track_bytes(rate: u64, revolution: u64) -> u64 {
    (u128::from(rate) * u128::from(revolution) / SECOND).max(1) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const REVOLUTION: Span = Span::from_nanos(8_333_333);

    fn two_zones() -> Geometry {
        let zone = |rate| Zone {
            bytes: 100 << 30,
            rate,
        };
        Geometry::new(&[zone(110_000_000), zone(60_000_000)], REVOLUTION)
    }

    #[test]
    fn consecutive_addresses_pass_under_the_head_in_order() {
        let geometry = two_zones();
        for start in [0, 7_340_032, (100 << 30) + 4096, 150 << 30] {
            let (a, b) = (geometry.place(start), geometry.place(start + 262_144));
            let passing = geometry.passing(a.zone, 262_144).as_nanos();
            let turned = (a.angle + passing) % REVOLUTION.as_nanos();
            let apart = turned.abs_diff(b.angle);
            assert!(
                apart.min(REVOLUTION.as_nanos() - apart) < 20_000,
                "{start}: {apart} ns"
            );
        }
    }

    #[test]
    fn inner_tracks_hold_less() {
        let geometry = two_zones();
        let per_track = |byte: u64| {
            let first = geometry.place(byte).track;
            (byte..)
                .step_by(4096)
                .take_while(|&b| geometry.place(b).track <= first + 1)
                .count()
        };
        assert!(per_track(0) * 60 > per_track(150 << 30) * 90);
    }
}
