//! Everything people write: units, contracts, policies, the server's file.
