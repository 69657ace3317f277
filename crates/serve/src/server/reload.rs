//! Applies a changed configuration to a running server, completely or not at all.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use weir_config::units::ByteSize;
use weir_config::{DrivePlan, ListenAddress, Problem, Volume};

use super::{LiveServer, ReloadError, disk, listen_problem};
use crate::acceptor::{Door, ExportTable, InheritedListeners, Listener, Sockets, VolumeExport};
use crate::access::VolumeAccess;
use crate::backend::{self, Grow, Growth};
use crate::front;
use crate::front::vhost::EndingSessions;
use crate::setup;
use crate::shard::{DriveChange, GrownSizes, Mail, ShardError, UnnotifiedClients};

impl LiveServer {
    /// Applies a changed configuration (contracts, tenants, capacities and volumes), completely or
    /// not at all. Returns when everything is in force, with a line for each change in the words of
    /// the configuration file.
    ///
    /// Volumes whose storage has become larger grow, and virtual machines are notified. Connections
    /// stay, except those of clients that `allow` and `tls` of their volumes do not permit any
    /// more. A reload that removes volumes with connections is refused, unless the changed
    /// configuration has `remove_in_use`. In that case, requests in progress on these volumes
    /// complete (within [`ServerOptions::drain`](crate::ServerOptions::drain)), and the connections
    /// are closed.
    ///
    /// # Errors
    /// Returns the reason why the configuration is not applied. Each variant of [`ReloadError`]
    /// states the resulting state of the server.
    pub fn reload(&mut self, config: &weir_config::Server) -> Result<Vec<String>, ReloadError> {
        let reload =
            weir_config::reload(&self.config, &self.plans, config).map_err(ReloadError::Refused)?;
        let setup::Changes {
            mut changes,
            exports: added,
            access,
            certificates,
            created,
        } = setup::changes(config, &self.config, reload, self.storage, &self.places)?;
        let plans: Vec<DrivePlan> = changes
            .iter()
            .map(|(_, change)| change.reload.plan.clone())
            .collect();
        // From here on, every early return drops `enlarged`, `doors` and `created`, and thereby
        // undoes them.
        let enlarged = EnlargedImages::make(self.growing(config))?;
        let doors = self.listen(config)?;
        self.stop_devices(config)?;
        let stay = self.exports.iter().filter(|export| {
            let mut changes = changes.iter();
            !changes.any(|(_, change)| change.reload.removed.contains(&export.name))
        });
        let mut exports: Vec<VolumeExport> = stay.cloned().collect();
        // New clients cannot connect to volumes that are to be removed, while the drives prepare
        // the change.
        self.acceptor.offer(ExportTable::new(exports.clone()));
        for (_, change) in &mut changes {
            change.patience = self.drain;
            change.in_use = config.process.remove_in_use;
        }
        exports.extend(added);
        exports.sort_by(|a, b| a.name.cmp(&b.name));
        let places: Vec<(usize, usize)> = changes.iter().map(|(s, c)| (*s, c.drive)).collect();
        let prepared = self.prepare(changes);
        let untold = self.decide(&places, prepared.is_ok());
        let mut changed = Vec::new();
        if let Ok(grown) = &prepared {
            changed = weir_config::changes(&self.config, config);
            changed.extend(unstated_growth(config, grown));
            restate(&mut exports, grown, &access, config);
            self.tls.replace(certificates);
            for created in created {
                let _ = created.keep();
            }
            enlarged.keep();
            self.close_disks(config);
            self.plans = plans;
            self.exports = exports;
            self.config = config.clone();
        }
        // After a refusal, this offers the removed volumes again.
        self.acceptor.offer(ExportTable::new(self.exports.clone()));
        if prepared.is_ok() {
            self.acceptor.open(doors);
            self.acceptor.check_clients();
        }
        if let Ok(grown) = &prepared {
            let grown = |volume: &str| grown.contains_key(volume);
            changed.extend(self.devices.resize(&self.exports, grown));
            changed.extend(untold.iter().map(untold_line));
        }
        // This starts the devices of new volumes. After a refusal, it starts those again that were
        // stopped for the change.
        if let Err(problem) = self.devices.start(&self.config, &self.exports) {
            tracing::error!(%problem, "the server could not create the block device of a volume");
        }
        match prepared {
            Ok(_) => Ok(changed),
            Err(ShardError::InUse { volumes }) => {
                Err(ReloadError::Refused(removed_in_use(config, &volumes)))
            }
            Err(error) => Err(ReloadError::Shard(error)),
        }
    }

