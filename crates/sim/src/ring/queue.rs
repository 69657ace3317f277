//! Both halves of a ring, of either kind. Requests pass through it as their cookies.

use weir_config::scenario::GuestRing;
use weir_core::Cookie;
use weir_wire::ring::plain::{Memory, Regions};
use weir_wire::ring::split::{Areas, Buffer, BufferChain, Device, Driver, Settings};
use weir_wire::ring::xen::{
    self, Rearm, Response, XenOperation, XenRequest, XenSegment, XenStatus,
};

/// The reason why errors of the ring cannot occur: both halves belong to this process, and neither
/// violates the protocol.
const OURS: &str = "both sides of the ring are ours";

/// The size of the indices before the slots of a Xen ring, in bytes.
const INDICES: usize = 64;

/// A guest's half of the ring.
#[derive(Debug)]
pub(super) enum FrontHalf {
    Xen(xen::XenFrontEnd<Memory>),
    Virtio {
        driver: Driver<Memory>,
        /// The cookie of each descriptor chain, by its head.
        cookies: Vec<Cookie>,
    },
}

/// The back end's half of the ring.
#[derive(Debug)]
pub(super) enum BackHalf {
    Xen(xen::XenBackEnd<Memory>),
    Virtio(Box<Virtio>),
}

/// The device's half of a virtqueue.
#[derive(Debug)]
pub(super) struct Virtio {
    device: Device<Memory>,
    guest: Regions,
    chain: BufferChain,
    /// The head of each request in flight, by cookie.
    heads: Vec<u16>,
}

/// Creates a ring with space for `slots` requests, whose cookies are below `requests`.
pub(super) fn ring(kind: GuestRing, slots: u32, requests: u32) -> (FrontHalf, BackHalf) {
    match kind {
        GuestRing::Xen => xen_ring(slots, Rearm::Drained),
        GuestRing::XenBefore2011 => xen_ring(slots, Rearm::Answered),
        GuestRing::Virtio => virtqueue(slots as u16, requests),
    }
}

fn xen_ring(slots: u32, rearm: Rearm) -> (FrontHalf, BackHalf) {
    // The memory is as short as possible, because the ring uses as many slots as fit, and whole
    // pages would have more of them.
    let memory = Memory::new(INDICES + slots as usize * xen::SLOT);
    xen::init(&memory);
    let front = xen::XenFrontEnd::new(memory.clone()).expect("there is a slot");
    let back = xen::XenBackEnd::new(memory, rearm).expect("there is a slot");
    (FrontHalf::Xen(front), BackHalf::Xen(back))
}

fn virtqueue(size: u16, requests: u32) -> (FrontHalf, BackHalf) {
    let areas = Areas::new(size);
    let settings = Settings::new(size);
    let driver = Driver::new(areas.clone(), settings).expect("the areas are long enough");
    let device = Device::new(areas, settings, 0).expect("the areas are long enough");
    // Guest memory has one byte for each request, whose address is the cookie. So the device can
    // recover the cookie from the descriptor.
    let mut guest = Regions::new();
    guest.add(0, Memory::new(requests as usize + 1));
    let front = FrontHalf::Virtio {
        driver,
        cookies: vec![0; size.into()],
    };
    let back = Virtio {
        device,
        guest,
        chain: BufferChain::default(),
        heads: vec![0; requests as usize],
    };
    (front, BackHalf::Virtio(Box::new(back)))
}

impl FrontHalf {
    /// Returns true if there is space for a request.
    pub(super) fn has_room(&self) -> bool {
        match self {
            Self::Xen(front) => front.free() > 0,
            Self::Virtio { driver, .. } => driver.free() > 0,
        }
    }

    /// Puts a request into the ring, which the back end does not see yet.
    pub(super) fn push(&mut self, cookie: Cookie) {
        match self {
            Self::Xen(front) => {
                // The segment and the operation are placeholders. The request itself is looked up
                // by its cookie.
                let segment = XenSegment {
                    grant: 0,
                    first: 0,
                    last: 0,
                };
                let request = XenRequest::new(XenOperation::Read, cookie, 0, &[segment]);
                front.push(&request).expect("there was room");
            }
            Self::Virtio { driver, cookies } => {
                let buffer = Buffer {
                    address: cookie,
                    length: 1,
                    writable: true,
                };
                let head = driver.add(&[buffer]).expect("there was room");
                cookies[usize::from(head)] = cookie;
            }
        }
    }

    /// Publishes the new requests. Returns true if the back end must be kicked.
    pub(super) fn publish(&mut self) -> bool {
        match self {
            Self::Xen(front) => front.publish(),
            Self::Virtio { driver, .. } => driver.publish(),
        }
    }

    /// Takes the next response, if any.
    pub(super) fn take(&mut self) -> Option<Cookie> {
        match self {
            Self::Xen(front) => {
                front.poll_responses().expect(OURS);
                front.take().map(|response| response.id)
            }
            Self::Virtio { driver, cookies } => {
                let used = driver.take().expect(OURS);
                used.map(|used| cookies[usize::from(used.head)])
            }
        }
    }

    /// Asks for a call, then checks once more. Returns true if there is a response.
    pub(super) fn arm(&mut self) -> bool {
        match self {
            Self::Xen(front) => front.arm().expect(OURS),
            Self::Virtio { driver, .. } => driver.arm().expect(OURS),
        }
    }
}

impl BackHalf {
    /// Returns the number of requests that can be taken now.
    pub(super) fn look(&mut self) -> u32 {
        match self {
            Self::Xen(back) => back.poll_requests().expect(OURS),
            Self::Virtio(queue) => queue.device.poll_available().expect(OURS).into(),
        }
    }

    /// Takes the next of the requests that were seen at the last look.
    pub(super) fn take(&mut self) -> Option<Cookie> {
        match self {
            Self::Xen(back) => {
                let request = back.take()?;
                Some(request.expect(OURS).id)
            }
            Self::Virtio(queue) => {
                let head = queue.device.take(&queue.guest, &mut queue.chain);
                let head = head.expect(OURS)?;
                let cookie = queue.chain.buffers[0].address;
                queue.heads[cookie as usize] = head;
                Some(cookie)
            }
        }
    }

    /// Puts a response into the ring, which the guest does not see yet.
    pub(super) fn answer(&mut self, cookie: Cookie) {
        match self {
            Self::Xen(back) => back.answer(&Response {
                id: cookie,
                operation: XenOperation::Read,
                status: XenStatus::Okay,
            }),
            Self::Virtio(queue) => queue.device.finish(queue.heads[cookie as usize], 1),
        }
    }

    /// Publishes the new responses. Returns true if the guest must be called.
    pub(super) fn publish(&mut self) -> bool {
        match self {
            Self::Xen(back) => back.publish(),
            Self::Virtio(queue) => queue.device.publish(),
        }
    }

    /// Asks for a kick when there is nothing to take, unless the re-arm rule asks later, and checks
    /// once more. Returns true if there is a request.
    pub(super) fn drained(&mut self) -> bool {
        match self {
            Self::Xen(back) => back.on_drained().expect(OURS),
            Self::Virtio(queue) => queue.device.arm().expect(OURS),
        }
    }

    /// Applies the re-arm rule of before 2011 after a response. Returns true if there is a request
    /// to take.
    pub(super) fn answered(&mut self) -> bool {
        match self {
            Self::Xen(back) => back.on_answered().expect(OURS),
            Self::Virtio(_) => false,
        }
    }
}
