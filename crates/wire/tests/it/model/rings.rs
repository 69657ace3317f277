//! Models of both rings: two sides, a few requests, and indices that start close to the wrap.

use loom::thread;
use weir_wire::ring::split::{self, Areas, Buffer, BufferChain, Device, Driver, Settings};
use weir_wire::ring::xen::{self, Rearm, Response, XenBackEnd, XenFrontEnd, XenRequest, XenStatus};

use super::event::WakeEvent;
use super::memory::{EmptyGuest, ModelMemory};

/// The parameters of a case.
#[derive(Clone, Copy)]
pub(crate) struct ModelCase {
    /// The number of requests in the run.
    pub(crate) requests: u16,
    /// The number of steps before the indices wrap.
    pub(crate) before_wrap: u16,
    /// True to publish each request alone, false to publish all of them at once.
    pub(crate) one_by_one: bool,
}

/// Creates Xen's ring with four slots, whose indices wrap after `before_wrap` steps.
fn page(before_wrap: u16) -> (ModelMemory, u32) {
    let slots: Vec<_> = (0..4)
        .map(|slot| (64 + slot * xen::SLOT, xen::SLOT))
        .collect();
    let page = ModelMemory::new(&[], &[0, 4, 8, 12], &slots);
    let start = 0u32.wrapping_sub(u32::from(before_wrap));
    xen::init_at(&page, start);
    (page, start)
}

/// The front end's side: pushes requests, notifies the back end, then takes the responses.
fn front(mut front: XenFrontEnd<ModelMemory>, mine: &WakeEvent, back: &WakeEvent, case: ModelCase) {
    for id in 0..u64::from(case.requests) {
        front.push(&XenRequest::flush(id)).expect("there is room");
        let last = id + 1 == u64::from(case.requests);
        if (case.one_by_one || last) && front.publish() {
            back.send();
        }
    }
    let mut answered = 0;
    loop {
        while front.poll_responses().expect("the back end is honest") > 0 {
            let response = front.take().expect("it was counted");
            assert_eq!(
                response.id, answered,
                "a response is not the one that was written"
            );
            answered += 1;
        }
        if answered == u64::from(case.requests) {
            return;
        }
        if !front.arm().expect("the back end is honest") {
            mine.sleep();
        }
    }
}

/// The back end's side. The drive keeps requests until it has `together` of them, or all there will
/// be.
fn back(
    mut back: XenBackEnd<ModelMemory>,
    mine: &WakeEvent,
    front: &WakeEvent,
    case: ModelCase,
    together: usize,
) {
    let (mut taken, mut in_drive) = (0, Vec::new());
    loop {
        let mut more = false;
        while back.poll_requests().expect("the front end is honest") > 0 {
            let request = back
                .take()
                .expect("it was counted")
                .expect("it makes sense");
            assert_eq!(
                request.id, taken,
                "a request is not the one that was written"
            );
            taken += 1;
            in_drive.push(request);
            if in_drive.len() < together && taken < u64::from(case.requests) {
                continue;
            }
            for request in in_drive.drain(..) {
                back.answer(&Response::to(&request, XenStatus::Okay));
                if back.publish() {
                    front.send();
                }
                more |= back.on_answered().expect("the front end is honest");
            }
        }
        if taken == u64::from(case.requests) {
            return;
        }
        if !more && !back.on_drained().expect("the front end is honest") {
            mine.sleep();
        }
    }
}

/// Runs both sides of Xen's ring.
pub(crate) fn xen(case: ModelCase, rearm: Rearm, together: usize) {
    let (page, start) = page(case.before_wrap);
    let front_half = XenFrontEnd::at(page.clone(), start).expect("it fits");
    let back_half = XenBackEnd::at(page, rearm, start).expect("it fits");
    let (ours, theirs) = (WakeEvent::new(), WakeEvent::new());
    let (to_front, to_back) = (ours.clone(), theirs.clone());
    let other = thread::spawn(move || back(back_half, &theirs, &to_front, case, together));
    front(front_half, &ours, &to_back, case);
    other.join().expect("it ends well");
}

