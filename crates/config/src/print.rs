//! Printing of a server as a file: all keys that have a value, including defaults, in a fixed order
//! and in the shortest units.

use crate::field::{Printable, PrintedValue, Values, print, value};
use crate::key::{ATTACH, DRIVE, DefaultValue, Manage};
use crate::listen::ListenAddress;
use crate::policy::{Budget, Policy};
use crate::profile;
use crate::server::{Server, ServerDrive, Volume};
use crate::storage::Storage;
use crate::terms::{self, capacity_values};
use crate::text::Quoted;
use crate::tunable;
use crate::words::Words;
use std::fmt::{self, Display, Formatter};
use weir_core::{Class, Contract, Knobs};

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
        // The keys of sockets are refused in a file without Unix sockets, so they must not be
        // printed.
        let has_socket = nbd.clone().any(|a| matches!(a, ListenAddress::Unix(_)))
            || self.volumes.iter().any(|v| v.vhost.is_some());
        print_without(f, self.listen.values(), |key| {
            !has_socket && key.starts_with("socket_")
        })?;
        writeln!(f, "\n[limits]")?;
        print(f, &self.limits.values())?;
        if self.manage != Manage::default() {
            writeln!(f, "\n[manage]")?;
            let [has_socket, has_https] =
                [self.manage.socket.is_some(), self.manage.https.is_some()];
            print_without(f, self.manage.values(), |key| match key {
                "socket_mode" | "socket_owner" | "users" | "groups" => !has_socket,
                "certificates" => !has_https,
                "read_only" => !has_socket && !has_https,
                "audit_size" => self.manage.audit_file.is_none(),
                _ => false,
            })?;
        }
        if let Some(gateways) = &self.gateways {
            writeln!(f, "\n[gateways]")?;
            print(f, &gateways.values())?;
        }
        writeln!(f, "\n[server]")?;
        print(f, &self.process.values())?;
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

/// Prints the keys of a table, except if `without` returns true for a key.
fn print_without(
    f: &mut Formatter<'_>,
    mut values: Values,
    without: impl Fn(&str) -> bool,
) -> fmt::Result {
    values.retain(|(key, _)| !without(key));
    print(f, &values)
}

/// Prints all tunables except one that is derived from the contracts.
fn print_tunables(f: &mut Formatter<'_>, policy: &Policy) -> fmt::Result {
    let Some(tuned) = policy.elevator.tuned() else {
        return Ok(());
    };
    let table = policy.elevator.kind().name;
    for (place, tunable) in tuned.tunables().iter().enumerate() {
        // Stating the tunable would end its derivation from the contracts.
        if policy.budget.is_none() || tunable.name != Budget::TUNABLE {
            let value = tunable::toml(tunable, tuned.get(place));
            writeln!(f, "{table}.{} = {value}", tunable.name)?;
        }
    }
    Ok(())
}

fn print_volume(f: &mut Formatter<'_>, volume: &Volume) -> fmt::Result {
    let mut values = volume.values();
    let place = |values: &Values, key| values.iter().position(|v| v.0 == key);
    if let Some(remote) = place(&values, "remote").map(|at| values.remove(at)) {
        let behind = place(&values, "cache").map_or(0, |at| at + 1);
        values.insert(behind, remote);
    }
    for (key, value) in &mut values {
        match (*key, value) {
            ("listen", Some(PrintedValue::Table(attach))) if volume.vhost.is_some() => {
                // Defaults are left out, so that the line stays short.
                attach.retain(|(key, value)| {
                    let default = ATTACH.key(key).map(|key| key.default);
                    let Some(DefaultValue::Value(default)) = default else {
                        return true;
                    };
                    value.as_ref().is_none_or(|v| v.to_string() != default)
                });
            }
            // The model is printed with the drive.
            ("listen" | "model", value) => *value = None,
            // The key is refused for other kinds of storage.
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

impl ServerDrive {
    /// Returns the value of each key except tunables. The shape of a modelled drive is left out,
    /// because it is that of the model.
    pub(crate) fn values(&self) -> Values {
        let own = self.model.is_none().then_some(self);
        let of = |key, shown: &dyn Printable| (key, value(&DRIVE, key, shown));
        vec![
            of("policy", &self.policy.word()),
            of("capacity", &capacity_values(self.capacity)),
            of("model", &self.model.as_ref().map(profile::inline)),
            // Without a model, the key has no effect.
            of("path", &self.model.as_ref().map(|_| self.path)),
            of("queues", &own.map(|d| d.queues)),
            of("tags", &own.map(|d| d.tags)),
            of("max_transfer", &own.map(|d| d.max_transfer)),
            of("rotational", &own.map(|d| d.rotational)),
            of("limits", &self.limits.values()),
        ]
    }
}

/// A contract that is displayed in the words of the file, one line for each key.
#[derive(Clone, Copy, Debug)]
pub struct ContractText<'a>(pub &'a Contract);

impl Display for ContractText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        print(f, &terms::values(self.0, &Knobs::NONE))
    }
}

/// Returns the word for a class in files.
pub fn class_word(class: Class) -> &'static str {
    class.word()
}
