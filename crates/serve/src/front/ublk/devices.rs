//! The block devices of a server: their creation, their recovery from an earlier server, and their
//! removal.
//!
//! A device has a mark that depends on the configuration file and the volume. A server that starts
//! asks the driver for existing devices. It recognises a device of its own by the mark and recovers
//! it, so no other record of devices is necessary.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use weir_config::{Problem, Storage};
use weir_wire::ublk::{DeviceInfo, DeviceParams, SECTOR, UblkDeviceState};

use super::control::ControlDevice;
use super::disk;
use super::node::{self, DeviceProblem, PATIENCE, PAUSE, name};
use super::queue::AttachingQueue;
use crate::acceptor::VolumeExport;
use crate::places::Ticket;
use crate::shard::{ClientArrival, Mail, ShardAddress};

/// The upper byte of all marks of Weir, which is the letter W.
const OURS: u64 = 0x57 << 56;

/// The block devices of a server and the means to create them.
#[derive(Debug)]
pub(crate) struct Devices {
    shards: Vec<ShardAddress>,
    /// The id of the next connection.
    next: Arc<AtomicU64>,
    served: Vec<ServedDevice>,
    /// The space in each shard's ring for operations of devices, besides those of other clients.
    rooms: Vec<usize>,
}

/// A device that is being served.
#[derive(Clone, PartialEq, Eq, Debug)]
struct ServedDevice {
    volume: String,
    number: u32,
    queues: u16,
    shard: usize,
    /// The largest number of its operations on the ring.
    operations: usize,
    recoverable: bool,
}

/// Returns the largest number of operations on the shard's ring for the device of a volume, on a
/// drive with this number of queues and tags. Each place has a command and the copy of a payload.
pub(crate) fn operations(queues: u16, tags: u16) -> usize {
    let (queues, depth) = disk::shape(queues, tags);
    2 * usize::from(queues) * usize::from(depth)
}

/// Checks whether block devices can be created. Returns the problem at the first volume that has
/// one configured.
pub(crate) fn look(config: &weir_config::Server) -> Option<Problem> {
    let volume = config.volumes.iter().find(|v| v.ublk)?;
    let why = ControlDevice::open().err()?;
    Some(config.problem(&volume.ublk_key(), why, None))
}

/// Returns true if the kernel has the ublk driver.
pub(crate) fn has_driver() -> bool {
    Path::new(weir_wire::ublk::PATH_CONTROL).exists()
}

impl Devices {
    /// Creates the manager of devices without any. `next` counts connections. `rooms` is the space
    /// in each shard's ring for operations of devices.
    pub(crate) fn new(shards: Vec<ShardAddress>, next: Arc<AtomicU64>, rooms: Vec<usize>) -> Self {
        Self {
            shards,
            next,
            rooms,
            served: Vec::new(),
        }
    }

    /// Creates the configured devices that do not exist, or recovers them.
    ///
    /// # Errors
    /// Returns the problem of the first device that cannot be created. Devices that were created
    /// before it remain.
    pub(crate) fn start(
        &mut self,
        config: &weir_config::Server,
        exports: &[VolumeExport],
    ) -> Result<(), Problem> {
        for volume in config.volumes.iter().filter(|v| v.ublk) {
            let served = self.served.iter().any(|s| s.volume == volume.name);
            let export = exports.iter().find(|e| e.name == volume.name);
            let Some(export) = export.filter(|_| !served) else {
                continue;
            };
            self.check_room(export)
                .map_err(|why| config.problem(&volume.ublk_key(), why, None))?;
            let lasts = matches!(
                volume.storage,
                Storage::File(_) | Storage::Device(_) | Storage::Nbd(_)
            );
            // Data in memory does not outlive the server, so users of such a device cannot wait
            // for the next one.
            let mark = mark(config.file(), &volume.name);
            let lasts = lasts && !config.file().is_empty();
            let made = self.make(export, volume.ublk_number, (mark, lasts));
            let made = made.map_err(|why| config.problem(&volume.ublk_key(), why, None))?;
            self.served.push(made);
        }
        Ok(())
    }

    /// Checks that the ring of a volume's shard has room for its device.
    fn check_room(&self, export: &VolumeExport) -> Result<(), DeviceProblem> {
        let shard = export.place.shard;
        let others = self.served.iter().filter(|s| s.shard == shard);
        let taken: usize = others.map(|s| s.operations).sum();
        if taken + operations(export.queues, export.tags) <= self.rooms[shard] {
            return Ok(());
        }
        Err(
            "cannot create the block device while the server is running, because its shard's ring has no room for that many requests; restart the server, or set fewer tags for \
             the drive"
                .to_owned(),
        )
    }

