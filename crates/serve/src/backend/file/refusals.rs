//! Tests of the messages for storage that is refused, and of full file systems.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use weir_core::{Flags, Op};
use weir_uring::{Backend as Ringed, IoRingConfig};

use super::bench::BackendBench;
use super::tests::{Directory, open_soon, ring, soon};
use super::*;

const MIB: u64 = 1 << 20;

/// Returns the reason why an image that no other process uses is not opened.
fn refused(options: &ImageOptions) -> String {
    soon(|| match OpenStorage::image(options) {
        Err(OpenError::Locked { .. }) => None,
        refused => Some(refused.unwrap_err().to_string()),
    })
}

/// In a directory that other users can write to, these users can choose the image, but cannot
/// redirect the server to a file elsewhere.
#[test]
fn links_that_another_user_could_have_made_are_not_followed() {
    let directory = Directory::new();
    let image = directory.options(MIB);
    drop(open_soon(&image));
    let shared = directory.0.join("shared");
    fs::create_dir(&shared).unwrap();
    let named = |name: &str| ImageOptions {
        path: shared.join(name),
        ..image.clone()
    };
    std::os::unix::fs::symlink(&image.path, shared.join("link")).unwrap();
    std::os::unix::fs::symlink(shared.join("new"), shared.join("dangling")).unwrap();
    fs::hard_link(&image.path, shared.join("name")).unwrap();
    drop(open_soon(&named("link")));
    drop(open_soon(&named("name")));
    // `link` and `name` were followed while only the own user could write to the directory.
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o777)).unwrap();
    for (name, why) in [
        ("link", "is a symbolic link"),
        ("name", "has a second name"),
    ] {
        let refused = refused(&named(name));
        assert!(refused.contains(why), "{refused}");
        assert_eq!(inspect(&named(name)).unwrap_err().to_string(), refused);
    }
    drop(open_soon(&named("new")));
    assert!(refused(&named("dangling")).contains("is a symbolic link"));
}

#[test]
fn errors_state_the_file_the_problem_and_a_remedy() {
    let directory = Directory::new();
    let options = directory.options(MIB);
    let path = options.path.display().to_string();
    let unsized_ = ImageOptions {
        size: None,
        ..options.clone()
    };
    let read_only = ImageOptions {
        read_only: true,
        ..options.clone()
    };
    assert_eq!(
        refused(&unsized_),
        format!("{path} does not exist: set `size` to have it created")
    );
    assert_eq!(
        refused(&read_only),
        format!(
            "{path} does not exist: create the image first, because a read-only volume is not created"
        )
    );
    drop(open_soon(&options));
    let larger = ImageOptions {
        size: Some(2 * MIB),
        ..options.clone()
    };
    assert_eq!(
        refused(&larger),
        format!(
            "{path} has 1MiB, but the volume's `size` is 2MiB; remove `size` to serve the file as it is, or resize the file (if it remained from an interrupted creation, remove it)"
        )
    );
    assert_eq!(
        fs::metadata(&options.path).unwrap().len(),
        MIB,
        "never resized"
    );
    fs::write(&options.path, [1; 1000]).unwrap();
    let partial = refused(&unsized_);
    assert!(
        partial.contains("has 1000 bytes, which is not a multiple of its block size of "),
        "{partial}"
    );
    assert!(partial.contains("or set `cache = \"host\"`"), "{partial}");
    let host = ImageOptions {
        direct: false,
        ..unsized_.clone()
    };
    assert_eq!(open_soon(&host).size(), 1000);
    fs::write(&options.path, "").unwrap();
    assert!(refused(&host).contains("is empty; write the volume's data to it"));
    let elsewhere = |path: &str| {
        refused(&ImageOptions {
            path: path.into(),
            ..options.clone()
        })
    };
    let parent = directory.0.display();
    assert_eq!(
        elsewhere(&format!("{parent}/none/image")),
        format!(
            "cannot create {parent}/none/image with 1MiB: No such file or directory; create the directory {parent}/none first"
        )
    );
    assert!(elsewhere("/dev/null").starts_with("/dev/null is a character device, not a regular"));
    let directory = ImageOptions {
        path: directory.0.clone(),
        ..read_only
    };
    assert!(refused(&directory).contains("is a directory, not a regular file: use an image"));
}

/// A file system that is mounted for a test.
struct Mounted(Directory);

impl Mounted {
    /// Mounts a file system, or returns `None` if this process cannot.
    fn new(kind: &str, settings: &str) -> Option<Self> {
        let directory = Directory::new();
        let mounted = Command::new("mount")
            .args(["-t", kind, "-o", settings, "none"])
            .arg(&directory.0)
            .status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Self(directory));
        }
        println!("skipped: {kind} cannot be mounted here");
        None
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0.0).status();
    }
}