/// Creates virtio's queue with four entries, whose indices wrap after `before_wrap` steps.
pub(crate) fn queue(
    before_wrap: u16,
    event_idx: bool,
) -> (Driver<ModelMemory>, Device<ModelMemory>) {
    let settings = Settings {
        event_idx,
        ..Settings::new(4)
    };
    let table: Vec<_> = (0..4).map(|at| (16 * at, 16)).collect();
    let heads: Vec<_> = (0..4).map(|at| (4 + 2 * at, 2)).collect();
    let used: Vec<_> = (0..4).map(|at| (4 + 8 * at, 8)).collect();
    let areas = Areas {
        descriptors: ModelMemory::new(&[], &[], &table),
        available: ModelMemory::new(&[0, 2, 12], &[], &heads),
        used: ModelMemory::new(&[0, 2, 36], &[], &used),
    };
    let start = 0u16.wrapping_sub(before_wrap);
    let driver = Driver::at(areas.clone(), settings, start).expect("it fits");
    let device = Device::new(areas, settings, start).expect("it fits");
    (driver, device)
}

/// Returns the buffer of the request with this number.
fn buffer(number: u16) -> Buffer {
    Buffer {
        address: 0x1000 * u64::from(number),
        length: 1,
        writable: true,
    }
}

/// The driver's side: publishes `requests` one by one or all at once, then sleeps until it is
/// called.
pub(crate) fn drive(
    mut driver: Driver<ModelMemory>,
    calls: &WakeEvent,
    requests: u16,
    one_by_one: bool,
    kick: impl Fn(),
) {
    for number in 0..requests {
        driver.add(&[buffer(number)]).expect("there is room");
        if (one_by_one || number + 1 == requests) && driver.publish() {
            kick();
        }
    }
    let mut back = 0;
    loop {
        while let Some(used) = driver.take().expect("the device is honest") {
            assert_eq!(used.written, 1, "an entry is not the one that was written");
            back += 1;
        }
        if back == requests {
            return;
        }
        if driver.arm().expect("the device is honest") {
            continue;
        }
        calls.sleep();
        driver.disarm();
    }
}

/// Takes and answers all available chains. Returns their number, and true if the driver needs a
/// call.
pub(crate) fn serve(
    device: &mut Device<ModelMemory>,
    chain: &mut BufferChain,
    served: u16,
) -> (u16, bool) {
    let (mut found, mut call) = (0, false);
    while let Some(head) = device
        .take(&EmptyGuest, chain)
        .expect("the driver is honest")
    {
        let expected = [buffer(served + found)];
        assert_eq!(
            chain.buffers, expected,
            "a request is not the one that was written"
        );
        device.finish(head, 1);
        call |= device.publish();
        found += 1;
    }
    (found, call)
}

/// The device's side: serves until all requests are answered, and sleeps in between.
fn device(mut device: Device<ModelMemory>, mine: &WakeEvent, driver: &WakeEvent, case: ModelCase) {
    let (mut chain, mut served) = (BufferChain::default(), 0);
    loop {
        let (found, call) = serve(&mut device, &mut chain, served);
        served += found;
        if call {
            driver.send();
        }
        if served == case.requests {
            return;
        }
        if device.arm().expect("the driver is honest") {
            continue;
        }
        mine.sleep();
        device.disarm();
    }
}

/// Runs both sides of virtio's split queue.
pub(crate) fn split(case: ModelCase, event_idx: bool) {
    let (driver_half, device_half) = queue(case.before_wrap, event_idx);
    let (ours, theirs) = (WakeEvent::new(), WakeEvent::new());
    let (to_driver, to_device) = (ours.clone(), theirs.clone());
    let other = thread::spawn(move || device(device_half, &theirs, &to_driver, case));
    drive(driver_half, &ours, case.requests, case.one_by_one, || {
        to_device.send();
    });
    other.join().expect("it ends well");
}

// The positions in the model's areas are those of a queue of four entries.
const _: () = {
    let [descriptors, available, used] = split::lengths(4);
    assert!(descriptors == 64 && available == 14 && used == 38);
};
