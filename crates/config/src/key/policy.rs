//! Tunables of policies.

use super::{Key, Kind, Shape, Usual};
use weir_core::Span;

const MINUTE: Span = Span::from_secs(60);
const TEN: Span = Span::from_secs(10);

/// Linux's names. Where Linux has plain numbers of milliseconds, KiB or sectors, units are written here.
pub(crate) const BFQ: Shape = Shape {
    name: "bfq = { ... }",
    about: "Tunables of `policy = \"bfq\"`, by Linux's names. Where Linux has plain numbers of milliseconds, KiB or sectors, units are written \
            here.",
    keys: &[&[
        Key {
            name: "fifo_expire_sync",
            kind: Kind::Time(Span::ZERO, MINUTE),
            usual: Usual::Value("\"125ms\""),
            about: "A synchronous request older than this is served before those nearer to the head.",
            example: "\"100ms\"",
        },
        Key {
            name: "fifo_expire_async",
            kind: Kind::Time(Span::ZERO, MINUTE),
            usual: Usual::Value("\"250ms\""),
            about: "An asynchronous request older than this likewise.",
            example: "\"300ms\"",
        },
        Key {
            name: "back_seek_max",
            kind: Kind::Size(0, 1 << 40, 1024),
            usual: Usual::Value("\"16MiB\""),
            about: "A request up to so far behind the head counts as near.",
            example: "\"8MiB\"",
        },
        Key {
            name: "back_seek_penalty",
            kind: Kind::Count(1, 1000),
            usual: Usual::Value("2"),
            about: "Distances behind the head count this many times.",
            example: "3",
        },
        Key {
            name: "slice_idle",
            kind: Kind::Time(Span::ZERO, Span::from_secs(1)),
            usual: Usual::Value("\"8ms\""),
            about: "How long the drive idles for the next request of the stream in service; zero: never. At least 8ms under \
                    `strict_guarantees`.",
            example: "\"4ms\"",
        },
        Key {
            name: "max_budget",
            kind: Kind::Size(0, 1 << 40, 512),
            usual: Usual::Value("\"0B\""),
            about: "The largest budget; zero: what the drive serves in `timeout_sync`, as measured.",
            example: "\"4MiB\"",
        },
        Key {
            name: "timeout_sync",
            kind: Kind::Time(Span::from_millis(1), MINUTE),
            usual: Usual::Value("\"125ms\""),
            about: "The longest turn; whole milliseconds count.",
            example: "\"250ms\"",
        },
        Key {
            name: "strict_guarantees",
            kind: Kind::Flag,
            usual: Usual::Value("false"),
            about: "One request in the drive at a time, and always idle.",
            example: "true",
        },
        Key {
            name: "low_latency",
            kind: Kind::Flag,
            usual: Usual::Value("true"),
            about: "Raises the weight of queues that start something or are soft real-time.",
            example: "false",
        },
        Key {
            name: "injection",
            kind: Kind::Flag,
            usual: Usual::Value("true"),
            about: "Sends requests of others while the drive idles, as many as the stream in service hardly notices. Always on in Linux.",
            example: "false",
        },
        Key {
            name: "merge",
            kind: Kind::Flag,
            usual: Usual::Value("true"),
            about: "Merges the queues of streams whose requests are near to each other, on drives that seek or do not queue. Always on in \
                    Linux.",
            example: "false",
        },
        Key {
            name: "stable_merge",
            kind: Kind::Flag,
            usual: Usual::Value("false"),
            about: "With `merge`: merges the queues of streams that start shortly after each other, for good, on flash too. Always on in \
                    Linux since 5.13.",
            example: "true",
        },
        Key {
            name: "async_charge_factor",
            kind: Kind::Count(1, 100),
            usual: Usual::Value("3"),
            about: "Sectors written asynchronously count this many times among equals. A constant in Linux.",
            example: "4",
        },
        Key {
            name: "seeky_threshold",
            kind: Kind::Count(0, 32),
            usual: Usual::Value("19"),
            about: "A queue is seeky if more of its last 32 requests than this were. A constant in Linux.",
            example: "20",
        },
        Key {
            name: "charge",
            kind: Kind::Word(&["linux", "service"]),
            usual: Usual::Value("\"linux\""),
            about: "How a turn is charged. `\"linux\"`: by what was served, but a slow queue and one that ran out of time by the time it held \
                    the drive. `\"service\"`: by what was served, always, so that shares are of bytes.",
            example: "\"service\"",
        },
    ]],
};

pub(crate) const CONTRACT: Shape = Shape {
    name: "contract = { ... }",
    about: "Tunables of `policy = \"contract\"`. The defaults suit every drive; they are here to be experimented with.",
    keys: &[&[
        Key {
            name: "excess",
            kind: Kind::Word(&["time", "bytes"]),
            usual: Usual::Value("\"time\""),
            about: "What shares are measured in: drive time, so that a random reader does not drag the drive down, or bytes, as BFQ has it.",
            example: "\"bytes\"",
        },
        Key {
            name: "catch_up",
            kind: Kind::Time(Span::ZERO, TEN),
            usual: Usual::Value("\"100ms\""),
            about: "How far a client that fell behind its min may have fallen behind and still be made whole.",
            example: "\"50ms\"",
        },
        Key {
            name: "forget",
            kind: Kind::Time(Span::ZERO, TEN),
            usual: Usual::Value("\"20ms\""),
            about: "A client that asks for nothing for this long starts afresh: it is owed nothing for the pause.",
            example: "\"10ms\"",
        },
        Key {
            name: "idle_class_timeout",
            kind: Kind::Time(Span::ZERO, Span::from_secs(3600)),
            usual: Usual::Value("\"200ms\""),
            about: "The idle class is served at least once in this long. Zero: never while others wait.",
            example: "\"500ms\"",
        },
        Key {
            name: "bound_in_flight",
            kind: Kind::Flag,
            usual: Usual::Value("true"),
            about: "False: what others have in flight is not bounded for the sake of promises.",
            example: "false",
        },
    ]],
};
