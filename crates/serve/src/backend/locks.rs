//! Locks on images, which prevent two programs from changing an image at the same time.
//!
//! The locked bytes are those that QEMU uses (`block/file-posix.c`). For each permission that QEMU
//! uses, it takes a shared lock on byte 100 plus the permission's number. For each permission that
//! no other program may use, it takes a shared lock on byte 200 plus the number. Then it checks
//! whether another program has locked the counterpart.
//!
//! A writer in Weir takes an exclusive lock on all bytes. A reader takes shared locks with the
//! meaning "I read, and no other program may write or resize", so that other readers (including
//! QEMU's) can read, too.

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use weir_uring::Errno;
use weir_uring::lock::{Lock, is_locked, try_lock};

const ALL: Range<u64> = 0..u64::MAX;

/// The bytes that only Weir locks.
const OWN: Range<u64> = 0..100;
/// The first byte for used permissions.
const USED: u64 = 100;
/// The first byte for permissions that no other program may use.
const UNSHARED: u64 = 200;
/// The numbers of QEMU's permissions.
const CONSISTENT_READ: u64 = 0;
const WRITE: u64 = 1;
const RESIZE: u64 = 3;

/// The longest time that a starting server waits for another program's lock. After a killed
/// process has been waited for, the kernel can take up to half a second to release the files of its
/// ring.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);
/// The time between two attempts.
const PAUSE: Duration = Duration::from_millis(10);

/// Locks a file that is open for reading and, if `writable`, for writing. The lock lasts until the
/// last descriptor of this open file is closed. If another program holds a lock, waits for up to
/// `patience`.
///
/// # Errors
/// Returns `EAGAIN` if another program uses the file in a conflicting way, and otherwise the error
/// of fcntl(2).
pub(super) fn lock(file: impl AsFd, writable: bool, patience: Duration) -> Result<(), Errno> {
    retry_while_busy(patience, Errno::AGAIN, || {
        try_to_lock(file.as_fd(), writable)
    })
}

/// Repeats `attempt` while it fails with `busy`, for up to `patience`.
pub(super) fn retry_while_busy<T>(
    patience: Duration,
    busy: Errno,
    mut attempt: impl FnMut() -> Result<T, Errno>,
) -> Result<T, Errno> {
    let begun = Instant::now();
    loop {
        match attempt() {
            Err(errno) if errno == busy && begun.elapsed() < patience => {
                std::thread::sleep(PAUSE);
            }
            outcome => return outcome,
        }
    }
}

fn try_to_lock(file: BorrowedFd<'_>, writable: bool) -> Result<(), Errno> {
    if writable {
        // All bytes include those that QEMU locks, so that one lock excludes every other program.
        return try_lock(file, Lock::Exclusive, ALL);
    }
    for bytes in SHARED {
        try_lock(file, Lock::Shared, bytes)?;
    }
    // The check follows the locks. If two processes start at the same time, at least one of them
    // thus finds the other's lock.
    check_lock(file, writable)
}

/// Checks whether [`lock`] would succeed, without taking a lock.
///
/// # Errors
/// Returns the error that [`lock`] would return.
pub(super) fn check_lock(file: impl AsFd, writable: bool) -> Result<(), Errno> {
    let exclusive: &[Range<u64>] = if writable { &[ALL] } else { &COUNTERPARTS };
    let shared: &[Range<u64>] = if writable { &[] } else { &SHARED };
    let exclusive = exclusive.iter().map(|bytes| (Lock::Exclusive, bytes));
    let shared = shared.iter().map(|bytes| (Lock::Shared, bytes));
    for (kind, bytes) in exclusive.chain(shared) {
        if is_locked(file.as_fd(), kind, bytes.clone())? {
            return Err(Errno::AGAIN);
        }
    }
    Ok(())
}

const fn one(first: u64, number: u64) -> Range<u64> {
    first + number..first + number + 1
}

