//! The keys of `[drive.NAME]`, of its capacity and of its limits.

use super::Shape;
use crate::document::{Document, ShapedTable};
use weir_core::Span;

pub(crate) const DRIVE: Shape = Shape {
    name: "[drive.NAME]",
    about: "One scheduling domain: all volumes that share one physical drive. Its name has 1 to 255 bytes. If the drive is a model (`model`, \
            here or in one of its volumes), the model determines `queues`, `tags`, `max_transfer` and `rotational`, and these keys cannot be \
            set.",
    keys: &[keys! {
        policy: Text("a [policy](#policies) that `weir policies` lists, optionally followed by controllers, as in `\"bfq + io.latency\"`; or \
              the path of a policy's file, which contains a slash or ends in `.toml` and is relative to the directory of this file")
            = "\"contract\"",
            "\"bfq\"",
            "The policy by which the drive is shared. A policy determines the effect of each part of a contract; `weir check` warns \
             about the parts that it does not keep. The tunables of its elevator are written in the same table, for example `bfq = { \
             ... }`.";
        capacity: Table("`capacity = { ... }`") or "unknown, so no minimum can be promised; the capacity of a model is found by running the model",
            "{ read = \"160MB/s\", write = \"120MB/s\" }",
            "The throughput that the drive sustains in the worst case. `weir calibrate` measures it. Promises are admitted up to 90 % \
             of it.";
        queues: Count(1, 1024) = "1", "4",
            "The number of hardware queues. `queues` times `tags` is at most 65536.";
        tags: Count(1, 4096) or "`32`; `256` if `contract.remote` states that the drive is a server across a network",
            "64",
            "The number of requests that each hardware queue accepts at a time.";
        max_transfer: Size(4096, 1 << 30, 512) or "`\"128KiB\"`; `\"1280KiB\"` if `rotational` is true or the drive is a server across a network",
            "\"1MiB\"",
            "The maximum size of one command to the drive. Longer requests are split.";
        rotational: Flag = "false", "true",
            "Whether the drive is a rotating disk, which has to seek. Elevators adjust their behaviour to it, and NBD clients are \
             informed of it. If the key is not set, `weir check` prints a note when the kernel reports a rotational device below a \
             volume.";
        model: Other("string: a drive that `weir drives` lists; or a table: a [model](#models)")
            or "none: the data are in the volumes' files and devices",
            "\"plextor-px-256m5s\"",
            "A timing model that takes the place of a real drive. The volumes of the drive keep their data in memory, and the model \
             determines when each request completes.";
        path: Time(Span::ZERO, Span::from_secs(1)) = "\"0s\"", "\"50us\"",
            "For laboratories: the time that a request needs from the client to the model and back. The model completes requests \
             earlier by this time, so that a client observes the drive's own latency. Without a model the key has no effect.";
        limits: Table("`[drive.NAME.limits]`") = "{}", "{ volumes = 16 }",
            "Sizes of the tables that the server allocates for the drive.";
    }],
};

/// The maximum number of requests per second in a capacity.
const IOPS_MAX: u64 = 1_000_000_000_000_000;

pub(crate) const CAPACITY: Shape = Shape {
    name: "capacity = { ... }",
    about: "The throughput that the drive sustains in the worst case. Each figure is for one kind of request alone. Promises are compared with \
            the smallest figure that applies.",
    keys: &[keys! {
        read: Rate, "\"160MB/s\"",
            "Bytes per second of sequential reads.";
        write: Rate, "\"120MB/s\"",
            "Bytes per second of sequential writes.";
        iops: Count(1, IOPS_MAX) or "not stated", "20000",
            "Requests per second, of any kind, of 4 KiB at random positions.";
        read_iops: Count(1, IOPS_MAX) or "not stated", "30000",
            "Reads per second, of 4 KiB at random positions.";
        write_iops: Count(1, IOPS_MAX) or "not stated", "20000",
            "Writes per second, of 4 KiB at random positions.";
    }],
};

table! {
    /// The sizes of one drive's tables (`[drive.NAME.limits]`). They cannot be changed while the
    /// server runs.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct DriveLimits: DRIVE_LIMITS = "[drive.NAME.limits]",
        "Sizes of the tables that the server allocates for one drive. They cannot be changed while the server runs.";

    requests: u32 as Count(2, 1 << 20) or "sixteen times `limits.connections`, but at least 4096", "8192",
        "The maximum number of requests of all connections together that are not completed. It must be at least eight times \
         `limits.connections`, or at least twice `limits.requests_per_connection` if that is less.";
    scheduler_tags: u32 as Count(1, 1 << 20) or "the value of `requests`", "512",
        "The maximum number of requests in the elevator and the drive together, for each hardware queue (Linux: `nr_requests`).";
    volumes: u32 as Count(1, 65_536) = "1024", "16",
        "The maximum number of volumes of the drive, including those that a reload adds.";
    tenants: u32 as Count(0, 65_536) = "256", "4",
        "The maximum number of tenants of the drive, including those that a reload adds.";
}
