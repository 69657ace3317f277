//! An NBD client that runs load programs: for the demo, for comparisons on a live server, for the server's tests.
//!
//! [`Connection`] connects and does the handshake, [`run`] runs one [`Program`](crate::load::Program) on it, and a [`Fleet`] runs
//! many at once from a common start, one thread each. Latency is measured as a client sees it: from sending a request (in an open
//! loop, from when it was due) to having its whole reply.

mod connection;
mod fleet;
mod program;
mod socket;

pub use connection::{ConnectError, Connection};
pub use fleet::{Fleet, FleetError, Member, Outcome};
pub use program::{RunError, Settings, drive, run};
pub use weir_wire::nbd::{Address, AddressError, Uri, UriError};