    /// Returns the changes that [`LiveServer::reload`] would make, or the reasons for which it
    /// would be refused, as far as they can be determined without creating, changing or
    /// disconnecting anything.
    ///
    /// # Errors
    /// Returns the errors that [`LiveServer::reload`] would return.
    pub fn would_reload(&self, config: &weir_config::Server) -> Result<Vec<String>, ReloadError> {
        let reload =
            weir_config::reload(&self.config, &self.plans, config).map_err(ReloadError::Refused)?;
        let mut problems = Vec::new();
        for drive in &reload.drives {
            setup::check(drive)?;
            let added = drive.added.iter().filter_map(|name| config.volume(name));
            problems.extend(added.filter_map(|volume| {
                let error = backend::inspect(volume).err()?;
                Some(setup::storage_problem(config, volume, &error))
            }));
        }
        let coming = self.coming(config);
        problems.extend(coming.filter_map(|volume| {
            let address = ListenAddress::Unix(volume.vhost.clone()?);
            let refusal = Listener::look(&address, Sockets::of_listen(config)).err()?;
            Some(listen_problem(config, &volume.vhost_key(), refusal))
        }));
        if !config.process.remove_in_use {
            let gone: Vec<&String> = reload.drives.iter().flat_map(|d| &d.removed).collect();
            let drives = self.watch().figures().unwrap_or_default();
            let volumes = drives.into_iter().flat_map(|drive| drive.volumes);
            // Queues of the kernel's own block devices count as connections, but do not keep a
            // volume in use. `held_devices` checks whether the device itself is.
            let others = volumes.map(|v| {
                let kernel = self.devices.queues(&v.name);
                (v.connections.saturating_sub(kernel), v.name)
            });
            let in_use = others.filter(|(count, name)| *count > 0 && gone.contains(&name));
            let in_use: Vec<_> = in_use.map(|(count, name)| (name, count)).collect();
            problems.extend(removed_in_use(config, &in_use));
        }
        problems.extend(setup::certificates(config).err());
        let rules = config.volumes.iter();
        problems.extend(rules.filter_map(|volume| setup::access(config, volume).err()));
        problems.extend(self.held_devices(config));
        for growing in self.growing(config) {
            let looked = growing.storage.look(&growing.growth);
            problems.extend(looked.err().map(|error| growing.problem(&error)));
        }
        if problems.is_empty() {
            Ok(weir_config::changes(&self.config, config))
        } else {
            Err(ReloadError::Refused(problems))
        }
    }

    /// Returns the volumes that only the changed configuration has.
    fn coming<'a>(&'a self, config: &'a weir_config::Server) -> impl Iterator<Item = &'a Volume> {
        let volumes = config.volumes.iter();
        volumes.filter(|volume| self.config.volume(&volume.name).is_none())
    }

    /// Opens the sockets of new volumes. Clients that connect are accepted once the change is in
    /// force. The sockets are removed if the change is refused.
    fn listen(&self, config: &weir_config::Server) -> Result<Vec<Door>, ReloadError> {
        let (mut doors, mut problems) = (Vec::new(), Vec::new());
        let mut none = InheritedListeners::default();
        let mut endings = EndingSessions::default();
        for opened in self
            .coming(config)
            .filter_map(|v| disk(config, v, &mut none, &mut endings))
        {
            match opened {
                Ok(door) => doors.push(door),
                Err(problem) => problems.push(problem),
            }
        }
        if problems.is_empty() {
            Ok(doors)
        } else {
            Err(ReloadError::Refused(problems))
        }
    }

    /// Removes the sockets of volumes that the changed configuration does not have.
    fn close_disks(&mut self, config: &weir_config::Server) {
        let gone = self.config.volumes.iter();
        let gone = gone.filter(|volume| config.volume(&volume.name).is_none());
        for path in gone.filter_map(|volume| volume.vhost.as_deref()) {
            self.acceptor.close(path);
        }
    }

    /// Removes the block devices that the changed configuration does not have.
    fn stop_devices(&mut self, config: &weir_config::Server) -> Result<(), ReloadError> {
        let held = self.held_devices(config);
        if !held.is_empty() {
            return Err(ReloadError::Refused(held));
        }
        let wanted = |name: &str| config.volume(name).is_some_and(|v| v.ublk);
        self.devices.stop(self.drain, wanted);
        Ok(())
    }

