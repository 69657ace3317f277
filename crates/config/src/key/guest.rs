//! Virtual machines of a scenario.

use super::{DefaultValue, Key, Kind, Shape};
use weir_core::Span;

pub(crate) const GUEST: Shape = Shape {
    name: "[guest]",
    about: "Virtual machines between the clients and the block layer, together with their back end: one ring for each guest, notifications in \
            both directions, and the CPU time that these cost (`coalescing.md`). A guest has one CPU, and a thread of the back end does one \
            thing at a time.",
    keys: &[&[
        Key {
            name: "ring",
            kind: Kind::Word(&["xen", "xen-before-2011", "virtio"]),
            default: DefaultValue::Value("\"xen\""),
            about: "The kind of ring. With `\"xen\"`, the back end requests the next kick when it has taken all requests from the ring. With \
                    `\"xen-before-2011\"`, it does so when it has answered all requests that it took. `\"virtio\"` is the split virtqueue with \
                    event indices.",
            example: "\"virtio\"",
        },
        Key {
            name: "slots",
            kind: Kind::Other("a power of two, 1 to 512, or up to 32768 with virtio"),
            default: DefaultValue::Words("32; with virtio 256"),
            about: "The number of requests for which a ring has room. One page of a Xen ring holds 32.",
            example: "64",
        },
        Key {
            name: "longest",
            kind: Kind::Size(4096, 16 << 20, 4096),
            default: DefaultValue::Words("44KiB; with virtio 1016KiB"),
            about: "The maximum size of a request in the ring. A guest splits longer requests. Requests of Xen have 11 segments of one page, \
                    those of QEMU 254.",
            example: "\"128KiB\"",
        },
        Key {
            name: "plug",
            kind: Kind::Count(1, 1024),
            default: DefaultValue::Value("16"),
            about: "The maximum number of requests that are pushed before one notification is sent. It applies to requests that a client \
                    issues together and that `plug` of `[host]` keeps together. Linux flushed a plug at 16 (`BLK_MAX_REQUEST_COUNT`).",
            example: "1",
        },
        Key {
            name: "threads",
            kind: Kind::Word(&["each", "one"]),
            default: DefaultValue::Value("\"each\""),
            about: "The threads of the back end. With `\"each\"`, every guest has a thread of its own, as under Xen. With `\"one\"`, one \
                    thread serves all guests, as a shard of Weir does.",
            example: "\"one\"",
        },
        Key {
            name: "kicks",
            kind: Kind::Other(
                "`\"at-once\"`, `\"spin TIME\"`, `\"sleep TIME\"`, `\"throttle RATE\"`; at most 10ms and 1000000 per second",
            ),
            default: DefaultValue::Value("\"at-once\""),
            about: "The reaction of the back end to a guest's notifications (kicks). With `\"spin 50us\"`, the thread polls the ring for this \
                    time after the last request before it requests the next kick. With `\"sleep 200us\"`, it polls the ring no sooner than \
                    this time after the previous poll. With `\"throttle 5000\"`, it wakes at most this number of times per second, and a guest \
                    that kicks without a request is served late, as in Linux since XSA-332.",
            example: "\"sleep 200us\"",
        },
        Key {
            name: "calls",
            kind: Kind::Other(
                "`\"at-once\"`, `\"delay TIME COUNT\"`, `\"vic\"`, `\"spdk TIME\"`; at most 10ms and a count of 256",
            ),
            default: DefaultValue::Value("\"at-once\""),
            about: "The rule for notifying a guest of responses. With `\"delay 100us 8\"`, the guest is notified when eight responses wait, or \
                    when the first has waited for this time. `\"vic\"` decides by the commands in flight, `\"spdk 10us\"` by the rate of \
                    requests.",
            example: "\"vic\"",
        },
        Key {
            name: "cost",
            kind: Kind::Table("`[guest.cost]`"),
            default: DefaultValue::Value("{}"),
            about: "The CPU time of each step.",
            example: "{ wake = \"20us\" }",
        },
    ]],
};

pub(crate) const COSTS: Shape = Shape {
    name: "[guest.cost]",
    about: "The time of the guest's CPU and of the back end for each request and each event. All defaults are assumptions: they are orders of \
            magnitude, because no measurement was published together with the figures with which they are compared.",
    keys: &[&[
        cost(
            "request",
            "\"3us\"",
            "Guest: time to put a request into the ring, including the work of the guest's block layer.",
        ),
        cost(
            "response",
            "\"2us\"",
            "Guest: time to take a response from the ring and to complete its request.",
        ),
        cost(
            "interrupt",
            "\"4us\"",
            "Guest: time to handle an interrupt and return from it.",
        ),
        cost(
            "event",
            "\"1us\"",
            "Guest or back end: time to notify the other side.",
        ),
        cost(
            "ipi",
            "\"2us\"",
            "Delay until the CPU of the other side notices a notification. No CPU is busy during this delay.",
        ),
        cost("wake", "\"5us\"", "Back end: time to wake its thread."),
        cost(
            "look",
            "\"1us\"",
            "Back end: time to check a ring after a kick.",
        ),
        cost(
            "take",
            "\"5us\"",
            "Back end: time to take a request from a ring and to submit it.",
        ),
        cost(
            "answer",
            "\"2us\"",
            "Back end: time to put a response into a ring.",
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
