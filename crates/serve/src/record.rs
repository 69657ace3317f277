//! Writes recordings: the calls into a drive's core and the decisions of the core, on a thread
//! other than the shard's.
//!
//! Each drive has its own file, which a thread writes from bounded chunks. A recording with a gap
//! could not be replayed. If the file is too slow, the recording therefore ends early, without its
//! end mark, and with a line in the log. The drive is never slowed down.
//!
//! [`start`] opens the file. The shard passes recorded bytes on with [`Tape::take`] and ends the
//! recording with [`Tape::end`].

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use weir_config::trusted::{self, Dir, Untrusted};
use weir_core::record::Recorder;
use weir_core::{Instant, Span};

use crate::created::Created;

/// The size from which a chunk is handed over, in bytes.
const CHUNK: usize = 256 << 10;
/// The maximum number of chunks that are queued for the file. Together with their size, this bounds
/// the memory of a recording to 64 MiB.
const CHUNKS: usize = 256;
/// The time after which an incomplete chunk is handed over.
const PERIOD: Span = Span::from_millis(100);
/// The number of recorded bytes that can wait in addition to the queued chunks before the file
/// counts as too slow.
const WAITING: usize = 4 << 20;
/// The longest time that the end of a recording waits for space in the queue.
const PATIENCE: Duration = Duration::from_secs(2);

/// The shard's end of a recording.
#[derive(Debug)]
pub(crate) struct Tape {
    name: String,
    chunks: Option<SyncSender<Vec<u8>>>,
    empty: Receiver<Vec<u8>>,
    /// The time of the last attempt to hand over a chunk.
    tried: Instant,
    /// True if the queue was full at the last attempt.
    blocked: bool,
}

/// Returns the file of a drive's recording. With a single drive this is `path` itself. Otherwise,
/// the drive's name is appended.
pub(crate) fn path(path: &Path, drive: &str, only: bool) -> PathBuf {
    if only {
        return path.to_owned();
    }
    let mut name = path.as_os_str().to_owned();
    // Names of drives cannot contain control characters, but they can contain a slash.
    name.push(format!(".{}", drive.replace('/', "_")));
    PathBuf::from(name)
}

/// The thread that writes a recording. It writes nothing before [`RecordingThread::begin`]. If the
/// value is dropped before, the file that was created is removed.
#[derive(Debug)]
pub(crate) struct RecordingThread {
    thread: JoinHandle<()>,
    go: Option<Sender<()>>,
    created: Option<Created>,
}

impl RecordingThread {
    /// Starts writing, and keeps the file.
    pub(crate) fn begin(&mut self) {
        if let Some(go) = self.go.take() {
            // If this fails, the thread has failed and logged the reason.
            let _ = go.send(());
        }
        if let Some(created) = self.created.take() {
            let _ = created.keep();
        }
    }

    /// Returns the thread, so that it can be joined.
    pub(crate) fn thread(self) -> JoinHandle<()> {
        self.thread
    }
}

/// Opens the file and starts its thread. An existing recording is not overwritten. The next free
/// number is appended to the new one's name instead, because a server that restarts after a crash
/// must preserve the recording that can explain the crash.
pub(crate) fn start(path: &Path, drive: &str) -> io::Result<(Tape, RecordingThread)> {
    let (path, file, created) = open(path)?;
    let (chunks, full) = sync_channel(CHUNKS);
    let (emptied, empty) = channel();
    let (go, begun) = channel();
    let shown = path.display().to_string();
    tracing::info!(drive, file = shown, "recording started");
    let thread = std::thread::Builder::new()
        .name("weir-record".to_owned())
        .spawn(move || {
            // An error means that the start was refused and the `RecordingThread` dropped.
            if begun.recv().is_err() {
                return;
            }
            if let Err(error) = write(file, &full, &emptied) {
                tracing::error!(
                    file = shown,
                    error = weir_config::os_error::message(&error),
                    "the recording ended early; the server continues without it"
                );
            }
        })?;
    let tape = Tape {
        name: drive.to_owned(),
        chunks: Some(chunks),
        empty,
        tried: Instant::ZERO,
        blocked: false,
    };
    let record = RecordingThread {
        thread,
        go: Some(go),
        created,
    };
    Ok((tape, record))
}

