//! The identity of the running kernel: its boot and its build options.

use crate::files::HostFiles;

/// Returns the random identifier of the current boot, or an empty string if it cannot be read.
pub(crate) fn id(files: &dyn HostFiles) -> String {
    let text = files.read("/proc/sys/kernel/random/boot_id");
    text.unwrap_or_default().trim().to_owned()
}

/// Returns true if the kernel was built with an option, or `None` if its configuration cannot be
/// read.
pub(crate) fn has(files: &dyn HostFiles, option: &str) -> Option<bool> {
    let release = files.read("/proc/sys/kernel/osrelease").ok()?;
    let config = files
        // Distributions install the configuration of each kernel here. `/proc/config.gz` is
        // optional.
        .read(&format!("/boot/config-{}", release.trim()))
        .ok()?;
    Some(config.lines().any(|line| line == format!("{option}=y")))
}
