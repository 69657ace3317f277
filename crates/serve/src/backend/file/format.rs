//! Detects formats of disk images that Weir does not interpret. It serves the bytes of such a file
//! unchanged.

use std::os::fd::AsFd;

/// The signature of each format: its name, the offset of the bytes, and the bytes.
const MAGIC: [(&str, usize, &[u8]); 6] = [
    ("qcow2", 0, b"QFI\xfb"),
    ("qed", 0, b"QED\0"),
    ("vmdk", 0, b"KDMV"),
    ("vhdx", 0, b"vhdxfile"),
    // A dynamic VHD has a copy of its footer at the start. A fixed one has the footer only at its
    // end, and is not detected.
    ("vhd", 0, b"conectix"),
    // The number 0xbeda107f in little-endian order, after a text of 64 bytes.
    ("vdi", 64, &[0x7f, 0x10, 0xda, 0xbe]),
];

/// Returns the format of a file, determined from its first bytes, or `None` if the format is
/// unknown or the file cannot be read.
pub(super) fn of(file: impl AsFd) -> Option<&'static str> {
    // The longest signature ends at byte 68 (VDI).
    let mut head = [0; 68];
    let read = rustix::io::pread(file, &mut head, 0).ok()?;
    name(&head[..read])
}

fn name(head: &[u8]) -> Option<&'static str> {
    let found = MAGIC
        .iter()
        .find(|(_, at, bytes)| head.get(*at..).is_some_and(|rest| rest.starts_with(bytes)));
    found.map(|(name, ..)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_known_by_its_first_bytes() {
        assert_eq!(name(b"QFI\xfb\0\0\0\x03"), Some("qcow2"));
        assert_eq!(name(b"vhdxfile\0"), Some("vhdx"));
        let mut vdi = [b' '; 68];
        vdi[64..].copy_from_slice(&0xbeda_107f_u32.to_le_bytes());
        assert_eq!(name(&vdi), Some("vdi"));
        assert_eq!(name(&[0; 68]), None);
        assert_eq!(name(b"QF"), None);
        assert_eq!(name(b""), None);
    }
}