/// Creates the first of `path`, `path.1`, `path.2` and so on that does not exist. If `path` is
/// something other than a regular file (for example a pipe), opens it instead, provided that no
/// other user could have put it there.
fn open(path: &Path) -> io::Result<(PathBuf, File, Option<Created>)> {
    let path = std::path::absolute(path)?;
    let (parent, name) = trusted::split(&path)?;
    let directory = Dir::open(parent)?;
    let mut numbered = name.to_owned();
    let mut number = 0;
    loop {
        match directory.create_new(&numbered, 0o666) {
            Ok(file) => {
                let path = path.with_file_name(numbered);
                let created = Created::at(&path, &file)?;
                return Ok((path, file, Some(created)));
            }
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Err(_) => {}
        }
        // A device or a pipe can receive one recording after another. A directory fails to open for
        // writing.
        if number == 0 && !std::fs::metadata(&path).is_ok_and(|m| m.is_file()) {
            if !directory.is_trusted() {
                let kind = "a link, a device or a pipe in a directory of other users";
                return Err(Untrusted::Kind(path, kind).into());
            }
            let file = OpenOptions::new().write(true).open(&path)?;
            return Ok((path, file, None));
        }
        number += 1;
        name.clone_into(&mut numbered);
        numbered.push(format!(".{number}"));
    }
}

fn write(mut file: File, full: &Receiver<Vec<u8>>, emptied: &Sender<Vec<u8>>) -> io::Result<()> {
    for mut chunk in full {
        file.write_all(&chunk)?;
        chunk.clear();
        // The shard may have ended, and then does not need the empty chunk.
        let _ = emptied.send(chunk);
    }
    file.sync_all()
}

impl Tape {
    /// Hands over the recorded bytes, if they fill a chunk or have waited for [`PERIOD`].
    pub(crate) fn take(&mut self, recorder: &mut Recorder, now: Instant) {
        // After a failed attempt, the next one waits for `PERIOD` instead of being repeated on
        // every call.
        let full = recorder.bytes().len() >= CHUNK && !self.blocked;
        if full || self.due(recorder).is_some_and(|due| due <= now) {
            self.tried = now;
            self.blocked = !self.hand_over(recorder);
        }
    }

    /// Returns the time when the recorded bytes must be handed over, or `None` if there are
    /// none.
    pub(crate) fn due(&self, recorder: &Recorder) -> Option<Instant> {
        (!recorder.bytes().is_empty()).then_some(self.tried + PERIOD)
    }

