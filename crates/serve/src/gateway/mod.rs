//! Shared minimums: a minimum of one volume that several servers serve together, and that they
//! divide among themselves by demand.
//!
//! The parts are stored in etcd, which all servers can reach. There is a row for each live server,
//! which is removed when its lease ends, and a generation, which changes with each write.
//! [`GatewayMember`] is one server's side, as a state machine without a clock or I/O. It determines
//! the next request to the store, and the part of the minimum that the server may promise its
//! clients now. [`Etcd`] carries out the requests.
//!
//! Two rules keep the sum of all promises at or below the minimum, even if messages are lost or
//! late, or servers die:
//!
//! - A row states at least as much as its server promises. A server writes a larger part before it
//!   uses it, and stops using the excess before it writes a smaller part. A write is applied only
//!   if nothing else was written since the server read the table from which it computed the part
//!   ([`StoreRequest::Write`]).
//! - A server stops promising before its row can be removed. It counts a lease from the time at
//!   which it sent the request, with an allowance of [`MemberConfig::drift`] for a wrong clock. The
//!   store counts from the time when it received the request.

mod etcd;
mod fair;
mod member;
mod table;

pub use etcd::{Etcd, EtcdAccess};
pub use fair::fair;
pub use member::{GatewayMember, MemberConfig, StoreReply, StoreRequest};
pub use table::{Lease, MemberRow, MemberTable, MinimumPart, ONE, StatedMinimum};
