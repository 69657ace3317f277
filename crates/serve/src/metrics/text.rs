//! The `OpenMetrics` text format (`application/openmetrics-text; version=1.0.0`).

use std::fmt::Write;

use weir_measure::Histogram;
use weir_measure::promise::{Excuse, Rate, Seconds, Short, Units};

use super::{DriveSnapshot, OPS, VolumeSnapshot, shares};

/// Upper bounds of the histograms' buckets as powers of two of nanoseconds: 1 us to 34 s.
const BUCKETS: std::ops::RangeInclusive<u32> = 10..=35;
const OP_NAMES: [&str; OPS] = [
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
    fn family(&mut self, name: &str, kind: &str, help: &str) {
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

fn drive_families(page: &mut Page, drives: &[DriveSnapshot]) {
    page.family(
        "weir_drive_live",
        "gauge",
        "Requests accepted and not done.",
    );
    for drive in drives {
        page.sample("weir_drive_live", &[("drive", &drive.name)], drive.live);
    }
    page.family("weir_drive_in_flight", "gauge", "Pieces in the drive.");
    for drive in drives {
        page.sample(
            "weir_drive_in_flight",
            &[("drive", &drive.name)],
            drive.in_flight,
        );
    }
    page.family(
        "weir_drive_dispatched",
        "counter",
        "Pieces sent to the drive.",
    );
    for drive in drives {
        let labels = [("drive", drive.name.as_str())];
        page.sample(
            "weir_drive_dispatched_total",
            &labels,
            drive.counters.dispatched,
        );
    }
    drive_times(page, drives);
}

fn drive_times(page: &mut Page, drives: &[DriveSnapshot]) {
    type Pick = fn(&DriveSnapshot) -> u64;
    let families: [(&str, &str, Pick); 2] = [
        (
            "weir_drive_seconds",
            "How long the drive has been served.",
            |d| d.served_ns,
        ),
        (
            "weir_drive_busy_seconds",
            "Of that time, how long at least one piece was in the drive.",
            |d| d.busy_ns,
        ),
    ];
    for (name, help, pick) in families {
        page.family(name, "counter", help);
        for drive in drives {
            let labels = [("drive", drive.name.as_str())];
            page.sample(&format!("{name}_total"), &labels, pick(drive) as f64 / 1e9);
        }
    }
}

type Volumes<'a> = [(&'a DriveSnapshot, &'a VolumeSnapshot)];

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
        page.family(name, "counter", help);
        for (drive, volume) in volumes {
            for (op, value) in OP_NAMES.iter().zip(pick(volume)) {
                let labels = [
                    ("drive", drive.name.as_str()),
                    ("volume", &volume.name),
                    ("op", op),
                ];
                page.sample(&format!("{name}_total"), &labels, value);
            }
        }
    }
}

/// A promise, whose it is, and how it fares.
struct Promised<'a> {
    labels: [(&'a str, &'a str); 2],
    rate: Option<Rate>,
    seconds: &'a Seconds,
}

/// Those of volumes, then those of tenants.
fn promised(drive: &DriveSnapshot) -> impl Iterator<Item = Promised<'_>> {
    let of = |kind, name, rate, seconds| Promised {
        labels: [("drive", drive.name.as_str()), (kind, name)],
        rate,
        seconds,
    };
    let volumes = drive.volumes.iter().map(move |volume| {
        let promise = &volume.tally.promise;
        of(
            "volume",
            volume.name.as_str(),
            promise.rate(),
            promise.seconds(),
        )
    });
    let tenants = drive.tenants.iter();
    let tenants = tenants.map(move |t| of("tenant", t.name.as_str(), t.rate, &t.seconds));
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
        page.family(name, "counter", help);
        for of in &all {
            page.sample(&format!("{name}_total"), &of.labels, pick(of.seconds));
        }
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
    mins(page, &all);
}

fn by_reason(
    page: &mut Page,
    name: &str,
    help: &str,
    reasons: [&str; 4],
    all: &[Promised<'_>],
    pick: fn(&Seconds) -> &[u64],
) {
    page.family(name, "counter", help);
    for of in all {
        for (reason, count) in reasons.iter().zip(pick(of.seconds)) {
            let [drive, whose] = of.labels;
            let labels = [drive, whose, ("reason", *reason)];
            page.sample(&format!("{name}_total"), &labels, count);
        }
    }
}

fn mins(page: &mut Page, all: &[Promised<'_>]) {
    for (units, name, help) in [
        (Units::Bytes, "weir_min_bytes_per_second", "Bytes promised."),
        (
            Units::Requests,
            "weir_min_requests_per_second",
            "Requests promised.",
        ),
    ] {
        page.family(name, "gauge", help);
        for of in all {
            let rate = of.rate.filter(|rate| rate.units == units);
            page.sample(name, &of.labels, rate.map_or(0, |rate| rate.a_second));
        }
    }
}

fn histograms(page: &mut Page, volumes: &Volumes<'_>) {
    let name = "weir_wait_seconds";
    page.family(
        name,
        "histogram",
        "Time of requests: held by a limit, in the elevator, in the drive.",
    );
    for (drive, volume) in volumes {
        let split = &volume.tally.split;
        for (stage, histogram) in [
            ("limit", &split.limit),
            ("elevator", &split.elevator),
            ("drive", &split.drive),
        ] {
            let labels = [
                ("drive", drive.name.as_str()),
                ("volume", &volume.name),
                ("stage", stage),
            ];
            histogram_samples(page, name, &labels, histogram);
        }
    }
}

fn histogram_samples(
    page: &mut Page,
    name: &str,
    labels: &[(&str, &str); 3],
    histogram: &Histogram,
) {
    let [drive, volume, stage] = *labels;
    let bucket = format!("{name}_bucket");
    for power in BUCKETS {
        let bound = format!("{:e}", (1u64 << power) as f64 / 1e9);
        let count = histogram.count_at_most((1 << power) - 1);
        page.sample(&bucket, &[drive, volume, stage, ("le", &bound)], count);
    }
    let count = histogram.count();
    page.sample(&bucket, &[drive, volume, stage, ("le", "+Inf")], count);
    page.sample(&format!("{name}_count"), labels, count);
    let sum = histogram.sum() as f64 / 1e9;
    page.sample(&format!("{name}_sum"), labels, sum);
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
        page.family(name, "gauge", help);
        for (drive, volume) in volumes {
            let labels = [("drive", drive.name.as_str()), ("volume", &volume.name)];
            page.sample(name, &labels, pick(volume));
        }
    }
}

fn share_family(page: &mut Page, drives: &[DriveSnapshot]) {
    page.family(
        "weir_share",
        "gauge",
        "Part of the drive: promised among all volumes, effective among those with requests now, used in the last full second.",
    );
    for drive in drives {
        for (volume, parts) in drive.volumes.iter().zip(shares(&drive.volumes)) {
            for (kind, part) in ["promised", "effective", "used"].iter().zip(parts) {
                let labels = [
                    ("drive", drive.name.as_str()),
                    ("volume", &volume.name),
                    ("kind", kind),
                ];
                page.sample("weir_share", &labels, part);
            }
        }
    }
}