    /// Hands over the rest and the end mark. Waits up to [`PATIENCE`] for space.
    pub(crate) fn end(&mut self, recorder: &mut Recorder) {
        recorder.end();
        let begun = std::time::Instant::now();
        while !self.hand_over(recorder) && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Hands over the recorded bytes. Returns false if the queue has no space for them yet.
    fn hand_over(&mut self, recorder: &mut Recorder) -> bool {
        if let Some(chunks) = &self.chunks {
            let mut chunk = self.empty.try_recv().unwrap_or_default();
            chunk.extend_from_slice(recorder.bytes());
            let failed = match chunks.try_send(chunk) {
                Ok(()) => None,
                // A short delay is absorbed by the recorder's own buffer.
                Err(TrySendError::Full(_)) if recorder.bytes().len() < WAITING => return false,
                Err(TrySendError::Full(_)) => Some("the file is too slow"),
                Err(TrySendError::Disconnected(_)) => Some("the file cannot be written"),
            };
            if let Some(reason) = failed {
                tracing::error!(
                    drive = self.name,
                    reason,
                    "the recording was cut off; the server continues without it"
                );
                self.chunks = None;
            }
        }
        recorder.clear();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::os::unix::fs::PermissionsExt;

    use weir_core::record::{Call, replay};

    fn tape(chunks: usize) -> (Tape, Receiver<Vec<u8>>) {
        let (chunks, full) = sync_channel(chunks);
        let tape = Tape {
            name: "d".to_owned(),
            chunks: Some(chunks),
            empty: channel().1,
            tried: Instant::ZERO,
            blocked: false,
        };
        (tape, full)
    }

    fn recorder() -> Recorder {
        let text = "listen.nbd = [\"unix:/run/weir.sock\"]\n[drive.d]\n";
        let server = weir_config::parse("", text).unwrap();
        Recorder::new(&weir_config::plan(&server, "d").unwrap().config)
    }

    fn idle(recorder: &mut Recorder, now: Instant) {
        let (outputs, wake) = (&[][..], None);
        recorder.append(now, &Call::Poll { outputs, wake });
    }

    /// Idle calls alone must not cause chunks, because there are more of them than the queue has
    /// space for.
    #[test]
    fn idle_calls_fill_few_chunks() {
        let (mut tape, full) = tape(CHUNKS);
        let mut recorder = recorder();
        for moment in 0..100_000 {
            let now = Instant::from_nanos(moment * 10_000);
            idle(&mut recorder, now);
            tape.take(&mut recorder, now);
        }
        tape.end(&mut recorder);
        drop(tape);
        // 100,000 calls that are 10 µs apart take one second, which is ten periods of 100 ms.
        let chunks: Vec<Vec<u8>> = full.iter().collect();
        assert!(chunks.len() < 20, "{} chunks in a second", chunks.len());
        let replayed = replay(&chunks.concat()).map_err(|error| error.to_string());
        // A layer without requests makes no decisions, so that the replay of its calls agrees
        // trivially.
        assert!(replayed.is_ok_and(|r| r.whole && r.calls == 100_000));
    }

    #[test]
    fn a_link_in_a_shared_directory_takes_no_recording() {
        let base = std::env::temp_dir().join(format!("weir-record-{}", std::process::id()));
        let (path, other) = (base.join("record"), base.join("other"));
        std::fs::create_dir(&base).unwrap();
        let made = ["record", "record.1"].map(|name| {
            let made = open(&path).unwrap();
            assert_eq!(made.0, base.join(name));
            made
        });
        // Recordings that have not begun are removed.
        drop(made);
        assert_eq!(std::fs::read_dir(&base).unwrap().count(), 0);
        // A link to a device is accepted in a directory of the own user, and refused in one that
        // every user can write to.
        std::os::unix::fs::symlink("/dev/null", &path).unwrap();
        assert_eq!(open(&path).unwrap().0, path);
        std::fs::set_permissions(&base, std::fs::Permissions::from_mode(0o777)).unwrap();
        let refused = open(&path).unwrap_err().to_string();
        assert!(
            refused.contains("in a directory of other users"),
            "{refused}"
        );
        drop(open(&other).unwrap());
        std::fs::remove_dir_all(base).unwrap();
    }

    #[test]
    fn a_slow_file_loses_nothing_and_a_stuck_one_cuts_the_recording() {
        let (mut tape, full) = tape(1);
        let mut recorder = recorder();
        let mut now = Instant::ZERO;
        let mut moments = |tape: &mut Tape, recorder: &mut Recorder, count: u64, apart| {
            for _ in 0..count {
                now += apart;
                idle(recorder, now);
                tape.take(recorder, now);
            }
        };
        moments(&mut tape, &mut recorder, 1000, Span::from_millis(1));
        // The queue has space for one chunk. 1,000 calls that are 1 ms apart are ten periods, in
        // which the file takes only that chunk.
        let mut bytes = full.try_recv().unwrap();
        moments(&mut tape, &mut recorder, 1000, Span::from_millis(1));
        bytes.extend(full.try_recv().unwrap());
        assert!(replay(&bytes).is_ok_and(|r| !r.whole));
        // The file stops altogether, and the recorded bytes grow to the limit.
        moments(&mut tape, &mut recorder, 1_000_000, Span::from_micros(1));
        assert!(tape.chunks.is_none() && recorder.bytes().len() < WAITING);
        tape.end(&mut recorder);
        bytes.extend(full.iter().flatten());
        assert!(replay(&bytes).is_ok_and(|r| !r.whole));
    }
}
