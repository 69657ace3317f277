//! Controls the kernel's NBD client over netlink (`drivers/block/nbd.c`,
//! `include/uapi/linux/nbd-netlink.h`).
//!
//! Since Linux 5.14, the kernel stores a text with each device that the connecting program
//! supplies. By this text, the driver finds the device of a volume again. [`keep`] replaces
//! connections that were lost.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tonic::Status;
use weir_manage::api::Volume;
use weir_model::client::{Address, Connection};
use weir_wire::nbd::client::ClientHandshakeConfig;

use super::netlink::{Attributes, Family, find, receive};
use crate::driver::CsiDriver;

// The commands of the family (`enum` in nbd-netlink.h: NBD_CMD_CONNECT and so on).
const CONNECT: u8 = 1;
const DISCONNECT: u8 = 2;
const RECONFIGURE: u8 = 3;

// The attributes of a command (NBD_ATTR_INDEX and so on).
const INDEX: u16 = 1;
const SIZE_BYTES: u16 = 2;
const BLOCK_SIZE_BYTES: u16 = 3;
const SERVER_FLAGS: u16 = 5;
const SOCKETS: u16 = 7;
const DEAD_CONN_TIMEOUT: u16 = 8;
const BACKEND_IDENTIFIER: u16 = 10;
/// The type of an element of `SOCKETS`, which contains a `DESCRIPTOR`.
const SOCKET: u16 = 1;
const DESCRIPTOR: u16 = 1;

/// The time for which requests wait for a lost server before they fail. A restart takes seconds,
/// and the repair of a machine can take minutes.
const DEAD: Duration = Duration::from_mins(5);
/// The time that the server has for a handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The interval between attempts to replace a connection.
const AGAIN: Duration = Duration::from_secs(1);

/// Returns the device of a volume, and connects it if it is not connected.
pub(crate) fn attach(driver: &CsiDriver, volume: &Volume) -> Result<PathBuf, Status> {
    if let Some(device) = device(driver, &volume.name)? {
        return Ok(device);
    }
    let family = family()?;
    let (socket, asked) = connect(driver, &volume.name)?;
    let asked = asked
        .u64(DEAD_CONN_TIMEOUT, DEAD.as_secs())
        .text(BACKEND_IDENTIFIER, &mark(driver, &volume.name));
    let answer = family.ask(CONNECT, &asked);
    // The kernel has its own reference to the socket by now.
    drop(socket);
    let answer = answer.map_err(refused("connect", &volume.name))?;
    let index = find(&answer, INDEX).and_then(|index| index.first_chunk());
    let index = index.map(|index| u32::from_ne_bytes(*index));
    index
        .map(path)
        .ok_or_else(|| Status::internal("the kernel did not return the device number"))
}

/// Disconnects the device of a volume, if it is connected. The kernel cancels requests in flight
/// (`nbd_clear_que`).
pub(crate) fn detach(driver: &CsiDriver, volume: &str) -> Result<(), Status> {
    let Some(index) = index(driver, volume)? else {
        return Ok(());
    };
    let asked = Attributes::default().u32(INDEX, index);
    let ended = family()?.ask(DISCONNECT, &asked);
    ended.map(drop).map_err(refused("disconnect", volume))
}

/// Returns the device of a volume, if it is connected.
pub(crate) fn device(driver: &CsiDriver, volume: &str) -> Result<Option<PathBuf>, Status> {
    Ok(index(driver, volume)?.map(path))
}

/// Tells the kernel the present size of the volume.
pub(crate) fn grow(driver: &CsiDriver, volume: &Volume) -> Result<(), Status> {
    let Some(index) = index(driver, &volume.name)? else {
        return Ok(());
    };
    let asked = Attributes::default()
        .u32(INDEX, index)
        .u64(SIZE_BYTES, volume.size_bytes)
        // The kernel refuses to reconfigure a device unless the request has the device's text
        // (`nbd_genl_reconfigure`).
        .text(BACKEND_IDENTIFIER, &mark(driver, &volume.name));
    let grown = family()?.ask(RECONFIGURE, &asked);
    grown.map(drop).map_err(refused("grow", &volume.name))
}

/// Replaces the lost connections of devices, for as long as the driver runs. That includes
/// connections that were lost while no driver was running.
pub(crate) fn keep(driver: &CsiDriver) {
    let listen =
        || Family::find("nbd").and_then(|family| Ok((family.listen("nbd_mc_group")?, family)));
    // Without the kernel's module, there are no devices to keep connected.
    let Ok((events, family)) = listen() else {
        tracing::warn!(
            "the kernel has no NBD client; run modprobe nbd, unless all storage classes set attach = \"ublk\" or \"vhost\""
        );
        return;
    };
    // At the start, connections are assumed to be lost: nobody listened before.
    let mut lost = true;
    loop {
        if lost {
            lost = !relink(driver, &family);
        }
        if lost {
            std::thread::sleep(AGAIN);
        } else {
            // Any message leads to an attempt. For a device whose connections are alive, the kernel
            // refuses a further one.
            lost = receive(&events).is_ok();
        }
    }
}

