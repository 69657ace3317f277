//! Volumes for virtual machines. A VMM and a guest of the tests find the volume at the path that
//! the driver publishes, and the driver is killed at every moment of every call.

use crate::common::program::skip;
use crate::csi::bench::{CsiBench, capability, id, range};
use crate::guest::TestGuest;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tonic::{Code, Status};
use weir_csi::rpc::volume_capability::{AccessType, BlockVolume, MountVolume, access_mode::Mode};
use weir_csi::rpc::*;

/// The name of the volume.
const NAME: &str = "pvc-1";
/// The offset of ext4's magic number in the superblock, in bytes, and its value.
const MAGIC: (usize, [u8; 2]) = (1024 + 0x38, [0x53, 0xef]);

/// A volume that is used as a block device or with a file system.
struct VhostVolume<'a> {
    bench: &'a CsiBench,
    used: AccessType,
}

impl VhostVolume<'_> {
    fn capability(&self) -> VolumeCapability {
        capability(Mode::SingleNodeMultiWriter, self.used.clone())
    }

    fn target(&self, pod: &str) -> PathBuf {
        self.bench.scratch.path("pods").join(pod).join("mount")
    }

    fn staged(&self) -> PathBuf {
        self.bench.scratch.path("staged")
    }

    fn socket(&self) -> PathBuf {
        self.bench.scratch.path("pvc-1.vhost")
    }

    fn create(&self) -> Result<(), Status> {
        let request = CreateVolumeRequest {
            name: NAME.into(),
            capacity_range: Some(range(8)),
            volume_capabilities: vec![self.capability()],
            parameters: HashMap::from([("attach".into(), "vhost".into())]),
            ..Default::default()
        };
        self.bench.call(request).map(drop)
    }

    fn delete(&self) -> Result<(), Status> {
        let request = DeleteVolumeRequest {
            volume_id: id(NAME),
            ..Default::default()
        };
        self.bench.call(request).map(drop)
    }

    fn stage(&self) -> Result<(), Status> {
        let request = NodeStageVolumeRequest {
            volume_id: id(NAME),
            staging_target_path: self.staged().display().to_string(),
            volume_capability: Some(self.capability()),
            ..Default::default()
        };
        self.bench.call(request).map(drop)
    }

    fn unstage(&self) -> Result<(), Status> {
        let request = NodeUnstageVolumeRequest {
            volume_id: id(NAME),
            staging_target_path: self.staged().display().to_string(),
        };
        self.bench.call(request).map(drop)
    }

    fn publish(&self, pod: &str, readonly: bool) -> Result<(), Status> {
        let request = NodePublishVolumeRequest {
            volume_id: id(NAME),
            staging_target_path: self.staged().display().to_string(),
            target_path: self.target(pod).display().to_string(),
            volume_capability: Some(self.capability()),
            readonly,
            ..Default::default()
        };
        self.bench.call(request).map(drop)
    }

    fn unpublish(&self, pod: &str) -> Result<(), Status> {
        let request = NodeUnpublishVolumeRequest {
            volume_id: id(NAME),
            target_path: self.target(pod).display().to_string(),
        };
        self.bench.call(request).map(drop)
    }

    fn usage(&self, pod: &str) -> Result<Vec<VolumeUsage>, Status> {
        let request = NodeGetVolumeStatsRequest {
            volume_id: id(NAME),
            volume_path: self.target(pod).display().to_string(),
            ..Default::default()
        };
        self.bench.call(request).map(|answer| answer.usage)
    }

    fn expand(&self, pod: &str) -> Result<(), Status> {
        let request = NodeExpandVolumeRequest {
            volume_id: id(NAME),
            volume_path: self.target(pod).display().to_string(),
            ..Default::default()
        };
        self.bench.call(request).map(drop)
    }

    /// Returns the descriptions of direct volumes that Kata Containers would find.
    fn told(&self) -> Vec<serde_json::Value> {
        let Ok(entries) = fs::read_dir(self.bench.scratch.path("direct")) else {
            return Vec::new();
        };
        let said = entries.map(|entry| {
            let file = entry.expect("it can be read").path().join("mountInfo.json");
            let text = fs::read_to_string(file).expect("it is whole or not there");
            serde_json::from_str(&text).expect("it is JSON")
        });
        said.collect()
    }

    /// Checks that nothing of the volume is left.
    fn check_gone(&self) {
        let (volumes, files) = self.bench.volumes();
        assert!(volumes.is_empty() && files == 0, "{volumes:?}, {files}");
        assert!(!self.socket().exists());
        assert_eq!(self.told(), Vec::<serde_json::Value>::new());
        for pod in ["a", "b"] {
            assert!(self.target(pod).symlink_metadata().is_err(), "{pod}");
        }
    }

    /// Deletes the volume, as soon as the server has noticed that the last guest has disconnected.
    fn delete_soon(&self) {
        let deleted = (0..1000).any(|_| {
            std::thread::sleep(Duration::from_millis(5));
            self.delete().is_ok()
        });
        assert!(deleted, "it stays");
    }
}