#[test]
fn an_image_without_direct_io_requires_cache_host() {
    let Some(mounted) = Mounted::new("ramfs", "size=1m") else {
        return;
    };
    let options = mounted.0.options(65_536);
    let text = refused(&options);
    let path = options.path.display();
    assert_eq!(
        text,
        format!(
            "{path} cannot be opened past the page cache (O_DIRECT): Invalid argument; the file system does not support this. Move the image, for example to ext4, xfs or btrfs, or set `cache = \"host\"`, which excludes a min"
        )
    );
    assert!(
        !options.path.exists(),
        "what is not served is not left behind"
    );
    assert_eq!(inspect(&options).unwrap_err().to_string(), text);
    let host = ImageOptions {
        direct: false,
        ..options
    };
    let mut bench = BackendBench::new(Box::new(open_soon(&host)), &ring(Ringed::Auto));
    bench.write(77, &[1; 1000], Flags::FUA).unwrap();
    assert_eq!(bench.read(1076, 2), Ok(vec![1, 0]));
}

#[test]
fn a_full_file_system_is_said_to_be_full() {
    let Some(mounted) = Mounted::new("tmpfs", "size=1m") else {
        return;
    };
    let options = mounted.0.options(4 * MIB);
    let promised = ImageOptions {
        preallocate: true,
        ..options.clone()
    };
    assert_eq!(
        refused(&promised),
        format!(
            "cannot create {} with 4MiB, fully allocated because of a promise: No space left on device; free some space, or reduce `size`",
            options.path.display()
        )
    );
    assert_eq!(
        inspect(&promised).unwrap_err().to_string(),
        format!(
            "cannot create {}: it needs 4MiB, and the file system has 1MiB free. (Volumes with a promise are fully allocated when they are created.) Free some space, or reduce `size`",
            options.path.display()
        )
    );
    assert!(
        !options.path.exists(),
        "what could not be made whole is not left behind"
    );
    // tmpfs supports direct I/O only since Linux 6.6.
    for direct in [true, false] {
        let image = OpenStorage::image(&ImageOptions {
            direct,
            ..options.clone()
        });
        let Ok(image) = image else {
            assert!(direct, "{image:?}");
            continue;
        };
        let mut bench = BackendBench::new(Box::new(image), &ring(Ringed::Auto));
        // 16 × 256 KiB do not fit into 1 MiB. 28 is `ENOSPC`.
        let chunk = vec![1; 256 << 10];
        let writes: Vec<_> = (0..16)
            .map(|n| bench.write(n * chunk.len() as u64, &chunk, Flags::NONE))
            .collect();
        assert_eq!(writes[0], Ok(()));
        assert_eq!(writes[15], Err(28), "{writes:?}");
        assert_eq!(
            bench.plain(Op::WriteZeroes, Flags::NO_HOLE, 2 << 20, 1 << 20),
            Err(28)
        );
        bench.plain(Op::Discard, Flags::NONE, 0, 4 << 20).unwrap();
        assert_eq!(
            bench.write(3 << 20, &chunk, Flags::NONE),
            Ok(()),
            "there is room again"
        );
        assert_eq!(bench.flush(), Ok(()), "and nothing written is in doubt");
        drop(bench);
        fs::remove_file(&options.path).unwrap();
    }
}

/// Not a test: the following test runs this with a limit of 32 KiB per file.
#[test]
fn limited() {
    let Some(path) = std::env::var_os("WEIR_LIMITED") else {
        return;
    };
    for backend in [Ringed::Auto, Ringed::Poll] {
        let image = open_soon(&ImageOptions {
            path: path.clone().into(),
            size: None,
            read_only: false,
            direct: false,
            preallocate: false,
            patience: Duration::ZERO,
        });
        let config = IoRingConfig {
            registered_bytes: 0,
            ..ring(backend)
        };
        let mut bench = BackendBench::new(Box::new(image), &config);
        assert_eq!(bench.write(4096, &[1; 4096], Flags::NONE), Ok(()));
        assert_eq!(bench.write(40_960, &[1; 4096], Flags::NONE), Err(28));
        assert_eq!(bench.write(40_960, &[1; 4096], Flags::FUA), Err(28));
        assert_eq!(bench.flush(), Ok(()));
    }
    println!("\nlimited");
}

/// `EFBIG` is reported to clients as `ENOSPC` (28).
#[test]
fn a_limit_on_files_is_a_full_disk_to_clients() {
    let directory = Directory::new();
    let options = directory.options(MIB);
    drop(open_soon(&options));
    let test = format!("{}::limited", module_path!().split_once("::").unwrap().1);
    let run = Command::new("sh")
        // `ulimit -f` counts blocks of 512 bytes. Without the trap, SIGXFSZ would end the process.
        .args(["-c", "trap '' XFSZ; ulimit -f 64; exec \"$@\"", "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &test, "--nocapture"])
        .env("WEIR_LIMITED", &options.path)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&run.stdout) + String::from_utf8_lossy(&run.stderr);
    assert!(
        run.status.success() && text.contains("\nlimited\n"),
        "{text}"
    );
}
