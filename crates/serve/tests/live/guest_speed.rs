//! Measures the speed of a guest's disk compared with that of `qemu-storage-daemon`, with random
//! reads of 4 KiB from memory and a guest that sleeps while it waits.
//!
//!     PAIRS=9 SECONDS_EACH=2 cargo test --release -p weir-serve --test live guest_speed:: -- --ignored --nocapture

use crate::tools;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::tools::guest::{DATA, TestGuest};
use crate::tools::{Temp, TestSite, program};
use rustix::event::{PollFd, PollFlags, poll};
use weir_core::random::Rng;

const SIZE: u64 = 64 << 20;
const VOLUMES: usize = 16;

/// The results of one run.
#[derive(Clone, Copy, Debug)]
struct SpeedRun {
    /// The number of requests per second.
    rate: f64,
    /// The server's processor time per request, in nanoseconds.
    server: f64,
    /// The number of calls and of kicks per request.
    calls: f64,
    kicks: f64,
}

/// Keeps `depth` reads in flight on each guest for `length`.
fn run(
    guests: &mut [TestGuest],
    depth: u64,
    length: Duration,
    nanos: impl Fn() -> u64,
) -> SpeedRun {
    let mut rng = Rng::new(1);
    let mut chains = Vec::new();
    for guest in &*guests {
        let frame = |n| guest.frame(place(n), 0, 0, &[(place(n) + 0x1000, 4096)]);
        chains.push((0..depth).map(frame).collect::<Vec<_>>());
    }
    let mut heads = vec![vec![0; 128]; guests.len()];
    let (mut done, mut calls, mut kicks) = (0u64, 0u64, 0u64);
    let (begun, before) = (Instant::now(), nanos());
    let mut add = |guest: &mut TestGuest, heads: &mut Vec<u64>, chains: &[Vec<_>], n: u64| {
        guest.put(
            place(n) + 8,
            &(rng.range(0, SIZE / 4096 - 1) * 8).to_le_bytes(),
        );
        let head = guest.queues[0].driver.add(&chains[n as usize]).unwrap();
        heads[usize::from(head)] = n;
    };
    for (at, guest) in guests.iter_mut().enumerate() {
        for n in 0..depth {
            add(guest, &mut heads[at], &chains[at], n);
        }
        kicks += u64::from(publish(guest));
    }
    while begun.elapsed() < length {
        let mut any = false;
        for (at, guest) in guests.iter_mut().enumerate() {
            let mut some = false;
            while let Some(used) = guest.queues[0].driver.take().unwrap() {
                let n = heads[at][usize::from(used.head)];
                add(guest, &mut heads[at], &chains[at], n);
                done += 1;
                some = true;
            }
            kicks += u64::from(some && publish(guest));
            any |= some;
        }
        if !any {
            calls += wait(guests);
        }
    }
    let nanos = nanos() - before;
    // Requests in flight are completed, so that the next run begins without any.
    for guest in guests {
        for _ in 0..depth {
            guest.next(0);
        }
    }
    let each = |n: u64| n as f64 / done as f64;
    SpeedRun {
        rate: done as f64 / length.as_secs_f64(),
        server: each(nanos),
        calls: each(calls),
        kicks: each(kicks),
    }
}

fn place(n: u64) -> u64 {
    DATA + n * 0x2000
}

fn publish(guest: &mut TestGuest) -> bool {
    let queue = &mut guest.queues[0];
    let wanted = queue.driver.publish();
    if wanted {
        tools::guest::kick(&queue.kick);
    }
    wanted
}

/// Sleeps until at least one guest is called. Returns the number of guests that were called.
fn wait(guests: &mut [TestGuest]) -> u64 {
    // A guest that is armed too late has entries already, and nobody calls it for these.
    for guest in &mut *guests {
        if guest.queues[0].driver.arm().unwrap() {
            return 0;
        }
    }
    let fds = guests
        .iter()
        .map(|g| PollFd::new(&g.queues[0].call, PollFlags::IN));
    let mut fds: Vec<_> = fds.collect();
    poll(&mut fds, None).unwrap();
    let called: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
    let mut count = 0;
    for (guest, _) in guests.iter().zip(called).filter(|(_, called)| *called) {
        let _ = rustix::io::read(&guest.queues[0].call, &mut [0; 8]);
        count += 1;
    }
    count
}