fn code(answer: Result<(), Status>) -> Code {
    answer.expect_err("it is refused").code()
}

fn guest(path: &Path) -> TestGuest {
    TestGuest::start(path, 1)
}

fn block(bench: &CsiBench) -> VhostVolume<'_> {
    VhostVolume {
        bench,
        used: AccessType::Block(BlockVolume {}),
    }
}

#[test]
fn a_block_volume_is_published_as_its_socket() {
    let mut bench = CsiBench::new(None);
    bench.driver(None);
    let one = block(&bench);
    for _ in 0..2 {
        one.create().unwrap();
        one.stage().unwrap();
        one.publish("a", false).unwrap();
        one.publish("b", false).unwrap();
    }
    // A socket cannot be published read-only.
    assert_eq!(code(one.publish("c", true)), Code::InvalidArgument);
    let written = [7; 4096];
    guest(&one.target("a")).write(0, &written);
    assert_eq!(guest(&one.target("b")).read(0, 4096), written);
    let usage = one.usage("a").unwrap();
    assert_eq!((usage.len(), usage[0].total), (1, 8 << 20));
    assert_eq!(one.usage("c").unwrap_err().code(), Code::NotFound);
    one.expand("a").unwrap();
    // A published volume outlives the server: the next server finds it.
    bench.serve();
    let one = block(&bench);
    let mut last = guest(&one.target("b"));
    assert_eq!(last.read(0, 4096), written);
    for _ in 0..2 {
        one.unpublish("a").unwrap();
        one.unpublish("b").unwrap();
        one.unstage().unwrap();
    }
    // A volume with a guest cannot be deleted.
    assert_eq!(code(one.delete()), Code::FailedPrecondition);
    assert_eq!(last.read(0, 4096), written);
    drop(last);
    one.delete_soon();
    one.delete().unwrap();
    one.check_gone();
}

/// Returns true if file systems can be created and mounted here. Otherwise prints that the test is
/// skipped.
fn can_mount(bench: &CsiBench) -> bool {
    let at = bench.scratch.path("try");
    fs::create_dir(&at).expect("there is room");
    let run = |program: &str, arguments: &[&Path]| {
        let mut command = Command::new(program);
        let ended = command.args(arguments).output();
        ended.is_ok_and(|output| output.status.success())
    };
    let can = run("mkfs.ext4", &["-V".as_ref()])
        && run("blkid", &["-V".as_ref()])
        && run("mount", &["-o".as_ref(), "bind".as_ref(), &at, &at])
        && run("umount", &[&at]);
    if !can {
        skip("mkfs.ext4, blkid or the right to mount is not there");
    }
    can
}

fn mounted(bench: &CsiBench) -> VhostVolume<'_> {
    VhostVolume {
        bench,
        used: AccessType::Mount(MountVolume {
            mount_flags: vec!["noatime".into()],
            ..Default::default()
        }),
    }
}

