//! The `OpenMetrics` text format (`application/openmetrics-text; version=1.0.0`).

use std::fmt::Write;

use weir_measure::Histogram;
use weir_measure::promise::{Excuse, Rate, Seconds, Short, Units};

use super::{DriveSnapshot, OPS, VolumeSnapshot, shares};

/// Upper bounds of the histograms' buckets as powers of two of nanoseconds: 1 us to 34 s.
const BUCKETS: std::ops::RangeInclusive<u32> = 10..=35;
pub(crate) const OP_NAMES: [&str; OPS] = [
    "read",
    "write",
    "flush",
    "discard",
    "write_zeroes",
    "extents",
];

/// Everything, as text.
pub(crate) fn render(drives: &[DriveSnapshot]) -> String {
    let mut page = Page(String::new());
    drive_families(&mut page, drives);
    let volumes: Vec<(&DriveSnapshot, &VolumeSnapshot)> = drives
        .iter()
        .flat_map(|d| d.volumes.iter().map(move |v| (d, v)))
        .collect();
    counters(&mut page, &volumes);
    promises(&mut page, drives);
    histograms(&mut page, &volumes);
    gauges(&mut page, &volumes);
    share_family(&mut page, drives);
    page.0 += "# EOF\n";
    page.0
}

struct Page(String);

impl Page {
    /// A family, and a sample for each of these labels and values.
    fn family<'a, const N: usize>(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Labels<'a, N>, impl std::fmt::Display)>,
    ) {
        let suffix = if kind == "counter" { "_total" } else { "" };
        self.head(name, kind, help);
        for (labels, value) in samples {
            self.sample(&format!("{name}{suffix}"), &labels, value);
        }
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string cannot fail, here and below.
        let _ = write!(self.0, "# TYPE {name} {kind}\n# HELP {name} {help}\n");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        self.0 += name;
        for (n, (label, value)) in labels.iter().enumerate() {
            self.0.push(if n == 0 { '{' } else { ',' });
            let _ = write!(self.0, "{label}=\"");
            for character in value.chars() {
                match character {
                    '\\' => self.0 += "\\\\",
                    '"' => self.0 += "\\\"",
                    '\n' => self.0 += "\\n",
                    other => self.0.push(other),
                }
            }
            self.0.push('"');
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }
}

/// Names and values that tell the samples of a family apart.
type Labels<'a, const N: usize> = [(&'a str, &'a str); N];

type Volumes<'a> = [(&'a DriveSnapshot, &'a VolumeSnapshot)];

fn of_volume<'a>(drive: &'a DriveSnapshot, volume: &'a VolumeSnapshot) -> Labels<'a, 2> {
    [("drive", &drive.name), ("volume", &volume.name)]
}

/// The labels, and one more.
fn with<'a>([first, second]: Labels<'a, 2>, label: &'a str, value: &'a str) -> Labels<'a, 3> {
    [first, second, (label, value)]
}

fn drive_families(page: &mut Page, drives: &[DriveSnapshot]) {
    type Pick = fn(&DriveSnapshot) -> f64;
    let families: [(&str, &str, &str, Pick); 5] = [
        ("live", "gauge", "Requests accepted and not done.", |d| {
            f64::from(d.live)
        }),
        ("in_flight", "gauge", "Pieces in the drive.", |d| {
            f64::from(d.in_flight)
        }),
        ("dispatched", "counter", "Pieces sent to the drive.", |d| {
            d.counters.dispatched as f64
        }),
        (
            "seconds",
            "counter",
            "How long the drive has been served.",
            |d| d.served_ns as f64 / 1e9,
        ),
        (
            "busy_seconds",
            "counter",
            "Of that time, how long at least one piece was in the drive.",
            |d| d.busy_ns as f64 / 1e9,
        ),
    ];
    for (name, kind, help, pick) in families {
        let samples = drives.iter().map(|d| ([("drive", &d.name[..])], pick(d)));
        page.family(&format!("weir_drive_{name}"), kind, help, samples);
    }
}

fn counters(page: &mut Page, volumes: &Volumes<'_>) {
    type Pick = fn(&VolumeSnapshot) -> &[u64; OPS];
    let families: [(&str, &str, Pick); 3] = [
        ("weir_requests", "Requests answered without error.", |v| {
            &v.tally.requests
        }),
        (
            "weir_bytes",
            "Bytes of requests answered without error.",
            |v| &v.tally.bytes,
        ),
        ("weir_errors", "Requests the storage failed.", |v| {
            &v.tally.errors
        }),
    ];
    for (name, help, pick) in families {
        let samples = volumes.iter().flat_map(|(drive, volume)| {
            let ops = OP_NAMES.iter().zip(pick(volume));
            ops.map(|(op, value)| (with(of_volume(drive, volume), "op", op), *value))
        });
        page.family(name, "counter", help, samples);
    }
}

/// A promise, whose it is, and how it fares.
struct Promised<'a> {
    labels: Labels<'a, 2>,
    rate: Option<Rate>,
    seconds: &'a Seconds,
}

/// Those of volumes, then those of tenants.
fn promised(drive: &DriveSnapshot) -> impl Iterator<Item = Promised<'_>> {
    let volumes = drive.volumes.iter().map(|volume| Promised {
        labels: of_volume(drive, volume),
        rate: volume.tally.promise.rate(),
        seconds: volume.tally.promise.seconds(),
    });
    let tenants = drive.tenants.iter().map(|tenant| Promised {
        labels: [("drive", &drive.name), ("tenant", &tenant.name)],
        rate: tenant.rate,
        seconds: &tenant.seconds,
    });
    volumes.chain(tenants)
}

