//! Generates scenario files from seeds.

use std::fmt::Write;
use weir_core::random::Rng;

/// The clients of one `[[client]]`, which the table shows together.
#[derive(Debug)]
pub(crate) struct ClientGroup {
    pub(crate) name: &'static str,
    /// The value of `numjobs`, if the scenario has the key.
    pub(crate) jobs: Option<u64>,
}

impl ClientGroup {
    /// Returns the names of the clients in records.
    pub(crate) fn members(&self) -> Vec<String> {
        match self.jobs {
            None => vec![self.name.to_owned()],
            Some(jobs) => (1..=jobs)
                .map(|n| format!("{}-{n:02}", self.name))
                .collect(),
        }
    }

    /// Returns the name of the clients in tables.
    pub(crate) fn shown(&self) -> String {
        match self.jobs {
            None => self.name.to_owned(),
            Some(1) => format!("{}-01", self.name),
            Some(jobs) => format!("{} 01-{jobs:02}", self.name),
        }
    }
}

/// A generated scenario file, with the facts that the checks need.
#[derive(Debug)]
pub(crate) struct RandomScenario {
    pub(crate) text: String,
    pub(crate) groups: Vec<ClientGroup>,
    pub(crate) drive: &'static str,
}

/// A drive, with the bytes and requests per second by which promises are generated, and with
/// request sizes that keep a run short.
struct RandomDrive {
    name: &'static str,
    bytes: u64,
    iops: u64,
    sizes: &'static [&'static str],
}

const DRIVES: [RandomDrive; 4] = [
    RandomDrive {
        name: "demo",
        bytes: 240_000_000,
        iops: 4_000,
        sizes: &["16KiB", "64KiB", "128KiB", "1MiB", "32KiB-128KiB"],
    },
    RandomDrive {
        name: "hitachi-hts72755",
        bytes: 100_000_000,
        iops: 450,
        sizes: &["4KiB", "16KiB", "128KiB", "4KiB/60:64KiB/40"],
    },
    RandomDrive {
        name: "samsung-860-500gb",
        bytes: 400_000_000,
        iops: 6_000,
        sizes: &["64KiB", "128KiB", "512KiB"],
    },
    RandomDrive {
        name: "plextor-px-256m5s",
        bytes: 300_000_000,
        iops: 6_000,
        sizes: &["32KiB", "128KiB", "256KiB"],
    },
];

/// The policies besides the three under which every scenario is played.
const OTHERS: [&str; 9] = [
    "mq-deadline",
    "kyber",
    "cfq",
    "io.max",
    "io.low",
    "io.latency",
    "io.cost",
    "bfq-linux",
    "max-limits",
];

const NAMES: [&str; 6] = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta"];

/// Generates the scenario of a seed.
pub(crate) fn draw(seed: u64) -> RandomScenario {
    let rng = &mut Rng::new(seed);
    // The drive is `demo` in three of seven scenarios, and the hard disk in two.
    let kind = &DRIVES[[0, 0, 0, 1, 1, 2, 3][rng.range(0, 6) as usize]];
    let mut policies = vec!["none", "bfq", "contract"];
    if one_in(rng, 3) {
        policies.push(pick(rng, &OTHERS));
    }
    let policies: Vec<String> = policies.iter().map(|p| format!("{p:?}")).collect();
    let mut text = format!("policies = [{}]\n", policies.join(", "));
    put(&mut text, "repetitions", rng.range(1, 2));
    let duration = pick(rng, &["1s", "1s", "2s", "2s", "3s", "2500ms", "800ms"]);
    _ = writeln!(text, "duration = {duration:?}");
    let warm_up = pick(rng, &["0s", "500ms", "1s"]);
    _ = writeln!(text, "warm_up = {warm_up:?}");
    // The percentage of the drive that is promised, and the number of clients among which it is
    // divided.
    let part = rng.range(10, 92);
    let clients = rng.range(1, 6);
    let mut left = clients;
    let mut groups = Vec::new();
    for name in NAMES {
        if left == 0 {
            break;
        }
        let jobs = (one_in(rng, 3)).then(|| rng.range(1, left.min(4)));
        let each = part * kind.bytes / 100 / clients;
        let iops = part * kind.iops / 100 / clients;
        _ = writeln!(text, "\n[[client]]\nname = {name:?}");
        if let Some(jobs) = jobs {
            put(&mut text, "numjobs", jobs);
        }
        left -= jobs.unwrap_or(1);
        program(rng, kind, &mut text);
        contract(rng, each, iops, &mut text);
        groups.push(ClientGroup { name, jobs });
    }
    text += "\n[[expect]]\npromise = \"all\"\n";
    RandomScenario {
        text,
        groups,
        drive: kind.name,
    }
}

