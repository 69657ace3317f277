//! Checks whether a server would start, without starting it. It runs the checks of
//! [`LiveServer::start`](crate::LiveServer::start), but creates and changes nothing.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::net::TcpListener;
use std::path::Path;

use weir_config::units::ByteSize;
use weir_config::{ListenAddress, Problem, Server, Volume};

use crate::acceptor::{Listener, Sockets};
use crate::backend::{self, OpenError, StorageInfo};
use crate::doors;
use crate::error::StartError;
use crate::front;
use crate::holder::Holder;
use crate::server::{self, ServerOptions};
use crate::setup;
use crate::shard::SPACES_MAX;
use crate::tls::Certificates;

/// The obstacles to a server with this configuration on this machine, at the time of the check.
#[derive(Debug, Default)]
pub struct Preflight {
    /// The problems, in the order of the configuration file.
    pub findings: Vec<Finding>,
    /// The storage of each volume, by the volume's name, as far as it is accessible.
    pub storages: BTreeMap<String, StorageInfo>,
    /// The server that already runs with this file. Resources that it holds are not obstacles.
    pub running: Option<Holder>,
}

/// An obstacle to a start.
#[derive(Debug)]
pub struct Finding {
    /// The description of the problem, with its place in the file and the remedy.
    pub problem: Problem,
    /// True if a start would be refused for every user.
    pub certain: bool,
}

/// Runs all checks of [`LiveServer::start`](crate::LiveServer::start). Two kinds of findings are
/// not certain: resources that another Weir server holds, because it can be the server that is to
/// load this configuration, and resources that this process may not see.
pub fn preflight(config: &Server) -> Preflight {
    let mut found = Preflight::default();
    let shards = server::shard_count(config, &ServerOptions::default());
    let sizes = server::check(config).and_then(|()| server::fit_arenas(config, shards).map(drop));
    if let Err(StartError::Config(problem)) = sizes {
        found.add(problem, true);
    }
    for drive in &config.drives {
        if drive.limits.volumes > SPACES_MAX {
            found.add(setup::too_many_volumes(config, &drive.name), true);
        }
    }
    for volume in &config.volumes {
        found.storage(config, volume);
    }
    if let Some(mut problem) = front::ublk::look(config) {
        let certain = !front::ublk::has_driver() || as_root(&mut problem);
        found.add(problem, certain);
    }
    if let Some(Err(problem)) = config.listen.tls.as_ref().map(Certificates::read) {
        let forbidden = problem.forbidden;
        let mut problem = setup::tls_problem(config, problem);
        let certain = !forbidden || as_root(&mut problem);
        found.add(problem, certain);
    }
    if let Err(mut problem) = setup::etcd(config) {
        let forbidden = problem.message.contains("Permission denied");
        let certain = !forbidden || as_root(&mut problem);
        found.add(problem, certain);
    }
    for volume in &config.volumes {
        if let Err(problem) = setup::access(config, volume) {
            found.add(problem, true);
        }
    }
    found.check_shared_storage(config);
    found.check_free_space(config);
    // The listeners stay open, since two of the addresses can be the same, and the second must
    // fail.
    let mut taken = Vec::new();
    let sockets = Sockets::of_listen(config);
    for (number, address) in config.listen.nbd.iter().enumerate() {
        let key = server::nbd_key(number);
        taken.extend(found.address(config, &key, address, sockets));
    }
    for volume in &config.volumes {
        if let Some(path) = &volume.vhost {
            let address = ListenAddress::Unix(path.clone());
            let key = volume.vhost_key();
            taken.extend(found.address(config, &key, &address, sockets));
        }
    }
    let manage = &config.manage;
    for (key, address) in [
        (
            doors::SOCKET_KEY,
            manage.socket.clone().map(ListenAddress::Unix),
        ),
        (doors::HTTP_KEY, manage.http.map(ListenAddress::Tcp)),
        (doors::HTTPS_KEY, manage.https.map(ListenAddress::Tcp)),
        (
            doors::METRICS_KEY,
            config.listen.metrics.map(ListenAddress::Tcp),
        ),
    ] {
        let sockets = Sockets::of_manage(config);
        taken.extend(address.and_then(|a| found.address(config, key, &a, sockets)));
    }
    found
        .findings
        .sort_by_key(|f| (f.problem.line, f.problem.column));
    found
}

impl Preflight {
    fn add(&mut self, problem: Problem, certain: bool) {
        // A wrong owner results in the same problem for every socket, and is reported once.
        if !self.findings.iter().any(|f| f.problem == problem) {
            self.findings.push(Finding { problem, certain });
        }
    }

