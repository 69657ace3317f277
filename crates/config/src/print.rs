//! A server written back as a file: every key that has a value, defaults included, in one order and in the shortest units.

use crate::gateways::Gateways;
use crate::listen::{Id, Owner};
use crate::low;
use crate::manage::Manage;
use crate::notify::{CallRule, Notify, Wakes};
use crate::policy::{Budget, Policy};
use crate::profile;
use crate::server::{Cache, Drive, Server, Storage, Volume};
use crate::text::Quoted;
use crate::tunable;
use crate::units::{Rate, Size, Time};
use std::fmt::{self, Display, Formatter, Write as _};
use std::path::Path;
use weir_core::{Capacity, Class, Contract, Knobs, LowKnobs, Max, Span};

/// Prints a file that reads back as an equal server.
impl Display for Server {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for drive in &self.drives {
            print_drive(f, drive)?;
        }
        print_listen(f, self)?;
        print_limits(f, self)?;
        print_manage(f, &self.manage)?;
        print_gateways(f, self.gateways.as_ref())?;
        writeln!(f, "\n[server]\npriority = \"{}\"", self.priority.name())?;
        writeln!(f, "remove_in_use = {}", self.remove_in_use)?;
        for tenant in &self.tenants {
            writeln!(f, "\n[tenant.{}]", Quoted(&tenant.name))?;
            writeln!(f, "drive = {}", Quoted(&tenant.drive))?;
            print_contract(f, &tenant.contract, &tenant.knobs)?;
        }
        for volume in &self.volumes {
            print_volume(f, volume)?;
        }
        Ok(())
    }
}

fn print_drive(f: &mut Formatter<'_>, drive: &Drive) -> fmt::Result {
    writeln!(f, "[drive.{}]", Quoted(&drive.name))?;
    writeln!(f, "policy = {}", Quoted(drive.policy.word()))?;
    if let Some(capacity) = drive.capacity {
        print_capacity(f, &capacity)?;
    }
    if let Some(model) = &drive.model {
        writeln!(f, "model = {}", profile::inline(model))?;
        writeln!(f, "path = \"{}\"", Time(drive.path))?;
    } else {
        writeln!(f, "queues = {}", drive.queues)?;
        writeln!(f, "tags = {}", drive.tags)?;
        writeln!(f, "max_transfer = \"{}\"", Size(drive.max_transfer.into()))?;
        writeln!(f, "rotational = {}", drive.rotational)?;
    }
    let limits = &drive.limits;
    write!(f, "limits = {{ requests = {}, ", limits.requests)?;
    write!(f, "scheduler_tags = {}, ", limits.scheduler_tags)?;
    writeln!(
        f,
        "volumes = {}, tenants = {} }}",
        limits.volumes, limits.tenants
    )?;
    print_tunables(f, &drive.policy)?;
    writeln!(f)
}

pub(crate) fn print_capacity(f: &mut Formatter<'_>, capacity: &Capacity) -> fmt::Result {
    let (read, write) = (Rate(capacity.read), Rate(capacity.write));
    write!(f, "capacity = {{ read = \"{read}\", write = \"{write}\"")?;
    let requests = [
        ("iops", capacity.iops),
        ("read_iops", capacity.read_iops),
        ("write_iops", capacity.write_iops),
    ];
    for (key, stated) in requests.into_iter().filter(|r| r.1 > 0) {
        write!(f, ", {key} = {stated}")?;
    }
    writeln!(f, " }}")
}

/// Every tunable but one that follows from the contracts.
fn print_tunables(f: &mut Formatter<'_>, policy: &Policy) -> fmt::Result {
    let Some(tuned) = policy.elevator.tuned() else {
        return Ok(());
    };
    let table = policy.elevator.kind().name;
    for (place, tunable) in tuned.tunables().iter().enumerate() {
        if policy.budget.is_none() || tunable.name != Budget::TUNABLE {
            let value = tunable::toml(tunable, tuned.get(place));
            writeln!(f, "{table}.{} = {value}", tunable.name)?;
        }
    }
    Ok(())
}

fn print_listen(f: &mut Formatter<'_>, server: &Server) -> fmt::Result {
    let listen = &server.listen;
    writeln!(f, "[listen]")?;
    let all: Vec<String> = listen
        .nbd
        .iter()
        .map(|a| Quoted(&a.to_string()).to_string())
        .collect();
    // An empty list says nothing, and is refused.
    if !all.is_empty() {
        writeln!(f, "nbd = [{}]", all.join(", "))?;
    }
    if let Some(metrics) = listen.metrics {
        writeln!(f, "metrics = \"{metrics}\"")?;
    }
    writeln!(f, "insecure = {}", listen.insecure)?;
    if listen
        .nbd
        .iter()
        .any(|a| matches!(a, crate::Address::Unix(_)))
        || server.volumes.iter().any(|v| v.vhost.is_some())
    {
        writeln!(f, "socket_mode = \"{:04o}\"", listen.socket_mode)?;
        if listen.socket_owner != Owner::default() {
            let owner = listen.socket_owner.to_string();
            writeln!(f, "socket_owner = {}", Quoted(&owner))?;
        }
    }
    Ok(())
}

