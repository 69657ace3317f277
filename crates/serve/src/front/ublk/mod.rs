//! ublk: a volume as a block device of this machine, `/dev/ublkbN`, with requests that the kernel
//! passes to the shard's own ring (Linux: `Documentation/block/ublk.rst`).
//!
//! A device has as many queues as its drive, up to one per processor. Each queue is a client with a
//! stream and a front end. A queue has a number of *places*, which ublk calls tags.
//!
//! The server keeps one command with the driver for each place. The command completes when there is
//! a request in that place, which the driver describes in shared memory. The payload of a write is
//! read from `/dev/ublkcN` and the data of a read is written to it, each by an operation on the
//! ring. The command that returns a result also fetches the next request of its place. One turn
//! thus takes one system call, however many requests there are.
//!
//! The kernel is a client that cannot reconnect by itself, so a queue is never closed in favour of
//! others. It ends with its device ([`Devices`]) or with the process. In the latter case, the
//! driver keeps the requests in progress and sends them to the next process. A hand-over to another
//! process therefore transfers no state of a queue.

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
pub(crate) use toy::FakeUblkQueue;

#[cfg(test)]
mod tests;
