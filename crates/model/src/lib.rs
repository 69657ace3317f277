//! Models of drives, of the programs that clients run, and an NBD client that runs those programs.
//!
//! Each of the three modules can be read alone:
//!
//! - [`drive`] has timing models of drives. Begin with the trait [`drive::DriveModel`].
//! - [`load`] has the programs of clients as state machines without a clock. Begin with
//!   [`load::Program`], which describes a client, and [`load::LoadClient`], which issues its
//!   requests.
//! - [`client`] runs the same programs against a live NBD server.
#![forbid(unsafe_code)]

pub mod client;
pub mod drive;
pub mod load;
