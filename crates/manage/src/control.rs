//! Changes of the running server: one after the other, each wholly or not at all.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, TryLockError};
use std::time::{Duration, Instant};

use crate::api::{Change, Edit, Outcome, Words};
use axum::http::StatusCode;
use weir_config::Room;
use weir_config::units::Rate;
use weir_serve::Server;

use crate::document::{Document, Replaced};
use crate::error::Refused;
use crate::file::ConfigFile;
use crate::journal::{Back, Journal};
use crate::now_ms;
use crate::reach::Reach;

/// The tables that have names, and changes of their own.
pub(crate) const KINDS: [&str; 3] = ["drive", "tenant", "volume"];

/// How a change is asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct How {
    /// Its author.
    pub(crate) by: String,
    /// Only say what would come of it.
    pub(crate) dry_run: bool,
    /// Write it to the file; if there is a file, unless it is said otherwise.
    pub(crate) save: Option<bool>,
    /// It comes from a client with fewer rights than the server, which may not name every storage.
    pub(crate) confined: bool,
    /// What must be so of a table when the change is made.
    pub(crate) expected: Option<Expected>,
}

/// What must be so of a table.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    /// Of [`KINDS`].
    pub(crate) kind: &'static str,
    pub(crate) name: String,
    pub(crate) state: TableState,
}

impl Expected {
    /// The key of the table.
    pub(crate) fn key(&self) -> Vec<String> {
        vec![self.kind.to_owned(), self.name.clone()]
    }
}

/// How a table must be.
#[derive(Clone, Debug)]
pub(crate) enum TableState {
    /// It is not there.
    Absent,
    /// It is there.
    Present,
    /// It is there, and as it was when it had this `ETag`.
    Unchanged(String),
}

/// What is known of the configuration in force; replaced as a whole with each change, so that those that ask never wait for one.
#[derive(Debug)]
pub(crate) struct Published {
    pub(crate) config: weir_config::Server,
    pub(crate) words: Tables,
    /// What of each drive is promised and left, by its name.
    pub(crate) rooms: BTreeMap<String, Room>,
    /// Of each volume that is one, the block device.
    pub(crate) devices: BTreeMap<String, String>,
    /// The number of the last change of each table that was changed.
    versions: Versions,
    /// Tells the states of this run from those of others.
    run: u64,
    pub(crate) file: Option<PathBuf>,
    /// Where clients connect by NBD.
    pub(crate) nbd: Vec<String>,
    pub(crate) unsaved: bool,
    pub(crate) text: String,
    /// The last one first.
    pub(crate) changes: Vec<Change>,
}

impl Published {
    /// The state of a table, as `ETag` has it.
    pub(crate) fn etag(&self, kind: &str, name: &str) -> String {
        etag(self.run, &self.versions, kind, name)
    }

    /// What is written of a table; nothing if there is none.
    pub(crate) fn words(&self, kind: &'static str, name: &str) -> Option<&Words> {
        self.words.get(&(kind, name.to_owned()))
    }
}

/// The server, and everything that a change concerns.
#[derive(Debug)]
pub(crate) struct Control {
    inner: Mutex<Inner>,
    server: Arc<Shared>,
    published: RwLock<Arc<Published>>,
}

/// The server; nothing once it has been taken back. It is locked after [`Inner`], and not while the configuration's file is read or
/// written, so that a file system that does not answer keeps nobody from taking it.
type Shared = Mutex<Option<Server>>;

/// How long a change that is under way may still take when the server ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// With the configuration's file.
    pub(crate) file: Duration,
    /// With volumes' storage; at least as long.
    pub(crate) storage: Duration,
}

#[derive(Debug)]
struct Inner {
    server: Arc<Shared>,
    /// The text in force, and what is written of each table.
    document: Document,
    text: String,
    words: Tables,
    /// What of each drive is promised and left, by its name.
    rooms: BTreeMap<String, Room>,
    file: Option<ConfigFile>,
    reach: Reach,
    journal: Journal,
    versions: Versions,
    run: u64,
    last: u64,
}

