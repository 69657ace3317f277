//! Volumes for containers that are virtual machines: a socket at which the VMM finds the volume as
//! a disk, over `vhost-user`.
//!
//! The server creates the socket together with the volume, and again after a restart. It is
//! therefore always referred to by its path. A bind mount would keep referring to the socket of the
//! earlier server.

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process;

use tonic::Status;
use weir_manage::api::{JsonTable, Volume};

use super::direct;
use crate::driver::CsiDriver;
use crate::error::{self, no_volume};
use crate::images;
use crate::mount;
use crate::rpc::volume_capability::AccessType;
use crate::rpc::{VolumeUsage, volume_usage::Unit};
use crate::terms::AttachMethod;

/// The ending of the name of each socket.
const END: &str = ".vhost";
/// The maximum length of the path of a Unix socket in bytes (unix(7): 108 with the terminating
/// zero).
const PATH_MAX: usize = 107;

/// Returns the path of the socket of a new volume.
///
/// # Errors
/// Returns an error if the path would be too long.
pub(crate) fn path(directory: &Path, volume: &str) -> Result<PathBuf, Status> {
    let path = directory.join(weir_manage::api::encoded(volume) + END);
    let length = path.as_os_str().len();
    if length <= PATH_MAX {
        return Ok(path);
    }
    let said = format!(
        "the socket path {} has {length} bytes; at most {PATH_MAX} are possible. Use a shorter --sockets or a shorter name",
        path.display()
    );
    Err(Status::invalid_argument(said))
}

/// Returns the socket of a volume, according to its configuration.
pub(crate) fn of(config: &JsonTable) -> Option<&Path> {
    config.get("listen")?.get("vhost")?.as_str().map(Path::new)
}

/// A volume that is attached through a socket.
#[derive(Debug)]
pub(crate) struct SocketDisk<'a> {
    driver: &'a CsiDriver,
    volume: &'a Volume,
    socket: &'a Path,
}

impl<'a> SocketDisk<'a> {
    /// Returns the volume as such a disk, if that is how it is attached.
    pub(crate) fn new(driver: &'a CsiDriver, volume: &'a Volume) -> Option<Self> {
        // A volume with ublk is attached as a block device, even if it has a socket as well.
        let socket = of(&volume.config)
            .filter(|_| AttachMethod::of(&volume.config) == AttachMethod::Vhost)?;
        Some(Self {
            driver,
            volume,
            socket,
        })
    }

    /// Prepares the volume for publishing. Nothing has to be connected. A volume that is to be
    /// mounted gets a file system if it has none. It is made in the volume's file, before a virtual
    /// machine can use it.
    pub(crate) fn stage(&self, at: &Path, used: &AccessType) -> Result<(), Status> {
        let AccessType::Mount(asked) = used else {
            return Ok(());
        };
        // The directory marks the volume as staged.
        fs::create_dir_all(at).map_err(error::file("create", at))?;
        self.with_file(|file| mount::prepare(file, &asked.fs_type))
            .map(drop)
    }

    /// Publishes the volume at a path. As a block volume, the path is a link to the socket. As a
    /// file system, Kata Containers is told to mount it in the virtual machine.
    pub(crate) fn publish(
        &self,
        (staged, to): (&Path, &Path),
        used: &AccessType,
        read_only: bool,
    ) -> Result<(), Status> {
        match used {
            AccessType::Block(_) if read_only => {
                let said = "a read-only socket is not supported; publish the volume writable, or as a mount";
                Err(Status::invalid_argument(said))
            }
            AccessType::Block(_) => self.link(to),
            AccessType::Mount(asked) => {
                let kind = self.with_file(mount::kind_of)?;
                // Staging has made this directory.
                let kind = kind.filter(|_| staged.is_dir());
                let kind = kind.ok_or_else(|| {
                    Status::failed_precondition(format!("{:?} is not staged", self.volume.name))
                })?;
                let direct = &self.driver.options.direct_volumes;
                if let Some(other) = direct::other(direct, to, self.socket)? {
                    let said = format!(
                        "{:?} is already published at {other}; only one virtual machine can mount its file system at a time",
                        self.volume.name
                    );
                    return Err(Status::failed_precondition(said));
                }
                // kubelet checks for this mount. The volume itself is not mounted on the node.
                mount::bind(staged, to, read_only)?;
                direct::add(direct, to, self.socket, &kind, &asked.mount_flags)
            }
        }
    }

    /// Makes a link to the socket at a path. Succeeds if it exists already.
    fn link(&self, to: &Path) -> Result<(), Status> {
        let parent = to.parent().unwrap_or(to);
        fs::create_dir_all(parent).map_err(error::file("create", parent))?;
        match symlink(self.socket, to) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && self.is_link(to) => {
                Ok(())
            }
            linked => linked.map_err(error::file("create", to)),
        }
    }

    fn is_link(&self, at: &Path) -> bool {
        fs::read_link(at).is_ok_and(|to| to == self.socket)
    }

    /// Returns true if the volume is published at a path.
    pub(crate) fn is_at(&self, at: &Path) -> Result<bool, Status> {
        Ok(self.is_link(at) || mount::is_mounted(at)?)
    }

    /// Returns the size of the volume. Only its virtual machine knows how full the file system is.
    pub(crate) fn usage(&self) -> VolumeUsage {
        VolumeUsage {
            total: i64::try_from(self.volume.size_bytes).unwrap_or(i64::MAX),
            unit: Unit::Bytes.into(),
            ..VolumeUsage::default()
        }
    }

    /// Reports the growth of the file system. The server has told the virtual machine the new size
    /// of the disk. Only the virtual machine can grow the file system on it.
    pub(crate) fn grow(&self, at: &Path) -> Result<(), Status> {
        if self.is_link(at) {
            return Ok(());
        }
        let said = format!(
            "the disk {:?} has grown, but its file system is mounted in a virtual machine; grow the file system there",
            self.volume.name
        );
        Err(Status::failed_precondition(said))
    }

    /// Calls `work` with a path that refers to the opened file of the volume. With the file's own
    /// path, tools would follow a link that the server's user may have put in its place.
    fn with_file<T>(&self, work: impl Fn(&Path) -> Result<T, Status>) -> Result<T, Status> {
        let path = self.driver.volumes()?.file(self.volume);
        let path = path.ok_or_else(|| no_volume(&self.volume.name))?;
        let file = images::open(&path).map_err(error::file("open", &path))?;
        let open = format!("/proc/{}/fd/{}", process::id(), file.as_raw_fd());
        work(Path::new(&open)).map_err(|status| {
            let said = status.message().replace(&open, &path.to_string_lossy());
            Status::new(status.code(), said)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_has_the_volumes_name_as_long_as_there_is_room() {
        let at = |name: &str| path(Path::new("/run/weir"), name);
        let short = at("pvc-5/a").unwrap();
        assert_eq!(short, Path::new("/run/weir/pvc-5%2Fa.vhost"));
        let room = PATH_MAX - "/run/weir/.vhost".len();
        assert!(at(&"a".repeat(room)).is_ok());
        let refused = at(&"a".repeat(room + 1)).unwrap_err();
        assert_eq!(refused.code(), tonic::Code::InvalidArgument);
    }
}