impl Display for Owner {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let id = |f: &mut Formatter<'_>, id: &Option<Id>| match id {
            Some(Id::Name(name)) => f.write_str(name),
            Some(Id::Number(number)) => number.fmt(f),
            None => Ok(()),
        };
        id(f, &self.user)?;
        if self.group.is_some() {
            f.write_char(':')?;
        }
        id(f, &self.group)
    }
}

fn print_limits(f: &mut Formatter<'_>, server: &Server) -> fmt::Result {
    let limits = &server.limits;
    writeln!(f, "\n[limits]")?;
    writeln!(f, "connections = {}", limits.connections)?;
    writeln!(
        f,
        "requests_per_connection = {}",
        limits.requests_per_connection
    )?;
    writeln!(
        f,
        "bytes_per_connection = \"{}\"",
        Size(limits.bytes_per_connection)
    )?;
    writeln!(
        f,
        "unsent_per_connection = \"{}\"",
        Size(limits.unsent_per_connection)
    )?;
    writeln!(f, "request_size = \"{}\"", Size(limits.request_size.into()))?;
    writeln!(
        f,
        "handshake_timeout = \"{}\"",
        Time(limits.handshake_timeout)
    )?;
    writeln!(f, "arena = \"{}\"", Size(limits.arena))
}

fn print_manage(f: &mut Formatter<'_>, manage: &Manage) -> fmt::Result {
    if *manage == Manage::default() {
        return Ok(());
    }
    let path = |path: &Path| Quoted(&path.display().to_string()).to_string();
    writeln!(f, "\n[manage]")?;
    if let Some(socket) = &manage.socket {
        writeln!(f, "socket = {}", path(socket))?;
        writeln!(f, "socket_mode = \"{:04o}\"", manage.socket_mode)?;
        if manage.socket_owner != Owner::default() {
            let owner = manage.socket_owner.to_string();
            writeln!(f, "socket_owner = {}", Quoted(&owner))?;
        }
        writeln!(f, "users = [{}]", ids(&manage.users))?;
        writeln!(f, "groups = [{}]", ids(&manage.groups))?;
    }
    if let Some(storage) = &manage.storage {
        let storage: Vec<String> = storage.iter().map(|at| path(at)).collect();
        writeln!(f, "storage = [{}]", storage.join(", "))?;
    }
    if let Some(http) = manage.http {
        writeln!(f, "http = \"{http}\"")?;
    }
    if let Some(token) = &manage.token_file {
        writeln!(f, "token_file = {}", path(token))?;
    }
    if let Some(manual) = &manage.manual {
        writeln!(f, "manual = {}", path(manual))?;
    }
    Ok(())
}

fn print_gateways(f: &mut Formatter<'_>, gateways: Option<&Gateways>) -> fmt::Result {
    let Some(gateways) = gateways else {
        return Ok(());
    };
    let url = |endpoint: &String| Quoted(&format!("http://{endpoint}")).to_string();
    let etcd: Vec<String> = gateways.etcd.iter().map(url).collect();
    writeln!(f, "\n[gateways]\netcd = [{}]", etcd.join(", "))?;
    writeln!(f, "prefix = {}", Quoted(&gateways.prefix))?;
    writeln!(f, "lease = \"{}\"", Time(gateways.lease))
}

/// Users or groups as the elements of a list.
fn ids(ids: &[Id]) -> String {
    let element = |id: &Id| match id {
        Id::Name(name) => Quoted(name).to_string(),
        Id::Number(number) => format!("\"{number}\""),
    };
    ids.iter().map(element).collect::<Vec<_>>().join(", ")
}

