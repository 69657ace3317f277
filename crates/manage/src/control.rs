//! Changes of the running server, one after the other. Each is made completely or refused
//! completely.
//!
//! [`ChangeControl`] owns the server. It makes changes ([`ChangeControl::change`],
//! [`ChangeControl::undo`], [`ChangeControl::reload`]) and publishes the state after each
//! ([`PublishedState`]), so that readers never wait for a change.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, TryLockError};
use std::time::{Duration, Instant};

use crate::api::{Change, Edit, JsonTable, Outcome};
use axum::http::StatusCode;
use weir_config::units::BytesPerSecond;
use weir_config::{DriveRoom, Volume};
use weir_serve::{ConfigSource, LiveServer, Successor, UpgradeError, UpgradeReport};

use crate::audit::{self, AuditLog, AuditRecord, AuditResult};
use crate::document::{ConfigDocument, ReplacedValue};
use crate::error::RequestRefusal;
use crate::file::ConfigFile;
use crate::journal::{ChangeJournal, UndoData};
use crate::now_ms;
use crate::reach::{self, Reach};

/// The kinds of tables that have names and an `ETag` of their own.
pub(crate) const KINDS: [&str; 3] = ["drive", "tenant", "volume"];

/// The circumstances of a change.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChangeContext {
    /// The author of the change, for the journal.
    pub(crate) by: String,
    /// True to check the change and return its result without making it.
    pub(crate) dry_run: bool,
    /// True to write the change to the configuration file, false to keep it in memory only. By
    /// default, it is written if there is a file.
    pub(crate) save: Option<bool>,
    /// True if the client has fewer rights than the server. It may then name only permitted
    /// storage.
    pub(crate) confined: bool,
    /// A precondition: the state that a table must have for the change to be made.
    pub(crate) expected: Option<Expected>,
}

/// The required state of a table.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    /// One of [`KINDS`].
    pub(crate) kind: &'static str,
    pub(crate) name: String,
    pub(crate) state: TableState,
}

impl Expected {
    /// Returns the key of the table in the configuration.
    pub(crate) fn key(&self) -> Vec<String> {
        vec![self.kind.to_owned(), self.name.clone()]
    }
}

/// A state of a table.
#[derive(Clone, Debug)]
pub(crate) enum TableState {
    /// The table does not exist.
    Absent,
    /// The table exists.
    Present,
    /// The table exists and its `ETag` still has this value.
    Unchanged(String),
}

/// The configuration in force, with derived values. It is replaced as a whole by each change, so
/// that readers never wait for one.
#[derive(Debug)]
pub(crate) struct PublishedState {
    pub(crate) config: weir_config::Server,
    pub(crate) words: ConfigTables,
    /// The promised and the free part of each drive's capacity, by the drive's name.
    pub(crate) rooms: BTreeMap<String, DriveRoom>,
    /// The block device of each volume that has one, by the volume's name.
    pub(crate) devices: BTreeMap<String, String>,
    /// The number of the last change of each table that was changed.
    versions: Versions,
    /// The identifier of this run of the server, which keeps `ETag`s of different runs apart.
    run: u64,
    pub(crate) file: Option<PathBuf>,
    /// The addresses for NBD clients.
    pub(crate) nbd: Vec<String>,
    pub(crate) unsaved: bool,
    pub(crate) text: String,
    /// The remembered changes, newest first.
    pub(crate) changes: Vec<Change>,
}

impl PublishedState {
    /// Returns the `ETag` of a table.
    pub(crate) fn etag(&self, kind: &str, name: &str) -> String {
        etag(self.run, &self.versions, kind, name)
    }

    /// Returns the configuration of a table, or `None` if it does not exist.
    pub(crate) fn words(&self, kind: &'static str, name: &str) -> Option<&JsonTable> {
        self.words.get(&(kind, name.to_owned()))
    }
}

