//! The table of parameters for each kind of drive model.

use super::{Parameter, ParameterUnit};
use weir_core::rule::Number;
use weir_model::drive::DriveConfig;
use weir_model::drive::volume::Layout;

/// Declares parameters of a kind, one row each: `key: unit, [field], description`. `= value` after
/// the key declares a default.
macro_rules! parameters {
    ($kind:ident: $($key:literal $(= $default:literal)?: $unit:ident, [$($field:tt)+], $about:literal;)*) => {
        &[$(Parameter {
            key: $key,
            unit: ParameterUnit::$unit,
            about: $about,
            default: parameters!(@default $($default)?),
            get: |drive| match drive {
                DriveConfig::$kind(c) => Number::number(c $($field)+),
                other => panic!("{} is no parameter of {}", $key, other.name()),
            },
            set: |drive, value| match drive {
                DriveConfig::$kind(c) => c $($field)+ = Number::from_number(value),
                other => panic!("{} is no parameter of {}", $key, other.name()),
            },
        }),*]
    };
    (@default $default:literal) => { Some($default) };
    (@default) => { None };
}

pub(super) const NULL: &[Parameter] = parameters! { Null:
    "service": Time, [.service], "service time of every command";
    "tags" = 32: Count, [.tags], "number of commands that each hardware queue accepts at a time";
    "queues" = 1: Count, [.queues], "number of hardware queues";
    "link" = 0: Rate, [.link], "bandwidth of the link to the host; 0B/s is unlimited";
    "tick" = 0: Time, [.tick], "period at whose start the link's bandwidth is granted; 0s is a serial link";
    "wake" = 0: Time, [.wake], "interval at whose multiples commands complete; 0s completes them at once";
    "command" = 131_072: Bytes, [.command], "maximum size of a command; longer requests are split";
};

pub(super) const HDD: &[Parameter] = parameters! { Hdd:
    "outer.bytes": Bytes, [.zones[0].bytes], "size of the outermost zone";
    "outer.rate": Rate, [.zones[0].rate], "sequential transfer rate in the outermost zone";
    "middle.bytes": Bytes, [.zones[1].bytes], "size of the middle zone";
    "middle.rate": Rate, [.zones[1].rate], "sequential transfer rate in the middle zone";
    "inner.bytes": Bytes, [.zones[2].bytes], "size of the innermost zone";
    "inner.rate": Rate, [.zones[2].rate], "sequential transfer rate in the innermost zone";
    "rpm": PerMinute, [.rpm], "revolutions per minute";
    "seek.track": Time, [.seek.track], "seek time to the next track";
    "seek.average": Time, [.seek.average], "seek time across one third of all tracks";
    "seek.full": Time, [.seek.full], "seek time across all tracks";
    "settle": Time, [.settle], "additional time that a write needs to settle on its track";
    "tags": Count, [.tags], "queue depth of the disk, which selects commands by positioning time";
    "ageing": Time, [.ageing], "age, per waiting stream, at which a command is served before younger ones";
    "overhead": Time, [.overhead], "time from a command's arrival until the disk can act on it";
    "link": Rate, [.link], "bandwidth of the link to the host";
    "segments": Count, [.segments], "number of segments of the read cache, each for one sequential stream";
    "segment": Bytes, [.segment], "size of a segment, which is also the distance that the disk reads ahead";
    "write_cache": Bytes, [.write_cache], "size of the write cache; writes complete before they are on the platters";
    "flush": Time, [.flush], "time of a flush in addition to the writes that it waits for";
};

pub(super) const SSD: &[Parameter] = parameters! { Ssd:
    "size": Bytes, [.size], "size of the drive";
    "tags": Count, [.tags], "number of commands that each hardware queue accepts at a time";
    "queues": Count, [.queues], "number of hardware queues";
    "link": Rate, [.link], "bandwidth of the link to the host";
    "duplex": Bool, [.duplex], "whether reads and writes cross the link independently (PCI Express)";
    "overhead": Time, [.overhead], "latency of firmware and adapter, independent of the number of commands";
    "command": Time, [.command], "time of the controller for each command, in which it serves no other";
    "channels": Count, [.channels], "number of channels between the controller and the dies";
    "dies": Count, [.dies], "number of dies on each channel";
    "channel": Rate, [.channel], "bandwidth of a channel";
    "page": Bytes, [.page], "amount that a die reads or programs at a time";
    "read": Time, [.read], "time in which a die reads a page";
    "read_upper" = 0: Time, [.read_upper], "time in which a die reads an upper page, every second one; 0s is that of all pages";
    "retries" = 0: PerMille, [.retries], "maximum part of the pages that are read again; the part is drawn every 5 s";
    "program": Time, [.program], "time in which a die programs a page";
    "erase": Time, [.erase], "time in which a die erases a block";
    "suspend": Time, [.suspend], "maximum time that a read waits for a die that is programming";
    "block": Pages, [.block], "pages in a die's erase block";
    "read_ahead": Bytes, [.read_ahead], "amount that a sequential stream is read ahead";
    "window": Time, [.window], "unsent data, as time of the link, below which the next command is chosen";
    "favour": Bytes, [.favour], "sequential bytes, per waiting stream, that can overtake another read";
    "linger" = 0: Time, [.linger], "time for which the drive waits for the next read of a stream, before another one";
    "fetch" = 0: Bytes, [.fetch], "fetched, not started bytes from which on no command is fetched; 0B fetches all at once";
    "burst" = 0: Count, [.burst], "commands that are fetched from a submission queue before the next queue has its turn";
    "write_buffer": Bytes, [.write_buffer], "size of the write buffer; writes complete before they are in the flash";
    "flush": Time, [.flush], "time of a flush in addition to the writes that it waits for";
    "protected": Bool, [.protected], "whether the write buffer survives power loss; a flush is then one command";
    "spare": PerMille, [.spare], "overprovisioning: flash beyond the size, in thousandths of the size";
    "filled": Percent, [.filled], "part of the size that was written beforehand, in per cent";
    "preconditioned" = 0: Bool, [.preconditioned], "whether that part was then overwritten at random until garbage collection was steady";
    "stall_every" = 0: Time, [.stall_every], "period in which the drive stalls once, at a random time; 0s is never";
    "stall_length" = 0: Time, [.stall_length], "length of each stall, in which the drive serves nothing";
};

pub(super) const STRIPE: &[Parameter] = &[Parameter {
    key: "chunk",
    unit: ParameterUnit::Bytes,
    about: "size of the chunk that is on one member before the next member follows",
    default: Some(64 << 10),
    get: |drive| match stripe(drive) {
        Some(chunk) => *chunk,
        None => panic!("chunk is no parameter of {}", drive.name()),
    },
    set: |drive, value| {
        if let DriveConfig::Volume(volume) = drive {
            volume.layout = Layout::Stripe { chunk: value };
        } else {
            panic!("chunk is no parameter of {}", drive.name());
        }
    },
}];

/// Returns the chunk size if the drive is a stripe.
fn stripe(drive: &DriveConfig) -> Option<&u64> {
    match drive {
        DriveConfig::Volume(volume) => match &volume.layout {
            Layout::Stripe { chunk } => Some(chunk),
            Layout::Linear => None,
        },
        _ => None,
    }
}
