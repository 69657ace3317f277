//! The keys of `[volume.NAME]` and `[tenant.NAME]`.

use super::{Shape, contract, words};
use crate::allow::{Allow, VolumeTls};
use crate::document::{Document, ShapedTable};
use crate::field::{Mirror, Values, mirror, value};
use crate::notify::{CallRule, NotifyRules, WakeRule};
use crate::storage::{Cache, Remote, Storage};
use crate::terms;
use crate::words::Words;
use std::path::PathBuf;
use weir_core::{Contract, Knobs, Span};

table! {
    /// Storage that clients use as one disk, in most cases an NBD export (`[volume.NAME]`).
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Volume: VOLUME and contract::KEYS = "[volume.NAME]",
        "Storage that clients use as one disk. It is an NBD export of that name, which has 1 to 255 bytes. A volume must have exactly one \
         kind of storage (`file`, `device`, `nbd`, `memory` or `model`), unless its drive is a model.";

    /// The name, which is also that of the export: 1 to 255 bytes without control characters. (NBD
    /// permits up to 4096.)
    name: String = String::new();
    /// The storage of the volume's data.
    storage: Storage = Storage::Model;
    /// The Unix socket where virtual machines attach the volume through `vhost-user`: an absolute
    /// path of at most 107 bytes.
    vhost: Option<PathBuf> = None;
    /// The rules for notifications between the server and virtual machines.
    notify: NotifyRules = NotifyRules::default();
    /// The contract of the volume.
    contract: Contract = Contract::DEFAULT;
    /// The settings of controllers for the volume.
    knobs: Knobs = Knobs::NONE;

    drive: String [String::new()] as Text("the NAME of a `[drive.NAME]`"), "\"fast\"",
        "The drive on which the volume is.";
    file {|v| v.stored_in("file")} as Text("an absolute path") or "none", "\"/var/lib/weir/alpha.img\"",
        "The volume's data are in this regular file. If the file does not exist, it is created, and `size` is required. It is \
         preallocated if the volume has a promise. Its directory must exist.";
    device {|v| v.stored_in("device")} as Text("an absolute path") or "none", "\"/dev/disk/by-id/beta\"",
        "The volume's data are on this block device.";
    nbd {|v| v.remote().map(|r| r.text.clone())} as Text("an NBD URI") or "none", "\"nbd+unix:///alpha?socket=/run/pool.sock\"",
        "The volume's data are in an export of another NBD server: `nbd://host:port/export` or \
         `nbd+unix:///export?socket=/path` (`docs/remote.md`). `[volume.NAME.remote]` has its settings.";
    remote {|v| v.remote().map_or_else(|| REMOTE.unset(), Mirror::values)} as Table("`[volume.NAME.remote]`") or "the defaults of that table", "{ connections = 2 }",
        "Settings for the connections to the server of `nbd`.";
    memory {|v| (v.storage == Storage::Memory).then_some(true)} as Other("`true`") or "none", "true",
        "The volume's data are in memory. They are zero at the start and lost at the end of the server.";
    model {|v| (v.storage == Storage::Model).then_some("the drive's")} as Other("the same as `model` of a drive") or "none", "\"demo\"",
        "The model that takes the place of the volume's drive. All volumes of one drive must have the same model.";
    size: Option<u64> [None] as Size(512, 4096 << 50, 512) or "the size of the file, the device or the export; required for others",
        "\"8GiB\"",
        "The size of the volume. For files and devices it must be a multiple of 4096 bytes, unless `cache` is `\"host\"`. A \
         reload can increase it (`docs/guests.md`).";
    read_only: bool as Flag = "false", "true",
        "Whether the server refuses writes to the volume.";
    cache: Cache [Cache::Direct] as Word(&["direct", "host"]) = "\"direct\"", "\"host\"",
        "Whether the page cache of the host is used. `\"direct\"` bypasses it. `\"host\"` uses it and is permitted for files \
         only; such a volume cannot have a promise.";
    listen {|v| v.attached()} as Table("`[volume.NAME.listen]`") or "NBD only", "{ vhost = \"/run/weir/alpha.vhost.sock\" }",
        "Access to this volume alone, in addition to NBD or instead of it.";
    ublk {|v| v.ublk.then_some(true)}: bool as Flag = "false", "true",
        "Whether the volume is a block device of this machine, `/dev/ublkbN`. The device has the queue depth and the maximum \
         transfer of the drive (`docs/ublk.md`). A reload can also add and remove it.";
    ublk_number: Option<u32> [None] as Count(0, (1 << 20) - 1) or "any free number", "7",
        "N of `/dev/ublkbN`, if `ublk` is set.";
    tls {|v| (v.tls == VolumeTls::Required).then_some(v.tls)}: VolumeTls as Word(&["optional", "required"]) = "\"optional\"", "\"required\"",
        "Whether NBD clients can use the volume only over TLS. `\"required\"` requires `[listen.tls]`. A reload can change it, and \
         then ends connections without TLS.";
    allow: Vec<Allow> [Vec::new()] as List("1 to 1024 of `\"certificate:NAME\"`, `\"user:USER\"`, `\"group:GROUP\"` and `\"address:NETWORK\"`")
        or "every client that can connect", "[\"certificate:alice.example\", \"address:192.0.2.0/24\"]",
        "The clients that can use the volume over NBD or `vhost`. A client needs to match one entry. `certificate` is a DNS name or a URI \
         in the subject alternative names of its certificate (`client_ca`). `user` and `group` are the user and the primary group of a \
         process at a Unix socket, by name or number. `address` is the IP address of a client over TCP, or a network in CIDR notation. \
         A reload can change the list, and ends the connections of clients that it does not permit any more.";
    tenant: Option<String> [None] as Text("the NAME of a `[tenant.NAME]`") or "none: the volume is a group of its own", "\"acme\"",
        "The tenant to which the volume belongs. Both must be on the same drive.";
    shared: Option<String> [None] as Text("a name of 1 to 64 letters, digits, `.`, `_` and `-`") or "the volume's min applies to this server alone",
        "\"alpha\"",
        "The name under which several servers divide one min. All servers on which a volume has this name keep its min \
         together: the min is divided among them by demand, and the sum of all parts never exceeds it (`docs/gateways.md`). It \
         requires `[gateways]`, a min, and a policy that keeps the min. On each drive, the whole min counts in admission.";
}

