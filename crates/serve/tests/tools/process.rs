//! Resource usage of this process, as the kernel reports it.

use std::collections::BTreeMap;

/// Returns the resident memory of this process in bytes (`VmRSS`).
pub(crate) fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    field(&status, "VmRSS:") << 10
}

/// The resources that a thread has used so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ThreadUsage {
    /// Processor time in user space and in the kernel, in clock ticks.
    pub(crate) ticks: u64,
    /// The number of context switches.
    pub(crate) switches: u64,
}

/// Returns the server's threads by name and number, with the resources that each has used.
pub(crate) fn server_threads() -> BTreeMap<String, ThreadUsage> {
    let mut threads = BTreeMap::new();
    for entry in std::fs::read_dir("/proc/self/task").unwrap() {
        let path = entry.unwrap().path();
        let read = |name| std::fs::read_to_string(path.join(name));
        // A thread can end between the two reads.
        let (Ok(stat), Ok(status)) = (read("stat"), read("status")) else {
            continue;
        };
        let (name, rest) = stat.split_once('(').unwrap().1.rsplit_once(')').unwrap();
        if !name.starts_with("weir-") {
            continue;
        }
        let fields: Vec<&str> = rest.split_whitespace().collect();
        // Fields 14 and 15 of proc(5) are utime and stime. The first field after the name is field
        // 3.
        let time = |n: usize| fields[n - 3].parse::<u64>().unwrap();
        let used = ThreadUsage {
            ticks: time(14) + time(15),
            switches: field(&status, "\nvoluntary_ctxt_switches:")
                + field(&status, "nonvoluntary_ctxt_switches:"),
        };
        let number = path.file_name().unwrap().to_string_lossy().into_owned();
        threads.insert(format!("{name} {number}"), used);
    }
    threads
}

/// Returns the number that follows a key.
fn field(text: &str, key: &str) -> u64 {
    let rest = text.split_once(key).unwrap().1;
    rest.split_whitespace().next().unwrap().parse().unwrap()
}

/// Returns the number of times that the server's shards have gone to sleep so far.
pub(crate) fn shard_sleeps() -> u64 {
    let status = of_shards("status");
    let sleeps = status
        .iter()
        .map(|text| field(text, "\nvoluntary_ctxt_switches:"));
    sleeps.sum()
}

/// Returns the processor time of the server's shards so far, in nanoseconds.
pub(crate) fn shard_nanos() -> u64 {
    let nanos = of_shards("schedstat");
    let first = |text: &String| text.split_whitespace().next()?.parse::<u64>().ok();
    nanos.iter().map(|text| first(text).unwrap()).sum()
}

/// Returns the contents of a file in `/proc/self/task` for the thread of each shard.
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