    /// Returns the problems of block devices: those that would be removed while they are mounted,
    /// and those that cannot be created.
    fn held_devices(&self, config: &weir_config::Server) -> Vec<Problem> {
        let gone = self.config.volumes.iter().filter(|v| {
            let stays = config.volume(&v.name).is_some_and(|v| v.ublk);
            v.ublk && !stays && !config.process.remove_in_use
        });
        let held = gone.filter(|v| self.devices.is_held(&v.name));
        let held: Vec<_> = held.map(|v| (v.name.clone(), 1)).collect();
        let mut problems = removed_in_use(config, &held);
        problems.extend(front::ublk::look(config));
        problems
    }

    /// Lets every drive prepare its change. Returns the volumes that grow, or the reason of a
    /// refusal.
    fn prepare(&self, changes: Vec<(usize, DriveChange)>) -> Result<GrownSizes, ShardError> {
        let asked: Vec<Receiver<Result<GrownSizes, ShardError>>> = changes
            .into_iter()
            .map(|(shard, change)| {
                let (sender, receiver) = channel();
                let mail = Mail::Change(Box::new(change), sender);
                self.shards[shard].address().send_mail(mail);
                receiver
            })
            .collect();
        // The replies of all drives are awaited, not only up to the first refusal. A change that is
        // still being prepared cannot be discarded.
        let results: Vec<Result<GrownSizes, ShardError>> = asked
            .iter()
            .map(|r| r.recv().unwrap_or(Err(ShardError::Over)))
            .collect();
        let mut all = GrownSizes::new();
        for grown in results {
            all.extend(grown?);
        }
        Ok(all)
    }

    /// Returns the images that must be enlarged: those of remaining volumes whose `size` exceeds
    /// the present size.
    fn growing<'a>(&self, config: &'a weir_config::Server) -> Vec<GrowingImage<'a>> {
        let mut all = Vec::new();
        for export in &self.exports {
            let volume = config.volume(&export.name);
            let larger = volume.and_then(|v| v.size.filter(|size| *size > export.size));
            if let (Some(volume), Some(to)) = (volume, larger) {
                let growth = Growth {
                    from: export.size,
                    to,
                    allocate: volume.is_promised(),
                };
                all.push((export.place.shard, volume, growth));
            }
        }
        all.into_iter()
            .filter_map(|(shard, volume, growth)| {
                let (wanted, storage) = channel();
                let volumes = vec![volume.name.clone()];
                let mail = Mail::Growable { volumes, wanted };
                self.shards[shard].address().send_mail(mail);
                // A shard that has ended sends no storage. The change is refused by that shard in
                // `prepare`.
                let storage = storage.recv().ok()?.remove(&volume.name)?;
                Some(GrowingImage {
                    config,
                    volume,
                    storage,
                    growth,
                })
            })
            .collect()
    }

    /// Lets every drive apply or discard its prepared change. Returns the clients that cannot be
    /// notified of a new size.
    fn decide(&self, places: &[(usize, usize)], in_force: bool) -> UnnotifiedClients {
        let mut untold = UnnotifiedClients::new();
        let asked = places.iter().map(|&(shard, drive)| {
            let (done, receiver) = channel();
            self.shards[shard].address().send_mail(Mail::Decide {
                drive,
                in_force,
                done,
            });
            receiver
        });
        for answer in asked.collect::<Vec<_>>() {
            // A shard that has ended has no clients left.
            untold.extend(answer.recv().unwrap_or_default());
        }
        untold
    }
}

/// Returns the new sizes of volumes whose size the file does not state, because the storage
/// determines it. Sizes that the file states are among the changes of keys.
fn unstated_growth(
    config: &weir_config::Server,
    grown: &GrownSizes,
) -> impl Iterator<Item = String> {
    let is_unstated = |name: &String| config.volume(name).is_some_and(|v| v.size.is_none());
    let grown = grown.iter().filter(move |(name, _)| is_unstated(name));
    grown.map(|(name, size)| format!("volume.{name} grew to {}", ByteSize(*size)))
}

/// Updates the sizes, the promises and the rules for clients of exports.
fn restate(
    exports: &mut [VolumeExport],
    grown: &GrownSizes,
    access: &BTreeMap<String, Arc<VolumeAccess>>,
    config: &weir_config::Server,
) {
    for export in exports {
        export.size = grown.get(&export.name).copied().unwrap_or(export.size);
        let volume = config.volume(&export.name);
        if let Some(access) = access.get(&export.name) {
            export.access = Arc::clone(access);
        }
        export.promise = volume.and_then(|volume| setup::promise(config, volume));
    }
}