fn print_volume(f: &mut Formatter<'_>, volume: &Volume) -> fmt::Result {
    writeln!(f, "\n[volume.{}]", Quoted(&volume.name))?;
    writeln!(f, "drive = {}", Quoted(&volume.drive))?;
    match &volume.storage {
        Storage::File(path) => writeln!(f, "file = {}", Quoted(&path.display().to_string()))?,
        Storage::Device(path) => writeln!(f, "device = {}", Quoted(&path.display().to_string()))?,
        Storage::Nbd(remote) => writeln!(f, "nbd = {}", Quoted(&remote.text))?,
        Storage::Memory => writeln!(f, "memory = true")?,
        // The drive says which.
        Storage::Model => {}
    }
    if let Some(size) = volume.size {
        writeln!(f, "size = \"{}\"", Size(size))?;
    }
    writeln!(f, "read_only = {}", volume.read_only)?;
    if matches!(volume.storage, Storage::File(_) | Storage::Device(_)) {
        let cache = match volume.cache {
            Cache::Direct => "direct",
            Cache::Host => "host",
        };
        writeln!(f, "cache = \"{cache}\"")?;
    }
    if let Storage::Nbd(remote) = &volume.storage {
        let (wait, unflushed) = (Time(remote.wait), Size(remote.unflushed));
        let (connections, requests) = (remote.connections, remote.requests);
        writeln!(
            f,
            "remote = {{ connections = {connections}, requests = {requests}, wait = \"{wait}\", unflushed = \"{unflushed}\" }}"
        )?;
    }
    if let Some(path) = &volume.vhost {
        print_attach(f, path, &volume.notify)?;
    }
    if volume.ublk {
        writeln!(f, "ublk = true")?;
        if let Some(number) = volume.ublk_number {
            writeln!(f, "ublk_number = {number}")?;
        }
    }
    if let Some(tenant) = &volume.tenant {
        writeln!(f, "tenant = {}", Quoted(tenant))?;
    }
    if let Some(shared) = &volume.shared {
        writeln!(f, "shared = {}", Quoted(shared))?;
    }
    print_contract(f, &volume.contract, &volume.knobs)
}

fn print_attach(f: &mut Formatter<'_>, path: &Path, notify: &Notify) -> fmt::Result {
    let path = path.display().to_string();
    write!(f, "listen = {{ vhost = {}", Quoted(&path))?;
    match notify.wakes {
        Wakes::AtOnce => {}
        Wakes::Spin(span) => write!(f, ", spin = \"{}\"", Time(span))?,
        Wakes::Sleep(span) => write!(f, ", sleep = \"{}\"", Time(span))?,
    }
    if notify.calls != CallRule::Gather {
        write!(f, ", calls = \"{}\"", notify.calls.word())?;
    }
    if notify.call_count > 1 {
        write!(f, ", call_count = {}", notify.call_count)?;
    }
    if notify.call_delay > Span::ZERO {
        write!(f, ", call_delay = \"{}\"", Time(notify.call_delay))?;
    }
    writeln!(f, " }}")
}

/// A contract in the words of the file: the keys of a volume, a line each.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a>(pub &'a Contract);

impl Display for Terms<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        print_contract(f, self.0, &Knobs::NONE)
    }
}

/// What the file calls a class.
pub fn class_word(class: Class) -> &'static str {
    match class {
        Class::Realtime => "realtime",
        Class::BestEffort => "best-effort",
        Class::Idle => "idle",
    }
}

pub(crate) fn print_contract(
    f: &mut Formatter<'_>,
    contract: &Contract,
    knobs: &Knobs,
) -> fmt::Result {
    if contract.min > 0 {
        writeln!(f, "min = \"{}\"", Rate(contract.min))?;
    }
    if contract.min_iops > 0 {
        writeln!(f, "min_iops = {}", contract.min_iops)?;
    }
    writeln!(f, "share = {}", contract.share)?;
    if contract.max.is_limited() {
        print_max(f, &contract.max)?;
    }
    writeln!(f, "class = \"{}\"", class_word(contract.class))?;
    if knobs.latency > Span::ZERO {
        writeln!(f, "latency = \"{}\"", Time(knobs.latency))?;
    }
    if knobs.low != LowKnobs::NONE {
        writeln!(f, "low = \"{}\"", low::line(&knobs.low))?;
    }
    Ok(())
}

fn print_max(f: &mut Formatter<'_>, max: &Max) -> fmt::Result {
    let bytes = [
        ("bandwidth", max.bandwidth),
        ("read_bandwidth", max.read_bandwidth),
        ("write_bandwidth", max.write_bandwidth),
    ];
    let requests = [
        ("iops", max.iops),
        ("read_iops", max.read_iops),
        ("write_iops", max.write_iops),
    ];
    write!(f, "max = {{ ")?;
    for (key, rate) in bytes.into_iter().filter(|b| b.1 > 0) {
        write!(f, "{key} = \"{}\", ", Rate(rate))?;
    }
    for (key, rate) in requests.into_iter().filter(|r| r.1 > 0) {
        write!(f, "{key} = {rate}, ")?;
    }
    if max.iops_size > 0 {
        write!(f, "iops_size = \"{}\", ", Size(max.iops_size))?;
    }
    writeln!(f, "burst = \"{}\" }}", Time(max.burst))
}