/// The server, and the state that a change affects.
#[derive(Debug)]
pub(crate) struct ChangeControl {
    inner: Mutex<ControlState>,
    server: Arc<SharedServer>,
    published: RwLock<Arc<PublishedState>>,
}

/// The server, or `None` after it was taken back. The lock is taken after that of [`ControlState`].
/// It is not held while the configuration file is read or written, so that a file system that hangs
/// does not prevent taking the server.
type SharedServer = Mutex<Option<LiveServer>>;

/// The times that a change in progress is given when the server ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// The time if the change accesses the configuration file.
    pub(crate) file: Duration,
    /// The time if the change accesses the storage of volumes. It is at least as long as `file`.
    pub(crate) storage: Duration,
}

/// The request for an upgrade in the audit file.
const UPGRADE: &str = "upgrade";

#[derive(Debug)]
struct ControlState {
    server: Arc<SharedServer>,
    /// The configuration in force as a document, from which the text and the tables are derived.
    document: ConfigDocument,
    text: String,
    words: ConfigTables,
    /// The promised and the free part of each drive's capacity, by the drive's name.
    rooms: BTreeMap<String, DriveRoom>,
    file: Option<ConfigFile>,
    reach: Reach,
    journal: ChangeJournal,
    audit: Option<AuditLog>,
    versions: Versions,
    run: u64,
    last: u64,
    /// The refusal of all changes once the server was handed over. The configuration file and the
    /// audit file belong to another process then, so that this process must not touch them.
    ended: Option<RequestRefusal>,
}