/// An image that is to be enlarged.
struct GrowingImage<'a> {
    config: &'a weir_config::Server,
    volume: &'a Volume,
    storage: Arc<dyn Grow>,
    growth: Growth,
}

impl GrowingImage<'_> {
    /// Returns the problem of an image that could not be enlarged.
    fn problem(&self, error: &io::Error) -> Problem {
        setup::storage_problem(self.config, self.volume, error)
    }
}

/// Images that were enlarged for a change. Unless [`EnlargedImages::keep`] is called, dropping this
/// value restores their old sizes.
struct EnlargedImages<'a>(Vec<GrowingImage<'a>>);

impl<'a> EnlargedImages<'a> {
    /// Enlarges all images. If one fails, those before it get their old sizes back.
    fn make(growing: Vec<GrowingImage<'a>>) -> Result<Self, ReloadError> {
        let mut enlarged = Self(Vec::new());
        for each in growing {
            match each.storage.grow(&each.growth) {
                Ok(true) => enlarged.0.push(each),
                // The owner of the image has enlarged it already, so its size must not be restored.
                Ok(false) => {}
                Err(error) => return Err(ReloadError::Volume(each.problem(&error))),
            }
        }
        Ok(enlarged)
    }

    /// Keeps the new sizes, because clients can write to the added space from now on.
    fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for EnlargedImages<'_> {
    fn drop(&mut self) {
        for each in &self.0 {
            each.storage.restore_size(&each.growth);
        }
    }
}

/// Returns the line for the clients of a volume that cannot be notified of its new size.
fn untold_line((volume, count): (&String, &u32)) -> String {
    let clients = match count {
        1 => "1 client keeps its size until it connects again".to_owned(),
        n => format!("{n} clients keep their size until they connect again"),
    };
    format!(
        "volume.{volume}: {clients}, because NBD, and a VMM without BACKEND_REQ, have no message for a new size"
    )
}

/// Returns the problems of volumes that a reload would remove while they have connections.
/// `volumes` contains the name and the number of connections of each.
pub fn removed_in_use(config: &weir_config::Server, volumes: &[(String, u32)]) -> Vec<Problem> {
    let problem = |(name, connections): &(String, u32)| {
        let clients = match connections {
            1 => "a client".to_owned(),
            n => format!("{n} clients"),
        };
        let what = format!("cannot be removed while it has {clients}");
        let help =
            "disconnect the clients first, or set remove_in_use = true in [server]".to_owned();
        config.problem(&format!("volume.{name}"), what, Some(help))
    };
    volumes.iter().map(problem).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(directory: &std::path::Path, volumes: &str) -> weir_config::Server {
        let text = format!(
            "listen.nbd = [\"unix:{}/nbd.sock\"]\ndrive.a = {{}}\ndrive.b = {{}}\n{volumes}",
            directory.display()
        );
        weir_config::parse("", &text).unwrap()
    }

    fn volume(name: &str, drive: &str, rest: &str) -> String {
        format!("volume.{name} = {{ drive = \"{drive}\", memory = true, size = \"1MiB\"{rest} }}\n")
    }

    #[test]
    fn a_reload_refused_by_a_drive_changes_no_drive_and_can_be_repeated() {
        let directory = std::env::temp_dir().join(format!("weir-reload-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let before = volume("x", "a", "") + &volume("y", "a", "") + &volume("z", "b", "");
        let before = config(&directory, &before);
        let mut server = LiveServer::start(&before, &crate::ServerOptions::default()).unwrap();
        let (plans, exports) = (server.plans.clone(), server.exports.clone());
        let after =
            volume("x", "a", ", share = 500") + &volume("new", "a", "") + &volume("z", "b", "");
        let after = config(&directory, &after);
        // With z missing from the plan, the reload sends it to drive b as a new volume. Drive b
        // refuses, because it already serves z.
        server.plans[1].volumes.clear();
        let forged = server.plans.clone();
        let refused = server.reload(&after);
        assert!(matches!(refused, Err(ReloadError::Shard(_))), "{refused:?}");
        assert_eq!(server.plans, forged);
        assert_eq!((&server.exports, server.config()), (&exports, &before));
        server.plans = plans;
        server.reload(&after).unwrap();
        let names: Vec<&str> = server.exports.iter().map(|e| e.name.as_str()).collect();
        assert_eq!(names, ["new", "x", "z"]);
        // The refused reload has left nothing behind that would prevent this one.
        server.reload(&before).unwrap();
        assert!(server.shutdown());
        std::fs::remove_dir_all(directory).unwrap();
    }
}
