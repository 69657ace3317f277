//! Linux guests under QEMU with a volume as their disk. In some tests, the server is killed or
//! upgraded under verified writes.
//!
//! `./test --guest` runs them. They need `qemu-system-x86_64`, a static busybox, and Debian's
//! kernel, which `weir-linux` downloads. `WEIR_KILLS=100 cargo test -p weir --test
//! live qemu:: -- --nocapture` replaces the server a hundred times instead of eight times.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::upgrade::upgrade;
use crate::common::program::skip;
use crate::common::running::{self, RunningServer};
use crate::common::{Scratch, signal, words};
use rustix::process::Signal;
use weir_linux::guest::Kernel;

/// The beginning of the guest's script, which waits for the disk.
const BEGIN: &str =
    "load virtio_pci; load virtio_blk; until [ -b /dev/vda ]; do sleep 0.05; done\n";

/// Writes, reads and compares data, and prints each result on a line.
const ONCE: &str = r#"
q=/sys/block/vda/queue
echo "sectors=$(cat /sys/block/vda/size) serial=$(cat /sys/block/vda/serial) cache=$(cat $q/write_cache)"
echo "queues=$(ls /sys/block/vda/mq | wc -l) block=$(cat $q/logical_block_size)"
dd if=/dev/urandom of=/data bs=64k count=64 2>/dev/null
dd if=/data of=/dev/vda bs=64k oflag=direct 2>/dev/null && sync && echo "written"
dd if=/dev/vda of=/back bs=64k count=64 iflag=direct 2>/dev/null
cmp /data /back && echo "same"
blkdiscard -o 0 -l 1048576 /dev/vda && echo "discarded"
echo "write through" > $q/write_cache; dd if=/data of=/dev/vda bs=4k count=16 oflag=direct 2>/dev/null && echo "through"
poweroff -f
"#;

/// Runs four writers, each in a part of its own, until the guest is told to stop. Each round is
/// read back and compared.
const AGAIN: &str = r#"
dd if=/dev/urandom of=/data bs=64k count=16 2>/dev/null
writer() {
    n=0; bad=0
    while ! [ -e /stop ]; do
        n=$((n + 1)); at=$(($1 * 256 + n % 15 * 16))
        dd if=/data of=/dev/vda bs=64k seek=$at oflag=direct conv=notrunc 2>/dev/null || bad=$((bad + 1))
        dd if=/dev/vda of=/back$1 bs=64k skip=$at count=16 iflag=direct 2>/dev/null || bad=$((bad + 1))
        cmp /data /back$1 || bad=$((bad + 1))
    done
    echo "writer=$1 rounds=$n bad=$bad"
}
for w in 0 1 2 3; do writer $w & done
echo "ready"; read line < /dev/ttyS0; touch /stop; wait
dmesg | grep -i "i/o error"
echo "over"; poweroff -f
"#;

/// Prints the size of the disk whenever it changes. Then writes to its last megabyte and reads the
/// data back.
const GROWS: &str = r#"
dd if=/dev/urandom of=/data bs=64k count=16 2>/dev/null
was=0
for turn in 1 2 3; do
    while size=$(cat /sys/block/vda/size); [ $size = $was ]; do sleep 0.05; done
    at=$(($size / 128 - 16))
    dd if=/data of=/dev/vda bs=64k seek=$at oflag=direct conv=notrunc 2>/dev/null
    dd if=/dev/vda of=/back bs=64k skip=$at count=16 iflag=direct 2>/dev/null
    cmp /data /back && echo "sectors=$size"
    was=$size
done
poweroff -f
"#;

/// Returns the kernel with its modules. `None`, with a message, if these or a program are missing.
fn kernel() -> Option<Kernel> {
    let installed = |program: &str| Command::new(program).arg("--help").output().is_ok();
    let missing = ["qemu-system-x86_64", "busybox"]
        .into_iter()
        .find(|p| !installed(p));
    let missing = match missing {
        None => match Kernel::find("6.1", |line| println!("{line}")) {
            Ok(kernel) => return Some(kernel),
            Err(error) => error.to_string(),
        },
        Some(program) => format!("{program} is not there"),
    };
    skip(&missing);
    None
}

