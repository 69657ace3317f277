//! A laboratory with a real kernel: Debian's, unmodified, in a machine whose clock counts
//! instructions.
//!
//! QEMU executes one instruction per nanosecond (`-icount`), and the clock jumps while the guest
//! sleeps, so that a run has a time of its own. Most boots repeat to the byte. Runs in which a
//! server and fio work for seconds repeat to 0.1 %. A time in the guest tells how many instructions
//! something took, and nothing about the speed of this machine.
//!
//! [`Kernel`] finds a kernel, or downloads it once. [`KernelGuest`] boots it with programs, files
//! and a script, and returns their output.
//!
//! [`Lockstep`] is an alternative: a kernel that was built as a program, whose processors are
//! infinitely fast and whose disk is a modelled drive.

mod boot;
mod error;
mod initrd;
mod kernel;
mod lockstep;

pub use boot::{GuestOutput, KernelGuest, OUT_MAX};
pub use error::GuestError;
pub use kernel::{Kernel, VERSIONS};
pub use lockstep::Lockstep;