    /// Removes the devices of all volumes that are not `wanted`.
    pub(crate) fn stop(&mut self, within: Duration, wanted: impl Fn(&str) -> bool) {
        let (stay, go) = self.served.drain(..).partition(|s| wanted(&s.volume));
        self.served = stay;
        end(go, within, true);
    }

    /// Ends all devices. If a device is mounted or otherwise held and its volume outlives the
    /// server, it waits for the next server.
    pub(crate) fn end(&mut self, within: Duration) {
        end(std::mem::take(&mut self.served), within, false);
    }

    /// Forgets all devices and leaves them to another process, which recovers them.
    pub(crate) fn release(&mut self) {
        self.served.clear();
    }

    /// Returns the first volume whose device ends with this process, because its data does. Such a
    /// device cannot be handed over.
    pub(crate) fn cannot_outlive(&self) -> Option<&str> {
        let mut served = self.served.iter();
        served.find(|s| !s.recoverable).map(|s| &*s.volume)
    }

    /// Reports the new sizes of grown volumes to the kernel. Returns a line with the reason for
    /// each device that keeps its size.
    pub(crate) fn resize(
        &self,
        exports: &[VolumeExport],
        grown: impl Fn(&str) -> bool,
    ) -> Vec<String> {
        let served = self.served.iter().filter(|s| grown(&s.volume));
        let line = |served: &ServedDevice| {
            let export = exports.iter().find(|e| e.name == served.volume)?;
            let control = ControlDevice::open();
            let resized = control.and_then(|mut c| resize(&mut c, served.number, export));
            resized.err()
        };
        served.filter_map(line).collect()
    }

    /// Returns the device of each volume that has one.
    pub(crate) fn names(&self) -> BTreeMap<String, String> {
        let served = self.served.iter();
        served.map(|s| (s.volume.clone(), name(s.number))).collect()
    }

    /// Returns the number of the kernel's connections to a volume.
    pub(crate) fn queues(&self, volume: &str) -> u32 {
        let served = self.served.iter().find(|s| s.volume == volume);
        served.map_or(0, |served| served.queues.into())
    }

    /// Returns true if the device of a volume is mounted or otherwise held, as far as that can be
    /// detected.
    pub(crate) fn is_held(&self, volume: &str) -> bool {
        let served = self.served.iter().find(|s| s.volume == volume);
        served.is_some_and(
            |served| matches!(node::open_exclusive(served.number), Err(e) if node::may_be_held(&e)),
        )
    }

    /// Creates the device of a volume. If an earlier server has left it and its volume `lasts`,
    /// recovers it instead.
    fn make(
        &self,
        export: &VolumeExport,
        number: Option<u32>,
        (mark, lasts): (u64, bool),
    ) -> Result<ServedDevice, DeviceProblem> {
        let mut control = ControlDevice::open()?;
        let wanted = disk::params(export);
        if let Some(device) = find_left_device(&mut control, mark)? {
            let params = control.params(device.number)?;
            match params {
                Some(params) if device.state == UblkDeviceState::Quiesced && lasts => {
                    return self.take_back(&mut control, &device, (params, wanted), export);
                }
                _ => {
                    // A device that cannot be recovered is replaced by a new one.
                    control.stop(device.number, PATIENCE)?;
                    control.delete(device.number)?;
                }
            }
        }
        let mut device = disk::device(export, &wanted, mark);
        device.number = number.unwrap_or(device.number);
        if lasts {
            // The driver then keeps requests in progress if the server ends, and sends them to the
            // next server.
            device = device.recoverable();
        }
        let device = control.add(&device)?;
        let started = control
            .set_params(device.number, &wanted)
            .and_then(|()| self.attach(&device, &wanted, export))
            .and_then(|()| control.start(device.number, false))
            .and_then(|()| node::check(device.number));
        if let Err(why) = started {
            // The device may not exist any more, so failures are ignored.
            let _ = control.stop(device.number, PATIENCE);
            let _ = control.delete(device.number);
            return Err(why);
        }
        tracing::info!(volume = %export.name, device = %name(device.number), "the volume is now a block device");
        Ok(served(&device, export, lasts))
    }