/// Writes the initial files of a guest with its script, and returns their path.
fn initrd(scratch: &Scratch, kernel: &Kernel, script: &str) -> PathBuf {
    let archive = scratch.path("initrd");
    let guest = weir_linux::guest::KernelGuest::new(kernel.clone(), format!("{BEGIN}{script}"));
    guest.write_initrd(&archive).unwrap();
    archive
}

/// A running guest, with the lines of its console.
struct QemuGuest {
    qemu: Child,
    lines: Receiver<String>,
    said: Vec<String>,
}

impl QemuGuest {
    fn boot(kernel: &Kernel, initrd: &Path, socket: &Path, queues: usize) -> Self {
        let image = kernel.image();
        let [image, initrd, socket] = [&*image, initrd, socket].map(Path::display);
        let line = format!(
            // vhost-user needs memory that is shared with the server (`share=on`). `timeout` ends a
            // guest that hangs.
            "600 qemu-system-x86_64 -accel tcg -m 256 -smp {queues} -nographic -no-reboot -nodefaults -serial stdio \
             -object memory-backend-memfd,id=m,size=256M,share=on -machine q35,memory-backend=m \
             -kernel {image} -initrd {initrd} -append 'console=ttyS0 quiet panic=-1' \
             -chardev socket,id=c,path={socket},reconnect=1 \
             -device vhost-user-blk-pci,chardev=c,num-queues={queues}"
        );
        let mut qemu = Command::new("timeout")
            .args(words(&line))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // QEMU reports every loss of the server here. The guest's own output shows the
            // consequences.
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        let out = BufReader::new(qemu.stdout.take().unwrap());
        thread::spawn(move || {
            for line in out.split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).trim().to_owned();
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self {
            qemu,
            lines,
            said: Vec::new(),
        }
    }

    /// Waits until the guest prints a line that ends with this text.
    fn wait_for(&mut self, end: &str) {
        // An emulated guest takes many seconds to boot.
        let deadline = Instant::now() + Duration::from_mins(2);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else {
                panic!("it never said {end:?}:\n{}", self.said.join("\n"));
            };
            let found = line.ends_with(end);
            self.said.push(line);
            if found {
                return;
            }
        }
    }

    fn say(&mut self, line: &str) {
        let input = self.qemu.stdin.as_mut().unwrap();
        writeln!(input, "{line}").unwrap();
    }

    /// Waits for the end of the guest, and returns all of its output.
    fn end(mut self) -> String {
        self.said.extend(self.lines.iter());
        assert!(self.qemu.wait().unwrap().success());
        self.said.join("\n")
    }
}

fn configure(scratch: &Scratch, storage: &str, mib: u64) {
    let text = format!(
        "[drive.fast]\n[listen]\nnbd = [\"unix:{0}/nbd.sock\"]\n[manage]\nsocket = \"{0}/weir.sock\"\n[volume.alpha]\ndrive = \"fast\"\n{storage}\nsize = \"{mib}MiB\"\n\
         listen = {{ vhost = \"{0}/alpha.sock\" }}\n",
        scratch.path("").display()
    );
    scratch.file("weir.toml", &text);
}

/// Waits until a guest has connected to the server.
fn wait_for_guest(server: &RunningServer) {
    let deadline = Instant::now() + Duration::from_mins(2);
    while !server.says("INFO client connected") {
        assert!(Instant::now() < deadline, "no guest has come");
        thread::sleep(Duration::from_millis(10));
    }
}

fn serve(scratch: &Scratch, storage: &str) -> RunningServer {
    configure(scratch, storage, 64);
    running::serve(scratch)
}

#[test]
fn linux_finds_a_disk_and_reads_its_writes_back() {
    let Some(kernel) = kernel() else { return };
    for (queues, storage) in [(1, "memory = true".to_owned()), (4, String::new())] {
        let scratch = Scratch::new();
        let image = format!("file = \"{}\"", scratch.path("image").display());
        let storage = if storage.is_empty() { image } else { storage };
        let server = serve(&scratch, &storage);
        let initrd = initrd(&scratch, &kernel, ONCE);
        let socket = scratch.path("alpha.sock");
        let said = QemuGuest::boot(&kernel, &initrd, &socket, queues).end();
        for wanted in [
            "sectors=131072 serial=alpha cache=write back",
            &format!("queues={queues} "),
            "written",
            "same",
            "discarded",
            "through",
        ] {
            assert!(said.contains(wanted), "{wanted:?} of {storage}:\n{said}");
        }
        server.end();
    }
}

