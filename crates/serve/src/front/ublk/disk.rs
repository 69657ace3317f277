//! What the kernel is told of a volume.

use weir_wire::ublk::{Device, Discard, MAX_DEPTH, MAX_QUEUES, Params, Rules, SECTOR};

use crate::acceptor::Export;

/// Longest range of a discard or of what is zeroed, bytes.
const RANGE: u32 = 1 << 30;
/// The longest request that a place has room for, bytes.
const PLACE: u32 = 32 << 20;
/// Most requests that all queues of a device have at a time: the shard's ring has room for all of them.
const PLACES_MAX: u16 = 2048;
/// The largest block that Linux has here, bytes.
const PAGE: u32 = 4096;

/// What the device of a volume is like: the drive's longest request, as far as a connection may have one.
pub(super) fn params(export: &Export) -> Params {
    let traits = &export.traits;
    let logical = traits.align.clamp(SECTOR as u32, PAGE);
    let physical = traits.preferred.max(logical);
    let longest = export
        .max_transfer
        .min(export.request_size)
        .clamp(PAGE, PLACE);
    let writable = !traits.read_only;
    Params {
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

/// Queues and requests in each of a device on a drive that has as many: no more queues than processors, as the kernel has it, and no more
/// places than [`PLACES_MAX`].
pub(super) fn shape(queues: u16, tags: u16) -> (u16, u16) {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let most = u16::try_from(processors).unwrap_or(MAX_QUEUES);
    let queues = queues.clamp(1, most.min(PLACES_MAX));
    (queues, tags.clamp(1, MAX_DEPTH.min(PLACES_MAX / queues)))
}

/// A device for a volume, as its drive is.
pub(super) fn device(export: &Export, params: &Params, mark: u64) -> Device {
    let (queues, depth) = shape(export.queues, export.tags);
    Device::new(queues, depth, params.longest * SECTOR as u32, mark)
}

/// What the kernel is held to.
pub(super) fn rules(params: &Params) -> Rules {
    let bytes = |sectors: u32| sectors.saturating_mul(SECTOR as u32);
    Rules {
        sectors: params.sectors,
        read_only: params.read_only,
        longest: bytes(params.longest),
        discard: bytes(params.discard.map_or(0, |d| d.discard)),
        write_zeroes: bytes(params.discard.map_or(0, |d| d.write_zeroes)),
    }
}