/// Returns the processor time of all threads of a process so far, in nanoseconds.
fn process_nanos(pid: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let nanos = tasks.filter_map(|task| {
        let text = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    nanos.sum()
}

struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn daemon(scratch: &Temp) -> Daemon {
    let mut command = program::program_named("qemu-storage-daemon");
    for n in 0..VOLUMES {
        let image = Path::new("/dev/shm").join(format!("weir-guest-{}-{n}", std::process::id()));
        std::fs::write(&image, vec![7; SIZE as usize]).unwrap();
        let (node, path) = (image.display(), scratch.path().join(format!("q{n}")));
        command
            .args(["--blockdev", &format!("driver=file,node-name=n{n},filename={node}")])
            .args(["--export", &format!(
                "type=vhost-user-blk,id=e{n},node-name=n{n},addr.type=unix,addr.path={},num-queues=1,writable=on",
                path.display()
            )]);
    }
    let child = command.stdin(Stdio::null()).spawn().unwrap();
    while (0..VOLUMES).any(|n| !scratch.path().join(format!("q{n}")).exists()) {
        std::thread::sleep(Duration::from_millis(10));
    }
    // The daemon has the files open, so their names are not needed any more.
    for n in 0..VOLUMES {
        let _ = std::fs::remove_file(format!("/dev/shm/weir-guest-{}-{n}", std::process::id()));
    }
    Daemon(child)
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn connect(paths: &[PathBuf], fill: bool) -> Vec<TestGuest> {
    let start = |path: &PathBuf| {
        let mut guest = TestGuest::start(path, 1);
        for n in (0..SIZE / 65_536).filter(|_| fill) {
            guest.write(n * 128, &vec![7; 65_536]);
        }
        guest
    };
    paths.iter().map(start).collect()
}

#[test]
#[ignore = "a measurement"]
fn a_guest_is_measured_against_qemu_storage_daemon() {
    if !program::have(&["qemu-storage-daemon"]) {
        return;
    }
    let (pairs, length) = (
        number("PAIRS", 5),
        Duration::from_secs(number("SECONDS_EACH", 2)),
    );
    let scratch = Temp::new();
    let volume = |n: usize| {
        format!(
            "[volume.v{n}]\ndrive = \"d\"\nmemory = true\nsize = \"64MiB\"\nmin = \"{}MB/s\"\nshare = {}\nlisten = {{ vhost = \"{}/v{n}\" }}\n",
            n + 1,
            100 + 50 * n,
            scratch.path().display()
        )
    };
    let drive = "[drive.d]\ncapacity = { read = \"8GB/s\", write = \"8GB/s\" }\n";
    let config = drive.to_owned() + &(0..VOLUMES).map(volume).collect::<String>();
    let _site = TestSite::start(&config);
    let daemon = daemon(&scratch);
    let pid = daemon.0.id();
    let paths = |name: &str, count| -> Vec<PathBuf> {
        (0..count)
            .map(|n| scratch.path().join(format!("{name}{n}")))
            .collect()
    };
    for (volumes, depth) in [(1, 32), (VOLUMES, 2), (1, 1)] {
        let mut ours = connect(&paths("v", volumes), true);
        let mut theirs = connect(&paths("q", volumes), false);
        let (mut weir, mut qemu) = (Vec::new(), Vec::new());
        // The runs alternate, so that a change in the machine's speed affects both.
        for _ in 0..pairs {
            qemu.push(run(&mut theirs, depth, length, || process_nanos(pid)));
            weir.push(run(&mut ours, depth, length, tools::process::shard_nanos));
        }
        println!("{volumes} volumes, depth {depth} each, medians of {pairs} pairs");
        for (name, runs) in [("qemu-storage-daemon", &qemu), ("weir", &weir)] {
            let of = |what: fn(&SpeedRun) -> f64| median(runs.iter().map(what).collect());
            println!(
                "  {name:<20} {:>9.0} requests/s {:>7.0} ns of the server each {:>6.3} calls {:>6.3} kicks",
                of(|r| r.rate),
                of(|r| r.server),
                of(|r| r.calls),
                of(|r| r.kicks)
            );
        }
        let ratio = |what: fn(&SpeedRun) -> f64| {
            median(
                weir.iter()
                    .zip(&qemu)
                    .map(|(w, q)| what(w) / what(q))
                    .collect(),
            )
        };
        println!(
            "  weir / qemu: rate {:.2}, server time each {:.2}",
            ratio(|r| r.rate),
            ratio(|r| r.server)
        );
    }
}
