//! The storage that clients with fewer rights than the server may name.
//!
//! Otherwise, such a client could make the server, which can be root, serve any file of the machine
//! as a volume.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use axum::http::StatusCode;
use weir_config::{Problem, Server, Storage, Volume};

use crate::audit;
use crate::document::ConfigDocument;
use crate::error::RequestRefusal;

/// The permitted storage: all paths at or below the listed ones, and all that root or the server's
/// own user has named.
#[derive(Debug)]
pub(crate) struct Reach {
    listed: Vec<PathBuf>,
    named: BTreeSet<PathBuf>,
    /// The server's own files, and the directory of its manual, which browsers may read. A volume
    /// must not be at or below them.
    own: Vec<PathBuf>,
}

impl Reach {
    /// Makes the rules of the initial configuration: `manage.storage`, or the directories of its
    /// volumes' files.
    pub(crate) fn new(config: &Server, file: Option<&Path>) -> Self {
        let listed = config.manage.storage.clone();
        let manage = &config.manage;
        let tls = config.listen.tls.iter();
        let audit = manage.audit_file.iter();
        let predecessor = audit
            .clone()
            .map(|path| PathBuf::from(audit::earlier(path)));
        let own = (manage.token_file.iter().chain(&manage.manual))
            .chain(audit)
            .chain(tls.map(|tls| &tls.key));
        let own = own.map(PathBuf::as_path).chain(file).map(Path::to_owned);
        let mut reach = Self {
            listed: listed.unwrap_or_else(|| directories(config)),
            named: BTreeSet::new(),
            own: own
                .chain(predecessor)
                // Volumes have absolute paths, with which these are compared.
                .filter_map(|path| std::path::absolute(path).ok())
                .collect(),
        };
        reach.include(config);
        reach
    }

    /// Adds the storage that a configuration names. It was written by root or by the server's own
    /// user.
    pub(crate) fn include(&mut self, config: &Server) {
        let named = config.volumes.iter().flat_map(paths);
        self.named.extend(named.map(Path::to_owned));
    }

    /// Checks that a configuration names only permitted storage.
    ///
    /// # Errors
    /// Returns 403, with a problem for each volume whose storage is not permitted.
    pub(crate) fn check(&self, config: &Server) -> Result<(), RequestRefusal> {
        let outside = config.volumes.iter().filter_map(|volume| {
            let path = paths(volume).find(|path| !self.permits(path))?;
            Some(self.problem(config, volume, path))
        });
        let problems: Vec<Problem> = outside.collect();
        if problems.is_empty() {
            return Ok(());
        }
        Err(forbidden(&problems))
    }

    fn permits(&self, path: &Path) -> bool {
        // Only the exact path is permitted, and not its neighbours.
        if self.named.contains(path) {
            return true;
        }
        // `..` could lead out of a listed directory, since paths are compared by their names only.
        let climbs = path.components().any(|part| part == Component::ParentDir);
        let is_below = self.listed.iter().any(|listed| path.starts_with(listed));
        is_below && !climbs && !self.own.iter().any(|own| path.starts_with(own))
    }

    fn problem(&self, config: &Server, volume: &Volume, path: &Path) -> Problem {
        let message = format!(
            "{} is not permitted: it is not below a path of manage.storage",
            path.display()
        );
        let listed = self
            .listed
            .iter()
            .map(|listed| listed.display().to_string());
        let listed: Vec<String> = listed.collect();
        let help = match &listed[..] {
            [] => "ask root to add the directory to storage in [manage], or to add the volume"
                .to_owned(),
            _ => format!(
                "use a path below {}, without \"..\"; or ask root to add the directory to storage in [manage], or to add the volume",
                listed.join(" or ")
            ),
        };
        Problem {
            help: Some(help),
            ..config.storage_problem(volume, message)
        }
    }
}

/// Returns the paths of a volume: its storage, and the certificates for its remote server, whose
/// identity not every client may use.
fn paths(volume: &Volume) -> impl Iterator<Item = &Path> {
    volume.path().into_iter().chain(volume.certificates())
}

/// Checks that a configuration names the same certificates as the running one. Otherwise, a client
/// could make the server read any file, or accept certificates of another authority.
///
/// # Errors
/// Returns 403 if the certificates differ.
pub(crate) fn check_certificates(running: &Server, config: &Server) -> Result<(), RequestRefusal> {
    if running.listen.tls == config.listen.tls {
        return Ok(());
    }
    let message = "can be changed only by root and the server's own user".to_owned();
    let help = "change it in the configuration file, and reload the server".to_owned();
    let problem = config.problem("listen.tls", message, Some(help));
    Err(forbidden(&[problem]))
}

/// Checks that a document names only those files of policies that the document in force names.
/// Otherwise, a client could make the server read any file, whose text the problems quote. The file
/// is not opened, so that the result does not depend on it.
///
/// # Errors
/// Returns 403, with a problem for each drive whose policy is another file.
pub(crate) fn check_policies(
    running: &Server,
    in_force: &ConfigDocument,
    document: &ConfigDocument,
) -> Result<(), RequestRefusal> {
    let drives = document.tables("drive").into_iter();
    let problems: Vec<Problem> = drives
        .filter_map(|(drive, words)| {
            let key = ["drive", &drive, "policy"].map(str::to_owned);
            let policy = words.get("policy")?.as_str()?;
            let is_named = in_force.get(&key).is_some_and(|named| named == policy);
            if is_named || !weir_config::policy::is_file(policy) {
                return None;
            }
            let message = "a file can be named only by root and the server's own user".to_owned();
            let help = "use a policy that `weir policies` lists".to_owned();
            Some(running.problem(&key.join("."), message, Some(help)))
        })
        .collect();
    if problems.is_empty() {
        return Ok(());
    }
    Err(forbidden(&problems))
}

