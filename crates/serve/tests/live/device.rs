//! A volume on a block device. Each test creates a loop device for it. If that is not possible (it
//! requires root), the test is skipped with a line. `WEIR_NO_SKIP=1` makes that a failure.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command as Program;

use weir_serve::{LiveServer, ServerOptions, StartError};
use weir_wire::nbd::{CommandFlags, NbdCommand};

use crate::tools::program::skip;
use crate::tools::raw::{Raw, RequestOutcome};
use crate::tools::{Temp, parse, until};
use weir_config::ListenAddress;

const SIZE: usize = 8 << 20;

/// A loop device over a file, which is mounted by some tests. The mount, the device and the file
/// are removed with their owner.
struct TestLoopDevice {
    directory: Temp,
    device: PathBuf,
    mounted: bool,
}

/// Runs a program. Returns its output if it succeeds.
fn run(program: &str, arguments: &[&Path]) -> Option<String> {
    let output = Program::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    output.status.success().then_some(text)
}

impl TestLoopDevice {
    fn new() -> Option<Self> {
        let mut new = Self {
            device: PathBuf::new(),
            mounted: false,
            directory: Temp::on_disk(),
        };
        let image = new.image();
        fs::write(&image, vec![5; SIZE]).unwrap();
        let find = [Path::new("--find"), Path::new("--show"), &image];
        let Some(device) = run("losetup", &find) else {
            skip("no loop device can be made here");
            return None;
        };
        new.device = device.into();
        Some(new)
    }

    fn image(&self) -> PathBuf {
        self.directory.path().join("image")
    }

    fn mount(&mut self) -> bool {
        let place = self.directory.path().join("mounted");
        fs::create_dir_all(&place).unwrap();
        self.mounted = run("mkfs.ext4", &[Path::new("-q"), &self.device]).is_some()
            && run("mount", &[&self.device, &place]).is_some();
        self.mounted
    }

    fn unmount(&mut self) {
        if std::mem::take(&mut self.mounted) {
            run("umount", &[&self.directory.path().join("mounted")]).expect("nothing uses it");
        }
    }

    fn config(&self, more: &str) -> weir_config::Server {
        let text = format!(
            "listen.nbd = [\"unix:{}/s\"]\n[drive.d]\n[volume.v]\ndrive = \"d\"\ndevice = \"{}\"\n{more}",
            self.directory.path().display(),
            self.device.display()
        );
        parse(&text)
    }

    fn start(&self, more: &str) -> Result<LiveServer, StartError> {
        LiveServer::start(&self.config(more), &ServerOptions::default())
    }

    /// Starts a server once the device is not in use. After a device was created or unmounted, the
    /// system opens it for a moment.
    fn start_soon(&self, more: &str) -> LiveServer {
        let mut server = None;
        until("the device is in use", || {
            server = self.start(more).ok();
            server.is_some()
        });
        server.unwrap()
    }

    fn connect(&self) -> Raw {
        let address = ListenAddress::Unix(self.directory.path().join("s"));
        Raw::open(&address, "v").unwrap()
    }
}

impl Drop for TestLoopDevice {
    fn drop(&mut self) {
        self.unmount();
        if !self.device.as_os_str().is_empty() {
            run("losetup", &[Path::new("--detach"), &self.device]);
        }
    }
}

/// Sends a request and returns its result.
fn call(
    client: &mut Raw,
    command: NbdCommand,
    offset: u64,
    length: u32,
    payload: &[u8],
) -> RequestOutcome {
    let sent = client.request(command, CommandFlags::EMPTY, offset, length, payload);
    sent.unwrap();
    client.answer().unwrap().1
}

