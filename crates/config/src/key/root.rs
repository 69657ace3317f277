//! The keys of the server's outermost table, and of `[server]`.

use super::Shape;
use crate::document::{Document, ShapedTable};
use crate::storage::ThreadPriority;
use weir_core::Span;

pub(crate) const ROOT: Shape = Shape {
    name: "the file",
    about: "The outermost tables of the server's file. The file has no keys outside of these tables.",
    keys: &[keys! {
        drive: Table("one `[drive.NAME]` for each drive"), "{ fast = {} }",
            "The physical drives. All volumes that share one physical drive must be in the same `[drive.NAME]`, because each drive is \
             scheduled separately.";
        listen: Table("`[listen]`") or "`{}` if a volume has a `vhost` socket of its own or is a block device (`ublk`); otherwise required",
            "{ nbd = [\"unix:/run/weir/nbd.sock\"] }",
            "The addresses at which clients connect.";
        limits: Table("`[limits]`") = "{}", "{ connections = 64 }",
            "Limits on connections.";
        manage: Table("`[manage]`") = "{}", "{ socket = \"/run/weir/manage.sock\" }",
            "The management interface, through which the running server can be inspected and changed.";
        gateways: Table("`[gateways]`") or "none; required if a volume is `shared`",
            "{ etcd = [\"http://127.0.0.1:2379\"] }",
            "The etcd through which several servers divide the min of a volume that they share.";
        server: Table("`[server]`") = "{}", "{ priority = \"high\" }",
            "Settings of the server's process.";
        volume: Table("one `[volume.NAME]` for each volume") = "{}",
            "{ alpha = { drive = \"fast\", memory = true, size = \"1GiB\" } }",
            "The volumes, each of which a client uses as a disk. The table can be empty, because a reload can add volumes.";
        tenant: Table("one `[tenant.NAME]` for each tenant") = "{}", "{ acme = { drive = \"fast\" } }",
            "Groups of several volumes of one drive.";
    }],
};

table! {
    /// The settings of the server's process (`[server]`).
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct ProcessSettings: SERVER = "[server]",
        "Settings of the server's process.";

    priority: ThreadPriority as Word(&["auto", "normal", "high"]) = "\"auto\"", "\"high\"",
        "The priority of the threads that serve drives. `\"auto\"` runs them at nice -10 if that is permitted. It requires \
         `CAP_SYS_NICE`, which root has, or a `RLIMIT_NICE` of 30 (`LimitNICE=-10` in a systemd unit). `\"high\"` does the same, \
         and the log reports if it is not permitted. `\"normal\"` does not change the priority. This key cannot be changed while \
         the server runs.";
    spin: Span as Time(Span::ZERO, Span::from_millis(1)) = "\"50us\"", "\"0s\"",
        "The maximum time for which a thread that serves drives polls for the next event before it sleeps. It goes on polling only as \
         long as polling finds events. An event that arrives while the thread polls needs no wake-up, but the polling occupies a CPU. \
         With `\"0s\"`, or if the server has at least as many of these threads as CPUs, the threads never poll. This key cannot be \
         changed while the server runs.";
    remove_in_use: bool as Flag = "false", "true",
        "Whether a reload of this file can remove volumes that have clients. If true, the requests in flight complete and the \
         clients are then disconnected. If false, such a reload is refused and the running configuration does not change.";
}