/// A refusal with these problems, because the client has fewer rights than the server.
fn forbidden(problems: &[Problem]) -> RequestRefusal {
    RequestRefusal {
        status: StatusCode::FORBIDDEN,
        ..RequestRefusal::problems(problems)
    }
}

/// Returns the directories of the volumes' files, except the root directory, which would permit
/// everything.
fn directories(config: &Server) -> Vec<PathBuf> {
    let parents = config.volumes.iter().filter_map(|v| match &v.storage {
        Storage::File(file) => file.parent().filter(|p| p.parent().is_some()),
        _ => None,
    });
    let parents: BTreeSet<&Path> = parents.collect();
    parents.into_iter().map(Path::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: &str = "storage = [\"/images\", \"/dev/vg\", \"/run/q.sock\"]\nhttp = \"127.0.0.1:0\"\ntoken_file = \"/images/token\"\naudit_file = \"/images/audit\"";

    fn config(manage: &str, storages: &[&str]) -> Server {
        let mut text = format!(
            "listen.nbd = [\"unix:/run/weir/nbd.sock\"]\n[manage]\nsocket = \"/run/weir/m.sock\"\n{manage}\n[drive.d]\n"
        );
        for (n, storage) in storages.iter().enumerate() {
            text.extend([
                "[volume.v",
                &n.to_string(),
                "]\ndrive = \"d\"\n",
                storage,
                "\n",
            ]);
        }
        weir_config::parse("", &text).unwrap()
    }

    #[test]
    fn storage_is_named_below_listed_paths_only() {
        let start = [
            "file = \"/srv/a/1.img\"",
            "device = \"/dev/sdb\"",
            "file = \"/top.img\"",
        ];
        let named = |reach: &Reach, storage: &str| reach.check(&config("", &[storage])).is_ok();
        let by_default = Reach::new(&config("", &start), Some(Path::new("/srv/a/weir.toml")));
        let listed = Reach::new(&config(LISTED, &start), None);
        let none = Reach::new(&config("storage = []", &[]), None);
        for (storage, of) in [
            ("file = \"/srv/a/1.img\"", [true, true, false]),
            ("file = \"/srv/a/2.img\"", [true, false, false]),
            ("file = \"/srv/a/deep/2.img\"", [true, false, false]),
            ("file = \"/srv/./a//2.img\"", [true, false, false]),
            ("file = \"/srv/a/weir.toml\"", [false, false, false]),
            ("file = \"/images/token\"", [false, false, false]),
            ("file = \"/images/audit\"", [false, false, false]),
            ("file = \"/images/audit.1\"", [false, false, false]),
            ("file = \"/srv/ab.img\"", [false, false, false]),
            ("file = \"/srv/a/../b.img\"", [false, false, false]),
            ("file = \"/etc/shadow\"", [false, false, false]),
            ("file = \"/top.img\"", [true, true, false]),
            ("file = \"/dev/sdb\"", [true, true, false]),
            ("device = \"/dev/sdb\"", [true, true, false]),
            ("device = \"/dev/sdc\"", [false, false, false]),
            ("device = \"/dev/vg/lv\"", [false, true, false]),
            ("file = \"/images/x\"", [false, true, false]),
            ("file = \"/imagesx\"", [false, false, false]),
            ("file = \"/images/../etc/shadow\"", [false, false, false]),
            (
                "nbd = \"nbd+unix:///x?socket=/run/q.sock\"",
                [false, true, false],
            ),
            (
                "nbd = \"nbd+unix:///x?socket=/run/r.sock\"",
                [false, false, false],
            ),
            ("nbd = \"nbd://host/x\"", [true, true, true]),
            (
                "nbd = \"nbds://host/x?tls-certificates=/images/tls\"",
                [false, true, false],
            ),
            (
                "nbd = \"nbds://host/x?tls-certificates=/etc/tls\"",
                [false, false, false],
            ),
            ("memory = true\nsize = \"1MiB\"", [true, true, true]),
        ] {
            let found = [&by_default, &listed, &none].map(|reach| named(reach, storage));
            assert_eq!(found, of, "{storage}");
        }
        let refused = listed.check(&config("", &["file = \"/etc/shadow\""]));
        let refused = refused.unwrap_err();
        assert_eq!(refused.status, StatusCode::FORBIDDEN);
        assert_eq!(
            refused.refusal.error,
            "volume.v0.file: /etc/shadow is not permitted: it is not below a path of manage.storage"
        );
        let help = refused.refusal.problems[0].help.clone().unwrap();
        assert!(help.contains("/images or /dev/vg"), "{help}");
        let mut later = none;
        later.include(&config("", &["file = \"/etc/shadow\""]));
        assert!(named(&later, "file = \"/etc/shadow\""));
    }

    #[test]
    fn only_the_policy_file_in_force_can_be_named() {
        let named = |policy: &str| {
            let drives = format!("[drive.d]\n{policy}\n[drive.other]\npolicy = \"o.toml\"\n");
            ConfigDocument::parse(&drives).unwrap()
        };
        let in_force = named("policy = \"/etc/weir/d.toml\"");
        for (policy, is_permitted) in [
            ("", true),
            ("policy = \"bfq + io.latency\"", true),
            ("policy = \"/etc/weir/d.toml\"", true),
            ("policy = \"/etc/weir/../shadow\"", false),
            ("policy = \"other/d\"", false),
            ("policy = \"o.toml\"", false),
        ] {
            let checked = check_policies(&config("", &[]), &in_force, &named(policy));
            assert_eq!(checked.is_ok(), is_permitted, "{policy}: {checked:?}");
        }
    }
}
