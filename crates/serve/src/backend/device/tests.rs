//! Tests of block devices: devices in use are refused, and a loop device is served where one can be
//! created.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::process::Command;

use weir_core::{Flags, Op};
use weir_uring::Backend as Ringed;

use super::super::Prepare;
use super::super::file::bench::BackendBench;
use super::super::file::tests::{Directory, ring, soon};
use super::super::{ImageOptions, OpenError, OpenStorage};
use super::*;

fn options(path: &Path, read_only: bool) -> DeviceOptions {
    DeviceOptions {
        path: path.to_path_buf(),
        size: None,
        read_only,
        patience: Duration::ZERO,
    }
}

/// Returns the device of the root file system, if it has a name.
fn root() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let line = mounts
        .lines()
        .find(|line| line.split(' ').nth(4) == Some("/"))?;
    let source = line.split_once(" - ")?.1.split(' ').nth(1)?;
    let kind = fs::metadata(source).ok()?.file_type();
    kind.is_block_device().then(|| source.into())
}

#[test]
fn the_device_of_the_root_file_system_is_refused_before_it_is_opened() {
    let Some(device) = root() else {
        println!("skipped: the root file system is on no block device that can be seen here");
        return;
    };
    let error = OpenStorage::device(&options(&device, false)).unwrap_err();
    let OpenError::InUse { path, uses } = &error else {
        panic!("{error}");
    };
    assert_eq!(path, &device);
    assert!(
        uses.iter().any(|u| u.contains(" is mounted on / (")),
        "{uses:?}"
    );
    let text = error.to_string();
    assert!(text.contains("end that use first"), "{text}");
}

#[test]
fn a_path_without_a_device_is_refused_with_a_hint() {
    let directory = Directory::new();
    let file = directory.0.join("file");
    fs::write(&file, [0; 4096]).unwrap();
    let refused = |path: &Path| {
        OpenStorage::device(&options(path, false))
            .unwrap_err()
            .to_string()
    };
    assert!(
        refused(&file)
            .ends_with("is a regular file, not a block device: use `file = \"...\"` for it")
    );
    assert!(refused(&directory.0).contains("is a directory, not a block device"));
    assert!(refused(Path::new("/dev/null")).contains("is a character device"));
    assert!(refused(&directory.0.join("none")).starts_with("cannot open "));
}

/// A loop device that is detached when it is dropped.
struct AttachedLoop(PathBuf);

impl AttachedLoop {
    /// Attaches a loop device, or returns `None` if that is not possible (without root or without
    /// loop devices).
    fn new(image: &Path, block: u32) -> Option<Self> {
        let made = Command::new("losetup")
            .args(["--find", "--show", "--sector-size", &block.to_string()])
            .arg(image)
            .output();
        let made = made.ok().filter(|made| made.status.success());
        let Some(made) = made else {
            println!("skipped: no loop device can be made here");
            return None;
        };
        let path = PathBuf::from(String::from_utf8(made.stdout).unwrap().trim());
        assert!(fs::metadata(&path).unwrap().file_type().is_block_device());
        Some(Self(path))
    }
}

impl Drop for AttachedLoop {
    fn drop(&mut self) {
        let _ = Command::new("losetup")
            .arg("--detach")
            .arg(&self.0)
            .status();
    }
}

const SIZE: u32 = 4 << 20;

fn image(directory: &Directory) -> ImageOptions {
    let options = directory.options(u64::from(SIZE));
    drop(OpenStorage::image(&options).unwrap());
    options
}

