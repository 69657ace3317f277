//! When a guest's kick is looked at, and when the guest is called: notification as state machines.
//!
//! - [`Kicks`]: towards us. A guest kicks when it has put requests in the ring; to wake for each costs processor time, to wait costs the
//!   guest latency. At once, spin, sleep, or throttle.
//! - [`Calls`]: towards the guest. We call when there are responses; the guest pays for each. At once, gather, vIC, SPDK.
//!
//! There is one machine of each kind for a queue. It has no clock and moves no event: it is told what happened and when, and says what to
//! do and when to come back. A guest that sleeps is never forgotten: whatever is put off has an instant, and a kick that was not listened
//! to is made good by a look at the queue at that instant. Source: `docs/rings.md`.
//!
//! # Example
//! ```
//! use weir_core::{Instant, Span};
//! use weir_wire::notify::{KickPolicy, Kicks, Plan};
//!
//! let us = |n| Instant::ZERO + Span::from_micros(n);
//! let mut kicks = Kicks::new(KickPolicy::Sleep { span: Span::from_micros(200) });
//! assert_eq!(kicks.enable(us(0)), Plan::Look); // what came before is not lost
//! assert_eq!(kicks.looked(us(0), 0), Plan::Arm); // nothing came: a kick may wake us
//! assert_eq!(kicks.kicked(us(1000), us(1000)), Plan::Look);
//! assert_eq!(kicks.looked(us(1003), 3), Plan::Wait(us(1200))); // what comes now is found then
//! assert_eq!(kicks.timer(us(1200)), Plan::Look);
//! ```

mod call;
mod kick;

pub use call::{CallPolicy, Calls, Decision, Gather, Spdk, Vic};
pub use kick::{KickPolicy, Kicks, Plan};
