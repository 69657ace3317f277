//! Both halves of a ring, of either kind: requests go through as their cookies.

use weir_config::scenario::Ring;
use weir_core::Cookie;
use weir_wire::ring::plain::{Memory, Regions};
use weir_wire::ring::split::{Areas, Buffer, Chain, Device, Driver, Settings};
use weir_wire::ring::xen::{self, Operation, Rearm, Request, Response, Segment, Status};

/// Both sides are this program's: neither does what cannot be.
const OURS: &str = "both sides of the ring are ours";

/// Bytes in front of the slots of Xen's ring.
const INDICES: usize = 64;

/// A guest's half.
#[derive(Debug)]
pub(super) enum FrontHalf {
    Xen(xen::Front<Memory>),
    Virtio {
        driver: Driver<Memory>,
        /// The cookie of each head.
        cookies: Vec<Cookie>,
    },
}

/// The back end's half.
#[derive(Debug)]
pub(super) enum BackHalf {
    Xen(xen::Back<Memory>),
    Virtio(Box<Virtio>),
}

/// The device's side of a virtqueue.
#[derive(Debug)]
pub(super) struct Virtio {
    device: Device<Memory>,
    guest: Regions,
    chain: Chain,
    /// The head of each request in flight.
    heads: Vec<u16>,
}

/// A new ring of `slots` requests; cookies are below `requests`.
pub(super) fn ring(kind: Ring, slots: u32, requests: u32) -> (FrontHalf, BackHalf) {
    match kind {
        Ring::Xen => xen_ring(slots, Rearm::Drained),
        Ring::XenBefore2011 => xen_ring(slots, Rearm::Answered),
        Ring::Virtio => virtqueue(slots as u16, requests),
    }
}

fn xen_ring(slots: u32, rearm: Rearm) -> (FrontHalf, BackHalf) {
    // No longer than it has to be: whole pages would have more slots.
    let memory = Memory::new(INDICES + slots as usize * xen::SLOT);
    xen::init(&memory);
    let front = xen::Front::new(memory.clone()).expect("there is a slot");
    let back = xen::Back::new(memory, rearm).expect("there is a slot");
    (FrontHalf::Xen(front), BackHalf::Xen(back))
}

fn virtqueue(size: u16, requests: u32) -> (FrontHalf, BackHalf) {
    let areas = Areas::new(size);
    let settings = Settings::new(size);
    let driver = Driver::new(areas.clone(), settings).expect("the areas are long enough");
    let device = Device::new(areas, settings, 0).expect("the areas are long enough");
    // A byte for each request: its address is the cookie.
    let mut guest = Regions::new();
    guest.add(0, Memory::new(requests as usize + 1));
    let front = FrontHalf::Virtio {
        driver,
        cookies: vec![0; size.into()],
    };
    let back = Virtio {
        device,
        guest,
        chain: Chain::default(),
        heads: vec![0; requests as usize],
    };
    (front, BackHalf::Virtio(Box::new(back)))
}

impl FrontHalf {
    /// There is room for a request.
    pub(super) fn has_room(&self) -> bool {
        match self {
            Self::Xen(front) => front.free() > 0,
            Self::Virtio { driver, .. } => driver.free() > 0,
        }
    }

    /// Puts a request in, which the back end does not see yet.
    pub(super) fn push(&mut self, cookie: Cookie) {
        match self {
            Self::Xen(front) => {
                let segment = Segment {
                    grant: 0,
                    first: 0,
                    last: 0,
                };
                let request = Request::new(Operation::Read, cookie, 0, &[segment]);
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

    /// Lets the back end see them; true if it is to be kicked.
    pub(super) fn publish(&mut self) -> bool {
        match self {
            Self::Xen(front) => front.publish(),
            Self::Virtio { driver, .. } => driver.publish(),
        }
    }

    /// The next response.
    pub(super) fn take(&mut self) -> Option<Cookie> {
        match self {
            Self::Xen(front) => {
                front.look().expect(OURS);
                front.take().map(|response| response.id)
            }
            Self::Virtio { driver, cookies } => {
                let used = driver.take().expect(OURS);
                used.map(|used| cookies[usize::from(used.head)])
            }
        }
    }

    /// Asks for a call, then looks once more: true if there is a response.
    pub(super) fn arm(&mut self) -> bool {
        match self {
            Self::Xen(front) => front.arm().expect(OURS),
            Self::Virtio { driver, .. } => driver.arm().expect(OURS),
        }
    }
}

impl BackHalf {
    /// Requests that can be taken now.
    pub(super) fn look(&mut self) -> u32 {
        match self {
            Self::Xen(back) => back.look().expect(OURS),
            Self::Virtio(queue) => queue.device.look().expect(OURS).into(),
        }
    }

    /// The next of those that were there at the last look.
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

    /// Puts a response in, which the guest does not see yet.
    pub(super) fn answer(&mut self, cookie: Cookie) {
        match self {
            Self::Xen(back) => back.answer(&Response {
                id: cookie,
                operation: Operation::Read,
                status: Status::Okay,
            }),
            Self::Virtio(queue) => queue.device.finish(queue.heads[cookie as usize], 1),
        }
    }

    /// Lets the guest see them; true if it is to be called.
    pub(super) fn publish(&mut self) -> bool {
        match self {
            Self::Xen(back) => back.publish(),
            Self::Virtio(queue) => queue.device.publish(),
        }
    }

    /// There is nothing to take. Asks for a kick, where the rule has it so, then looks once more: true if there is a request.
    pub(super) fn drained(&mut self) -> bool {
        match self {
            Self::Xen(back) => back.drained().expect(OURS),
            Self::Virtio(queue) => queue.device.arm().expect(OURS),
        }
    }

    /// A response was given. True if, by the rule of before 2011, there is a request to take.
    pub(super) fn answered(&mut self) -> bool {
        match self {
            Self::Xen(back) => back.answered().expect(OURS),
            Self::Virtio(_) => false,
        }
    }
}
