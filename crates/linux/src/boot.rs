//! Which boot of which kernel this is.

use crate::files::Files;

/// The number that the kernel drew at this boot; empty where it cannot be read.
pub(crate) fn id(files: &dyn Files) -> String {
    let text = files.read("/proc/sys/kernel/random/boot_id");
    text.unwrap_or_default().trim().to_owned()
}

/// Whether the kernel was built with an option, where its configuration can be read.
pub(crate) fn has(files: &dyn Files, option: &str) -> Option<bool> {
    let release = files.read("/proc/sys/kernel/osrelease").ok()?;
    let config = files
        .read(&format!("/boot/config-{}", release.trim()))
        .ok()?;
    Some(config.lines().any(|line| line == format!("{option}=y")))
}
