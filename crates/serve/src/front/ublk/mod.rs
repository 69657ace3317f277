//! ublk: a volume as a block device of this machine, `/dev/ublkbN`, whose requests the kernel brings to the shard's own ring.
//!
//! A device has as many queues as its drive, and each of them is a client: a stream, a front end. For each place of a queue a command is
//! with the driver; it ends when there is a request in that place, which the driver has described in memory that it shares. What a write
//! carries is read from `/dev/ublkcN`, and what was read is written to it, each by an operation on the ring; the command that brings a
//! result back fetches the place's next request. So a turn takes one system call, however many requests come and go.
//!
//! The kernel is a client that cannot connect again: a queue is not made to go for others' sake. What ends it is the end of its device
//! ([`Devices`]), or of the process; the driver keeps requests that were under way then, and asks the next process.

mod control;
mod devices;
mod disk;
mod node;
mod queue;
mod take;
#[cfg(test)]
mod toy;

pub(crate) use devices::{Devices, has_driver, look, operations};
#[cfg(test)]
pub(crate) use toy::Toy;
