//! The upgrade in place: a server hands everything over to the process of another version, which
//! goes on with the same clients.
//!
//! The server starts the other program as its [`Successor`] and sends the configuration in force,
//! the listening sockets, and the storage with its locks. The successor opens everything and
//! reports that it is prepared. Only then the server stops serving: it completes what has reached
//! the drives and hands over the state of each client, what each volume and tenant owes to its max,
//! and the contents of volumes in memory. The successor confirms that it has taken over, and
//! serves. If it fails at any step before that, the server ends it and serves on.
//!
//! [`record`] has the messages, and [`channel`] their transport. `server/hand_over.rs` and
//! `server/take_over.rs` are the two sides.

mod channel;
mod interrupt;
mod record;
mod successor;

pub(crate) use channel::{Received, UpgradeChannel};
pub use interrupt::UpgradeInterrupt;
pub use record::ConfigSource;
pub(crate) use record::{
    Beginning, ClientRecord, DebtRecord, Debtor, FORMAT, FrontRecord, FrontState, InflightRecord,
    NbdRecord, RegionRecord, UpgradeMessage, VhostRecord, VirtqueueRecord,
};
pub use successor::{Predecessor, Successor};
