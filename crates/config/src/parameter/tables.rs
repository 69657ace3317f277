//! The tables.

use super::{Parameter, Unit};
use weir_core::Span;
use weir_drive::Config;
use weir_drive::volume::Layout;

/// What a field of a drive's configuration is, as a number.
trait Number: Copy {
    fn get(self) -> u64;
    /// `value`, or the largest number that it can hold.
    fn from(value: u64) -> Self;
}

macro_rules! integers {
    ($($type:ty)*) => {$(
        impl Number for $type {
            fn get(self) -> u64 {
                self.into()
            }
            fn from(value: u64) -> Self {
                Self::try_from(value).unwrap_or(Self::MAX)
            }
        }
    )*};
}

integers!(u8 u16 u32 u64);

impl Number for Span {
    fn get(self) -> u64 {
        self.as_nanos()
    }
    fn from(value: u64) -> Self {
        Self::from_nanos(value)
    }
}

impl Number for bool {
    fn get(self) -> u64 {
        self.into()
    }
    fn from(value: u64) -> Self {
        value > 0
    }
}

/// `key: unit, [field], what it is` for each parameter of a kind; `= value` behind the key if it may be left out.
macro_rules! parameters {
    ($kind:ident: $($key:literal $(= $default:literal)?: $unit:ident, [$($field:tt)+], $about:literal;)*) => {
        &[$(Parameter {
            key: $key,
            unit: Unit::$unit,
            about: $about,
            default: parameters!(@default $($default)?),
            get: |drive| match drive {
                Config::$kind(c) => Number::get(c $($field)+),
                other => panic!("{} is no parameter of {}", $key, other.name()),
            },
            set: |drive, value| match drive {
                Config::$kind(c) => c $($field)+ = Number::from(value),
                other => panic!("{} is no parameter of {}", $key, other.name()),
            },
        }),*]
    };
    (@default $default:literal) => { Some($default) };
    (@default) => { None };
}

pub(super) const NULL: &[Parameter] = parameters! { Null:
    "service": Time, [.service], "time that every command takes";
    "tags" = 32: Count, [.tags], "commands that each queue takes at a time";
    "queues" = 1: Count, [.queues], "hardware queues";
    "link" = 0: Rate, [.link], "rate of the link to the host; 0B/s for no bound";
    "tick" = 0: Time, [.tick], "time at whose beginning bandwidth is given out in a lump; 0s for a serial link";
    "wake" = 0: Time, [.wake], "time at whose multiples commands end; 0s for at once";
    "command" = 131_072: Bytes, [.command], "bytes of a command at most";
};

pub(super) const HDD: &[Parameter] = parameters! { Hdd:
    "outer.bytes": Bytes, [.zones[0].bytes], "size of the outermost zone";
    "outer.rate": Rate, [.zones[0].rate], "rate of a long transfer there";
    "middle.bytes": Bytes, [.zones[1].bytes], "size of the zone between";
    "middle.rate": Rate, [.zones[1].rate], "rate of a long transfer there";
    "inner.bytes": Bytes, [.zones[2].bytes], "size of the innermost zone";
    "inner.rate": Rate, [.zones[2].rate], "rate of a long transfer there";
    "rpm": PerMinute, [.rpm], "revolutions a minute";
    "seek.track": Time, [.seek.track], "time of the arm to the next track";
    "seek.average": Time, [.seek.average], "time across a third of all tracks";
    "seek.full": Time, [.seek.full], "time across all tracks";
    "settle": Time, [.settle], "time that a write takes longer to settle on its track";
    "tags": Count, [.tags], "commands that it picks from by positioning time";
    "ageing": Time, [.ageing], "time after which a command is served before all younger ones, for each stream that waits";
    "overhead": Time, [.overhead], "time from a command's arrival until the disk can act on it";
    "link": Rate, [.link], "rate of the link to the host";
    "segments": Count, [.segments], "segments of the read cache, one for each sequential stream";
    "segment": Bytes, [.segment], "size of a segment; so far the disk reads ahead";
    "write_cache": Bytes, [.write_cache], "bytes of writes answered before they are on the platters";
    "flush": Time, [.flush], "time of a flush beside the writes that it waits for";
};

pub(super) const SSD: &[Parameter] = parameters! { Ssd:
    "size": Bytes, [.size], "bytes that the host sees";
    "tags": Count, [.tags], "commands that each queue takes at a time";
    "queues": Count, [.queues], "hardware queues";
    "link": Rate, [.link], "rate of the link to the host";
    "duplex": Bool, [.duplex], "reads and writes cross the link independently";
    "overhead": Time, [.overhead], "time of firmware and adapter, however many commands there are";
    "command": Time, [.command], "time of the controller that each command takes from all others";
    "channels": Count, [.channels], "channels between controller and dies";
    "dies": Count, [.dies], "dies on each channel";
    "channel": Rate, [.channel], "rate of a channel";
    "page": Bytes, [.page], "bytes that a die reads or writes at a time";
    "read": Time, [.read], "time of a die to read a page";
    "program": Time, [.program], "time of a die to write a page";
    "erase": Time, [.erase], "time of a die to erase a block";
    "suspend": Time, [.suspend], "time that a read waits at most for a die that writes";
    "block": Pages, [.block], "pages of a die's erase block";
    "read_ahead": Bytes, [.read_ahead], "bytes that a sequential stream is read ahead";
    "window": Time, [.window], "time of the link that is begun with before the controller chooses again";
    "favour": Bytes, [.favour], "bytes of commands in sequence that may overtake another read, for each stream that waits";
    "write_buffer": Bytes, [.write_buffer], "bytes of writes answered before they are in the flash";
    "flush": Time, [.flush], "time of a flush beside the writes that it waits for";
    "protected": Bool, [.protected], "the write buffer survives a loss of power";
    "spare": PerMille, [.spare], "thousandths of the size beyond it";
    "filled": Percent, [.filled], "hundredths of the size that were written before";
};

pub(super) const STRIPE: &[Parameter] = &[Parameter {
    key: "chunk",
    unit: Unit::Bytes,
    about: "bytes of each member, then of the next one",
    default: Some(64 << 10),
    get: |drive| match stripe(drive) {
        Some(chunk) => *chunk,
        None => panic!("chunk is no parameter of {}", drive.name()),
    },
    set: |drive, value| {
        if let Config::Volume(volume) = drive {
            volume.layout = Layout::Stripe { chunk: value };
        } else {
            panic!("chunk is no parameter of {}", drive.name());
        }
    },
}];

fn stripe(drive: &Config) -> Option<&u64> {
    match drive {
        Config::Volume(volume) => match &volume.layout {
            Layout::Stripe { chunk } => Some(chunk),
            Layout::Linear => None,
        },
        _ => None,
    }
}
