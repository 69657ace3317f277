//! The calls of the node service under a real kernel. This program runs in a guest, where it kills
//! the driver at every request and at times between, and the server under fio.

use super::sanity::guest;
use crate::common::{has, words};
use crate::csi::bench::{CsiBench, capability, id, range};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use tonic::Status;
use weir_csi::rpc::volume_capability::{AccessType, MountVolume, access_mode::Mode};
use weir_csi::rpc::*;

/// Runs the ignored test below in a guest, on XFS, as a separate program.
const SCRIPT: &str = r#"
load null_blk nr_devices=1 gb=1 memory_backed=1 irqmode=0; load xfs; load ext4; load nbd
mkdir -p /vol /tmp
mkfs.xfs -q -f /dev/nullb0 && mount -t xfs /dev/nullb0 /vol || echo "no xfs"
export WEIR_PROGRAM=/bin/weir TMPDIR=/run
$(ls /bin/live-*) --ignored --exact csi_fleet::node::inside_a_guest --nocapture 2>&1
echo "said: status $?"
"#;

#[test]
fn the_node_keeps_its_volumes_whatever_ends() {
    let Some(mut guest) = guest(SCRIPT) else {
        return;
    };
    guest
        .programs
        .push(std::env::current_exe().expect("this program"));
    for (tool, package) in [("fio", "fio"), ("cmp", "diffutils")] {
        guest.add_program(tool, package).expect("the usual tools");
    }
    let ran = guest.run_while(|line| println!("{line}"), || true);
    let ran = ran.unwrap_or_else(|error| panic!("{error}"));
    let console = ran.console.join("\n");
    has(&console, "said: status 0");
}

const STAGED: &str = "/run/staged";
const TARGET: &str = "/run/target";

fn mounted() -> VolumeCapability {
    let used = AccessType::Mount(MountVolume::default());
    capability(Mode::SingleNodeWriter, used)
}

/// A call of the node service for the volume `a`.
#[derive(Clone, Copy, Debug)]
enum NodeCall {
    Stage,
    Publish,
    Expand,
    Stats,
    Unpublish,
    Unstage,
}

impl NodeCall {
    fn make(self, bench: &CsiBench) -> Result<(), Status> {
        match self {
            Self::Stage => bench.call(stage("a", STAGED)).map(drop),
            Self::Publish => bench.call(publish()).map(drop),
            Self::Expand => bench.call(expand()).map(drop),
            Self::Stats => bench.call(stats()).map(drop),
            Self::Unpublish => bench.call(unpublish()).map(drop),
            Self::Unstage => bench.call(unstage("a", STAGED)).map(drop),
        }
    }