#[test]
fn a_volume_grows_with_its_device() {
    let Some(disk) = TestLoopDevice::new() else {
        return;
    };
    let mut server = disk.start_soon("");
    let mut before = disk.connect();
    // The server cannot change the size of a device.
    let larger = disk.config(&format!("size = \"{}B\"", 2 * SIZE));
    let refused = server.reload(&larger).unwrap_err().to_string();
    assert!(refused.contains("resize the file"), "{refused}");
    let image = fs::File::options().write(true).open(disk.image()).unwrap();
    image.set_len(2 * SIZE as u64).unwrap();
    server.reload(&server.config().clone()).unwrap();
    // The file behind the device has grown, but the device does not use the new size yet.
    let last = 2 * SIZE as u64 - 4096;
    assert!(call(&mut before, NbdCommand::Write, last, 3, b"abc").is_err());
    run("losetup", &[Path::new("--set-capacity"), &disk.device]).unwrap();
    server.reload(&server.config().clone()).unwrap();
    let mut after = disk.connect();
    assert!(call(&mut after, NbdCommand::Write, last, 3, b"abc").is_ok());
    assert_eq!(
        call(&mut after, NbdCommand::Read, last, 3, &[]).unwrap(),
        b"abc"
    );
    // A client that connected before is still served.
    assert!(call(&mut before, NbdCommand::Read, 0, 1, &[]).is_ok());
    drop((before, after));
    assert!(server.shutdown());
    assert_eq!(
        fs::read(disk.image()).unwrap()[last as usize..][..3],
        *b"abc"
    );
}

#[test]
fn writes_of_clients_are_on_the_device() {
    let Some(disk) = TestLoopDevice::new() else {
        return;
    };
    let server = disk.start_soon("");
    let mut client = disk.connect();
    assert!(call(&mut client, NbdCommand::Write, 4095, 3, b"abc").is_ok());
    assert!(call(&mut client, NbdCommand::Write, 65_536, 4096, &[9; 4096]).is_ok());
    assert!(call(&mut client, NbdCommand::WriteZeroes, 1 << 20, 1 << 20, &[]).is_ok());
    assert!(call(&mut client, NbdCommand::Flush, 0, 0, &[]).is_ok());
    let read = call(&mut client, NbdCommand::Read, 4094, 5, &[]).unwrap();
    assert_eq!(read, b"\x05abc\x05");
    // No other server may use the device at the same time.
    let second = disk.start("").map(drop);
    let second = second.unwrap_err().to_string();
    assert!(second.contains("in use"), "{second}");
    drop(client);
    assert!(server.shutdown());
    // The file behind the device has the same contents.
    let bytes = fs::read(disk.image()).unwrap();
    assert_eq!(bytes.len(), SIZE);
    assert_eq!(&bytes[4094..4099], b"\x05abc\x05");
    assert!(bytes[65_536..65_536 + 4096].iter().all(|&b| b == 9));
    assert!(bytes[1 << 20..2 << 20].iter().all(|&b| b == 0));
    assert!(bytes[2 << 20..].iter().all(|&b| b == 5));
}

#[test]
fn writes_to_a_read_only_device_are_refused() {
    let Some(disk) = TestLoopDevice::new() else {
        return;
    };
    let server = disk.start_soon("read_only = true\n");
    let mut client = disk.connect();
    let read = call(&mut client, NbdCommand::Read, 4096, 4096, &[]).unwrap();
    assert_eq!(read, [5; 4096]);
    for (command, payload) in [
        (NbdCommand::Write, &[1; 4096][..]),
        (NbdCommand::WriteZeroes, &[]),
        (NbdCommand::Trim, &[]),
    ] {
        let refused = call(&mut client, command, 0, 4096, payload);
        assert!(refused.is_err(), "{command:?}");
    }
    drop(client);
    assert!(server.shutdown());
    assert!(fs::read(disk.image()).unwrap().iter().all(|&b| b == 5));
}

#[test]
fn a_mounted_device_is_refused_and_stays_as_it_is() {
    let Some(mut disk) = TestLoopDevice::new() else {
        return;
    };
    if !disk.mount() {
        return skip("no file system can be made and mounted here");
    }
    let file = disk.directory.path().join("mounted/file");
    fs::write(&file, b"precious").unwrap();
    let refused = disk.start("").map(drop).unwrap_err().to_string();
    let place = disk.directory.path().join("mounted");
    let why = format!("is mounted on {} (ext4)", place.display());
    assert!(
        refused.contains(": volume.v.device: ") && refused.contains(&why),
        "{refused}"
    );
    // A volume that is only read may use a device that is in use.
    let server = disk.start_soon("read_only = true\n");
    assert!(server.shutdown());
    assert_eq!(fs::read(&file).unwrap(), b"precious");
    disk.unmount();
    // After unmounting, the device can be served.
    let server = disk.start_soon("");
    assert!(server.shutdown());
}
