//! A server written back as a file: every key that has a value, defaults included, in one order and in the shortest units.

use crate::field::{Value, Values, print, unset, values};
use crate::key::{
    ATTACH, CAPACITY, DRIVE, DefaultValue, Gateways, MAX, Manage, REMOTE, SERVER, TENANT, VOLUME,
};
use crate::listen::Address;
use crate::low;
use crate::notify::Wakes;
use crate::policy::{Budget, Policy};
use crate::profile;
use crate::server::{Cache, Drive, Remote, Server, Storage, Tenant, Volume};
use crate::text::Quoted;
use crate::tunable;
use std::fmt::{self, Display, Formatter};
use weir_core::{Capacity, Class, Contract, Knobs, LowKnobs, Max};

/// Prints a file that reads back as an equal server.
impl Display for Server {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for drive in &self.drives {
            writeln!(f, "[drive.{}]", Quoted(&drive.name))?;
            print(f, &drive.values())?;
            print_tunables(f, &drive.policy)?;
            writeln!(f)?;
        }
        writeln!(f, "[listen]")?;
        let nbd = self.listen.nbd.iter();
        let has_socket = nbd.clone().any(|a| matches!(a, Address::Unix(_)))
            || self.volumes.iter().any(|v| v.vhost.is_some());
        print_without(f, self.listen.values(), |key| {
            !has_socket && key.starts_with("socket_")
        })?;
        writeln!(f, "\n[limits]")?;
        print(f, &self.limits.values())?;
        if self.manage != Manage::default() {
            writeln!(f, "\n[manage]")?;
            let has_socket = self.manage.socket.is_some();
            print_without(f, self.manage.values(), |key| {
                let of_socket = key.starts_with("socket_") || key == "users" || key == "groups";
                !has_socket && of_socket
            })?;
        }
        if let Some(gateways) = &self.gateways {
            writeln!(f, "\n[gateways]")?;
            let etcd = gateways.etcd.iter().map(|at| format!("http://{at}"));
            let urls = Gateways {
                etcd: etcd.collect(),
                ..gateways.clone()
            };
            print(f, &urls.values())?;
        }
        writeln!(f, "\n[server]")?;
        print(f, &self.values())?;
        for tenant in &self.tenants {
            writeln!(f, "\n[tenant.{}]", Quoted(&tenant.name))?;
            print(f, &tenant.values())?;
        }
        for volume in &self.volumes {
            writeln!(f, "\n[volume.{}]", Quoted(&volume.name))?;
            print_volume(f, volume)?;
        }
        Ok(())
    }
}

