//! Finds the process that holds a file, a device or a port, as far as this process may see it
//! (proc(5)).

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, Metadata};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A process that holds a resource.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holder {
    /// The id of the process.
    pub pid: u32,
    /// The name of the process, from `/proc/PID/comm`.
    pub name: String,
}

/// The process name of a Weir server.
const SERVER: &str = "weir";

impl Holder {
    /// Returns the process with an id, or `None` if it has ended.
    pub(crate) fn of_pid(pid: u32) -> Option<Self> {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        let name = name.trim_end_matches('\n').to_owned();
        Some(Self { pid, name })
    }

    /// Returns the first other process that has a file open for whose metadata `is_it` returns
    /// true.
    pub(crate) fn of_file(is_it: impl Fn(&Metadata) -> bool) -> Option<Self> {
        others().find_map(|pid| {
            let mut open = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
            let has = open.any(|fd| fs::metadata(fd.path()).is_ok_and(|m| is_it(&m)));
            has.then(|| Self::of_pid(pid)).flatten()
        })
    }

    /// Returns another process that listens on a port.
    pub(crate) fn of_port(address: SocketAddr) -> Option<Self> {
        let sockets = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).ok());
        let mut lines = sockets
            .iter()
            .flatten()
            .flat_map(|text| text.lines().skip(1));
        let inode = lines.find_map(|line| listening(line, address))?;
        // The descriptor of a socket is a link of this form in `/proc/PID/fd` (proc(5)), and
        // `/proc/net/tcp` has the same inode.
        let link = format!("socket:[{inode}]");
        others().find_map(|pid| {
            let mut open = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
            let has =
                open.any(|fd| fs::read_link(fd.path()).is_ok_and(|to| to == Path::new(&link)));
            has.then(|| Self::of_pid(pid)).flatten()
        })
    }

    /// Returns another Weir server whose open files this process may not see. It can be the holder
    /// that was not found.
    pub(crate) fn find_hidden_server() -> Option<Self> {
        let hidden = |pid: &u32| fs::read_dir(format!("/proc/{pid}/fd")).is_err();
        // The descriptors of a process of another user are not readable, but its name is (proc(5)).
        let servers = others().filter(hidden).filter_map(Self::of_pid);
        servers.into_iter().find(Self::is_server)
    }

    /// Returns true if the process is a server that was started with this file, as far as its
    /// arguments are visible.
    pub(crate) fn serves(&self, file: &Path) -> bool {
        let identity = |path: &Path| fs::metadata(path).map(|m| (m.dev(), m.ino())).ok();
        let arguments = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        let mut arguments = arguments.split(|byte| *byte == 0).filter(|a| !a.is_empty());
        // Relative arguments are resolved against the working directory of that process, not of
        // this one.
        let at = Path::new("/proc").join(self.pid.to_string()).join("cwd");
        let wanted = identity(file);
        self.is_server()
            && wanted.is_some()
            && arguments.any(|a| identity(&at.join(OsStr::from_bytes(a))) == wanted)
    }

    /// Returns true if the process is a Weir server, judged by its name.
    pub(crate) fn is_server(&self) -> bool {
        self.name == SERVER
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pid {})", self.name, self.pid)
    }
}

/// Returns the ids of all processes except this one.
fn others() -> impl Iterator<Item = u32> {
    let own = std::process::id();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(move |pid| *pid != own)
}

/// Returns the inode of the socket in a line of `/proc/net/tcp` or `tcp6`, if it listens where it
/// would prevent binding to `address`.
fn listening(line: &str, address: SocketAddr) -> Option<u64> {
    // `TCP_LISTEN` of `include/net/tcp_states.h`, in hexadecimal.
    const LISTEN: &str = "0A";
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (local, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
    let (ip, port) = local.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    // The kernel prints each 32-bit word of the address as a hexadecimal number in the byte order
    // of the machine (`get_tcp4_sock` in `net/ipv4/tcp_ipv4.c`).
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
    // An unspecified address, such as 0.0.0.0, occupies the port on all addresses.
    let meets = same || ip.is_unspecified() || address.ip().is_unspecified();
    (*state == LISTEN && port == address.port() && meets).then(|| inode.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_line_matches_by_address_and_state() {
        // 127.0.0.1:9809 (9809 = 0x2651), in state 0A (listening), with inode 4711.
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
