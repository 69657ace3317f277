//! The upgrade in place: a server hands everything over to the process of another version, which
//! goes on with the same clients.

mod record;

pub(crate) use record::{FrontRecord, FrontState, NbdRecord};