impl Volume {
    /// Returns the path of the storage if it is of this kind.
    fn stored_in(&self, kind: &str) -> Option<PathBuf> {
        match &self.storage {
            Storage::File(path) if kind == "file" => Some(path.clone()),
            Storage::Device(path) if kind == "device" => Some(path.clone()),
            _ => None,
        }
    }

    /// Returns the remote export that stores the data, if any.
    fn remote(&self) -> Option<&Remote> {
        match &self.storage {
            Storage::Nbd(remote) => Some(remote),
            _ => None,
        }
    }

    /// Returns the value of each key of `[volume.NAME.listen]`.
    fn attached(&self) -> Values {
        let (spin, sleep) = match self.notify.wakes {
            WakeRule::AtOnce => (None, None),
            WakeRule::Spin(span) => (Some(span), None),
            WakeRule::Sleep(span) => (None, Some(span)),
        };
        let mut all = vec![
            ("vhost", value(&ATTACH, "vhost", &self.vhost)),
            ("spin", value(&ATTACH, "spin", &spin)),
            ("sleep", value(&ATTACH, "sleep", &sleep)),
        ];
        all.extend(self.notify.values());
        all
    }

    fn terms(&self) -> Values {
        terms::values(&self.contract, &self.knobs)
    }
}

mirror! {
    NotifyRules: ATTACH, calls call_count call_delay;
    Remote: REMOTE, connections requests wait unflushed;
}