#[test]
fn a_mounted_volume_is_a_direct_volume_of_kata() {
    let bench = CsiBench::new(None);
    if !can_mount(&bench) {
        return;
    }
    bench.driver(None);
    let disk = mounted(&bench);
    disk.create().unwrap();
    // A volume must be staged before it is published.
    assert_eq!(code(disk.publish("a", false)), Code::FailedPrecondition);
    for _ in 0..2 {
        disk.stage().unwrap();
        disk.publish("a", false).unwrap();
    }
    let told = disk.told();
    let expected = serde_json::json!({
        "volume-type": "spdkvol", "device": disk.socket(), "fstype": "ext4", "metadata": {}, "options": ["noatime"],
    });
    assert_eq!(told, [expected]);
    // Like the runtime of Kata, the virtual machine finds the file system on the disk at that
    // socket.
    let device = told[0]["device"].as_str().expect("a path").to_owned();
    let mut machine = guest(Path::new(&device));
    let (at, magic) = MAGIC;
    assert_eq!(machine.read(0, 4096)[at..at + 2], magic);
    machine.write(64, &[5; 512]);
    // Two virtual machines that mount the same file system would destroy it.
    assert_eq!(code(disk.publish("b", false)), Code::FailedPrecondition);
    // The file system is mounted in the virtual machine, so the driver cannot resize it.
    assert_eq!(code(disk.expand("a")), Code::FailedPrecondition);
    let usage = disk.usage("a").unwrap();
    assert_eq!((usage.len(), usage[0].total), (1, 8 << 20));
    for _ in 0..2 {
        disk.unpublish("a").unwrap();
        disk.unstage().unwrap();
    }
    drop(machine);
    // A later pod finds the data that the first one has written.
    disk.stage().unwrap();
    disk.publish("b", true).unwrap();
    assert_eq!(guest(&disk.socket()).read(64, 512), [5; 512]);
    disk.unpublish("b").unwrap();
    disk.delete_soon();
    disk.check_gone();
}

/// A call of the driver, as a closure.
type VhostCall<'a> = &'a dyn Fn() -> Result<(), Status>;

#[test]
fn a_driver_that_is_ended_at_any_moment_leaves_nothing_of_a_socket() {
    let bench = CsiBench::new(None);
    if !can_mount(&bench) {
        return;
    }
    let disk = mounted(&bench);
    let calls: [(&str, VhostCall<'_>); 6] = [
        ("create", &|| disk.create()),
        ("stage", &|| disk.stage()),
        ("publish", &|| disk.publish("a", false)),
        ("unpublish", &|| disk.unpublish("a")),
        ("unstage", &|| disk.unstage()),
        ("delete", &|| disk.delete()),
    ];
    // Runs through the life of a volume. The driver is killed in each call, and the call is
    // repeated. Returns the number of kills.
    let life = |arm: &dyn Fn()| {
        let mut ended = 0;
        for (name, call) in &calls {
            bench.driver(None);
            arm();
            let _ = call();
            ended += usize::from(bench.has_ended());
            for _ in 0..2 {
                let answered = (0..50).any(|_| {
                    bench.driver(None);
                    call().is_ok()
                });
                assert!(answered, "{name} is not answered: {:?}", call());
            }
            if *name == "publish" {
                assert_eq!(disk.told().len(), 1);
                assert_eq!(guest(&disk.socket()).read(0, 4096)[MAGIC.0], MAGIC.1[0]);
            }
        }
        disk.check_gone();
        ended
    };
    let mut moments = 0;
    for moment in 0.. {
        match life(&|| bench.driver(Some(moment))) {
            0 => break,
            ended => moments += ended,
        }
    }
    // The driver is also killed between requests. A call takes some tens of milliseconds here.
    for run in 0..20 {
        moments += life(&|| {
            bench.end_after(Duration::from_micros(run * 1500));
        });
    }
    println!("the driver was ended at {moments} moments of the calls about a socket");
    assert!(moments > 40, "{moments}");
}
