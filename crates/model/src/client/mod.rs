//! An NBD client that runs load programs: for the demo, for comparisons on a live server, and for
//! the server's tests.
//!
//! [`Connection`] connects and does the handshake, [`run`] runs one
//! [`Program`](crate::load::Program) on it, and a [`Fleet`] runs many programs from a common start,
//! with one thread each. Latency is measured at the client: from sending a request (in an open
//! loop, from the time at which it was due) to the end of its reply.

mod connection;
mod fleet;
mod program;
mod socket;

pub use connection::{BeginTls, ConnectError, Connection};
pub use fleet::{Fleet, FleetError, FleetMember, MemberOutcome};
pub use program::{RunError, Settings, drive, run};
pub use weir_wire::nbd::{Address, AddressError, Uri, UriError};