/// Prints the keys of a table except some.
fn print_without(
    f: &mut Formatter<'_>,
    mut values: Values,
    without: impl Fn(&str) -> bool,
) -> fmt::Result {
    values.retain(|(key, _)| !without(key));
    print(f, &values)
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

fn print_volume(f: &mut Formatter<'_>, volume: &Volume) -> fmt::Result {
    let mut values = volume.values();
    for (key, value) in &mut values {
        match (*key, value) {
            ("listen", Some(Value::Table(attach))) if volume.vhost.is_some() => {
                // Defaults are not written, so that a line stays short.
                attach.retain(|(key, value)| {
                    let default = ATTACH.key(key).map(|key| key.default);
                    let Some(DefaultValue::Value(default)) = default else {
                        return true;
                    };
                    value.as_ref().is_none_or(|v| v.to_string() != default)
                });
            }
            // The drive says which model.
            ("listen" | "model", value) => *value = None,
            ("cache", value)
                if !matches!(volume.storage, Storage::File(_) | Storage::Device(_)) =>
            {
                *value = None;
            }
            _ => {}
        }
    }
    print(f, &values)
}

impl Server {
    /// The value of each key of `[server]`.
    pub(crate) fn values(&self) -> Values {
        values!(SERVER; priority: self.priority.name(), remove_in_use: self.remove_in_use,)
    }
}

impl Drive {
    /// The value of each key, except those of tunables. The shape of a model is the model's.
    pub(crate) fn values(&self) -> Values {
        let own = self.model.is_none().then_some(self);
        values!(DRIVE;
            policy: self.policy.word(),
            capacity: capacity_values(self.capacity),
            model: self.model.as_ref().map(profile::inline),
            path: self.model.as_ref().map(|_| self.path),
            queues: own.map(|d| d.queues),
            tags: own.map(|d| d.tags),
            max_transfer: own.map(|d| d.max_transfer),
            rotational: own.map(|d| d.rotational),
            limits: self.limits.values(),
        )
    }
}

impl Tenant {
    /// The value of each key.
    pub(crate) fn values(&self) -> Values {
        let mut values = values!(TENANT; drive: self.drive,);
        values.extend(contract_values(&self.contract, &self.knobs));
        values
    }
}

impl Volume {
    /// The value of each key.
    pub(crate) fn values(&self) -> Values {
        let (mut file, mut device, mut remote) = (None, None, None);
        let (mut memory, mut model) = (None, None);
        match &self.storage {
            Storage::File(at) => file = Some(at),
            Storage::Device(at) => device = Some(at),
            Storage::Nbd(at) => remote = Some(at),
            Storage::Memory => memory = Some(true),
            Storage::Model => model = Some("the drive's"),
        }
        let mut values = values!(VOLUME;
            drive: self.drive,
            file: file,
            device: device,
            nbd: remote.map(|r| &r.text),
            memory: memory,
            model: model,
            size: self.size,
            read_only: self.read_only,
            cache: self.cache.word(),
            remote: remote_values(remote),
            listen: attach_values(self),
            ublk: self.ublk.then_some(true),
            ublk_number: self.ublk_number,
            tenant: self.tenant,
            shared: self.shared,
        );
        values.extend(contract_values(&self.contract, &self.knobs));
        values
    }
}

impl Cache {
    /// Its word in the file.
    fn word(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Host => "host",
        }
    }
}

fn remote_values(remote: Option<&Remote>) -> Values {
    values!(REMOTE;
        connections: remote.map(|r| r.connections),
        requests: remote.map(|r| r.requests),
        wait: remote.map(|r| r.wait),
        unflushed: remote.map(|r| r.unflushed),
    )
}

fn attach_values(volume: &Volume) -> Values {
    let notify = &volume.notify;
    let (spin, sleep) = match notify.wakes {
        Wakes::AtOnce => (None, None),
        Wakes::Spin(span) => (Some(span), None),
        Wakes::Sleep(span) => (None, Some(span)),
    };
    values!(ATTACH;
        vhost: volume.vhost,
        spin: spin,
        sleep: sleep,
        calls: notify.calls.word(),
        call_count: notify.call_count,
        call_delay: notify.call_delay,
    )
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
    print(f, &contract_values(contract, knobs))
}

fn contract_values(contract: &Contract, knobs: &Knobs) -> Values {
    values!(TENANT;
        min: contract.min,
        min_iops: contract.min_iops,
        share: contract.share,
        max: max_values(&contract.max),
        class: class_word(contract.class),
        latency: knobs.latency,
        low: (knobs.low != LowKnobs::NONE).then(|| low::line(&knobs.low)),
    )
}

fn max_values(max: &Max) -> Values {
    let values = values!(MAX;
        bandwidth: max.bandwidth,
        read_bandwidth: max.read_bandwidth,
        write_bandwidth: max.write_bandwidth,
        iops: max.iops,
        read_iops: max.read_iops,
        write_iops: max.write_iops,
        iops_size: max.iops_size,
        burst: max.burst,
    );
    if max.is_limited() {
        values
    } else {
        unset(values)
    }
}

pub(crate) fn print_capacity(f: &mut Formatter<'_>, capacity: &Capacity) -> fmt::Result {
    print(
        f,
        &values!(DRIVE; capacity: capacity_values(Some(*capacity)),),
    )
}

pub(crate) fn capacity_values(capacity: Option<Capacity>) -> Values {
    values!(CAPACITY;
        read: capacity.map(|c| c.read),
        write: capacity.map(|c| c.write),
        iops: capacity.map(|c| c.iops),
        read_iops: capacity.map(|c| c.read_iops),
        write_iops: capacity.map(|c| c.write_iops),
    )
}