    fn storage(&mut self, config: &Server, volume: &Volume) {
        let error = match backend::inspect(volume) {
            Ok(found) => {
                self.storages.insert(volume.name.clone(), found);
                return;
            }
            Err(error) => error,
        };
        let mut problem = setup::storage_problem(config, volume, &error);
        let inner = error.get_ref().and_then(|e| e.downcast_ref::<OpenError>());
        let certain = match inner {
            Some(OpenError::Locked { holder, .. }) => {
                // The server that runs with this file holds its own storage, which is not a
                // problem.
                if self.is_running(config, holder.as_ref()) {
                    return;
                }
                is_certain_obstacle(&mut problem, holder.clone())
            }
            _ => error.kind() != io::ErrorKind::PermissionDenied || as_root(&mut problem),
        };
        self.add(problem, certain);
    }

    fn address(
        &mut self,
        config: &Server,
        key: &str,
        address: &ListenAddress,
        sockets: Sockets<'_>,
    ) -> Option<TcpListener> {
        let refusal = match Listener::look(address, sockets) {
            Ok(listener) => return listener,
            Err(refusal) => refusal,
        };
        let (taken, holder, forbidden) = (refusal.taken, refusal.holder.clone(), refusal.forbidden);
        let mut problem = server::listen_problem(config, key, refusal);
        if taken && self.is_running(config, holder.as_ref()) {
            return None;
        }
        let certain = if taken {
            is_certain_obstacle(&mut problem, holder)
        } else {
            !forbidden || as_root(&mut problem)
        };
        self.add(problem, certain);
        None
    }

    /// Returns true if the holder is the server that runs with this file, and stores it in
    /// [`Preflight::running`].
    fn is_running(&mut self, config: &Server, holder: Option<&Holder>) -> bool {
        let running = holder.filter(|h| h.serves(Path::new(config.file())));
        if let Some(holder) = running {
            self.running = Some(holder.clone());
        }
        running.is_some()
    }

    /// Reports volumes that use the same file or device under different names.
    fn check_shared_storage(&mut self, config: &Server) {
        let mut users = BTreeMap::new();
        let mut shared = Vec::new();
        for volume in &config.volumes {
            let place = self
                .storages
                .get(&volume.name)
                .and_then(|f| f.place.as_ref());
            let Some(place) = place else { continue };
            match users.entry((place.number, &place.identity)) {
                Entry::Vacant(entry) => {
                    entry.insert(volume);
                }
                // Volumes that are all read-only may share a storage.
                Entry::Occupied(entry) if entry.get().read_only && volume.read_only => {}
                Entry::Occupied(entry) => {
                    shared.push(setup::shared_problem(config, volume, entry.get()));
                }
            }
        }
        for problem in shared {
            self.add(problem, true);
        }
    }

    /// Reports images that do not fit together into the free space of their file system.
    fn check_free_space(&mut self, config: &Server) {
        let mut left = BTreeMap::new();
        let mut tight = Vec::new();
        for volume in &config.volumes {
            let place = self
                .storages
                .get(&volume.name)
                .and_then(|f| f.place.as_ref());
            let Some(place) = place.filter(|place| place.takes > 0) else {
                continue;
            };
            let free = place.free.unwrap_or(u64::MAX);
            let left = left.entry(place.number).or_insert(free);
            if let Some(rest) = left.checked_sub(place.takes) {
                *left = rest;
                continue;
            }
            let what = format!(
                "cannot create the image: it needs {}, and {} of the {} free on {} remain after the images before it (volumes with a promise are fully allocated when they are created)",
                ByteSize(place.takes),
                ByteSize(*left),
                ByteSize(free),
                place.device
            );
            let mut problem = config.storage_problem(volume, what);
            problem.help = Some("free some space, or reduce size of the volumes".to_owned());
            tight.push(problem);
        }
        for problem in tight {
            self.add(problem, true);
        }
    }
}

/// Returns true if a resource that another process holds is a certain obstacle. It is not if the
/// holder is, or can be, a Weir server.
fn is_certain_obstacle(problem: &mut Problem, holder: Option<Holder>) -> bool {
    let server = match holder {
        Some(holder) => Some(holder).filter(Holder::is_server),
        None => Holder::find_hidden_server(),
    };
    if let Some(server) = &server {
        let help =
            format!("stop {server} before you start another server, or reload its file instead");
        problem.help = Some(help);
    }
    server.is_none()
}

/// Returns true if this process runs as root, and therefore may see everything. Otherwise adds the
/// advice to run the check as another user.
fn as_root(problem: &mut Problem) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        let help = "run the check as the user that runs the server; this user does not have the permission";
        problem.help = Some(help.to_owned());
    }
    root
}