/// Writes the program of a client.
fn program(rng: &mut Rng, kind: &RandomDrive, text: &mut String) {
    let rw = pick(
        rng,
        &["read", "write", "randread", "randwrite", "randrw", "rw"],
    );
    let writes = !rw.ends_with("read");
    let size = pick(rng, kind.sizes);
    let direct = !one_in(rng, 6);
    _ = writeln!(
        text,
        "rw = {rw:?}\nbs = {size:?}\nsize = \"64MiB\"\ndirect = {direct}"
    );
    if rw.ends_with("rw") {
        // A client that never writes cannot sync, so at least 1 % of its requests are writes.
        put(text, "rwmixread", rng.range(0, 100).clamp(1, 99));
    }
    if writes && (!direct || one_in(rng, 3)) {
        let call = pick(rng, &["fsync", "fdatasync"]);
        put(text, call, pick(rng, &[1, 1, 4, 16]));
    } else if writes && one_in(rng, 5) {
        put(text, "flush", pick(rng, &[1, 8]));
    }
    if direct {
        put(text, "iodepth", pick(rng, &[1, 1, 2, 4, 16, 32]));
    }
    match rng.range(0, 5) {
        0 => put(text, "rate_iops", rng.range(1, kind.iops / 4)),
        1 if one_in(rng, 2) => {
            let think = pick(rng, &["1ms", "20ms", "300ms"]);
            _ = writeln!(text, "thinktime = {think:?}");
        }
        _ => {}
    }
    match rng.range(0, 7) {
        0 => *text += "startdelay = \"1200ms\"\n",
        1 => *text += "startdelay = \"0ms-700ms\"\n",
        // Such a client may begin after the measurement.
        2 => *text += "startdelay = \"4s\"\n",
        _ => {}
    }
    if one_in(rng, 6) {
        put(text, "number_ios", rng.range(1, 2_000));
    }
}

/// Writes the contract of a client, with a min of at most this number of bytes or requests per
/// second.
fn contract(rng: &mut Rng, bytes: u64, iops: u64, text: &mut String) {
    let class = rng.range(0, 11);
    let promised = match rng.range(0, 5) {
        _ if class == 0 => 0,
        0 => 0,
        1 | 2 => {
            let min = rng.range(iops / 10, iops).max(1);
            put(text, "min_iops", min);
            // Requests count as 64 KiB in the choice of the max.
            min * 64 * 1024
        }
        _ => {
            let min = rng.range(bytes / 100, bytes) / 1000 + 1;
            _ = writeln!(text, "min = \"{min}kB/s\"");
            min * 1000
        }
    };
    if one_in(rng, 2) {
        put(text, "share", pick(rng, &[10, 200, 1000]));
    }
    // The max is a multiple of the min, so that a contract does not contradict itself.
    let max = promised.max(100_000) / 1000 * rng.range(2, 6);
    match class {
        0 => *text += "class = \"idle\"\n",
        1 => {
            _ = writeln!(
                text,
                "class = \"realtime\"\nmax = {{ bandwidth = \"{max}kB/s\" }}"
            );
        }
        2 | 3 => _ = writeln!(text, "max = {{ bandwidth = \"{max}kB/s\" }}"),
        4 => _ = writeln!(text, "max = {{ iops = {} }}", iops.max(1) * rng.range(1, 4)),
        _ => {}
    }
}

fn put(text: &mut String, key: &str, value: u64) {
    writeln!(text, "{key} = {value}").expect("memory takes every byte");
}

fn one_in(rng: &mut Rng, n: u64) -> bool {
    rng.range(1, n) == 1
}

fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> T {
    from[rng.range(0, from.len() as u64 - 1) as usize]
}
