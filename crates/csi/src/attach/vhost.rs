//! A volume for containers that are virtual machines: a socket at which the machine's monitor finds it as a disk, by `vhost-user`.
//!
//! The server opens the socket with the volume and makes it anew after a restart, so that it is named by its path everywhere: a mount of it would be that of
//! the server before.

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process;

use tonic::Status;
use weir_manage::api::{Volume, Words};

use super::direct;
use crate::driver::Driver;
use crate::error::{self, no_volume};
use crate::images;
use crate::mount;
use crate::rpc::volume_capability::AccessType;
use crate::rpc::{VolumeUsage, volume_usage::Unit};
use crate::terms::Attach;

/// What the name of each socket ends with.
const END: &str = ".vhost";
/// Longest path of a Unix socket, bytes.
const PATH_MAX: usize = 107;

/// The socket of a volume that is to come.
///
/// # Errors
/// Its path would be too long.
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

/// The socket of a volume, by what the configuration says of it.
pub(crate) fn of(config: &Words) -> Option<&Path> {
    config.get("listen")?.get("vhost")?.as_str().map(Path::new)
}

/// A volume that has a socket.
#[derive(Debug)]
pub(crate) struct Disk<'a> {
    driver: &'a Driver,
    volume: &'a Volume,
    socket: &'a Path,
}

impl<'a> Disk<'a> {
    /// The volume as such a disk, if it is one.
    pub(crate) fn new(driver: &'a Driver, volume: &'a Volume) -> Option<Self> {
        let socket = of(&volume.config).filter(|_| Attach::of(&volume.config) == Attach::Vhost)?;
        Some(Self {
            driver,
            volume,
            socket,
        })
    }

    /// There is nothing to connect. A volume that is to be mounted gets its file system, if it has none: in its file, before there is a machine
    /// that could know of it.
    pub(crate) fn stage(&self, at: &Path, used: &AccessType) -> Result<(), Status> {
        let AccessType::Mount(asked) = used else {
            return Ok(());
        };
        fs::create_dir_all(at).map_err(error::file("create", at))?;
        self.with_file(|file| mount::prepare(file, &asked.fs_type))
            .map(drop)
    }

    /// Shows the socket at a path, as a link; or tells Kata Containers that what is there is to be mounted in the machine.
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
                // What kubelet looks for; the volume itself is not mounted on the node.
                mount::bind(staged, to, read_only)?;
                direct::add(direct, to, self.socket, &kind, &asked.mount_flags)
            }
        }
    }

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

    /// Whether the volume is published at a path.
    pub(crate) fn is_at(&self, at: &Path) -> Result<bool, Status> {
        Ok(self.is_link(at) || mount::is_mounted(at)?)
    }

    /// How large it is: how full its file system is its machine alone knows.
    pub(crate) fn usage(&self) -> VolumeUsage {
        VolumeUsage {
            total: i64::try_from(self.volume.size_bytes).unwrap_or(i64::MAX),
            unit: Unit::Bytes.into(),
            ..VolumeUsage::default()
        }
    }

    /// The server has told the machine how large its disk is; a file system there is the machine's.
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

    /// Has tools work on the volume's file by a path that names the open file. By the file's own path
    /// they would follow a link that the server's user has put in its place.
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