#[test]
fn a_guest_sees_its_disk_grow() {
    let Some(kernel) = kernel() else { return };
    let scratch = Scratch::new();
    let image = scratch.path("image");
    let storage = format!("file = \"{}\"", image.display());
    let grow = |mib: u64| {
        let file = fs::File::options().write(true).open(&image).unwrap();
        file.set_len(mib << 20).unwrap();
        configure(&scratch, &storage, mib);
    };
    let mut server = serve(&scratch, &storage);
    let initrd = initrd(&scratch, &kernel, GROWS);
    let mut guest = QemuGuest::boot(&kernel, &initrd, &scratch.path("alpha.sock"), 2);
    // Sizes are in sectors of 512 bytes: 64 MiB, then 96 MiB and 128 MiB.
    guest.wait_for("sectors=131072");
    grow(96);
    signal(&server.child, Signal::HUP);
    guest.wait_for("sectors=196608");
    // The volume can also grow while there is no server.
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    grow(128);
    server = running::serve(&scratch);
    guest.wait_for("sectors=262144");
    guest.end();
    server.end();
}

/// Returns how often the server is replaced.
fn count() -> u64 {
    std::env::var("WEIR_KILLS").map_or(8, |n| n.parse().unwrap())
}

/// Replaces the server of a guest [`count`] times while the guest writes. None of its requests may
/// fail, and it must read what it has written.
fn test_replacements(mut replace: impl FnMut(RunningServer, &Scratch, &str) -> RunningServer) {
    let Some(kernel) = kernel() else { return };
    let scratch = Scratch::new();
    let storage = format!("file = \"{}\"", scratch.path("image").display());
    let mut server = serve(&scratch, &storage);
    let initrd = initrd(&scratch, &kernel, AGAIN);
    let socket = scratch.path("alpha.sock");
    let mut guest = QemuGuest::boot(&kernel, &initrd, &socket, 4);
    guest.wait_for("ready");
    for n in 0..count() {
        // QEMU from 7.2 to 9.0 may not reconnect to a server that is killed during the handshake
        // (`docs/guests.md`).
        wait_for_guest(&server);
        // The delay varies, so that the server is replaced at different points of a round.
        thread::sleep(Duration::from_millis(300 + n * 137 % 800));
        server = replace(server, &scratch, &storage);
    }
    // After the last replacement, the writers need some time for further rounds.
    thread::sleep(Duration::from_millis(1500));
    guest.say("stop");
    guest.wait_for("over");
    let said = guest.end();
    server.end();
    let rounds = said.lines().filter_map(|line| {
        let (_, rest) = line.split_once("rounds=")?;
        let (rounds, bad) = rest.split_once(" bad=")?;
        Some((rounds.parse::<u32>().ok()?, bad.trim() == "0"))
    });
    let rounds: Vec<(u32, bool)> = rounds.collect();
    assert_eq!(rounds.len(), 4, "{said}");
    assert!(rounds.iter().all(|r| r.0 > 0 && r.1), "{said}");
    assert!(!said.to_lowercase().contains("i/o error"), "{said}");
    let all: u32 = rounds.iter().map(|r| r.0).sum();
    println!(
        "{} replacements, {all} rounds of 1 MiB written, read and compared",
        count()
    );
}

#[test]
fn a_guest_survives_kills_of_its_server_without_data_loss() {
    test_replacements(|mut server, scratch, storage| {
        server.child.kill().unwrap();
        server.child.wait().unwrap();
        serve(scratch, storage)
    });
}

#[test]
fn a_guest_does_not_notice_upgrades_of_its_server() {
    test_replacements(|server, scratch, _| {
        upgrade(scratch);
        server
    });
}
