//! Contracts from the limits of virtual machines: libvirt's `<iotune>` and QEMU's throttle groups.
//!
//! [`import`] reads an input, and returns tables of the server's file. Limits become a `max`, and a
//! group of several disks becomes a tenant. A limit that a contract cannot express exactly is
//! never dropped in silence: it becomes a remark, which states the consequence.
//!
//! `libvirt` and `qemu` read the inputs into `found`, with the limits in `throttle`. `contracts`
//! writes the tables.

mod contracts;
mod found;
mod libvirt;
mod qemu;
mod throttle;
mod value;

use crate::problem::Problem;
use found::ImportedInput;

pub use contracts::ImportedContracts;

/// Translates the XML of a domain or a disk of libvirt, a command line of QEMU, or JSON of QEMU's
/// monitor to contracts of volumes on the drive with this name. `file` is the name of the text in
/// problems, and can be empty.
///
/// # Errors
/// Returns the problems of a text that is none of these, that breaks a rule of libvirt or QEMU, or
/// that limits nothing.
pub fn import(file: &str, text: &str, drive: &str) -> Result<ImportedContracts, Vec<Problem>> {
    let mut found = ImportedInput::new(file);
    let inner = text.trim_start_matches('\u{feff}');
    match inner.trim_start().chars().next() {
        Some('<') => libvirt::read(inner, &mut found),
        Some('{' | '[') => qemu::read_json(inner, &mut found),
        _ if qemu::read_command_line(inner, &mut found) => {}
        _ => {
            let what = "is not XML of libvirt, a command line of QEMU or JSON";
            let help =
                "use the output of `virsh dumpxml`, or a command with -drive, -object or -blockdev";
            found.refuse("", what, help);
        }
    }
    contracts::contracts(&mut found, drive).ok_or(found.problems)
}
