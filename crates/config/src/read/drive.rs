//! Reading of `[drive.NAME]`.

use super::policy;
use crate::document::{Document, KeyEntry, ShapedTable};
use crate::key::{DRIVE, DRIVE_LIMITS, DriveLimits, Limits};
use crate::measured::{self, rounded};
use crate::profile;
use crate::server::ServerDrive;
use crate::terms::capacity;
use crate::text::path;
use crate::tunable;
use crate::units::BytesPerSecond;
use weir_core::Capacity;

/// The keys that a model determines, so that a modelled drive cannot set them.
pub(crate) const SHAPE_KEYS: &[&str] = &["queues", "tags", "max_transfer", "rotational"];

/// The maximum number of tags in all queues of a drive together.
const PLACES_MAX: u64 = 65_536;
/// The default for `max_transfer` on disks and on servers across a network.
const TRANSFER_LONG: u32 = 1280 << 10;
/// The default for `tags` of a server across a network, whose throughput grows with the number of
/// requests in flight.
const TAGS_REMOTE: u16 = 256;

pub(super) fn drive<'a>(
    doc: &mut Document<'a>,
    name: &str,
    entry: &KeyEntry<'a>,
    limits: &Limits,
) -> ServerDrive {
    let mut drive = ServerDrive::new(name, drive_limits(doc, None, limits));
    let Some(table) = entry.table_and(doc, &DRIVE, tunable::and_tables) else {
        return drive;
    };
    drive.policy = policy::policy(doc, &table);
    drive.capacity = table.entry("capacity").and_then(|e| capacity(doc, &e));
    shape(doc, &table, &mut drive);
    let own = table
        .entry("limits")
        .and_then(|e| e.table(doc, &DRIVE_LIMITS));
    drive.limits = drive_limits(doc, own.as_ref(), limits);
    if let Some(model) = table.entry("model").and_then(|e| profile::model(doc, &e)) {
        set_model(doc, &mut drive, model);
    }
    // The key is accepted without a model, where it has no effect.
    drive.path = table.field(doc, "path");
    drive
}

/// Makes the drive a model. Its shape is that of the model, and so is its capacity unless one is
/// stated. A stated capacity must be possible for the model.
pub(super) fn set_model(
    doc: &mut Document<'_>,
    drive: &mut ServerDrive,
    model: weir_model::drive::DriveConfig,
) {
    let path = path("drive", &drive.name);
    for key in SHAPE_KEYS {
        let path = format!("{path}.{key}");
        if doc.places.keys.contains_key(&path) {
            let what = "cannot be set here, because the drive's model specifies it";
            let help = format!("remove {key}, or set it in the model if the model has this key");
            doc.report_key(&path, what, &help);
        }
    }
    let shape = model.shape();
    drive.queues = shape.queues;
    drive.tags = shape.tags;
    drive.max_transfer = shape.max_transfer;
    drive.rotational = shape.rotational;
    match drive.capacity {
        Some(stated) => possible(doc, &path, stated, &model),
        None => drive.capacity = measured::worst_case_capacity(&model),
    }
    drive.model = Some(model);
    let places = u64::from(shape.queues) * u64::from(shape.tags);
    if places > PLACES_MAX {
        let what = format!("has {places} tags in total; at most {PLACES_MAX} are permitted");
        doc.report_key(&format!("{path}.model"), what, "");
    }
}

/// Reports each figure of a stated capacity that exceeds the model's best case.
fn possible(
    doc: &mut Document<'_>,
    drive: &str,
    stated: Capacity,
    model: &weir_model::drive::DriveConfig,
) {
    let Some(most) = measured::best_case_capacity(model) else {
        return;
    };
    let parts = [
        ("read", stated.read, most.read, "of sequential reads"),
        ("write", stated.write, most.write, "of sequential writes"),
        ("iops", stated.iops, most.iops, "requests/s"),
        ("read_iops", stated.read_iops, most.read_iops, "reads/s"),
        ("write_iops", stated.write_iops, most.write_iops, "writes/s"),
    ];
    for (key, stated, most, what) in parts {
        // Zero means no bound or not stated. A measured figure is exact to 1 %.
        if most == 0 || stated <= most.saturating_add(most / 100) {
            continue;
        }
        let best = rounded(most);
        let what = match key {
            "read" | "write" => {
                let [stated, best] = [stated, best].map(BytesPerSecond);
                format!("{stated} exceeds the maximum of the model, {best} {what}")
            }
            _ => format!("{stated} exceeds the maximum of the model, {best} random {what} of 4KiB"),
        };
        let help = "set a lower value, or remove capacity to use the model's minimum";
        doc.report_key(&format!("{drive}.capacity.{key}"), what, help);
    }
}

fn shape<'a>(doc: &mut Document<'a>, table: &ShapedTable<'a>, drive: &mut ServerDrive) {
    let before = doc.problem_count();
    drive.queues = table.field(doc, "queues");
    if drive.policy.is_remote() {
        (drive.tags, drive.max_transfer) = (TAGS_REMOTE, TRANSFER_LONG);
    }
    // Without the key, the number of tags depends on other keys, so it is not read as a field with
    // a default.
    if let Some(tags) = table.entry("tags").and_then(|e| e.count(doc)) {
        drive.tags = tags;
    }
    let places = u64::from(drive.queues) * u64::from(drive.tags);
    if places > PLACES_MAX && doc.problem_count() == before {
        let what = format!("queues * tags is {places}; at most {PLACES_MAX} is permitted");
        doc.report_span(&table.span, &table.path, what, "");
    }
    drive.rotational = table.field(doc, "rotational");
    if drive.rotational {
        drive.max_transfer = TRANSFER_LONG;
    }
    let transfer = table.entry("max_transfer");
    if let Some(bytes) = transfer.and_then(|e| e.size(doc)) {
        drive.max_transfer = bytes as u32;
    }
}

/// Reads the sizes of the drive's tables. Sizes that are not set follow from the limits on
/// connections.
fn drive_limits<'a>(
    doc: &mut Document<'a>,
    table: Option<&ShapedTable<'a>>,
    limits: &Limits,
) -> DriveLimits {
    let mut own = table.map_or_else(DriveLimits::default, |t| DriveLimits::read(doc, t));
    // Zero means that the key is not set, because its minimum is 2.
    if own.requests == 0 {
        own.requests = limits.connections.saturating_mul(16).max(4096);
    }
    if own.scheduler_tags == 0 {
        own.scheduler_tags = own.requests;
    }
    own
}
