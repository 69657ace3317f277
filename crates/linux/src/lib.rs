//! Linux's own knobs for storage: which there are, what a policy and its contracts come to in them, and how a host is set and put back.
//!
//! [`translate`] turns a policy, a drive and groups with contracts into [`Setting`]s, in the order in which the kernel wants them; for
//! every place in which a kernel is to do what the simulator does. [`Files`] is where they go: a real tree ([`Tree`]), or a recorded one that
//! behaves as the kernel does ([`Fake`]).

#![forbid(unsafe_code)]

mod fake;
mod files;
mod knob;
mod place;
mod setting;
mod translate;
mod tunable;

pub use fake::Fake;
pub use files::{Files, Tree};
pub use knob::{Knob, Scope, Wrong};
pub use place::{Place, Step};
pub use setting::{At, Setting};
pub use translate::{Group, Queue, Refused, Translation, translate};
