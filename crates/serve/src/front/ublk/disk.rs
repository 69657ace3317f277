//! The parameters of a volume's block device.

use weir_wire::ublk::{
    DeviceInfo, DeviceParams, Discard, MAX_DEPTH, MAX_QUEUES, SECTOR, UblkRules,
};

use crate::acceptor::VolumeExport;

/// The longest range of a discard or write-zeroes request, in bytes.
const RANGE: u32 = 1 << 30;
/// The longest request in one place, in bytes.
const PLACE: u32 = 32 << 20;
/// The largest number of requests in all queues of a device. The shard's ring has room for all of
/// them.
const PLACES_MAX: u16 = 2048;
/// The largest logical block size that Linux accepts here, in bytes.
const PAGE: u32 = 4096;

/// Returns the parameters of a volume's device. Its longest request is that of the drive, within
/// the limit of a connection.
pub(super) fn params(export: &VolumeExport) -> DeviceParams {
    let traits = &export.traits;
    let logical = traits.align.clamp(SECTOR as u32, PAGE);
    let physical = traits.preferred.max(logical);
    let longest = export
        .max_transfer
        .min(export.request_size)
        .clamp(PAGE, PLACE);
    let writable = !traits.read_only;
    DeviceParams {
        sectors: export.size / SECTOR,
        read_only: traits.read_only,
        rotational: export.rotational,
        cached: writable,
        logical_block: logical,
        physical_block: physical,
        longest: longest / PAGE * PAGE / SECTOR as u32,
        discard: writable.then_some(Discard {
            granularity: physical,
            discard: if traits.trim {
                RANGE / SECTOR as u32
            } else {
                0
            },
            write_zeroes: RANGE / SECTOR as u32,
        }),
    }
}

/// Returns the number of queues, and of requests in each, for a device on a drive with these
/// numbers. There are no more queues than processors (which is also the kernel's limit), and no
/// more than [`PLACES_MAX`] places.
pub(super) fn shape(queues: u16, tags: u16) -> (u16, u16) {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let most = u16::try_from(processors).unwrap_or(MAX_QUEUES);
    let queues = queues.clamp(1, most.min(PLACES_MAX));
    (queues, tags.clamp(1, MAX_DEPTH.min(PLACES_MAX / queues)))
}

/// Returns the description of a volume's device for the driver.
pub(super) fn device(export: &VolumeExport, params: &DeviceParams, mark: u64) -> DeviceInfo {
    let (queues, depth) = shape(export.queues, export.tags);
    DeviceInfo::new(queues, depth, params.longest * SECTOR as u32, mark)
}

/// Returns the rules that requests of the kernel must follow.
pub(super) fn rules(params: &DeviceParams) -> UblkRules {
    let bytes = |sectors: u32| sectors.saturating_mul(SECTOR as u32);
    UblkRules {
        sectors: params.sectors,
        read_only: params.read_only,
        longest: bytes(params.longest),
        discard: bytes(params.discard.map_or(0, |d| d.discard)),
        write_zeroes: bytes(params.discard.map_or(0, |d| d.write_zeroes)),
    }
}