/// Replaces the dead connection of each device of the driver. Returns false if that failed for one.
fn relink(driver: &CsiDriver, family: &Family) -> bool {
    let devices = marked().unwrap_or_default();
    let own = devices.iter().filter_map(|(index, mark)| {
        let volume = mark.strip_prefix(&prefix(driver))?;
        Some((*index, volume))
    });
    let mut all = true;
    for (index, volume) in own {
        let linked = connect(driver, volume).and_then(|(socket, asked)| {
            let asked = asked
                .u32(INDEX, index)
                .text(BACKEND_IDENTIFIER, &mark(driver, volume));
            let linked = family.ask(RECONFIGURE, &asked);
            drop(socket);
            match linked {
                // ENOSPC: none of the device's connections is dead (`nbd_reconnect_socket`).
                Err(error)
                    if error.raw_os_error() == Some(rustix::io::Errno::NOSPC.raw_os_error()) =>
                {
                    Ok(())
                }
                linked => linked.map(drop).map_err(refused("connect", volume)),
            }
        });
        if let Err(error) = linked {
            tracing::debug!("{}: {}", path(index).display(), error.message());
            all = false;
        }
    }
    all
}

/// Connects to a volume and completes the handshake. Returns the socket with its attributes for the
/// kernel.
fn connect(driver: &CsiDriver, volume: &str) -> Result<(OwnedFd, Attributes), Status> {
    let addresses = driver.volumes()?.status()?.nbd;
    let address = addresses.first().ok_or_else(|| {
        Status::failed_precondition("the server has no NBD address; add [listen] with nbd = [\"unix:/run/weir/nbd.sock\"] to its configuration")
    })?;
    let address: Address = address
        .parse()
        .map_err(|e| Status::internal(format!("{e}")))?;
    let mut config = ClientHandshakeConfig::new(volume);
    // The kernel's client supports neither structured replies nor the metadata context.
    (config.structured, config.meta_allocation) = (false, false);
    let connection = Connection::open(&address, config, HANDSHAKE);
    let connection = connection.map_err(|error| Status::unavailable(error.to_string()))?;
    let session = connection.session();
    let (size, flags) = (session.size, session.flags.bits());
    // The kernel's client requires a block size of at least 512 bytes.
    let block = session
        .block_sizes
        .map_or(1, |sizes| sizes.minimum)
        .max(512);
    // A server sends nothing without a request, so that no bytes can be left in the buffers.
    let (socket, _, _) = connection.into_parts();
    let descriptor = Attributes::default().u32(DESCRIPTOR, socket.as_raw_fd().cast_unsigned());
    let sockets = Attributes::default().nested(SOCKET, &descriptor);
    let asked = Attributes::default()
        .u64(SIZE_BYTES, size)
        .u64(BLOCK_SIZE_BYTES, block.into())
        .u64(SERVER_FLAGS, flags.into())
        .nested(SOCKETS, &sockets);
    Ok((socket, asked))
}

/// Finds the netlink family of the NBD client, or tells the user how to load it.
fn family() -> Result<Family, Status> {
    Family::find("nbd").map_err(|error| {
        let said = format!("cannot use the kernel's NBD client: {error}; run modprobe nbd");
        Status::failed_precondition(said)
    })
}

fn refused<'a>(what: &'a str, volume: &'a str) -> impl Fn(io::Error) -> Status + 'a {
    move |error| {
        Status::internal(format!(
            "cannot {what} the NBD device of {volume:?}: {error}"
        ))
    }
}

/// Returns the text that the kernel stores with a volume's device.
fn mark(driver: &CsiDriver, volume: &str) -> String {
    prefix(driver) + volume
}

/// Returns the part of the text that is the same for all devices of the driver.
fn prefix(driver: &CsiDriver) -> String {
    format!("{}/", driver.options.name)
}

fn path(index: u32) -> PathBuf {
    Path::new("/dev").join(format!("nbd{index}"))
}

/// Returns the number of the device of a volume, if it is connected.
fn index(driver: &CsiDriver, volume: &str) -> Result<Option<u32>, Status> {
    let all = marked().map_err(|e| Status::internal(format!("cannot read /sys/block: {e}")))?;
    let mark = mark(driver, volume);
    Ok(all
        .into_iter()
        .find(|(_, m)| *m == mark)
        .map(|(index, _)| index))
}

/// Returns the connected devices that have a text, by number.
fn marked() -> io::Result<Vec<(u32, String)>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir("/sys/block")? {
        let entry = entry?;
        let name = entry.file_name();
        let number = name
            .to_str()
            .and_then(|name| name.strip_prefix("nbd")?.parse().ok());
        // A device that is not connected does not have this file.
        if let Some(number) = number
            && let Ok(mark) = std::fs::read_to_string(entry.path().join("backend"))
        {
            all.push((number, mark.trim_end_matches('\n').to_owned()));
        }
    }
    Ok(all)
}
