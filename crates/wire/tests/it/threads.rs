//! The rings between two threads of this machine. Each thread sleeps as soon as it has no work, and
//! none may sleep forever.

use std::sync::mpsc;
use std::thread::{self, Thread};
use std::time::Duration;
use weir_wire::ring::plain::{Memory, Regions};
use weir_wire::ring::split::{Areas, Buffer, BufferChain, Device, Driver, Settings};
use weir_wire::ring::xen::{self, Rearm, Response, XenBackEnd, XenFrontEnd, XenRequest, XenStatus};

const REQUESTS: u64 = 200_000;

/// Runs each side in a thread, and fails if they do not end within a minute.
fn race(other: impl FnOnce(Thread) + Send + 'static, this: impl FnOnce(Thread) + Send + 'static) {
    let (done, all) = mpsc::channel();
    thread::spawn(move || {
        let me = thread::current();
        let other = thread::spawn(move || other(me));
        this(other.thread().clone());
        other.join().expect("it ends well");
        done.send(()).expect("somebody waits");
    });
    all.recv_timeout(Duration::from_mins(1))
        .expect("somebody sleeps though there is work");
}

fn split(event_idx: bool) {
    let settings = Settings {
        event_idx,
        ..Settings::new(16)
    };
    let areas = Areas::new(16);
    // The indices wrap after 256 of the 200,000 requests.
    let mut driver = Driver::at(areas.clone(), settings, 0xff00).expect("it fits");
    let mut device = Device::new(areas, settings, 0xff00).expect("it fits");
    let serve = move |guest: Thread| {
        let (mut chain, mut served) = (BufferChain::default(), 0);
        while served < REQUESTS {
            while let Some(head) = device
                .take(&Regions::new(), &mut chain)
                .expect("it makes sense")
            {
                device.finish(head, chain.buffers[0].length);
                served += 1;
                if device.publish() {
                    guest.unpark();
                }
            }
            if served < REQUESTS && !device.arm().expect("it goes on") {
                thread::park();
                device.disarm();
            }
        }
    };
    let drive = move |back_end: Thread| {
        let (mut given, mut back, mut sum) = (0, 0, 0);
        while back < REQUESTS {
            // The number of free descriptors that the driver leaves varies, so that it sleeps with
            // rings of all fill levels.
            while given < REQUESTS && driver.free() > (given % 13) as usize {
                let length = given as u32 % 4096 + 1;
                let buffer = Buffer {
                    address: given,
                    length,
                    writable: true,
                };
                driver.add(&[buffer]).expect("there is room");
                given += 1;
            }
            if driver.publish() {
                back_end.unpark();
            }
            while let Some(used) = driver.take().expect("it makes sense") {
                sum += u64::from(used.written);
                back += 1;
            }
            let more = given < REQUESTS && driver.free() > 12;
            if !more && back < REQUESTS && !driver.arm().expect("it goes on") {
                thread::park();
                driver.disarm();
            }
        }
        // Each request writes its own length, so an entry that is read too early changes the sum.
        let expected: u64 = (0..REQUESTS).map(|number| number % 4096 + 1).sum();
        assert_eq!(sum, expected, "an entry was read before it was written");
    };
    race(serve, drive);
}

#[test]
fn split_by_index() {
    split(true);
}

#[test]
fn split_by_flag() {
    split(false);
}

#[test]
fn xen_ring() {
    let page = Memory::new(4096);
    // The indices wrap after 1001 requests.
    let start = u32::MAX - 1000;
    xen::init_at(&page, start);
    let mut front = XenFrontEnd::at(page.clone(), start).expect("it fits");
    let mut back = XenBackEnd::at(page, Rearm::Drained, start).expect("it fits");
    let serve = move |guest: Thread| {
        let mut served = 0;
        while served < REQUESTS {
            while back.poll_requests().expect("it goes on") > 0 {
                let request = back
                    .take()
                    .expect("it was counted")
                    .expect("it makes sense");
                assert_eq!(
                    request.id, served,
                    "a request was read before it was written"
                );
                back.answer(&Response::to(&request, XenStatus::Okay));
                served += 1;
                if back.publish() {
                    guest.unpark();
                }
            }
            if served < REQUESTS && !back.on_drained().expect("it goes on") {
                thread::park();
            }
        }
    };
    let drive = move |back_end: Thread| {
        let (mut given, mut answered) = (0, 0);
        while answered < REQUESTS {
            while given < REQUESTS && front.push(&XenRequest::flush(given)).is_ok() {
                given += 1;
                // Half of the time, each request is published alone. Otherwise many are published
                // at once.
                if given % 100 < 50 && front.publish() {
                    back_end.unpark();
                }
            }
            if front.publish() {
                back_end.unpark();
            }
            while front.poll_responses().expect("it goes on") > 0 {
                let response = front.take().expect("it was counted");
                assert_eq!(
                    response.id, answered,
                    "a response was read before it was written"
                );
                answered += 1;
            }
            let more = given < REQUESTS && front.free() > 0;
            if !more && answered < REQUESTS && !front.arm().expect("it goes on") {
                thread::park();
            }
        }
    };
    race(serve, drive);
}