pub(crate) const ATTACH: Shape = Shape {
    name: "[volume.NAME.listen]",
    about: "A socket for one volume, for clients that do not select a volume by name. It is created and removed together with the volume and \
            cannot be changed otherwise.",
    keys: &[keys! {
        vhost: Text("an absolute path"), "\"/run/weir/alpha.vhost.sock\"",
            "The Unix socket at which virtual machines attach the volume as a virtio disk through `vhost-user` (`docs/guests.md`). It \
             has the mode and the owner from `[listen]`. Every process that can connect to it can read and write the volume, unless the \
             volume has `allow`.";
        spin: Time(Span::from_micros(1), Span::from_millis(10)) or "none", "\"20us\"",
            "The time after a virtual machine's last request during which the server polls its queues continuously. Requests in this \
             time need no wake-up, but the polling occupies a CPU. It cannot be combined with `sleep`.";
        sleep: Time(Span::from_micros(1), Span::from_millis(100))
            or "none: each kick wakes the server, unless kicks arrive repeatedly without requests",
            "\"200us\"",
            "The minimum time between two wake-ups of the server by one queue. It saves CPU time, but adds latency of up to this time.";
        calls: Word(&words::<_, 3>(CallRule::WORDS)) = "\"gather\"", "\"vic\"",
            "The rule for notifying a virtual machine of replies (calls). `\"gather\"` uses `call_count` and `call_delay`. `\"vic\"` \
             decides by the number of requests in flight; if there are few, each reply causes a call. `\"spdk\"` decides by the rate of \
             replies: `call_delay` is the time between calls at 120,000 replies per second, and below 60,000 each reply causes a call. \
             Under `\"vic\"` and `\"spdk\"`, `call_count` is the maximum number of waiting replies; under `\"vic\"`, `call_delay` is \
             their maximum delay.";
        call_count: Count(1, 256) = "1", "8",
            "The number of replies after which a virtual machine is notified, unless `call_delay` has passed before. With 1, it is \
             notified of each reply, or once for replies that complete together.";
        call_delay: Time(Span::ZERO, Span::from_millis(10)) = "\"0s\"", "\"100us\"",
            "The maximum time that a reply waits for others before the virtual machine is notified. With zero, it is notified at once.";
    }],
};

pub(crate) const REMOTE: Shape = Shape {
    name: "[volume.NAME.remote]",
    about: "Settings for the connections to the server of a volume with `nbd`. They cannot be changed while the server runs.",
    keys: &[keys! {
        connections: Count(1, 16) = "4", "2",
            "The number of connections to the remote server. Only one is used if the remote server does not declare that several \
             connections are safe (`CAN_MULTI_CONN`).";
        requests: Count(1, 1024) = "64", "16",
            "The maximum number of requests in flight on each connection.";
        wait: Time(Span::ZERO, Span::from_secs(24 * 3600)) = "\"30s\"", "\"5min\"",
            "The time for which requests wait while the remote server is unreachable. After this time, they fail with an I/O error \
             until the server is reachable again.";
        unflushed: Size(16 << 20, 16 << 30, 1 << 20) = "\"64MiB\"", "\"256MiB\"",
            "The memory for copies of data that were written but not flushed. They are written again when the remote server reconnects. \
             When half of this memory is used, the volume is flushed.";
    }],
};

table! {
    /// A group of several volumes of one drive (`[tenant.NAME]`).
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Tenant: TENANT and contract::KEYS = "[tenant.NAME]",
        "A group of several volumes of one drive, with one contract for all of them together.";

    /// The name: 1 to 255 bytes without control characters.
    name: String = String::new();
    /// The contract for all volumes of the tenant together.
    contract: Contract = Contract::DEFAULT;
    /// The settings of controllers for all volumes of the tenant together.
    knobs: Knobs = Knobs::NONE;

    drive: String [String::new()] as Text("the NAME of a `[drive.NAME]`"), "\"fast\"",
        "The drive on which the tenant's volumes are.";
}

impl Tenant {
    fn terms(&self) -> Values {
        terms::values(&self.contract, &self.knobs)
    }
}