    /// Recovers a device whose server has ended. Its parameters stay as they are, except the size
    /// of a volume that has grown.
    fn take_back(
        &self,
        control: &mut ControlDevice,
        device: &DeviceInfo,
        (params, wanted): (DeviceParams, DeviceParams),
        export: &VolumeExport,
    ) -> Result<ServedDevice, DeviceProblem> {
        let number = device.number;
        // Users of the device have seen these parameters, so the volume must still satisfy them.
        if params.sectors > wanted.sectors
            || params.logical_block < wanted.logical_block
            || wanted.read_only && !params.read_only
        {
            return Err(format!(
                "cannot recover {}: it remained from an earlier server with {} sectors of {} bytes, but the volume is smaller, has \
                 larger blocks, or is read-only; undo the change of the volume, or remove the device",
                name(number),
                params.sectors,
                params.logical_block
            ));
        }
        control.start_recovery(number)?;
        self.attach(device, &params, export)?;
        control.start(number, true)?;
        tracing::info!(volume = %export.name, device = %name(number), "the server has recovered the block device of the volume; its requests in flight are repeated");
        if params.sectors < wanted.sectors {
            // `resize` has logged the reason, and the device works with its old size.
            let _ = resize(control, number, export);
        }
        Ok(served(device, export, true))
    }

    /// Sends the queues of a device to the shard of its volume, and waits until they have fetched
    /// the first requests.
    fn attach(
        &self,
        device: &DeviceInfo,
        params: &DeviceParams,
        export: &VolumeExport,
    ) -> Result<(), DeviceProblem> {
        let file = node::open_server(device.number)?;
        let mut answers = Vec::new();
        for queue in 0..device.queues {
            let (ready, answer) = channel();
            let opened = file.try_clone();
            let opened = opened.map_err(|e| {
                format!(
                    "cannot create the block device: {}",
                    weir_config::os_error::message(&e)
                )
            })?;
            let front = Box::new(AttachingQueue {
                device: opened,
                number: queue,
                depth: device.depth,
                rules: disk::rules(params),
                ready,
            });
            // Only the uniqueness of the number matters, so the order of memory accesses does not.
            let id = self.next.fetch_add(1, Ordering::Relaxed);
            let several = device.queues > 1;
            let of = if several {
                format!(" queue {queue}")
            } else {
                String::new()
            };
            let arrival = ClientArrival {
                id,
                peer: name(device.number) + &of,
                drive: export.place.drive,
                space: export.place.space,
                volume: export.name.clone(),
                front,
                // The kernel's queues take no place from clients (`limits.connections`).
                ticket: Ticket::uncounted(id),
                is_inherited: false,
            };
            self.shards[export.place.shard].send_mail(Mail::Arrival(Box::new(arrival)));
            answers.push(answer);
        }
        for answer in answers {
            match answer.recv_timeout(PATIENCE) {
                Ok(fetched) => {
                    fetched.map_err(|why| format!("cannot create the block device: {why}"))?;
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(
                        "cannot create the block device: its shard refused it; see the log for the reason"
                            .to_owned(),
                    );
                }
                Err(RecvTimeoutError::Timeout) => {
                    return Err(
                        "cannot create the block device: its shard does not respond".to_owned()
                    );
                }
            }
        }
        Ok(())
    }
}

fn served(device: &DeviceInfo, export: &VolumeExport, recoverable: bool) -> ServedDevice {
    ServedDevice {
        volume: export.name.clone(),
        number: device.number,
        queues: device.queues,
        shard: export.place.shard,
        operations: operations(export.queues, export.tags),
        recoverable,
    }
}

/// Changes the size of a device to that of its volume. On failure, logs and returns a line with the
/// reason.
fn resize(control: &mut ControlDevice, number: u32, export: &VolumeExport) -> Result<(), String> {
    let resized = control.resize(number, export.size / SECTOR);
    resized.map_err(|why| {
        let line = format!(
            "volume.{}: {} keeps its size until it is created again: {why}",
            export.name,
            name(number)
        );
        tracing::warn!("{line}");
        line
    })
}

/// Returns the device that an earlier server of the volume has left, after waiting until the driver
/// has noticed the end of that server.
fn find_left_device(
    control: &mut ControlDevice,
    mark: u64,
) -> Result<Option<DeviceInfo>, DeviceProblem> {
    let end = Instant::now() + PATIENCE;
    for number in node::numbers() {
        while let Some(device) = control.info(number)?.filter(|d| d.mark == mark) {
            if device.state != UblkDeviceState::Live {
                return Ok(Some(device));
            }
            if Instant::now() >= end {
                return Err(format!(
                    "cannot recover the block device: process {1} still serves {0}",
                    name(number),
                    device.process
                ));
            }
            std::thread::sleep(PAUSE);
        }
    }
    Ok(None)
}

