//! Computes the figures of the last second from the counts since the start.

use std::collections::BTreeMap;

use crate::api::{
    DriveFigures, Event, Latency, Second, SecondCounts, ShortSecond, TenantFigures, VolumeFigures,
};
use weir_measure::SECOND_NS;
use weir_measure::promise::{Cause, Seconds};
use weir_serve as serve;

/// The counts at one time, with the figures of the second before it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerSample {
    /// The time in nanoseconds by the clock of this process, and in milliseconds since 1970.
    pub(crate) at_ns: u64,
    pub(crate) at_ms: u64,
    pub(crate) drives: Vec<serve::DriveFigures>,
    /// The figures of the time since the previous sample.
    pub(crate) second: Second,
    /// The promises that were found short in this second.
    pub(crate) short: Vec<ShortSecond>,
}

impl ServerSample {
    /// Makes the sample of the present counts. `before` is the previous sample.
    pub(crate) fn after(
        before: &Self,
        (at_ns, at_ms): (u64, u64),
        drives: Vec<serve::DriveFigures>,
    ) -> Self {
        let mut sample = Self {
            at_ns,
            at_ms,
            ..Self::default()
        };
        sample.second.at_ms = at_ms;
        // At least 1 ns, because the time is a divisor.
        let passed = at_ns.saturating_sub(before.at_ns).max(1);
        let was = Index::of(&before.drives);
        // Samples are not exactly a second apart.
        let per_second = |count: u64| rate(count, passed);
        for drive in &drives {
            let mut all = [0; 2];
            let first = sample.second.volumes.len();
            for (volume, [_, share, _]) in drive.volumes.iter().zip(serve::shares(&drive.volumes)) {
                let was = was.volumes.get(volume.name.as_str()).copied();
                let counted = counted(volume, was);
                all = [all[0] + counted[0], all[1] + counted[1]];
                let figures = sample.volume(volume, was, counted.map(per_second));
                sample
                    .second
                    .volumes
                    .push(VolumeFigures { share, ..figures });
            }
            // The fractions need the drive's total, which is known only now.
            for figures in &mut sample.second.volumes[first..] {
                // At least 1, because it is a divisor.
                let of = per_second(all[1]).max(1);
                figures.got = figures.bytes_per_second as f64 / of as f64;
            }
            for tenant in &drive.tenants {
                let was = was
                    .tenants
                    .get(&(drive.name.as_str(), tenant.name.as_str()));
                let volumes = drive.volumes.iter().zip(&sample.second.volumes[first..]);
                let mut figures = of_tenant(tenant, volumes);
                let at = format!("tenant.{}", tenant.name);
                let seconds = was.map(|t| &t.seconds);
                figures.short = sample.found_short(at, &tenant.seconds, seconds, &tenant.causes);
                sample.second.tenants.push(figures);
            }
            let was = was.drives.get(drive.name.as_str());
            let busy = was.map_or(0, |was| drive.busy_ns.saturating_sub(was.busy_ns));
            sample.second.drives.push(DriveFigures {
                name: drive.name.clone(),
                requests_per_second: per_second(all[0]),
                bytes_per_second: per_second(all[1]),
                busy: (busy as f64 / passed as f64).min(1.0),
                queue: drive.live,
                in_flight: drive.in_flight,
            });
        }
        sample.drives = drives;
        sample
    }

    /// Returns the events of the sample, in their order.
    pub(crate) fn events(&self) -> impl Iterator<Item = Event> {
        let short = self.short.iter().cloned().map(Event::Short);
        short.chain([Event::Second(self.second.clone())])
    }

    /// Returns the figures of a volume, without those that depend on the other volumes.
    fn volume(
        &mut self,
        volume: &serve::VolumeFigures,
        was: Option<&serve::VolumeFigures>,
        [requests, bytes]: [u64; 2],
    ) -> VolumeFigures {
        let latency = latency(volume, was);
        let at = format!("volume.{}", volume.name);
        let seconds = was.map(|v| &v.seconds);
        VolumeFigures {
            name: volume.name.clone(),
            bytes_per_second: bytes,
            requests_per_second: requests,
            latency,
            queue: volume.live,
            limited: volume.limited,
            oldest_ms: volume.oldest_ns / 1_000_000,
            connections: volume.connections,
            share: 0.0,
            got: 0.0,
            limited_by: volume.causes.last.map(|cause| cause.name().to_owned()),
            neighbour: volume.causes.neighbour.clone(),
            idle: volume.causes.idle,
            short: self.found_short(at, &volume.seconds, seconds, &volume.causes),
            sync_failed: volume.sync_failed,
            part: volume.part,
        }
    }