/// The configuration of each table, by kind and name.
type ConfigTables = BTreeMap<(&'static str, String), JsonTable>;

/// The number of the last change of each table that was changed, by kind and name.
type Versions = BTreeMap<(String, String), u64>;

/// Returns the `ETag` of a table. It consists of the run of the server and the table's last change.
fn etag(run: u64, versions: &Versions, kind: &str, name: &str) -> String {
    let key = (kind.to_owned(), name.to_owned());
    let version = versions.get(&key).copied().unwrap_or_default();
    format!("\"{run:x}-{version}\"")
}

/// A change that has been prepared but not checked.
struct PlannedChange {
    document: ConfigDocument,
    text: String,
    /// The new text of the file, if the change is to be saved.
    saved: Option<String>,
    back: UndoData,
    undoes: Option<u64>,
}

impl ChangeControl {
    /// Takes over a server with this configuration.
    pub(crate) fn new(server: LiveServer, source: ConfigSource) -> Result<Self, String> {
        let ConfigSource {
            text,
            file,
            file_text,
        } = source;
        let file_text = file_text.unwrap_or_else(|| text.clone());
        let document = ConfigDocument::parse(&text)?;
        let manage = &server.config().manage;
        let audit = manage.audit_file.as_deref();
        let audit = audit
            .map(|path| AuditLog::open(path, manage.audit_size))
            .transpose()?;
        let (audit, earlier) = audit.unzip();
        let journal = ChangeJournal::after(earlier.unwrap_or_default());
        let inner = ControlState {
            rooms: rooms(server.config()),
            reach: Reach::new(server.config(), file.as_deref()),
            server: Arc::new(Mutex::new(Some(server))),
            words: tables(&document),
            document,
            file: file.map(|path| ConfigFile::new(path, file_text)),
            text,
            last: journal
                .changes()
                .map(|change| change.number)
                .max()
                .unwrap_or_default(),
            journal,
            audit,
            versions: BTreeMap::new(),
            // Two runs of the server do not start in the same millisecond.
            run: now_ms(),
            ended: None,
        };
        let published = inner.publish().ok_or("the server has ended")?;
        Ok(Self {
            server: Arc::clone(&inner.server),
            inner: Mutex::new(inner),
            published: RwLock::new(Arc::new(published)),
        })
    }

    /// Returns the configuration in force, with derived values.
    pub(crate) fn published(&self) -> Arc<PublishedState> {
        let published = self.published.read();
        Arc::clone(&published.unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes the server back. Nothing can be changed afterwards.
    ///
    /// A change in progress gets some time to end. If it hangs in the configuration's file system,
    /// the server is taken without it. If it holds the server itself for longer, because the
    /// storage of a volume hangs, the result is `None`.
    pub(crate) fn take(&self, patience: Patience) -> Option<LiveServer> {
        let begun = Instant::now();
        let ended = lock_until(&self.inner, begun + patience.file);
        if ended.is_none() {
            tracing::warn!("a change does not end; the server ends without it");
        }
        lock_until(&self.server, begun + patience.storage)?.take()
    }

    /// Waits for changes in progress. Refuses if the server was handed over in the meantime.
    fn lock_for_change(&self) -> Result<MutexGuard<'_, ControlState>, RequestRefusal> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        match &inner.ended {
            Some(refusal) => Err(refusal.clone()),
            None => Ok(inner),
        }
    }

    /// Makes edits, all of them or none.
    pub(crate) fn change(
        &self,
        edits: &[Edit],
        how: &ChangeContext,
    ) -> Result<Outcome, RequestRefusal> {
        self.make(&request(edits), how, |inner| {
            inner.check(how)?;
            let mut document = inner.document.clone();
            let back = edit(&mut document, edits)?;
            inner.check_policies(&document, how)?;
            let text = document.to_string();
            let saved = inner.saved(how.save, &text, |document| edit(document, edits).map(drop))?;
            let planned = PlannedChange {
                text,
                document,
                saved,
                back: UndoData::Edits(back),
                undoes: None,
            };
            inner.apply_planned(planned, how)
        })
    }

    /// Undoes a change.
    pub(crate) fn undo(
        &self,
        number: Option<u64>,
        how: &ChangeContext,
    ) -> Result<Outcome, RequestRefusal> {
        let named = number.map_or_else(|| "undo".to_owned(), |number| format!("undo {number}"));
        self.make(&named, how, |inner| {
            let (change, back) = inner
                .journal
                .back(number)
                .map_err(RequestRefusal::conflict)?;
            // A change that was kept in memory only is not in the file, so that undoing it must not
            // change the file.
            let (number, save) = (change.number, how.save.or(Some(change.saved)));
            let back = back.clone();
            let mut document = inner.document.clone();
            let replaced = put_back(&mut document, &back, number)?;
            inner.check_policies(&document, how)?;
            let text = document.to_string();
            let saved = inner.saved(save, &text, |document| {
                put_back(document, &back, number).map(drop)
            })?;
            let planned = PlannedChange {
                text,
                document,
                saved,
                back: replaced,
                undoes: Some(number),
            };
            inner.apply_planned(planned, how)
        })
    }

    /// Reads the configuration file again and applies it.
    pub(crate) fn reload(&self, how: &ChangeContext) -> Result<Outcome, RequestRefusal> {
        self.make("reload", how, |inner| inner.reload(how))
    }

    /// Hands the server over to a process that `start` starts. Nothing can be changed meanwhile,
    /// and nothing after a success. The audit file has a record of the beginning, and one of a
    /// failure. A success cannot be recorded, because the audit file belongs to the successor by
    /// then.
    pub(crate) fn upgrade(
        &self,
        by: &str,
        start: impl FnOnce() -> std::io::Result<Successor>,
    ) -> Result<(Successor, UpgradeReport), UpgradeError> {
        self.hand_over(by, |server, source| {
            let successor = start().map_err(|error| {
                UpgradeError::Unsupported(weir_config::os_error::message(&error))
            })?;
            let mut server = server.lock().unwrap_or_else(PoisonError::into_inner);
            let server = server.as_mut().ok_or(UpgradeError::Ended)?;
            server.hand_over(successor, source)
        })
    }

    /// Hands the server over with `hand_over`, while no change can be made.
    fn hand_over<T>(
        &self,
        by: &str,
        hand_over: impl FnOnce(&SharedServer, &ConfigSource) -> Result<T, UpgradeError>,
    ) -> Result<T, UpgradeError> {
        let refused = |refused: RequestRefusal| UpgradeError::Unsupported(refused.refusal.error);
        // The lock is held all the time, so that a change cannot be made that the successor does
        // not know.
        let mut inner = self.lock_for_change().map_err(refused)?;
        let how = ChangeContext {
            by: by.to_owned(),
            ..ChangeContext::default()
        };
        if let Some(audit) = &mut inner.audit {
            begin_upgrade(audit, &how).map_err(refused)?;
        }
        let source = ConfigSource {
            text: inner.text.clone(),
            file: inner.file.as_ref().map(|file| file.path().to_owned()),
            file_text: inner.file.as_ref().map(|file| file.text.clone()),
        };
        let upgraded = hand_over(&self.server, &source);
        if let (Some(audit), Err(error)) = (&mut inner.audit, &upgraded) {
            let refused = Err(RequestRefusal::conflict(error.to_string()));
            audit.record(audit_record(UPGRADE, &how, &refused));
        }
        match &upgraded {
            Ok(_) => inner.end(RequestRefusal::handed_over()),
            Err(UpgradeError::Lost) => inner.end(RequestRefusal::ending()),
            Err(_) => {}
        }
        upgraded
    }

    /// Makes a change, publishes the state after it, and records the result in the audit file.
    fn make(
        &self,
        request: &str,
        how: &ChangeContext,
        change: impl FnOnce(&mut ControlState) -> Result<Outcome, RequestRefusal>,
    ) -> Result<Outcome, RequestRefusal> {
        let mut inner = self.lock_for_change()?;
        if how.dry_run {
            return change(&mut inner);
        }
        inner.audit.as_mut().map_or(Ok(()), AuditLog::check)?;
        let outcome = change(&mut inner);
        if let Some(audit) = &mut inner.audit {
            audit.record(audit_record(request, how, &outcome));
        }
        if outcome.is_ok() {
            self.publish(&inner);
        }
        outcome
    }

    /// Publishes the state after a change.
    fn publish(&self, inner: &ControlState) {
        if let Some(published) = inner.publish() {
            // A poisoned lock is used all the same, because the value is replaced as a whole.
            let mut slot = self.published.write();
            let slot = slot.as_deref_mut();
            match slot {
                Ok(slot) => *slot = Arc::new(published),
                Err(poisoned) => **poisoned.get_mut() = Arc::new(published),
            }
        }
    }
}

impl ControlState {
    /// Refuses all further changes, and lets go of the files that belong to another process.
    fn end(&mut self, refusal: RequestRefusal) {
        self.ended = Some(refusal);
        (self.file, self.audit) = (None, None);
    }

    fn reload(&mut self, how: &ChangeContext) -> Result<Outcome, RequestRefusal> {
        let Some(file) = &self.file else {
            return Err(RequestRefusal::conflict(
                "the server has no configuration file that could be read again",
            ));
        };
        let read = weir_config::file_text(file.path());
        let (_, text) = read.map_err(|problems| RequestRefusal::problems(&problems))?;
        let document = ConfigDocument::parse(&text);
        let planned = PlannedChange {
            // Text that is not TOML is refused below, with line and column.
            document: document.unwrap_or_else(|_| self.document.clone()),
            saved: None,
            back: UndoData::Text {
                before: self.text.clone(),
                after: text.clone(),
            },
            text: text.clone(),
            undoes: None,
        };
        // Any authorised client may reload without confinement, because the text comes from the
        // configuration file and not from the client.
        let whole = ChangeContext {
            confined: false,
            ..how.clone()
        };
        let outcome = self.apply_planned(planned, &whole)?;
        // The text in force is that of the file now.
        if let Some(file) = self.file.as_mut().filter(|_| !how.dry_run) {
            file.text = text;
        }
        Ok(outcome)
    }

    /// Returns the configuration of a prepared change if it is valid and the client may make it.
    fn check_planned(
        &self,
        text: &str,
        how: &ChangeContext,
    ) -> Result<weir_config::Server, RequestRefusal> {
        let config = with_server(&self.server, |server| {
            let name = server.config().file().to_owned();
            weir_config::parse_again(&name, text, server.config())
                .map_err(|problems| RequestRefusal::problems(&problems))
        })?;
        if how.confined {
            self.reach.check(&config)?;
            with_server(&self.server, |server| {
                reach::check_certificates(server.config(), &config)
            })?;
        }
        let conflicts = with_server(&self.server, |server| {
            let is_new = |volume: &&Volume| server.config().volume(&volume.name).is_none();
            Ok(audit::conflicts(
                &config,
                config.volumes.iter().filter(is_new),
            ))
        })?;
        if !conflicts.is_empty() {
            return Err(RequestRefusal::problems(&conflicts));
        }
        Ok(config)
    }

    /// Checks a prepared change, then applies it to the server, the file and the journal.
    fn apply_planned(
        &mut self,
        planned: PlannedChange,
        how: &ChangeContext,
    ) -> Result<Outcome, RequestRefusal> {
        let config = self.check_planned(&planned.text, how)?;
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
            promised: promise_sentences(&rooms),
        };
        if how.dry_run {
            let tried = with_server(&self.server, |server| Ok(server.would_reload(&config)?));
            outcome.change.lines = tried?;
            return Ok(outcome);
        }
        // This comes before the change is applied, so that a full disk refuses it.
        let prepared = match (&self.file, planned.saved) {
            (Some(file), Some(text)) => {
                let prepared = file.prepare(text);
                Some(prepared.map_err(|e| unsaved(file, &weir_config::os_error::message(&e)))?)
            }
            _ => None,
        };
        // The server is locked only for the reload, and not while the file is written.
        let made = with_server(&self.server, |server| Ok(server.reload(&config)?));
        outcome.change.lines = made?;
        // Root or the server's own user named the storage, so that others may use it from now on.
        if !how.confined {
            self.reach.include(&config);
        }
        if let (Some(file), Some(prepared)) = (&mut self.file, prepared)
            && let Err(error) = file.replace(prepared)
        {
            // The change cannot be taken back here. The file is then behind, as after save=false.
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
        // A change without any effect gets no number and no entry in the journal.
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

    /// Returns the present state for readers, or `None` if the server was taken back.
    fn publish(&self) -> Option<PublishedState> {
        let server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        let server = server.as_ref()?;
        Some(PublishedState {
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

    /// Checks the precondition of a change. Earlier changes are complete by now, because the caller
    /// holds the lock.
    fn check(&self, how: &ChangeContext) -> Result<(), RequestRefusal> {
        let Some(Expected { kind, name, state }) = &how.expected else {
            return Ok(());
        };
        let is_there = self.words.contains_key(&(*kind, name.clone()));
        match state {
            TableState::Absent if is_there => Err(RequestRefusal::conflict(format!(
                "{kind} {name:?} already exists"
            ))),
            TableState::Absent => Ok(()),
            _ if !is_there => Err(RequestRefusal::not_found(&format!("{kind} {name:?}"))),
            TableState::Unchanged(etag)
                if *etag != self::etag(self.run, &self.versions, kind, name) =>
            {
                let error =
                    format!("{kind}.{name} has been changed since it was read; read it again");
                Err(RequestRefusal::new(StatusCode::PRECONDITION_FAILED, error))
            }
            TableState::Present | TableState::Unchanged(_) => Ok(()),
        }
    }

    /// Checks that a client with fewer rights than the server names no file of a policy. This must
    /// come before the document is read as a configuration, which reads the file.
    fn check_policies(
        &self,
        document: &ConfigDocument,
        how: &ChangeContext,
    ) -> Result<(), RequestRefusal> {
        if !how.confined {
            return Ok(());
        }
        with_server(&self.server, |server| {
            reach::check_policies(server.config(), &self.document, document)
        })
    }

    /// Returns the new text of the file if the change is to be saved, and `None` otherwise.
    /// `changed` is the text in force after the change.
    fn saved(
        &self,
        wanted: Option<bool>,
        changed: &str,
        change: impl FnOnce(&mut ConfigDocument) -> Result<(), RequestRefusal>,
    ) -> Result<Option<String>, RequestRefusal> {
        let file = match (&self.file, wanted) {
            (_, Some(false)) | (None, None) => return Ok(None),
            (None, Some(true)) => {
                return Err(RequestRefusal::conflict(
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
                return Err(RequestRefusal::conflict(error));
            }
            Err(problems) => {
                let why: Vec<&str> = problems.iter().map(|p| p.message.as_str()).collect();
                return Err(unsaved(file, &why.join("; ")));
            }
        }
        // The file has the text in force, so that it gets the new text as a whole. Otherwise,
        // changes that are kept in memory only are left out of the file.
        if file.text == self.text {
            return Ok(Some(changed.to_owned()));
        }
        let mut document = ConfigDocument::parse(&file.text).map_err(RequestRefusal::conflict)?;
        change(&mut document)?;
        let text = document.to_string();
        // A restart reads this text, without the changes that are kept in memory only.
        if let Err(problems) = weir_config::parse(&shown.to_string(), &text) {
            let mut refused = RequestRefusal::problems(&problems);
            refused.refusal.error = format!(
                "{shown} would be invalid, because it does not contain the changes that are kept in memory only: {}",
                refused.refusal.error
            );
            return Err(refused);
        }
        Ok(Some(text))
    }
}

/// Returns the edits of a request in one line, in the syntax of the configuration file.
fn request(edits: &[Edit]) -> String {
    let edit = |edit: &Edit| match &edit.value {
        serde_json::Value::Null => format!("remove {}", edit.key.join(".")),
        value => format!("{} = {value}", edit.key.join(".")),
    };
    edits.iter().map(edit).collect::<Vec<_>>().join(", ")
}

/// Records durably that an upgrade begins.
fn begin_upgrade(audit: &mut AuditLog, how: &ChangeContext) -> Result<(), RequestRefusal> {
    audit.check()?;
    audit.record(AuditRecord {
        at_ms: now_ms(),
        by: how.by.clone(),
        request: UPGRADE.to_owned(),
        result: AuditResult::Begun,
        error: None,
        change: None,
    });
    audit.check()
}

fn audit_record(
    request: &str,
    how: &ChangeContext,
    outcome: &Result<Outcome, RequestRefusal>,
) -> AuditRecord {
    let change = outcome.as_ref().ok().map(|outcome| &outcome.change);
    let change = change.filter(|change| change.number > 0);
    AuditRecord {
        at_ms: change.map_or_else(now_ms, |change| change.at_ms),
        by: how.by.clone(),
        request: request.to_owned(),
        result: match (outcome, change) {
            (Err(_), _) => AuditResult::Refused,
            (Ok(_), Some(_)) => AuditResult::Made,
            (Ok(_), None) => AuditResult::Unchanged,
        },
        error: outcome
            .as_ref()
            .err()
            .map(|refused| refused.refusal.error.clone()),
        change: change.cloned(),
    }
}

/// Makes edits in a document. Returns the replaced values, in the order of the edits.
fn edit(
    document: &mut ConfigDocument,
    edits: &[Edit],
) -> Result<Vec<ReplacedValue>, RequestRefusal> {
    let bad = |error| RequestRefusal::new(StatusCode::BAD_REQUEST, error);
    let edits = edits.iter().map(|edit| document.edit(edit).map_err(bad));
    edits.collect()
}

/// Restores the values that a change replaced. The returned value repeats the change.
fn put_back(
    document: &mut ConfigDocument,
    back: &UndoData,
    number: u64,
) -> Result<UndoData, RequestRefusal> {
    let since = || {
        RequestRefusal::conflict(format!(
            "cannot undo change {number}: later changes affect the same keys"
        ))
    };
    let bad = |error| RequestRefusal::new(StatusCode::BAD_REQUEST, error);
    match back {
        UndoData::Edits(edits) => {
            let mut again = Vec::new();
            // In reverse order, because several edits can affect the same key.
            for replaced in edits.iter().rev() {
                again.push(replaced.inverse(document));
                if !document.put_back(replaced).map_err(bad)? {
                    return Err(since());
                }
            }
            Ok(UndoData::Edits(again))
        }
        UndoData::Text { before, after } => {
            if document.to_string() != *after {
                return Err(since());
            }
            *document = ConfigDocument::parse(before).map_err(bad)?;
            Ok(UndoData::Text {
                before: after.clone(),
                after: before.clone(),
            })
        }
    }
}

/// Locks a mutex that others may hold, trying until a time, and at least once.
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

/// Calls a function with the server. Refuses if the server was taken back.
fn with_server<T>(
    server: &SharedServer,
    ask: impl FnOnce(&mut LiveServer) -> Result<T, RequestRefusal>,
) -> Result<T, RequestRefusal> {
    let mut server = server.lock().unwrap_or_else(PoisonError::into_inner);
    ask(server.as_mut().ok_or_else(RequestRefusal::ending)?)
}

/// A refusal because the configuration file cannot be written.
fn unsaved(file: &ConfigFile, reason: &str) -> RequestRefusal {
    RequestRefusal::new(
        StatusCode::INSUFFICIENT_STORAGE,
        format!(
            "cannot write {}: {reason}; use save=false to keep the change in memory only",
            file.path().display()
        ),
    )
}

/// Returns the promised and the free part of each drive's capacity, by the drive's name.
fn rooms(config: &weir_config::Server) -> BTreeMap<String, DriveRoom> {
    let drives = config.drives.iter();
    let drives = drives.filter_map(|d| Some((d.name.clone(), weir_config::room(config, d)?)));
    drives.collect()
}

/// Returns a sentence for each drive about the promised and the free part of its capacity.
fn promise_sentences(rooms: &BTreeMap<String, DriveRoom>) -> Vec<String> {
    let of = |(name, room): (&String, &DriveRoom)| {
        let (promised, left) = (room.promised, room.left?);
        let mut parts = Vec::new();
        // A drive without promises is listed with a rate of 0.
        if promised.bytes > 0 || promised.iops == 0 {
            parts.push(BytesPerSecond(promised.bytes).to_string());
        }
        if promised.iops > 0 {
            parts.push(format!("{} requests/s", promised.iops));
        }
        let percent = promised.millionths as f64 / 1e4;
        Some(format!(
            "drive.{name}: {} promised, {percent:.1} % of the drive's time; {} left",
            parts.join(" and "),
            BytesPerSecond(weir_config::rounded(left.bytes))
        ))
    };
    rooms.iter().filter_map(of).collect()
}

/// Returns the configuration of each named table.
fn tables(document: &ConfigDocument) -> ConfigTables {
    let tables = KINDS.into_iter().flat_map(|kind| {
        let tables = document.tables(kind).into_iter();
        tables.map(move |(name, words)| ((kind, name), words))
    });
    tables.collect()
}

/// Returns the tables that differ.
fn changed(was: &ConfigTables, now: &ConfigTables) -> BTreeSet<(&'static str, String)> {
    let all = was.keys().chain(now.keys());
    all.filter(|key| was.get(*key) != now.get(*key))
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts a server with a socket of this name, and with further lines of its configuration.
    fn control(name: &str, lines: &str, file: Option<PathBuf>) -> ChangeControl {
        let socket = format!("weir-control-{name}-{}.sock", std::process::id());
        let socket = std::env::temp_dir().join(socket);
        let text = format!(
            "listen.nbd = [\"unix:{}\"]\n{lines}[drive.d]\n",
            socket.display()
        );
        if let Some(file) = &file {
            std::fs::write(file, &text).unwrap();
        }
        let config = weir_config::parse("", &text).unwrap();
        let server = LiveServer::start(&config, &weir_serve::ServerOptions::default()).unwrap();
        let source = ConfigSource {
            text,
            file,
            file_text: None,
        };
        ChangeControl::new(server, source).unwrap()
    }

    /// The server must be able to end although the file system of the configuration, or of a
    /// volume, hangs.
    #[test]
    fn a_hanging_change_does_not_keep_the_server_from_ending() {
        let control = control("hanging", "", None);
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
        let refused = control.change(&[], &ChangeContext::default()).unwrap_err();
        assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    }

    /// The files belong to the successor after a hand-over, which can have written them since.
    #[test]
    fn a_change_that_waits_for_a_hand_over_is_refused_and_touches_no_file() {
        let base = std::env::temp_dir().join(format!("weir-handed-{}", std::process::id()));
        std::fs::create_dir(&base).unwrap();
        let [file, audit, new] =
            ["c.toml", "audit.jsonl", ".c.toml.weir-new"].map(|name| base.join(name));
        let lines = format!(
            "manage.socket = \"{}\"\nmanage.audit_file = \"{}\"\n",
            base.join("m.sock").display(),
            audit.display()
        );
        let control = control("handed", &lines, Some(file.clone()));
        let edits = |tenant: &str| {
            [Edit {
                key: ["tenant", tenant, "drive"].map(str::to_owned).to_vec(),
                value: "d".into(),
            }]
        };
        let how = ChangeContext::default();
        let files = [&file, &audit, &new];
        let contents = || files.map(|file| std::fs::read_to_string(file).unwrap());
        // A failed upgrade refuses no change.
        let failed = control.hand_over("", |_, _| Err::<(), _>(UpgradeError::Ended));
        assert!(matches!(failed, Err(UpgradeError::Ended)), "{failed:?}");
        assert!(control.change(&edits("a"), &how).unwrap().change.saved);
        // No volume can use the audit file.
        let volume = [Edit {
            key: ["volume", "v"].map(str::to_owned).to_vec(),
            value: serde_json::json!({ "drive": "d", "file": audit }),
        }];
        let refused = control.change(&volume, &how).unwrap_err();
        assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
        assert_eq!(refused.refusal.problems[0].key, "volume.v.file");
        let (waiting, before) = std::thread::scope(|scope| {
            let handed = control.hand_over("", |_, _| {
                std::fs::write(&new, "of the successor").unwrap();
                let waiting = scope.spawn(|| control.change(&edits("b"), &how));
                Ok((waiting, contents()))
            });
            let (waiting, before) = handed.unwrap();
            (waiting.join().unwrap(), before)
        });
        let dry_run = ChangeContext {
            dry_run: true,
            ..how.clone()
        };
        for refused in [
            waiting,
            control.change(&edits("c"), &how),
            control.change(&edits("c"), &dry_run),
            control.undo(None, &how),
            control.reload(&how),
        ] {
            assert_eq!(refused.unwrap_err(), RequestRefusal::handed_over());
        }
        let again = control.hand_over("", |_, _| Ok(())).unwrap_err();
        assert!(again.to_string().contains("another process"), "{again}");
        assert_eq!(contents(), before);
        let none = Patience {
            file: Duration::ZERO,
            storage: Duration::ZERO,
        };
        assert!(control.take(none).unwrap().shutdown());
        std::fs::remove_dir_all(base).unwrap();
    }
}
