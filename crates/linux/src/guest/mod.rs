//! A laboratory with a real kernel: Debian's, unmodified, in a machine whose clock counts instructions.
//!
//! QEMU executes one instruction a nanosecond (`-icount`) and lets the clock jump while the guest sleeps, so that a run has a time of its
//! own and repeats: to the byte in most boots, and to a thousandth where a server and fio run for seconds. [`Kernel`] finds a kernel, or
//! downloads it once; [`Guest`] boots it with programs, files and a script, and returns what these wrote. Time in the guest says how many
//! instructions something took, and nothing about the speed of this machine.
//!
//! [`Lockstep`] is another: a kernel built as a program, whose processors are infinitely fast and whose disk is a modelled drive.

mod boot;
mod error;
mod initrd;
mod kernel;
mod lockstep;

pub use boot::{Guest, OUT_MAX, Ran};
pub use error::Error;
pub use kernel::{Kernel, VERSIONS};
pub use lockstep::Lockstep;