    /// Returns the cause of a second that was short since the previous sample, and records that
    /// second.
    fn found_short(
        &mut self,
        of: String,
        now: &Seconds,
        was: Option<&Seconds>,
        causes: &serve::Causes,
    ) -> Option<String> {
        // A new volume has no earlier count to compare with.
        let was = was?;
        let more = now.short.iter().zip(was.short);
        let cause = Cause::ALL.into_iter().zip(more);
        let (cause, _) = cause.into_iter().find(|(_, (now, was))| *now > was)?;
        // Counts can restart with a volume of the same name, so that the difference is limited to
        // 0.
        let lacking = (now.lacking.bytes - was.lacking.bytes.min(now.lacking.bytes))
            .max(now.lacking.requests - was.lacking.requests.min(now.lacking.requests));
        let neighbour = causes.neighbour.clone();
        self.short.push(ShortSecond {
            at_ms: self.at_ms,
            of,
            cause: cause.name().to_owned(),
            // The neighbour belongs to the last cause only.
            neighbour: neighbour.filter(|_| causes.last == Some(cause)),
            lacking,
        });
        Some(cause.name().to_owned())
    }
}

/// The previous counts by name.
struct Index<'a> {
    drives: BTreeMap<&'a str, &'a serve::DriveFigures>,
    volumes: BTreeMap<&'a str, &'a serve::VolumeFigures>,
    tenants: BTreeMap<(&'a str, &'a str), &'a serve::TenantFigures>,
}

impl<'a> Index<'a> {
    fn of(drives: &'a [serve::DriveFigures]) -> Self {
        let volumes = drives.iter().flat_map(|d| &d.volumes);
        let tenants = drives.iter().flat_map(|d| {
            let tenants = d.tenants.iter();
            tenants.map(|t| ((d.name.as_str(), t.name.as_str()), t))
        });
        Self {
            drives: drives.iter().map(|d| (d.name.as_str(), d)).collect(),
            volumes: volumes.map(|v| (v.name.as_str(), v)).collect(),
            tenants: tenants.collect(),
        }
    }
}

/// Returns the requests and bytes since the previous sample. A volume that was added since has no
/// previous counts.
fn counted(now: &serve::VolumeFigures, was: Option<&serve::VolumeFigures>) -> [u64; 2] {
    let (requests, bytes) = now.counts.all();
    let (before, bytes_before) = was.map_or((0, 0), |was| was.counts.all());
    if requests < before || bytes < bytes_before {
        // It is another volume of the same name, whose counts began at 0.
        return [requests, bytes];
    }
    [requests - before, bytes - bytes_before]
}

/// Returns the mean latency since the previous sample.
fn latency(now: &serve::VolumeFigures, was: Option<&serve::VolumeFigures>) -> Option<Latency> {
    let was = was.filter(|was| was.answered <= now.answered);
    now.mean_since(was).map(|mean| Latency {
        limit_us: mean.limit,
        elevator_us: mean.elevator,
        drive_us: mean.drive,
    })
}

/// Returns the figures of a tenant, which are the sums of its volumes.
fn of_tenant<'a>(
    tenant: &serve::TenantFigures,
    volumes: impl Iterator<Item = (&'a serve::VolumeFigures, &'a VolumeFigures)>,
) -> TenantFigures {
    let mut all = TenantFigures {
        name: tenant.name.clone(),
        ..TenantFigures::default()
    };
    let members = volumes.filter(|(volume, _)| volume.tenant.as_ref() == Some(&tenant.name));
    for (_, figures) in members {
        all.bytes_per_second += figures.bytes_per_second;
        all.requests_per_second += figures.requests_per_second;
        all.queue += figures.queue;
    }
    all
}

fn rate(count: u64, passed_ns: u64) -> u64 {
    let rate = u128::from(count) * u128::from(SECOND_NS) / u128::from(passed_ns);
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// Returns the seconds of a promise with the names of their causes. Causes that never occurred are
/// left out.
pub(crate) fn seconds(of: &Seconds) -> SecondCounts {
    SecondCounts {
        promised: of.promised,
        kept: of.kept,
        unasked: of.unasked,
        short: of.short_by(),
        excused: of.excused_by(),
    }
}