/// What is written of each table, by kind and name.
type Tables = BTreeMap<(&'static str, String), Words>;

/// The number of the last change of each table that was changed, by kind and name.
type Versions = BTreeMap<(String, String), u64>;

/// The state of a table: of which run of the server, and which change was its last.
fn etag(run: u64, versions: &Versions, kind: &str, name: &str) -> String {
    let key = (kind.to_owned(), name.to_owned());
    let version = versions.get(&key).copied().unwrap_or_default();
    format!("\"{run:x}-{version}\"")
}

/// A change that is ready to be put in force.
struct Planned {
    document: Document,
    text: String,
    /// What the file is to say, if it is to be written.
    saved: Option<String>,
    back: Back,
    undoes: Option<u64>,
}

impl Control {
    /// `text` is what the server's configuration was read from, and `file` where it stands.
    pub(crate) fn new(server: Server, file: Option<PathBuf>, text: String) -> Result<Self, String> {
        let document = Document::parse(&text)?;
        let inner = Inner {
            rooms: rooms(server.config()),
            reach: Reach::new(server.config(), file.as_deref()),
            server: Arc::new(Mutex::new(Some(server))),
            words: tables(&document),
            document,
            file: file.map(|path| ConfigFile::new(path, text.clone())),
            text,
            journal: Journal::default(),
            versions: BTreeMap::new(),
            run: now_ms(),
            last: 0,
        };
        let published = inner.publish().ok_or("the server has ended")?;
        Ok(Self {
            server: Arc::clone(&inner.server),
            inner: Mutex::new(inner),
            published: RwLock::new(Arc::new(published)),
        })
    }

    /// The configuration in force and what is known of it.
    pub(crate) fn published(&self) -> Arc<Published> {
        let published = self.published.read();
        Arc::clone(&published.unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes the server back: nothing can be changed any more. A change that is under way may end first. If it does not, because the
    /// configuration's file system does not answer, the server is taken all the same. `None` if the change holds the server itself for
    /// longer, because the storage of a volume does not answer.
    pub(crate) fn take(&self, patience: Patience) -> Option<Server> {
        let begun = Instant::now();
        let ended = lock_until(&self.inner, begun + patience.file);
        if ended.is_none() {
            tracing::warn!("a change does not end; the server ends without it");
        }
        lock_until(&self.server, begun + patience.storage)?.take()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes edits, all of them or none.
    pub(crate) fn change(&self, edits: &[Edit], how: &How) -> Result<Outcome, Refused> {
        let mut inner = self.lock();
        inner.check(how)?;
        let mut document = inner.document.clone();
        let back = edit(&mut document, edits)?;
        let text = document.to_string();
        let saved = inner.saved(how.save, &text, |document| edit(document, edits).map(drop))?;
        let planned = Planned {
            text,
            document,
            saved,
            back: Back::Edits(back),
            undoes: None,
        };
        let outcome = inner.put_in_force(planned, how)?;
        self.publish(&inner, how);
        Ok(outcome)
    }

    /// Takes a change back.
    pub(crate) fn undo(&self, number: Option<u64>, how: &How) -> Result<Outcome, Refused> {
        let mut inner = self.lock();
        let (change, back) = inner.journal.back(number).map_err(Refused::conflict)?;
        // What was kept in memory only is not in the file.
        let (number, save) = (change.number, how.save.or(Some(change.saved)));
        let back = back.clone();
        let mut document = inner.document.clone();
        let replaced = put_back(&mut document, &back, number)?;
        let text = document.to_string();
        let saved = inner.saved(save, &text, |document| {
            put_back(document, &back, number).map(drop)
        })?;
        let planned = Planned {
            text,
            document,
            saved,
            back: replaced,
            undoes: Some(number),
        };
        let outcome = inner.put_in_force(planned, how)?;
        self.publish(&inner, how);
        Ok(outcome)
    }

    /// Reads the file again and puts in force what it says.
    pub(crate) fn reload(&self, how: &How) -> Result<Outcome, Refused> {
        let mut inner = self.lock();
        let Some(file) = &inner.file else {
            return Err(Refused::conflict(
                "the server has no configuration file that could be read again",
            ));
        };
        let read = weir_config::file_text(file.path());
        let (_, text) = read.map_err(|problems| Refused::problems(&problems))?;
        let document = Document::parse(&text);
        let planned = Planned {
            // What is no TOML is refused below, with line and column.
            document: document.unwrap_or_else(|_| inner.document.clone()),
            saved: None,
            back: Back::Text {
                before: inner.text.clone(),
                after: text.clone(),
            },
            text: text.clone(),
            undoes: None,
        };
        // Any client may ask for it, because root wrote the file.
        let whole = How {
            confined: false,
            ..how.clone()
        };
        let outcome = inner.put_in_force(planned, &whole)?;
        if let Some(file) = inner.file.as_mut().filter(|_| !how.dry_run) {
            file.text = text;
        }
        self.publish(&inner, how);
        Ok(outcome)
    }

    /// Tells those that ask of a change that was not only tried.
    fn publish(&self, inner: &Inner, how: &How) {
        if !how.dry_run
            && let Some(published) = inner.publish()
        {
            let mut slot = self.published.write();
            let slot = slot.as_deref_mut();
            match slot {
                Ok(slot) => *slot = Arc::new(published),
                Err(poisoned) => **poisoned.get_mut() = Arc::new(published),
            }
        }
    }
}

impl Inner {
    /// Has the server take a planned change, and the file, and the journal.
    fn put_in_force(&mut self, planned: Planned, how: &How) -> Result<Outcome, Refused> {
        let config = with(&self.server, |server| {
            let name = server.config().file().to_owned();
            weir_config::parse_again(&name, &planned.text, server.config())
                .map_err(|problems| Refused::problems(&problems))
        })?;
        if how.confined {
            self.reach.check(&config)?;
        }
        let rooms = rooms(&config);
        let mut outcome = Outcome {
            change: Change {
                at_ms: now_ms(),
                by: how.by.clone(),
                saved: planned.saved.is_some(),
                undoes: planned.undoes,
                ..Change::default()
            },
            dry_run: how.dry_run,
            promised: sums(&rooms),
        };
        if how.dry_run {
            let tried = with(&self.server, |server| Ok(server.would_reload(&config)?));
            outcome.change.lines = tried?;
            return Ok(outcome);
        }
        // Before anything is in force: a full disk refuses the change.
        let prepared = match (&self.file, planned.saved) {
            (Some(file), Some(text)) => {
                let prepared = file.prepare(text);
                Some(prepared.map_err(|e| unsaved(file, &weir_config::os_error::message(&e)))?)
            }
            _ => None,
        };
        let made = with(&self.server, |server| Ok(server.reload(&config)?));
        outcome.change.lines = made?;
        if !how.confined {
            self.reach.include(&config);
        }
        if let (Some(file), Some(prepared)) = (&mut self.file, prepared)
            && let Err(error) = file.replace(prepared)
        {
            // It is in force: the file is behind, as if it had been asked so.
            tracing::error!(
                "the change is active, but the server could not save it to {}: {error}",
                file.path().display()
            );
            outcome.change.saved = false;
        }
        let differs = self.text != planned.text;
        let words = tables(&planned.document);
        let was = std::mem::replace(&mut self.words, words);
        (self.document, self.text) = (planned.document, planned.text);
        self.rooms = rooms;
        if outcome.change.lines.is_empty() && !differs {
            return Ok(outcome);
        }
        self.last += 1;
        outcome.change.number = self.last;
        for (kind, name) in changed(&was, &self.words) {
            self.versions.insert((kind.to_owned(), name), self.last);
        }
        for line in &outcome.change.lines {
            tracing::info!(by = how.by, change = self.last, "{line}");
        }
        self.journal.add(outcome.change.clone(), planned.back);
        Ok(outcome)
    }

    fn publish(&self) -> Option<Published> {
        let server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        let server = server.as_ref()?;
        Some(Published {
            config: server.config().clone(),
            devices: server.devices(),
            words: self.words.clone(),
            rooms: self.rooms.clone(),
            versions: self.versions.clone(),
            run: self.run,
            nbd: server
                .nbd_addresses()
                .iter()
                .map(ToString::to_string)
                .collect(),
            file: self.file.as_ref().map(|file| file.path().to_owned()),
            unsaved: self
                .file
                .as_ref()
                .is_some_and(|file| file.text != self.text),
            text: self.text.clone(),
            changes: self.journal.changes().cloned().collect(),
        })
    }

    /// Refuses a change of a table that is not as it is expected to be. Changes of others that came first have been made by now.
    fn check(&self, how: &How) -> Result<(), Refused> {
        let Some(Expected { kind, name, state }) = &how.expected else {
            return Ok(());
        };
        let is_there = self.words.contains_key(&(*kind, name.clone()));
        match state {
            TableState::Absent if is_there => {
                Err(Refused::conflict(format!("{kind} {name:?} already exists")))
            }
            TableState::Absent => Ok(()),
            _ if !is_there => Err(Refused::not_found(&format!("{kind} {name:?}"))),
            TableState::Unchanged(etag)
                if *etag != self::etag(self.run, &self.versions, kind, name) =>
            {
                let error =
                    format!("{kind}.{name} has been changed since it was read; read it again");
                Err(Refused::new(StatusCode::PRECONDITION_FAILED, error))
            }
            TableState::Present | TableState::Unchanged(_) => Ok(()),
        }
    }

    /// What the file is to say after a change that leads to the text `changed`, if that is to be saved.
    fn saved(
        &self,
        wanted: Option<bool>,
        changed: &str,
        change: impl FnOnce(&mut Document) -> Result<(), Refused>,
    ) -> Result<Option<String>, Refused> {
        let file = match (&self.file, wanted) {
            (_, Some(false)) | (None, None) => return Ok(None),
            (None, Some(true)) => {
                return Err(Refused::conflict(
                    "the server has no configuration file in which the change could be saved; use save=false",
                ));
            }
            (Some(file), _) => file,
        };
        let shown = file.path().display();
        match file.is_changed() {
            Ok(false) => {}
            Ok(true) => {
                let error =
                    format!("{shown} has been changed since the server read it; reload it first");
                return Err(Refused::conflict(error));
            }
            Err(problems) => {
                let why: Vec<&str> = problems.iter().map(|p| p.message.as_str()).collect();
                return Err(unsaved(file, &why.join("; ")));
            }
        }
        if file.text == self.text {
            return Ok(Some(changed.to_owned()));
        }
        let mut document = Document::parse(&file.text).map_err(Refused::conflict)?;
        change(&mut document)?;
        let text = document.to_string();
        // A restart reads this, without what is kept in memory only.
        if let Err(problems) = weir_config::parse(&shown.to_string(), &text) {
            let mut refused = Refused::problems(&problems);
            refused.refusal.error = format!(
                "{shown} would be invalid, because it does not contain the changes that are kept in memory only: {}",
                refused.refusal.error
            );
            return Err(refused);
        }
        Ok(Some(text))
    }
}

fn edit(document: &mut Document, edits: &[Edit]) -> Result<Vec<Replaced>, Refused> {
    let bad = |error| Refused::new(StatusCode::BAD_REQUEST, error);
    let edits = edits.iter().map(|edit| document.edit(edit).map_err(bad));
    edits.collect()
}

/// Puts back what a change replaced; what is returned does the change again.
fn put_back(document: &mut Document, back: &Back, number: u64) -> Result<Back, Refused> {
    let since = || {
        Refused::conflict(format!(
            "cannot undo change {number}: later changes affect the same keys"
        ))
    };
    let bad = |error| Refused::new(StatusCode::BAD_REQUEST, error);
    match back {
        Back::Edits(edits) => {
            let mut again = Vec::new();
            for replaced in edits.iter().rev() {
                again.push(replaced.inverse(document));
                if !document.put_back(replaced).map_err(bad)? {
                    return Err(since());
                }
            }
            Ok(Back::Edits(again))
        }
        Back::Text { before, after } => {
            if document.to_string() != *after {
                return Err(since());
            }
            *document = Document::parse(before).map_err(bad)?;
            Ok(Back::Text {
                before: after.clone(),
                after: before.clone(),
            })
        }
    }
}

/// Locks what others may hold until then; tries it once at least.
fn lock_until<T>(mutex: &Mutex<T>, until: Instant) -> Option<MutexGuard<'_, T>> {
    const PAUSE: Duration = Duration::from_millis(10);
    loop {
        match mutex.try_lock() {
            Ok(locked) => return Some(locked),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if Instant::now() < until => std::thread::sleep(PAUSE),
            Err(TryLockError::WouldBlock) => return None,
        }
    }
}

/// What comes of the server, unless it has been taken back.
fn with<T>(
    server: &Shared,
    ask: impl FnOnce(&mut Server) -> Result<T, Refused>,
) -> Result<T, Refused> {
    let mut server = server.lock().unwrap_or_else(PoisonError::into_inner);
    let ending = || Refused::new(StatusCode::SERVICE_UNAVAILABLE, "the server is ending");
    ask(server.as_mut().ok_or_else(ending)?)
}

fn unsaved(file: &ConfigFile, reason: &str) -> Refused {
    Refused::new(
        StatusCode::INSUFFICIENT_STORAGE,
        format!(
            "cannot write {}: {reason}; use save=false to keep the change in memory only",
            file.path().display()
        ),
    )
}

/// What of each drive is promised and left, by its name.
fn rooms(config: &weir_config::Server) -> BTreeMap<String, Room> {
    let drives = config.drives.iter();
    let drives = drives.filter_map(|d| Some((d.name.clone(), weir_config::room(config, d)?)));
    drives.collect()
}

/// What is promised on each drive, and what is left, in words.
fn sums(rooms: &BTreeMap<String, Room>) -> Vec<String> {
    let of = |(name, room): (&String, &Room)| {
        let (promised, left) = (room.promised, room.left?);
        let mut parts = Vec::new();
        if promised.bytes > 0 || promised.iops == 0 {
            parts.push(Rate(promised.bytes).to_string());
        }
        if promised.iops > 0 {
            parts.push(format!("{} requests/s", promised.iops));
        }
        let percent = promised.millionths as f64 / 1e4;
        Some(format!(
            "drive.{name}: {} promised, {percent:.1} % of the drive's time; {} left",
            parts.join(" and "),
            Rate(weir_config::rounded(left.bytes))
        ))
    };
    rooms.iter().filter_map(of).collect()
}

/// What is written of each table.
fn tables(document: &Document) -> Tables {
    let tables = KINDS.into_iter().flat_map(|kind| {
        let tables = document.tables(kind).into_iter();
        tables.map(move |(name, words)| ((kind, name), words))
    });
    tables.collect()
}

/// The tables that are not as they were.
fn changed(was: &Tables, now: &Tables) -> BTreeSet<(&'static str, String)> {
    let all = was.keys().chain(now.keys());
    all.filter(|key| was.get(*key) != now.get(*key))
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The management server ends while the configuration's file, or a volume's, is on a file system that does not answer.
    #[test]
    fn a_change_that_does_not_end_does_not_keep_the_server() {
        let path = std::env::temp_dir().join(format!("weir-control-{}.sock", std::process::id()));
        let text = format!("listen.nbd = [\"unix:{}\"]\n[drive.d]\n", path.display());
        let config = weir_config::parse("", &text).unwrap();
        let server = Server::start(&config, &weir_serve::Options::default()).unwrap();
        let control = Control::new(server, None, text).unwrap();
        let (of_file, of_server) = (
            control.inner.lock().unwrap(),
            control.server.lock().unwrap(),
        );
        let none = Patience {
            file: Duration::ZERO,
            storage: Duration::ZERO,
        };
        assert!(control.take(none).is_none());
        drop(of_server);
        assert!(control.take(none).unwrap().shutdown());
        drop(of_file);
        let refused = control.change(&[], &How::default()).unwrap_err();
        assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    }
}
