//! The kernel's reaction to a write to a file of a device's queue.

use super::{FakeHost, FakeNode, cgroup};
use crate::knob::Knob;
use crate::tunable;
use rustix::io::Errno;
use std::io;

/// The length of a tick in milliseconds, for a kernel with `CONFIG_HZ=250`.
const TICK_MS: u64 = 4;
/// The kernel's default target of write-back throttling in microseconds: on flash, and on rotating
/// disks (`wbt_default_latency_nsec`).
const WBT: [&str; 2] = ["2000", "75000"];

/// The tunables of each elevator, with their initial values.
const DEFAULTS: [(&str, &[(&str, &str)]); 3] = [
    (
        "bfq",
        &[
            ("strict_guarantees", "0"),
            ("low_latency", "1"),
            ("slice_idle", "8"),
            ("slice_idle_us", "8000"),
            ("fifo_expire_sync", "125"),
            ("fifo_expire_async", "250"),
            ("back_seek_max", "16384"),
            ("back_seek_penalty", "2"),
            ("max_budget", "0"),
            ("timeout_sync", "124"),
        ],
    ),
    (
        "mq-deadline",
        &[
            ("async_depth", "192"),
            ("fifo_batch", "16"),
            ("front_merges", "1"),
            ("prio_aging_expire", "10000"),
            ("read_expire", "500"),
            ("write_expire", "5000"),
            ("writes_starved", "2"),
        ],
    ),
    (
        "kyber",
        &[("read_lat_nsec", "2000000"), ("write_lat_nsec", "10000000")],
    ),
];

/// Handles a write to a file of a queue, with the kernel's rounding and limits.
pub(super) fn write(fake: &mut FakeHost, device: &str, file: &str, text: &str) -> io::Result<()> {
    let path = format!("{device}/queue/{file}");
    if file == "scheduler" {
        return switch(fake, device, text);
    }
    // -1 restores the default target, but the kernel still counts the value as set by the user.
    if file == "wbt_lat_usec" && text == "-1" {
        fake.manual_wbt.insert(device.to_owned());
        fake.set(path, own_wbt(fake, device));
        return Ok(());
    }
    let number: u64 = text.trim().parse().map_err(|_| Errno::INVAL)?;
    let value = match file {
        "nr_requests" => {
            let has_none = scheduler(fake, device) == "none";
            if has_none && number > tags(fake, device) {
                return Err(Errno::INVAL.into());
            }
            // BLKDEV_MIN_RQ: the kernel raises smaller values (`queue_requests_store`).
            number.max(4)
        }
        // The kernel keeps whole pages of 4 KiB.
        "read_ahead_kb" => number & !3,
        "rotational" => u64::from(number > 0),
        "max_sectors_kb" => {
            let most = fake.text(&format!("{device}/queue/max_hw_sectors_kb"));
            let most = most.ok().and_then(|t| t.trim().parse().ok());
            if number < 4 || most.is_some_and(|most: u64| number > most) {
                return Err(Errno::INVAL.into());
            }
            number
        }
        "wbt_lat_usec" => {
            fake.manual_wbt.insert(device.to_owned());
            number
        }
        _ => match file.strip_prefix("iosched/").and_then(tunable::find) {
            Some(tunable) => {
                let (least, most) = tunable.bounds;
                let number = number.clamp(least, most);
                // These tunables are stored in jiffies, and read back as milliseconds.
                if tunable.ticks {
                    number.div_ceil(TICK_MS) * TICK_MS
                } else {
                    number
                }
            }
            None => number,
        },
    };
    fake.set(path, value.to_string());
    Ok(())
}

/// Returns the tags of a device, 64 unless the recording has a number.
fn tags(fake: &FakeHost, device: &str) -> u64 {
    fake.tags.get(device).copied().unwrap_or(64).into()
}

/// Returns the elevator of a device.
pub(super) fn scheduler(fake: &FakeHost, device: &str) -> String {
    let text = fake.text(&format!("{device}/queue/scheduler"));
    Knob::Scheduler.value(text.unwrap_or("none"), "")
}

/// Returns the default target of write-back throttling of a device.
fn own_wbt(fake: &FakeHost, device: &str) -> &'static str {
    let seeks = fake.text(&format!("{device}/queue/rotational"));
    WBT[usize::from(seeks.is_ok_and(|t| t.trim() == "1"))]
}

/// Switches write-back throttling on or off. bfq and io.cost switch it off, and it returns to its
/// default after both are gone. A target that was set explicitly stays.
pub(super) fn throttle_writeback(fake: &mut FakeHost, device: &str, on: bool) {
    let path = format!("{device}/queue/wbt_lat_usec");
    if !fake.nodes.contains_key(&path) || fake.manual_wbt.contains(device) {
        return;
    }
    let on = on && scheduler(fake, device) != "bfq" && !cgroup::has_cost(fake, device);
    let text = if on { own_wbt(fake, device) } else { "0" };
    fake.set(path, text);
}

/// Selects an elevator, loads its module if necessary, and resets everything that depends on it.
fn switch(fake: &mut FakeHost, device: &str, to: &str) -> io::Result<()> {
    let to = to.trim();
    let path = format!("{device}/queue/scheduler");
    let before = scheduler(fake, device);
    let listed = |fake: &FakeHost| {
        let text = fake.text(&path).unwrap_or_default();
        text.split_whitespace()
            .any(|word| word.trim_matches(['[', ']']) == to)
    };
    if !listed(fake) && fake.loadable.remove(to) {
        load(fake, to);
    }
    if !listed(fake) {
        return Err(Errno::INVAL.into());
    }
    // Selecting the present elevator again resets nothing (`elevator_change`).
    if before == to {
        return Ok(());
    }
    let text = fake.text(&path)?.replace(['[', ']'], "");
    let chosen = text.split_whitespace().map(|word| {
        if word == to {
            format!("[{word}]")
        } else {
            word.to_owned()
        }
    });
    let text = chosen.collect::<Vec<_>>().join(" ");
    fake.set(path, text);
    let tags = tags(fake, device);
    // `blk_mq_init_sched`: twice the smaller of the tags and BLKDEV_DEFAULT_RQ (128).
    let nr_requests = if to == "none" {
        tags
    } else {
        2 * tags.min(128)
    };
    fake.set(
        format!("{device}/queue/nr_requests"),
        nr_requests.to_string(),
    );
    // The tunables belong to the elevator that was replaced.
    fake.remove_tree(&format!("{device}/queue/iosched"));
    let own = DEFAULTS.iter().find(|(name, _)| *name == to);
    for (file, text) in own.iter().flat_map(|(_, files)| *files) {
        fake.set(format!("{device}/queue/iosched/{file}"), *text);
    }
    if before == "bfq" {
        cgroup::forget_weights(fake, device);
    }
    throttle_writeback(fake, device, to != "bfq");
    Ok(())
}

/// Loads the module of an elevator. Every queue can choose it afterwards.
fn load(fake: &mut FakeHost, name: &str) {
    for (path, node) in &mut fake.nodes {
        if let (true, FakeNode::File(text)) = (path.ends_with("/queue/scheduler"), node) {
            text.push(' ');
            text.push_str(name);
        }
    }
    if name == "bfq" {
        cgroup::load_weights(fake);
    }
}
