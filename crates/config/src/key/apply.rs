//! The tables of the file that `weir apply` reads.

use super::{CAPACITY, KeyDeclaration, MAX, Shape, contract};
use crate::document::{Document, ShapedTable};
use weir_core::Span;

/// All shapes of that file, beginning with the outermost.
pub(crate) const APPLIES: &[&Shape] = &[
    &APPLY,
    &APPLY_DRIVE,
    &CAPACITY,
    &QUEUE,
    &APPLY_VOLUME,
    &APPLY_TENANT,
    &MAX,
];

pub(crate) const APPLY: Shape = Shape {
    name: "a file for the kernel",
    about: "The file that `weir apply` reads. It states the same contracts as a server's file, and Weir translates them into kernel settings, \
            which keep them as well as the kernel can.",
    keys: &[keys! {
        drive: Table("one `[drive.NAME]` for each drive"),
            "{ fast = { device = \"/dev/disk/by-id/ata-x\", policy = \"bfq\" } }",
            "The block devices whose bandwidth is shared.";
        volume: Table("one `[volume.NAME]` for each cgroup on a drive") = "{}",
            "{ alpha = { drive = \"fast\", cgroup = \"/alpha\" } }",
            "The cgroups that share the drives.";
        tenant: Table("one `[tenant.NAME]` for each cgroup over others") = "{}",
            "{ acme = { drive = \"fast\", cgroup = \"/acme\" } }",
            "Parent cgroups, each of which contains the cgroups of several volumes.";
    }],
};

pub(crate) const APPLY_DRIVE: Shape = Shape {
    name: "[drive.NAME] for the kernel",
    about: "A block device. The tunables of the policy's elevator are written in the same table, for example `bfq = { ... }`.",
    keys: &[keys! {
        device: Text("an absolute path"), "\"/dev/disk/by-id/ata-x\"",
            "The whole device, not a partition. Use a stable link from `/dev/disk/by-id` if possible, because names such as `/dev/sda` \
             can change at boot.";
        policy: Text("a [policy](#policies) that Linux has, optionally followed by controllers, as in `\"bfq + io.max\"`; or the path of a \
              policy's file"),
            "\"bfq + io.max\"",
            "The elevator and the controllers with which the kernel shares the device.";
        capacity: Table("`capacity = { ... }`")
            or "unknown, so no minimum can be promised; if `model` is set, the capacity is found by running the model",
            "{ read = \"160MB/s\", write = \"120MB/s\" }",
            "The throughput that the drive sustains in the worst case. `weir calibrate` measures it. If the drive has promises, the \
             weights are calculated from it.";
        model: Other("string: a drive that `weir drives` lists; or a table: a [model](#models)") or "none: no prediction is made",
            "\"plextor-px-256m5s\"",
            "A model of the drive. `weir apply` simulates the contracts on it before it writes any kernel setting.";
        queue: Table("`[drive.NAME.queue]`") = "{}", "{ nr_requests = 256 }",
            "Other settings of the device's queue. A setting that is not listed is not changed.";
    }],
};

table! {
    /// The settings of a device's queue (`[drive.NAME.queue]`). A setting that is `None` is not
    /// changed.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Queue: QUEUE = "[drive.NAME.queue]",
        "Settings of the block device's queue: files in its `queue` directory in sysfs.";

    nr_requests: Option<u32> as Count(4, 65_536) or "the kernel's default for the elevator", "256",
        "The maximum number of requests in the elevator and the drive together, for each hardware queue.";
    read_ahead: Option<u64> as Size(0, 1 << 30, 4096) or "not changed", "\"128KiB\"",
        "The maximum amount that the page cache reads ahead (`read_ahead_kb`).";
    nomerges: Option<u8> as Count(0, 2) or "not changed", "2",
        "How requests are merged. 0 merges all adjacent requests, 1 only those that are found without a search, 2 none.";
    rotational: Option<bool> as Flag or "not changed", "true",
        "Whether the drive has to seek. Elevators and `io.cost` adjust their behaviour to it.";
    max_transfer: Option<u64> as Size(4096, 1 << 30, 1024) or "not changed", "\"128KiB\"",
        "The maximum size of one command (`max_sectors_kb`). Longer requests are split.";
    write_back_latency: Option<Span> as Time(Span::ZERO, Span::from_secs(60)) or "not changed", "\"75ms\"",
        "The latency target of write-back throttling (`wbt_lat_usec`). Zero turns the throttling off.";
}

/// The keys that select the cgroup of a volume or tenant.
static CGROUP: &[KeyDeclaration] = keys! {
    cgroup: Text("the path of a cgroup, relative to the mount point of the cgroup file system") or "none", "\"/alpha\"",
        "The cgroup to which the contract applies. It is created if it does not exist. Set either `cgroup` or `unit`.";
    unit: Text("the name of a systemd unit that has a cgroup: a service, a scope or a slice") or "none",
        "\"postgresql.service\"",
        "The systemd unit to whose cgroup the contract applies. Set either `cgroup` or `unit`.";
    prio_class: Word(&["no-change", "promote-to-rt", "restrict-to-be", "idle"]) or "not changed", "\"restrict-to-be\"",
        "How the kernel treats the I/O priorities that processes of the cgroup request (`io.prio.class`). The elevators `bfq` and \
         `mq-deadline` obey these priorities.";
};

pub(crate) const APPLY_VOLUME: Shape = Shape {
    name: "[volume.NAME] for the kernel",
    about: "A cgroup with a [contract](#contracts) on a drive. It takes the place of a volume in a server's file.",
    keys: &[
        keys! {
            drive: Text("the NAME of a `[drive.NAME]`"), "\"fast\"",
                "The drive to which the contract applies.";
            tenant: Text("the NAME of a `[tenant.NAME]`") or "none", "\"acme\"",
                "The tenant in whose cgroup this cgroup is. Both must be on the same drive.";
        },
        CGROUP,
        contract::KEYS,
    ],
};

pub(crate) const APPLY_TENANT: Shape = Shape {
    name: "[tenant.NAME] for the kernel",
    about: "A cgroup that contains the cgroups of several volumes of one drive, with a [contract](#contracts) for all of them together.",
    keys: &[
        keys! {
            drive: Text("the NAME of a `[drive.NAME]`"), "\"fast\"",
                "The drive to which the contract applies.";
        },
        CGROUP,
        contract::KEYS,
    ],
};