/// Returns the mark for the device of a volume of the server with this configuration file.
fn mark(file: &str, volume: &str) -> u64 {
    let file = std::fs::canonicalize(Path::new(file)).unwrap_or_else(|_| file.into());
    let text = format!("{}\n{volume}", file.display());
    // The FNV-1a hash (Fowler, Noll, Vo) is the same in every build, which is necessary because a
    // later server must compute the same mark.
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    OURS | hash >> 8
}

/// Removes devices, each on its own thread, and waits for at most `within`. With `all`, devices
/// that are held are removed too.
fn end(devices: Vec<ServedDevice>, within: Duration, all: bool) {
    let (done, ended) = channel();
    let count = devices.len();
    for device in devices {
        let done = done.clone();
        let thread = std::thread::Builder::new().name("weir-ublk".to_owned());
        let started = thread.spawn(move || {
            remove(&device, within, all);
            // The receiver may have timed out.
            let _ = done.send(());
        });
        if let Err(error) = started {
            tracing::error!(
                error = weir_config::os_error::message(&error),
                "the server cannot start a thread to remove a block device; the device stays until the server ends"
            );
        }
    }
    drop(done);
    let end = Instant::now() + within;
    for _ in 0..count {
        let left = end.saturating_duration_since(Instant::now());
        match ended.recv_timeout(left) {
            Ok(()) => {}
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                tracing::error!(
                    "the server cannot remove a block device in time, because its drive or its users delay it; the device stays"
                );
                return;
            }
        }
    }
}

/// Removes a device. Without `all`, a device that is held stays if the next server can recover it.
fn remove(device: &ServedDevice, within: Duration, all: bool) {
    let number = device.number;
    let held = node::open_exclusive(number);
    match &held {
        // Data that was written through the page cache may not have reached the server yet.
        Ok(file) => drop(file.sync_all()),
        Err(error) if node::may_be_held(error) && device.recoverable && !all => {
            tracing::warn!(
                volume = %device.volume, device = %name(number), error = weir_config::os_error::message(error),
                "the block device is still in use and stays; its users wait for the next server with this file"
            );
            return;
        }
        Err(_) => {}
    }
    // The server must not hold the device itself while the driver removes it.
    drop(held);
    let removed = ControlDevice::open().and_then(|mut control| {
        control.stop(number, within)?;
        control.delete(number)
    });
    match removed {
        Ok(()) => {
            tracing::info!(volume = %device.volume, device = %name(number), "the server has removed the block device of the volume");
        }
        Err(why) => {
            tracing::error!(volume = %device.volume, device = %name(number), why, "the server could not remove the block device of the volume");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_devices_of_lasting_volumes_are_handed_over() {
        let mut devices = Devices::new(Vec::new(), Arc::default(), Vec::new());
        assert_eq!(devices.cannot_outlive(), None);
        let device = |volume: &str, recoverable| ServedDevice {
            volume: volume.to_owned(),
            number: 0,
            queues: 2,
            shard: 0,
            operations: 8,
            recoverable,
        };
        devices.served = vec![
            device("disk", true),
            device("memory", false),
            device("model", false),
        ];
        assert_eq!(devices.cannot_outlive(), Some("memory"));
        devices.release();
        assert_eq!(
            (devices.cannot_outlive(), devices.queues("disk")),
            (None, 0)
        );
        // Nothing is left to end, so this returns at once.
        devices.end(Duration::ZERO);
    }

    #[test]
    fn a_mark_identifies_a_file_and_a_volume() {
        let marks = [
            mark("/etc/weir/weir.toml", "a"),
            mark("/etc/weir/weir.toml", "b"),
            mark("/etc/weir/other.toml", "a"),
        ];
        assert!(marks.iter().all(|mark| mark >> 56 == 0x57), "{marks:x?}");
        assert!(marks[0] != marks[1] && marks[0] != marks[2]);
        assert_eq!(marks[0], mark("/etc/weir/weir.toml", "a"));
        // A device can wait for a server of a later release, so this must never change.
        assert_eq!(
            mark("/etc/weir/no-such-file.toml", "a"),
            0x57d4_b323_cf27_3e6e
        );
    }
}