fn promises(page: &mut Page, drives: &[DriveSnapshot]) {
    type Pick = fn(&Seconds) -> u64;
    let all: Vec<Promised<'_>> = drives.iter().flat_map(promised).collect();
    let families: [(&str, &str, Pick); 4] = [
        (
            "weir_promised_seconds",
            "Whole seconds in which a min was in force: kept, short and excused ones together.",
            |s| s.promised,
        ),
        (
            "weir_kept_seconds",
            "Of the promised seconds, those in which the client got what it was owed.",
            |s| s.kept,
        ),
        (
            "weir_short_bytes",
            "Bytes that the short seconds lack together, where bytes were promised.",
            |s| s.lacking.bytes,
        ),
        (
            "weir_short_requests",
            "Requests that the short seconds lack together, where requests were promised.",
            |s| s.lacking.requests,
        ),
    ];
    for (name, help, pick) in families {
        let samples = all.iter().map(|of| (of.labels, pick(of.seconds)));
        page.family(name, "counter", help, samples);
    }
    let short = Short::ALL.map(Short::name);
    let help =
        "Of the promised seconds, those in which the client got less than it was owed, by reason.";
    by_reason(page, "weir_short_seconds", help, short, &all, |s| &s.short);
    let excused = Excuse::OF_SERVER.map(Excuse::name);
    let help = "Of the promised seconds, those in which nothing was owed, by reason.";
    by_reason(page, "weir_excused_seconds", help, excused, &all, |s| {
        &s.excused
    });
    for (units, name, help) in [
        (Units::Bytes, "weir_min_bytes_per_second", "Bytes promised."),
        (
            Units::Requests,
            "weir_min_requests_per_second",
            "Requests promised.",
        ),
    ] {
        let samples = all.iter().map(|of| {
            let rate = of.rate.filter(|rate| rate.units == units);
            (of.labels, rate.map_or(0, |rate| rate.a_second))
        });
        page.family(name, "gauge", help, samples);
    }
}

fn by_reason(
    page: &mut Page,
    name: &str,
    help: &str,
    reasons: [&str; 4],
    all: &[Promised<'_>],
    pick: fn(&Seconds) -> &[u64],
) {
    let samples = all.iter().flat_map(|of| {
        let counts = reasons.iter().zip(pick(of.seconds));
        counts.map(|(reason, count)| (with(of.labels, "reason", reason), *count))
    });
    page.family(name, "counter", help, samples);
}

fn histograms(page: &mut Page, volumes: &Volumes<'_>) {
    let help = "Time of requests: held by a limit, in the elevator, in the drive.";
    page.head("weir_wait_seconds", "histogram", help);
    for (drive, volume) in volumes {
        let split = &volume.tally.split;
        for (stage, histogram) in [
            ("limit", &split.limit),
            ("elevator", &split.elevator),
            ("drive", &split.drive),
        ] {
            let labels = with(of_volume(drive, volume), "stage", stage);
            histogram_samples(page, "weir_wait_seconds", labels, histogram);
        }
    }
}

fn histogram_samples(page: &mut Page, name: &str, labels: Labels<'_, 3>, histogram: &Histogram) {
    let [drive, volume, stage] = labels;
    let bucket = format!("{name}_bucket");
    for power in BUCKETS {
        let bound = format!("{:e}", (1u64 << power) as f64 / 1e9);
        let count = histogram.count_at_most((1 << power) - 1);
        page.sample(&bucket, &[drive, volume, stage, ("le", &bound)], count);
    }
    let count = histogram.count();
    page.sample(&bucket, &[drive, volume, stage, ("le", "+Inf")], count);
    page.sample(&format!("{name}_count"), &labels, count);
    let sum = histogram.sum() as f64 / 1e9;
    page.sample(&format!("{name}_sum"), &labels, sum);
}

fn gauges(page: &mut Page, volumes: &Volumes<'_>) {
    type Pick = fn(&VolumeSnapshot) -> f64;
    let families: [(&str, &str, Pick); 5] = [
        ("weir_connections", "Connections of clients.", |v| {
            f64::from(v.connections)
        }),
        ("weir_live", "Requests accepted and not done.", |v| {
            f64::from(v.tally.live)
        }),
        (
            "weir_limited",
            "Of these, those held back by a limit.",
            |v| f64::from(v.limited),
        ),
        (
            "weir_oldest_request_seconds",
            "Age of the oldest request that is not done.",
            |v| v.oldest_ns as f64 / 1e9,
        ),
        (
            "weir_sync_failed",
            "1 after a failed flush, until a restart.",
            |v| f64::from(u8::from(v.sync_failed)),
        ),
    ];
    for (name, help, pick) in families {
        let samples = volumes.iter();
        let samples = samples.map(|(drive, volume)| (of_volume(drive, volume), pick(volume)));
        page.family(name, "gauge", help, samples);
    }
}

fn share_family(page: &mut Page, drives: &[DriveSnapshot]) {
    let volumes = drives.iter().flat_map(|drive| {
        let volumes = drive.volumes.iter().zip(shares(&drive.volumes));
        volumes.map(move |(volume, parts)| (of_volume(drive, volume), parts))
    });
    let samples = volumes.flat_map(|(labels, parts)| {
        let kinds = ["promised", "effective", "used"].into_iter().zip(parts);
        kinds.map(move |(kind, part)| (with(labels, "kind", kind), part))
    });
    let help = "Part of the drive: promised among all volumes, effective among those with requests now, used in the last full second.";
    page.family("weir_share", "gauge", help, samples);
}