#[test]
fn a_device_is_a_volume() {
    let directory = Directory::new();
    let image = image(&directory);
    for block in [512, 4096] {
        let Some(device) = AttachedLoop::new(&image.path, block) else {
            return;
        };
        let opened = soon(|| OpenStorage::device(&options(&device.0, false)).ok());
        assert_eq!(opened.size(), u64::from(SIZE));
        assert!(opened.traits().align >= block && !opened.traits().allocation);
        let mut bench = BackendBench::new(Box::new(opened), &ring(Ringed::Auto));
        // The claim of the first open excludes a second one.
        let again = OpenStorage::device(&options(&device.0, false)).unwrap_err();
        assert!(matches!(again, OpenError::InUse { .. }), "{again}");
        bench.write(0, &vec![7; 1 << 20], Flags::NONE).unwrap();
        bench.write(5, &[1, 2, 3], Flags::FUA).unwrap();
        assert_eq!(bench.read(4, 5), Ok(vec![7, 1, 2, 3, 7]));
        bench.flush().unwrap();
        bench
            .plain(Op::WriteZeroes, Flags::NO_HOLE, 4095, 8194)
            .unwrap();
        bench
            .plain(Op::WriteZeroes, Flags::NONE, 100_000, 9)
            .unwrap();
        assert_eq!(bench.read(4094, 3), Ok(vec![7, 0, 0]));
        assert_eq!(bench.read(12_288, 2), Ok(vec![0, 7]));
        if bench.traits.trim {
            bench
                .plain(Op::Discard, Flags::FUA, 512 << 10, 512 << 10)
                .unwrap();
        }
        if bench.traits.fast_zero {
            let fast = Flags::FAST_ZERO;
            assert_eq!(bench.plain(Op::WriteZeroes, fast, 0, 65_536), Ok(()));
            assert_eq!(bench.read(65_535, 2), Ok(vec![0, 7]));
        }
        let other_size = DeviceOptions {
            size: Some(1 << 20),
            ..options(&device.0, true)
        };
        let wrong = OpenStorage::device(&other_size).unwrap_err();
        // A read-only open needs no claim, but meets the lock.
        assert!(matches!(wrong, OpenError::Locked { .. }), "{wrong}");
        drop(bench);
        let wrong = DeviceOptions {
            size: Some(1 << 20),
            ..options(&device.0, true)
        };
        let unlocked = |open: &dyn Fn() -> OpenError| {
            soon(|| Some(open()).filter(|error| !matches!(error, OpenError::Locked { .. })))
                .to_string()
        };
        let looked = unlocked(&|| inspect(&wrong).unwrap_err());
        let wrong = unlocked(&|| OpenStorage::device(&wrong).unwrap_err());
        assert_eq!(looked, wrong);
        assert!(
            wrong.contains("has 4MiB, but the volume's `size` is 1MiB"),
            "{wrong}"
        );
    }
}

/// The file behind a loop device is refused while the device exists, and the device while it is
/// mounted.
#[test]
fn a_mounted_device_and_the_file_behind_it_are_left_alone() {
    let directory = Directory::new();
    let image = image(&directory);
    let made = Command::new("mkfs.ext4")
        .arg("-q")
        .arg(&image.path)
        .status();
    if !made.is_ok_and(|status| status.success()) {
        println!("skipped: no mkfs.ext4 here");
        return;
    }
    let Some(device) = AttachedLoop::new(&image.path, 512) else {
        return;
    };
    // The file is in use, because it has a loop device.
    let behind = OpenStorage::image(&image).unwrap_err().to_string();
    assert!(
        behind.contains(&format!(
            "is in use: it is the file of {}",
            device.0.display()
        )),
        "{behind}"
    );
    let place = directory.0.join("mounted");
    fs::create_dir(&place).unwrap();
    let mounted = Command::new("mount")
        .arg(&device.0)
        .arg(&place)
        .status()
        .unwrap();
    if !mounted.success() {
        println!("skipped: nothing can be mounted here");
        return;
    }
    let refused = OpenStorage::device(&options(&device.0, false));
    let read = OpenStorage::device(&options(&device.0, true));
    let unmounted = Command::new("umount").arg(&place).status().unwrap();
    assert!(unmounted.success());
    let refused = refused.unwrap_err().to_string();
    let why = format!(
        "{} is mounted on {} (ext4)",
        device.0.display(),
        place.display()
    );
    assert!(refused.contains(&why), "{refused}");
    assert!(read.is_ok(), "only to be read it may be in use");
    drop(read);
    soon(|| OpenStorage::device(&options(&device.0, false)).ok());
}

