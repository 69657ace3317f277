//! A minimum that several servers keep together: one volume, which each of them serves, was promised a rate, and they split it by demand.
//!
//! The parts stand in a store that all reach (etcd): a row for each server that is alive, which goes when its lease ends, and a generation,
//! which changes with each write. [`Member`] is a server's side as a state machine: what to ask of the store next, and what part of the
//! minimum the server may promise its clients now. It has no clock and does no I/O. [`Etcd`] is the store.
//!
//! Two rules keep the sum of what is promised at or below the minimum, whatever is lost, late or dead:
//!
//! - A row says no less than its server promises. A part is written before it is used, and is used no longer before less is written; a write holds
//!   only if nothing else was written since the table was read by which it was worked out ([`Ask::Write`]).
//! - A server stops before its row can go: it counts a lease from when it asked for it, by a clock that may be wrong by [`Config::drift`],
//!   and the store counts from when it was asked.

mod etcd;
mod fair;
mod member;
mod table;

pub use etcd::Etcd;
pub use fair::fair;
pub use member::{Answer, Ask, Config, Member};
pub use table::{Lease, ONE, Part, Row, Stated, Table};
