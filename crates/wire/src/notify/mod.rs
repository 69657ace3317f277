//! Notification between a guest and its back end, as state machines that decide when each side is
//! notified.
//!
//! - [`Kicks`] decides when a kick of the guest is served. A guest kicks after it has put requests
//!   into the ring. A wake-up for each kick costs processor time, and waiting costs the guest
//!   latency. The policies are: at once, spin, sleep and throttle.
//! - [`Calls`] decides when the guest is called. The back end calls when there are responses, and
//!   the guest pays for each call. The policies are: at once, gather, vIC and SPDK.
//!
//! Each queue has one machine of each kind. A machine has no clock and delivers no event. The
//! caller reports events with their time, and the machine returns the next action and the time of
//! the next call. No guest can sleep forever: every delay has an end, and a kick that arrives while
//! the queue ignores kicks is replaced by a check of the queue at that end. `docs/rings.md` lists
//! the policies with their bounds and sources.
//!
//! # Example
//! ```
//! use weir_core::{Instant, Span};
//! use weir_wire::notify::{KickPolicy, Kicks, Plan};
//!
//! let us = |n| Instant::ZERO + Span::from_micros(n);
//! let mut kicks = Kicks::new(KickPolicy::Sleep { span: Span::from_micros(200) });
//! assert_eq!(kicks.enable(us(0)), Plan::Look); // what came before is not lost
//! assert_eq!(kicks.on_checked(us(0), 0), Plan::Arm); // nothing came: a kick may wake us
//! assert_eq!(kicks.on_kick(us(1000), us(1000)), Plan::Look);
//! assert_eq!(kicks.on_checked(us(1003), 3), Plan::Wait(us(1200))); // what comes now is found then
//! assert_eq!(kicks.on_timer(us(1200)), Plan::Look);
//! ```

mod call;
mod kick;

pub use call::{CallPolicy, Calls, Decision, Gather, Spdk, Vic};
pub use kick::{KickPolicy, Kicks, Plan};