/// A mounted loop device is over the same data as the loop devices over it and under it, and as
/// those over the same file. A loop device over another image is not affected.
#[test]
fn a_device_is_left_alone_if_another_device_over_its_data_is_mounted() {
    let directory = Directory::new();
    let image = image(&directory).path;
    let apart = directory.0.join("apart");
    fs::write(&apart, vec![0; SIZE as usize]).unwrap();
    let Some(first) = AttachedLoop::new(&image, 512) else {
        return;
    };
    let second = AttachedLoop::new(&first.0, 512).unwrap();
    let third = AttachedLoop::new(&second.0, 512).unwrap();
    let sibling = AttachedLoop::new(&image, 512).unwrap();
    let apart = AttachedLoop::new(&apart, 512).unwrap();
    let uses = |device: &AttachedLoop| super::super::uses(&device.0).unwrap();
    let below = |upper: &AttachedLoop| format!("it is the file of {}", upper.0.display());
    assert_eq!(uses(&first), [below(&second)]);
    assert_eq!(uses(&second), [below(&third)]);
    assert!(uses(&third).is_empty() && uses(&sibling).is_empty());
    let place = directory.0.join("mounted");
    fs::create_dir(&place).unwrap();
    let done = |program: &str, arguments: &[&Path]| {
        let ended = Command::new(program).args(arguments).status();
        ended.is_ok_and(|status| status.success())
    };
    if !done("mkfs.ext4", &[Path::new("-q"), &image]) {
        println!("skipped: no mkfs.ext4 here");
        return;
    }
    for mounted in [&first, &second, &third, &sibling] {
        if !done("mount", &[&mounted.0, &place]) {
            println!("skipped: nothing can be mounted here");
            return;
        }
        let all = [&first, &second, &third, &sibling].map(|device| {
            let refused = OpenStorage::device(&options(&device.0, false));
            (uses(device), refused.map(drop))
        });
        let free = uses(&apart);
        assert!(done("umount", &[&place]));
        let on = place.display();
        let why = format!("{} is mounted on {on} (ext4)", mounted.0.display());
        for (uses, refused) in all {
            assert!(uses.iter().any(|used| used.ends_with(&why)), "{uses:?}");
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains(&why), "{refused}");
        }
        assert!(free.is_empty(), "{free:?}");
    }
}

/// A file can be used through its name or through either of two loop devices, but only through one
/// of them at a time.
#[test]
fn a_file_is_locked_through_every_loop_device() {
    let directory = Directory::new();
    let image = image(&directory);
    let volumes = |storage: String| {
        let text = format!(
            "listen.nbd = [\"unix:/run/x\"]\n[drive.d]\n[volume.a]\ndrive = \"d\"\nfile = \"{}\"\n[volume.b]\ndrive = \"d\"\n{storage}\n",
            image.path.display()
        );
        weir_config::parse("", &text).unwrap()
    };
    let shared = |storage: String| {
        let config = volumes(storage);
        super::super::shares(&config.volumes[0], &config.volumes[1])
    };
    let read_only = ImageOptions {
        read_only: true,
        ..image.clone()
    };
    let held = soon(|| OpenStorage::image(&image).ok());
    let Some(one) = AttachedLoop::new(&image.path, 512) else {
        return;
    };
    let open = |device: &AttachedLoop, read| OpenStorage::device(&options(&device.0, read));
    // The file is open under its own name, so the loop device is refused.
    for read in [false, true] {
        let refused = open(&one, read).unwrap_err();
        assert!(
            matches!(&refused, OpenError::Locked { path, .. } if *path == image.path),
            "{refused}"
        );
        let options = options(&one.0, read);
        assert_eq!(
            inspect(&options).unwrap_err().to_string(),
            refused.to_string()
        );
    }
    drop(held);
    let held = soon(|| open(&one, false).ok());
    // The loop device is open for writing, so the file and another loop device are refused.
    assert!(matches!(
        OpenStorage::image(&read_only),
        Err(OpenError::Locked { .. })
    ));
    let other = AttachedLoop::new(&image.path, 512).unwrap();
    assert!(matches!(open(&other, false), Err(OpenError::Locked { .. })));
    drop(held);
    // A reader excludes writers, but not other readers.
    let held = soon(|| open(&other, true).ok());
    assert!(matches!(open(&one, false), Err(OpenError::Locked { .. })));
    soon(|| open(&one, true).ok());
    drop(held);
    assert!(shared(format!("device = \"{}\"", one.0.display())));
    assert!(!shared("device = \"/dev/null\"".to_owned()));
}
