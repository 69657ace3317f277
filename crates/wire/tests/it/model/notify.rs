//! Models of notification over a queue: no side waits forever for a call that was delayed, or for a
//! kick that was ignored.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use weir_core::{Instant, Span};
use weir_wire::notify::{CallPolicy, Calls, Decision, Gather, KickPolicy, Kicks, Plan};
use weir_wire::ring::split::{BufferChain, Device};

use super::event::WakeEvent;
use super::memory::ModelMemory;
use super::rings::{drive, queue, serve};

/// The device's side with gathered calls. Time advances only when there is nothing else to do.
fn gather(mut device: Device<ModelMemory>, requests: u16, kicks: &WakeEvent, call: &WakeEvent) {
    let policy = CallPolicy::Gather(Gather {
        count: 2,
        delay: Span::from_micros(100),
    });
    let mut calls = Calls::new(policy, Gather::MOST);
    let (mut chain, mut served, mut now) = (BufferChain::default(), 0, Instant::ZERO);
    loop {
        let (found, wanted) = serve(&mut device, &mut chain, served);
        served += found;
        let left = u32::from(requests - served);
        if calls.on_published(now, u32::from(found), left, wanted) == Decision::Call {
            call.send();
        }
        if served < requests && device.arm().expect("the driver is honest") {
            continue;
        }
        // The only thing left to do is to wait for the timer of the delayed call.
        if let Some(due) = calls.due() {
            now = due;
            if calls.on_timer(now) == Decision::Call {
                call.send();
            }
        } else if served == requests {
            return;
        } else {
            kicks.sleep();
        }
    }
}

/// Checks that every delayed call is made.
pub(crate) fn calls(requests: u16) {
    let (driver, device) = queue(1, true);
    let (kicks, calls) = (WakeEvent::new(), WakeEvent::new());
    let (to_device, to_driver) = (kicks.clone(), calls.clone());
    let other = thread::spawn(move || gather(device, requests, &kicks, &to_driver));
    drive(driver, &calls, requests, true, || to_device.send());
    other.join().expect("it ends well");
}

/// The signals to the queue's thread since it last checked them. Both sides swap them, because loom
/// does not order a store among swaps.
#[derive(Clone)]
struct Signals {
    kicked: Arc<AtomicBool>,
    enabled: Arc<AtomicBool>,
    event: WakeEvent,
}

impl Signals {
    fn new() -> Self {
        Self {
            kicked: Arc::new(AtomicBool::new(false)),
            enabled: Arc::new(AtomicBool::new(false)),
            event: WakeEvent::new(),
        }
    }

    fn kick(&self) {
        self.kicked.swap(true, Ordering::AcqRel);
        self.event.send();
    }

    fn enable(&self) {
        self.enabled.swap(true, Ordering::AcqRel);
        self.event.send();
    }
}

/// The device's side that follows [`Kicks`], until `requests` are served.
struct PlannedDevice {
    kicks: Kicks,
    device: Device<ModelMemory>,
    requests: u16,
    served: u16,
    now: Instant,
    chain: BufferChain,
}

impl PlannedDevice {
    fn new(policy: KickPolicy, device: Device<ModelMemory>, requests: u16) -> Self {
        Self {
            kicks: Kicks::new(policy),
            device,
            requests,
            served: 0,
            now: Instant::ZERO,
            chain: BufferChain::default(),
        }
    }

    fn run(mut self, signals: &Signals, call: &WakeEvent) {
        loop {
            let mut plan = self.kicks.plan();
            if signals.kicked.swap(false, Ordering::AcqRel) {
                plan = self.kicks.on_kick(self.now, self.now);
            }
            // Enabling comes last, because it checks the queue whatever the kick resulted in.
            if signals.enabled.swap(false, Ordering::AcqRel) {
                plan = self.kicks.enable(self.now);
            }
            while let Some(next) = self.follow(plan, call) {
                plan = next;
            }
            if self.served == self.requests {
                return;
            }
            signals.event.sleep();
        }
    }

    /// Executes a plan and returns the next one, or `None` if the thread must sleep until there is
    /// a signal.
    fn follow(&mut self, plan: Plan, call: &WakeEvent) -> Option<Plan> {
        match plan {
            Plan::Look | Plan::Spin(_) => Some(self.look(call)),
            Plan::Arm if self.served == self.requests => None,
            Plan::Arm if self.device.arm().expect("the driver is honest") => Some(self.look(call)),
            // A wait until the end of time would never end, so the thread sleeps for a signal
            // instead.
            Plan::Arm | Plan::Nothing | Plan::Wait(Instant::MAX) => None,
            Plan::Wait(until) => {
                self.now = until;
                Some(self.kicks.on_timer(until))
            }
        }
    }

    fn look(&mut self, call: &WakeEvent) -> Plan {
        let (found, wanted) = serve(&mut self.device, &mut self.chain, self.served);
        self.served += found;
        if wanted {
            call.send();
        }
        let plan = self.kicks.on_checked(self.now, u32::from(found));
        if let Plan::Spin(until) = plan {
            self.now = until;
            return self.kicks.on_timer(until);
        }
        plan
    }
}

/// The guest kicks while another thread enables the queue.
pub(crate) fn kick_before_enable(policy: KickPolicy) {
    let (driver, device) = queue(1, true);
    let (signals, calls) = (Signals::new(), WakeEvent::new());
    let (to_device, to_driver, control) = (signals.clone(), calls.clone(), signals.clone());
    let other =
        thread::spawn(move || PlannedDevice::new(policy, device, 1).run(&signals, &to_driver));
    let enabling = thread::spawn(move || control.enable());
    drive(driver, &calls, 1, true, || to_device.kick());
    enabling.join().expect("it ends well");
    other.join().expect("it ends well");
}

/// The guest kicks twice without requests, and then with requests.
pub(crate) fn storm(policy: KickPolicy, requests: u16) {
    let (driver, device) = queue(1, true);
    let (signals, calls) = (Signals::new(), WakeEvent::new());
    let (to_device, to_driver) = (signals.clone(), calls.clone());
    let other = thread::spawn(move || {
        let mut planned = PlannedDevice::new(policy, device, requests);
        let mut plan = planned.kicks.enable(Instant::ZERO);
        while let Some(next) = planned.follow(plan, &to_driver) {
            plan = next;
        }
        planned.run(&signals, &to_driver);
    });
    for _ in 0..2 {
        to_device.kick();
    }
    drive(driver, &calls, requests, true, || to_device.kick());
    other.join().expect("it ends well");
}
