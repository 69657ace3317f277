//! The process that holds what is taken (a file, a device, a port), as far as this process may see (proc(5)).

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, Metadata};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holder {
    /// Its number.
    pub pid: u32,
    /// Its name, as the kernel has it.
    pub name: String,
}

/// The name of a server like this one.
const SERVER: &str = "weir";

impl Holder {
    /// The process of that number.
    pub(crate) fn of_pid(pid: u32) -> Option<Self> {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        let name = name.trim_end_matches('\n').to_owned();
        Some(Self { pid, name })
    }

    /// Another process that has a file open: the first for which `is_it` is true of what one of its descriptors names.
    pub(crate) fn of_file(is_it: impl Fn(&Metadata) -> bool) -> Option<Self> {
        others().find_map(|pid| {
            let mut open = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
            let has = open.any(|fd| fs::metadata(fd.path()).is_ok_and(|m| is_it(&m)));
            has.then(|| Self::of_pid(pid)).flatten()
        })
    }

    /// Another process that listens on a port.
    pub(crate) fn of_port(address: SocketAddr) -> Option<Self> {
        let sockets = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).ok());
        let mut lines = sockets
            .iter()
            .flatten()
            .flat_map(|text| text.lines().skip(1));
        let inode = lines.find_map(|line| listening(line, address))?;
        let link = format!("socket:[{inode}]");
        others().find_map(|pid| {
            let mut open = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
            let has =
                open.any(|fd| fs::read_link(fd.path()).is_ok_and(|to| to == Path::new(&link)));
            has.then(|| Self::of_pid(pid)).flatten()
        })
    }

    /// A server like this one whose files this process may not see.
    pub(crate) fn unseen() -> Option<Self> {
        let hidden = |pid: &u32| fs::read_dir(format!("/proc/{pid}/fd")).is_err();
        let servers = others().filter(hidden).filter_map(Self::of_pid);
        servers.into_iter().find(Self::is_server)
    }

    /// Whether it is a server that was started with this file, as far as its arguments can be seen.
    pub(crate) fn serves(&self, file: &Path) -> bool {
        let identity = |path: &Path| fs::metadata(path).map(|m| (m.dev(), m.ino())).ok();
        let arguments = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        let mut arguments = arguments.split(|byte| *byte == 0).filter(|a| !a.is_empty());
        let at = Path::new("/proc").join(self.pid.to_string()).join("cwd");
        let wanted = identity(file);
        self.is_server()
            && wanted.is_some()
            && arguments.any(|a| identity(&at.join(OsStr::from_bytes(a))) == wanted)
    }

    /// Whether it is a server like this one.
    pub(crate) fn is_server(&self) -> bool {
        self.name == SERVER
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pid {})", self.name, self.pid)
    }
}

/// The numbers of all processes but this one.
fn others() -> impl Iterator<Item = u32> {
    let own = std::process::id();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(move |pid| *pid != own)
}

/// The inode of the socket of a line of /proc/net/tcp or tcp6, if it listens where `address` would.
fn listening(line: &str, address: SocketAddr) -> Option<u64> {
    const LISTEN: &str = "0A";
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (local, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
    let (ip, port) = local.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    // Words of 32 bits, each as the machine has it.
    let words: Option<Vec<[u8; 4]>> = (0..ip.len() / 8)
        .map(|n| {
            Some(
                u32::from_str_radix(ip.get(n * 8..n * 8 + 8)?, 16)
                    .ok()?
                    .to_ne_bytes(),
            )
        })
        .collect();
    let bytes = words?.concat();
    let ip = match <[u8; 4]>::try_from(&bytes[..]) {
        Ok(v4) => IpAddr::V4(Ipv4Addr::from(v4)),
        Err(_) => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(&bytes[..]).ok()?)),
    };
    let same = ip.to_canonical() == address.ip().to_canonical();
    let meets = same || ip.is_unspecified() || address.ip().is_unspecified();
    (*state == LISTEN && port == address.port() && meets).then(|| inode.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_sockets() {
        let line = "   0: 0100007F:2651 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0  0 4711 1 0 100 0 0 10 0";
        let line = if cfg!(target_endian = "little") {
            line.to_owned()
        } else {
            line.replace("0100007F", "7F000001")
        };
        let at = |text: &str| listening(&line, text.parse().unwrap());
        assert_eq!(at("127.0.0.1:9809"), Some(4711));
        assert_eq!(at("0.0.0.0:9809"), Some(4711));
        assert_eq!(at("127.0.0.2:9809"), None);
        assert_eq!(at("127.0.0.1:9810"), None);
        let connected = line.replace(" 0A ", " 01 ");
        assert_eq!(
            listening(&connected, "127.0.0.1:9809".parse().unwrap()),
            None
        );
    }
}