    /// Repeats the call until it is answered, as kubelet does.
    fn insist(self, bench: &CsiBench) {
        let began = Instant::now();
        loop {
            bench.driver(None);
            match self.make(bench) {
                Ok(()) => return,
                Err(error) => assert!(began.elapsed() < INSISTENCE, "{self:?}: {error}"),
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn stage(name: &str, at: &str) -> NodeStageVolumeRequest {
    NodeStageVolumeRequest {
        volume_id: id(name),
        staging_target_path: at.into(),
        volume_capability: Some(mounted()),
        ..Default::default()
    }
}

fn unstage(name: &str, at: &str) -> NodeUnstageVolumeRequest {
    NodeUnstageVolumeRequest {
        volume_id: id(name),
        staging_target_path: at.into(),
    }
}

fn publish() -> NodePublishVolumeRequest {
    NodePublishVolumeRequest {
        volume_id: id("a"),
        staging_target_path: STAGED.into(),
        target_path: TARGET.into(),
        volume_capability: Some(mounted()),
        ..Default::default()
    }
}

fn expand() -> NodeExpandVolumeRequest {
    NodeExpandVolumeRequest {
        volume_id: id("a"),
        volume_path: TARGET.into(),
        ..Default::default()
    }
}

fn stats() -> NodeGetVolumeStatsRequest {
    NodeGetVolumeStatsRequest {
        volume_id: id("a"),
        volume_path: TARGET.into(),
        ..Default::default()
    }
}

fn unpublish() -> NodeUnpublishVolumeRequest {
    NodeUnpublishVolumeRequest {
        volume_id: id("a"),
        target_path: TARGET.into(),
    }
}

/// Returns the number of connected devices, and whether the volume is mounted at its two places.
fn kernel() -> (usize, [bool; 2]) {
    let devices = std::fs::read_dir("/sys/block").expect("sysfs").flatten();
    let connected = devices
        .filter(|d| d.path().join("backend").exists())
        .count();
    let mounts = std::fs::read_to_string("/proc/mounts").expect("proc");
    (
        connected,
        [STAGED, TARGET].map(|at| mounts.contains(&format!(" {at} "))),
    )
}

fn create(bench: &CsiBench, name: &str, source: Option<&str>) {
    let source = source.map(|source| VolumeContentSource {
        r#type: Some(volume_content_source::Type::Volume(
            volume_content_source::VolumeSource {
                volume_id: id(source),
            },
        )),
    });
    let request = CreateVolumeRequest {
        name: name.into(),
        capacity_range: Some(range(32)),
        volume_capabilities: vec![mounted()],
        volume_content_source: source,
        ..Default::default()
    };
    bench.call(request).expect("it is made");
}

fn delete(bench: &CsiBench, name: &str) {
    let request = DeleteVolumeRequest {
        volume_id: id(name),
        ..Default::default()
    };
    bench.call(request).expect("it goes");
}

#[test]
#[ignore = "it runs in a guest, with a kernel that has NBD"]
fn inside_a_guest() {
    let mut bench = CsiBench::new(Some("/vol".into()));
    bench.driver(None);
    server_killed(&mut bench);
    cloned(&bench);
    sweep(&bench);
    at_times(&bench);
}

/// The time for which a call is repeated. A `mkfs` outlives the driver that started it, and holds
/// the device for some seconds.
const INSISTENCE: Duration = Duration::from_mins(1);

const ROUND: [NodeCall; 6] = [
    NodeCall::Stage,
    NodeCall::Publish,
    NodeCall::Expand,
    NodeCall::Stats,
    NodeCall::Unpublish,
    NodeCall::Unstage,
];

/// Kills the driver at each moment of the requests of each call.
fn sweep(bench: &CsiBench) {
    let mut moments = 0;
    create(bench, "a", None);
    let all = [
        // The number of connected devices, and the mounts at the staging and the target path, after
        // each call.
        (1, [true, false]),
        (1, [true, true]),
        (1, [true, true]),
        (1, [true, true]),
        (1, [true, false]),
        (0, [false, false]),
    ];
    for ended_at in 0.. {
        let mut ended = 0;
        for (call, expected) in ROUND.into_iter().zip(all) {
            bench.driver(Some(ended_at));
            let _ = call.make(bench);
            ended += usize::from(bench.has_ended());
            // A call that is repeated after a kill, and even after its success, must do its work
            // once.
            call.insist(bench);
            call.insist(bench);
            assert_eq!(kernel(), expected, "{call:?} after moment {ended_at}");
        }
        moments += ended;
        if ended == 0 {
            break;
        }
    }
    delete(bench, "a");
    println!(
        "the driver was ended at {moments} moments of the node's calls: each call made again did its work once"
    );
}

/// The number of times that the driver is killed in each call, from before its start to after its
/// end.
const RUNS: u64 = 4;

/// Kills the driver at times between requests: while a device is connected, a file system is
/// created, or it is mounted.
fn at_times(bench: &CsiBench) {
    let mut ended = 0;
    for run in 0..RUNS {
        bench.driver(None);
        create(bench, "a", None);
        let mut ends = Vec::new();
        for call in ROUND {
            bench.driver(None);
            ends.push(bench.end_after(Duration::from_millis(run * 16)));
            let _ = call.make(bench);
            std::thread::sleep(Duration::from_millis(2));
            ended += usize::from(bench.has_ended());
            call.insist(bench);
            if matches!(call, NodeCall::Publish) {
                std::fs::write(Path::new(TARGET).join("file"), "text")
                    .expect("it is a file system");
            }
        }
        for end in ends {
            end.join().expect("its time is over");
        }
        bench.driver(None);
        delete(bench, "a");
        assert_eq!(kernel(), (0, [false; 2]));
        assert_eq!((bench.volumes().0.len(), bench.volumes().1), (0, 0));
    }
    let calls = RUNS * ROUND.len() as u64;
    println!("the driver was ended {ended} times in {calls} of the node's calls at times between");
}

fn fio(file: PathBuf) -> Child {
    let mut fio = Command::new("fio");
    fio.args(words(
        "--name=j --ioengine=libaio --direct=1 --rw=randwrite --bs=4k --iodepth=8 \
         --size=4m --rate_iops=150 --verify=crc32c --verify_fatal=1 --fsync=64",
    ));
    let fio = fio.arg("--filename").arg(file);
    fio.spawn().expect("fio is there")
}

/// Kills and restarts the server under fio, with and without the driver, and changes the contract
/// at the same time.
fn server_killed(bench: &mut CsiBench) {
    create(bench, "a", None);
    NodeCall::Stage.insist(bench);
    NodeCall::Publish.insist(bench);
    let mut running = fio(Path::new(TARGET).join("verified"));
    std::thread::sleep(Duration::from_secs(2));
    bench.serve();
    std::thread::sleep(Duration::from_secs(2));
    let modify = ControllerModifyVolumeRequest {
        volume_id: id("a"),
        mutable_parameters: [("min".into(), "20MB/s".into())].into(),
        ..Default::default()
    };
    bench.call(modify).expect("it changes");
    bench.end_driver();
    bench.serve();
    std::thread::sleep(Duration::from_secs(1));
    bench.driver(None);
    let ended = running.wait().expect("it ends");
    assert!(ended.success(), "fio: {ended}");
    println!(
        "the server was killed twice and the contract changed under fio on the kernel's NBD device: it verified 4 MiB"
    );
}

/// Checks that a clone of a volume in use has the data that was written before, and is independent
/// afterwards.
fn cloned(bench: &CsiBench) {
    let written = Path::new(TARGET).join("verified");
    let kept = Command::new("cp")
        .arg(&written)
        .arg("/run/kept")
        .status()
        .expect("cp is there");
    assert!(kept.success() && Command::new("sync").status().is_ok_and(|s| s.success()));
    create(bench, "b", Some("a"));
    let staged = "/run/staged-b";
    bench.call(stage("b", staged)).expect("it is staged");
    std::fs::write(&written, "other").expect("it is a file system");
    let same = Command::new("cmp")
        .args(["/run/kept", "/run/staged-b/verified"])
        .status();
    assert!(same.expect("cmp is there").success());
    bench.call(unstage("b", staged)).expect("it is unstaged");
    delete(bench, "b");
    NodeCall::Unpublish.insist(bench);
    NodeCall::Unstage.insist(bench);
    delete(bench, "a");
    assert_eq!((bench.volumes().0.len(), bench.volumes().1), (0, 0));
    println!(
        "a clone of a volume in use had what was written before, and nothing of what was written after"
    );
}
