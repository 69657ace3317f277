//! The keys of a scenario's virtual machines (`[guest]`).

use super::Shape;
use crate::document::{Document, ShapedTable};
use weir_core::Span;

pub(crate) const GUEST: Shape = Shape {
    name: "[guest]",
    about: "Virtual machines between the clients and the block layer, together with their back end: one ring for each guest, notifications in \
            both directions, and the CPU time that these cost (`coalescing.md`). A guest has one CPU, and a thread of the back end does one \
            thing at a time.",
    keys: &[keys! {
        ring: Word(&["xen", "xen-before-2011", "virtio"]) = "\"xen\"", "\"virtio\"",
            "The kind of ring. With `\"xen\"`, the back end requests the next kick when it has taken all requests from the ring. With \
             `\"xen-before-2011\"`, it does so when it has answered all requests that it took. `\"virtio\"` is the split virtqueue with \
             event indices.";
        slots: Other("a power of two, 1 to 512, or up to 32768 with virtio") or "32; with virtio 256", "64",
            "The number of requests for which a ring has room. One page of a Xen ring holds 32.";
        longest: Size(4096, 16 << 20, 4096) or "44KiB; with virtio 1016KiB", "\"128KiB\"",
            "The maximum size of a request in the ring. A guest splits longer requests. Requests of Xen have 11 segments of one page, \
             those of QEMU 254.";
        plug: Count(1, 1024) = "16", "1",
            "The maximum number of requests that are pushed before one notification is sent. It applies to requests that a client \
             issues together and that `plug` of `[host]` keeps together. Linux flushed a plug at 16 (`BLK_MAX_REQUEST_COUNT`).";
        threads: Word(&["each", "one"]) = "\"each\"", "\"one\"",
            "The threads of the back end. With `\"each\"`, every guest has a thread of its own, as under Xen. With `\"one\"`, one \
             thread serves all guests, as a shard of Weir does.";
        kicks: Other("`\"at-once\"`, `\"spin TIME\"`, `\"sleep TIME\"`, `\"throttle RATE\"`; at most 10ms and 1000000 per second") = "\"at-once\"",
            "\"sleep 200us\"",
            "The reaction of the back end to a guest's notifications (kicks). With `\"spin 50us\"`, the thread polls the ring for this \
             time after the last request before it requests the next kick. With `\"sleep 200us\"`, it polls the ring no sooner than \
             this time after the previous poll. With `\"throttle 5000\"`, it wakes at most this number of times per second, and a guest \
             that kicks without a request is served late, as in Linux since XSA-332.";
        calls: Other("`\"at-once\"`, `\"delay TIME COUNT\"`, `\"vic\"`, `\"spdk TIME\"`; at most 10ms and a count of 256") = "\"at-once\"",
            "\"vic\"",
            "The rule for notifying a guest of responses. With `\"delay 100us 8\"`, the guest is notified when eight responses wait, or \
             when the first has waited for this time. `\"vic\"` decides by the commands in flight, `\"spdk 10us\"` by the rate of \
             requests.";
        cost: Table("`[guest.cost]`") = "{}", "{ wake = \"20us\" }",
            "The CPU time of each step.";
    }],
};

/// The maximum time of a step.
const COST_MOST: Span = Span::from_millis(10);

table! {
    /// The CPU times of a guest and of the back end (`[guest.cost]`). The defaults are orders of
    /// magnitude for CPUs of 2011 and a hypervisor without posted interrupts. They are assumptions,
    /// because the publications do not state them.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Cost: COSTS = "[guest.cost]",
        "The time of the guest's CPU and of the back end for each request and each event. All defaults are assumptions: they are orders of \
         magnitude, because no measurement was published together with the figures with which they are compared.";

    request: Span as Time(Span::ZERO, COST_MOST) = "\"3us\"", "\"10us\"",
        "Guest: time to put a request into the ring, including the work of the guest's block layer.";
    response: Span as Time(Span::ZERO, COST_MOST) = "\"2us\"", "\"10us\"",
        "Guest: time to take a response from the ring and to complete its request.";
    interrupt: Span as Time(Span::ZERO, COST_MOST) = "\"4us\"", "\"10us\"",
        "Guest: time to handle an interrupt and return from it.";
    event: Span as Time(Span::ZERO, COST_MOST) = "\"1us\"", "\"10us\"",
        "Guest or back end: time to notify the other side.";
    ipi: Span as Time(Span::ZERO, COST_MOST) = "\"2us\"", "\"10us\"",
        "Delay until the CPU of the other side notices a notification. No CPU is busy during this delay.";
    wake: Span as Time(Span::ZERO, COST_MOST) = "\"5us\"", "\"10us\"",
        "Back end: time to wake its thread.";
    look: Span as Time(Span::ZERO, COST_MOST) = "\"1us\"", "\"10us\"",
        "Back end: time to check a ring after a kick.";
    take: Span as Time(Span::ZERO, COST_MOST) = "\"5us\"", "\"10us\"",
        "Back end: time to take a request from a ring and to submit it.";
    answer: Span as Time(Span::ZERO, COST_MOST) = "\"2us\"", "\"10us\"",
        "Back end: time to put a response into a ring.";
}
