//! What the system says about this process.

use std::collections::BTreeMap;

/// Bytes of memory in use (`VmRSS`).
pub(crate) fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    field(&status, "VmRSS:") << 10
}

/// What a thread has used so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Used {
    /// Clock ticks of processor time, in user space and in the kernel.
    pub(crate) ticks: u64,
    /// How often it was given a processor.
    pub(crate) switches: u64,
}

/// The server's threads by name and number, and what each has used.
pub(crate) fn server_threads() -> BTreeMap<String, Used> {
    let mut threads = BTreeMap::new();
    for entry in std::fs::read_dir("/proc/self/task").unwrap() {
        let path = entry.unwrap().path();
        let read = |name| std::fs::read_to_string(path.join(name));
        // A thread may end while we look.
        let (Ok(stat), Ok(status)) = (read("stat"), read("status")) else {
            continue;
        };
        let (name, rest) = stat.split_once('(').unwrap().1.rsplit_once(')').unwrap();
        if !name.starts_with("weir-") {
            continue;
        }
        let fields: Vec<&str> = rest.split_whitespace().collect();
        // Fields 14 and 15 of proc(5); the first after the name is the third.
        let time = |n: usize| fields[n - 3].parse::<u64>().unwrap();
        let used = Used {
            ticks: time(14) + time(15),
            switches: field(&status, "\nvoluntary_ctxt_switches:")
                + field(&status, "nonvoluntary_ctxt_switches:"),
        };
        let number = path.file_name().unwrap().to_string_lossy().into_owned();
        threads.insert(format!("{name} {number}"), used);
    }
    threads
}

/// The number behind a key.
fn field(text: &str, key: &str) -> u64 {
    let rest = text.split_once(key).unwrap().1;
    rest.split_whitespace().next().unwrap().parse().unwrap()
}

/// How often the server's shards have gone to sleep so far.
pub(crate) fn shard_sleeps() -> u64 {
    let status = of_shards("status");
    let sleeps = status
        .iter()
        .map(|text| field(text, "\nvoluntary_ctxt_switches:"));
    sleeps.sum()
}

/// Processor time of the server's shards so far, in nanoseconds.
pub(crate) fn shard_nanos() -> u64 {
    let nanos = of_shards("schedstat");
    let first = |text: &String| text.split_whitespace().next()?.parse::<u64>().ok();
    nanos.iter().map(|text| first(text).unwrap()).sum()
}

/// A file that the system keeps for each thread, of each shard.
fn of_shards(file: &str) -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let paths = tasks.map(|entry| entry.unwrap().path());
    let shards = paths.filter(|path| {
        std::fs::read_to_string(path.join("comm")).is_ok_and(|name| name.starts_with("weir-shard"))
    });
    shards
        .map(|path| std::fs::read_to_string(path.join(file)).unwrap())
        .collect()
}
