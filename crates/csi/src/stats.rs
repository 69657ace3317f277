//! The usage of a published volume.

use std::fs;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use tonic::Status;

use crate::error;
use crate::rpc::VolumeUsage;
use crate::rpc::volume_usage::Unit;

/// Returns the usage of the file system that is mounted at a path, in bytes and inodes, or the size
/// of the device there.
pub(crate) fn usage(at: &Path) -> Result<Vec<VolumeUsage>, Status> {
    let found = fs::metadata(at).map_err(error::file("inspect", at))?;
    if found.file_type().is_block_device() {
        // The metadata of a block device have no length.
        let size = fs::File::open(at).and_then(|mut file| file.seek(SeekFrom::End(0)));
        let size = size.map_err(error::file("inspect", at))?;
        let usage = VolumeUsage {
            total: count(size),
            unit: Unit::Bytes.into(),
            ..VolumeUsage::default()
        };
        return Ok(vec![usage]);
    }
    let system =
        rustix::fs::statvfs(at).map_err(|errno| error::file("inspect", at)(errno.into()))?;
    // statvfs(3): blocks are counted in units of f_frsize.
    let bytes = |blocks: u64| count(blocks.saturating_mul(system.f_frsize));
    Ok(vec![
        VolumeUsage {
            available: bytes(system.f_bavail),
            total: bytes(system.f_blocks),
            used: bytes(system.f_blocks - system.f_bfree),
            unit: Unit::Bytes.into(),
        },
        VolumeUsage {
            available: count(system.f_favail),
            total: count(system.f_files),
            used: count(system.f_files - system.f_ffree),
            unit: Unit::Inodes.into(),
        },
    ])
}

fn count(number: u64) -> i64 {
    // The interface has signed integers.
    i64::try_from(number).unwrap_or(i64::MAX)
}