/// The bytes that a reader locks.
const SHARED: [Range<u64>; 4] = [
    OWN,
    one(USED, CONSISTENT_READ),
    one(UNSHARED, WRITE),
    one(UNSHARED, RESIZE),
];
/// The bytes that no other program may have locked when a reader opens the image.
const COUNTERPARTS: [Range<u64>; 3] = [
    one(USED, WRITE),
    one(USED, RESIZE),
    one(UNSHARED, CONSISTENT_READ),
];

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{BufRead, BufReader, Read};
    use std::path::Path;
    use std::process::{Child, Command, Stdio};

    use super::super::file::tests::{Directory, open_soon, soon};
    use super::super::{ImageOptions, OpenError, OpenStorage};
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Creates an image, and returns its options for writing and for reading.
    fn image(directory: &Directory) -> (ImageOptions, ImageOptions) {
        let write = directory.options(MIB);
        drop(OpenStorage::image(&write).unwrap());
        let read = ImageOptions {
            read_only: true,
            ..write.clone()
        };
        (write, read)
    }

    fn is_locked(options: &ImageOptions) -> bool {
        match OpenStorage::image(options) {
            Ok(_) => false,
            Err(OpenError::Locked { path, .. }) => {
                assert_eq!(path, options.path);
                true
            }
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn an_image_has_a_single_writer_or_many_readers() {
        let directory = Directory::new();
        let (write, read) = image(&directory);
        let writer = open_soon(&write);
        assert!(is_locked(&write) && is_locked(&read));
        drop(writer);
        let readers = [open_soon(&read), open_soon(&read)];
        assert!(is_locked(&write));
        drop(readers);
        open_soon(&write);
    }

    /// Not a test: the following test runs this in another process. It holds an image until it
    /// receives a byte or is killed.
    #[test]
    fn hold() {
        let Some(path) = std::env::var_os("WEIR_HOLD") else {
            return;
        };
        let options = ImageOptions {
            path: path.into(),
            size: None,
            read_only: std::env::var_os("WEIR_HOLD_READ").is_some(),
            direct: false,
            preallocate: false,
            patience: Duration::ZERO,
        };
        let image = OpenStorage::image(&options);
        println!("\n{}", if image.is_ok() { "held" } else { "refused" });
        let _ = std::io::stdin().read(&mut [0]);
    }

    fn holder(path: &Path, read_only: bool) -> (Child, String) {
        let test = format!("{}::hold", module_path!().split_once("::").unwrap().1);
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", &test, "--nocapture"])
            .env("WEIR_HOLD", path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if read_only {
            command.env("WEIR_HOLD_READ", "1");
        }
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let said = lines.map_while(Result::ok);
        let said = said.filter(|line| line == "held" || line == "refused");
        let said = said.take(1).next().unwrap_or_default();
        (child, said)
    }

    /// The lock of a killed server ends with its process.
    #[test]
    fn a_lock_excludes_other_processes_and_ends_with_its_process() {
        let directory = Directory::new();
        let (write, read) = image(&directory);
        let (mut child, said) = holder(&write.path, false);
        assert_eq!(said, "held");
        assert!(is_locked(&write) && is_locked(&read));
        child.kill().unwrap();
        child.wait().unwrap();
        let writer = open_soon(&write);
        let (mut child, said) = holder(&write.path, true);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(said, "refused");
        drop(writer);
        open_soon(&read);
    }

    /// The kernel releases the locks of a killed server only after a while.
    #[test]
    fn a_lock_that_is_given_back_soon_is_waited_for() {
        let directory = Directory::new();
        let (write, _) = image(&directory);
        let writer = open_soon(&write);
        let patient = ImageOptions {
            patience: PATIENCE,
            ..write.clone()
        };
        let opened = std::thread::scope(|scope| {
            let opened = scope.spawn(|| OpenStorage::image(&patient));
            // The first attempt finds the lock. If the thread starts later, it does not need to
            // wait.
            std::thread::sleep(5 * PAUSE);
            assert!(!opened.is_finished());
            drop(writer);
            opened.join().unwrap()
        });
        opened.unwrap();
    }

    /// Checks the locks against QEMU's own programs, if they are installed.
    #[test]
    fn a_virtual_machine_is_kept_out_and_keeps_out() {
        if Command::new("qemu-io").arg("--version").output().is_err() {
            println!("skipped: qemu-io is not installed");
            return;
        }
        let directory = Directory::new();
        let (write, read) = image(&directory);
        let qemu = |mode: &[&str], command: &str| {
            let mut qemu = Command::new("qemu-io");
            qemu.args(["-f", "raw"]).args(mode).args(["-c", command]);
            qemu.arg(&write.path).output().unwrap().status.success()
        };
        soon(|| qemu(&[], "write 0 4k").then_some(()));
        soon(|| qemu(&["-r"], "read 0 4k").then_some(()));
        let writer = open_soon(&write);
        assert!(!qemu(&[], "write 0 4k") && !qemu(&["-r"], "read 0 4k"));
        drop(writer);
        let reader = open_soon(&read);
        assert!(!qemu(&[], "write 0 4k"));
        assert!(
            qemu(&["-r"], "read 0 4k"),
            "readers do not disturb each other"
        );
        drop(reader);

        for (mode, readable) in [(None, false), (Some("-r"), true)] {
            let mut child = Command::new("qemu-io");
            child.args(["-f", "raw"]).args(mode).arg(&write.path);
            let mut child = child
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            // QEMU has opened the image once it has locked its first byte.
            let probe = File::options()
                .read(true)
                .write(true)
                .open(&write.path)
                .unwrap();
            while !super::is_locked(&probe, Lock::Exclusive, 100..300).unwrap() {
                assert!(child.try_wait().unwrap().is_none(), "qemu-io has ended");
                std::thread::yield_now();
            }
            assert!(is_locked(&write));
            if readable {
                open_soon(&read);
            } else {
                assert!(is_locked(&read));
            }
            drop(child.stdin.take());
            child.wait().unwrap();
        }
    }
}
