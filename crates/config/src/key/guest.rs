//! Virtual machines of a scenario.

use super::{DefaultValue, Key, Kind, Shape};
use weir_core::Span;

pub(crate) const GUEST: Shape = Shape {
    name: "[guest]",
    about: "Virtual machines between the clients and the layer, and their back end: a ring for each, notifications both ways, and what \
            all that costs (`coalescing.md`). A guest has one processor, and the back end's thread is busy with one thing at a time.",
    keys: &[&[
        Key {
            name: "ring",
            kind: Kind::Word(&["xen", "xen-before-2011", "virtio"]),
            default: DefaultValue::Value("\"xen\""),
            about: "The kind of ring. `\"xen\"`: the back end asks for the next kick when it has taken all there is; `\"xen-before-2011\"`: when \
                    it has answered all that it took. `\"virtio\"`: the split queue with event indices.",
            example: "\"virtio\"",
        },
        Key {
            name: "slots",
            kind: Kind::Other("a power of two, 1 to 512, with virtio to 32768"),
            default: DefaultValue::Words("32, with virtio 256"),
            about: "Requests that have room in a ring. A page of Xen's has 32.",
            example: "64",
        },
        Key {
            name: "longest",
            kind: Kind::Size(4096, 16 << 20, 4096),
            default: DefaultValue::Words("44KiB, with virtio 1016KiB"),
            about: "Bytes of a request in the ring: a guest cuts longer ones. Xen's have 11 segments of a page, QEMU's 254.",
            example: "\"128KiB\"",
        },
        Key {
            name: "plug",
            kind: Kind::Count(1, 1024),
            default: DefaultValue::Value("16"),
            about: "Requests that are pushed before one notification, at most, of those that a client asks for at one time and that `plug` of \
                    `[host]` keeps together. Linux flushed a plug at 16 (`BLK_MAX_REQUEST_COUNT`).",
            example: "1",
        },
        Key {
            name: "threads",
            kind: Kind::Word(&["each", "one"]),
            default: DefaultValue::Value("\"each\""),
            about: "`\"each\"`: every guest has a thread of the back end, as with Xen's; `\"one\"`: one thread serves them all, as a shard of Weir.",
            example: "\"one\"",
        },
        Key {
            name: "kicks",
            kind: Kind::Other(
                "`\"at-once\"`, `\"spin TIME\"`, `\"sleep TIME\"`, `\"throttle RATE\"`; a time of 10ms and 1000000 a second at most",
            ),
            default: DefaultValue::Value("\"at-once\""),
            about: "What comes of a guest's notifications. `\"spin 50us\"`: the thread looks for this time after the last request before it asks for \
                    the next kick. `\"sleep 200us\"`: it looks this time after its last look at the earliest. `\"throttle 5000\"`: it wakes so \
                    often a second at most, and a guest that kicks without work is looked at late, as in Linux since XSA-332.",
            example: "\"sleep 200us\"",
        },
        Key {
            name: "calls",
            kind: Kind::Other(
                "`\"at-once\"`, `\"delay TIME COUNT\"`, `\"vic\"`, `\"spdk TIME\"`; a time of 10ms and a count of 256 at most",
            ),
            default: DefaultValue::Value("\"at-once\""),
            about: "When a guest is notified of responses. `\"delay 100us 8\"`: with the eighth, or when the first has waited for this time. `\"vic\"`: by \
                    the commands in flight. `\"spdk 10us\"`: by the rate of requests.",
            example: "\"vic\"",
        },
        Key {
            name: "cost",
            kind: Kind::Table("`[guest.cost]`"),
            default: DefaultValue::Value("{}"),
            about: "What everything costs.",
            example: "{ wake = \"20us\" }",
        },
    ]],
};

pub(crate) const COSTS: Shape = Shape {
    name: "[guest.cost]",
    about: "Times of a guest's processor and the back end's for each request and event. All defaults are assumed: orders of magnitude, for \
            which no measurement was published beside the figures that they are compared with.",
    keys: &[&[
        cost(
            "request",
            "\"3us\"",
            "Guest: to put a request into the ring, with all that its block layer does.",
        ),
        cost(
            "response",
            "\"2us\"",
            "Guest: to take a response from the ring and end its request.",
        ),
        cost(
            "interrupt",
            "\"4us\"",
            "Guest: to be interrupted, and to return.",
        ),
        cost("event", "\"1us\"", "Either side: to notify the other."),
        cost(
            "ipi",
            "\"2us\"",
            "On the way: until the other's processor notices. Nobody is busy meanwhile.",
        ),
        cost("wake", "\"5us\"", "Back end: to wake its thread."),
        cost(
            "look",
            "\"1us\"",
            "Back end: to look at a ring because of a kick.",
        ),
        cost(
            "take",
            "\"5us\"",
            "Back end: to take a request from a ring and submit it.",
        ),
        cost(
            "answer",
            "\"2us\"",
            "Back end: to put a response into a ring.",
        ),
    ]],
};

const fn cost(name: &'static str, default: &'static str, about: &'static str) -> Key {
    Key {
        name,
        kind: Kind::Time(Span::ZERO, Span::from_millis(10)),
        default: DefaultValue::Value(default),
        about,
        example: "\"10us\"",
    }
}
