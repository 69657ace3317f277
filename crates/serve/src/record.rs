//! Writing down what the core was told and what it decided, beside the shard.
//!
//! Each drive has a file of its own, written by a thread of its own from bounded chunks. A record with a gap could not be
//! replayed, so when the file cannot keep up the record ends there, with a line in the log; the drive is not slowed down.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, channel, sync_channel};
use std::thread::JoinHandle;

use weir_core::record::Recorder;

/// Bytes of a chunk, about: one is handed over when there are as many, or when the shard has nothing to do.
const CHUNK: usize = 256 << 10;
/// Chunks on their way: with their size, what a record takes of memory.
const CHUNKS: usize = 64;

/// The shard's end of a record.
#[derive(Debug)]
pub(crate) struct Tape {
    name: String,
    chunks: Option<SyncSender<Vec<u8>>>,
    empty: Receiver<Vec<u8>>,
}

/// The file of a drive: `path` itself where there is but one drive, else with the drive's name appended.
pub(crate) fn path(path: &Path, drive: &str, only: bool) -> PathBuf {
    if only {
        return path.to_owned();
    }
    let mut name = path.as_os_str().to_owned();
    // A name can hold anything but control characters.
    name.push(format!(".{}", drive.replace('/', "_")));
    PathBuf::from(name)
}

/// Creates the file (an older one is replaced) and starts its thread.
pub(crate) fn start(path: &Path, drive: &str) -> io::Result<(Tape, JoinHandle<()>)> {
    let file = File::create(path)?;
    let (chunks, full) = sync_channel(CHUNKS);
    let (emptied, empty) = channel();
    let shown = path.display().to_string();
    let thread = std::thread::Builder::new()
        .name("weir-record".to_owned())
        .spawn(move || {
            if let Err(error) = write(file, &full, &emptied) {
                tracing::error!(file = shown, %error, "the record ends early");
            }
        })?;
    let tape = Tape {
        name: drive.to_owned(),
        chunks: Some(chunks),
        empty,
    };
    Ok((tape, thread))
}

fn write(
    mut file: File,
    full: &Receiver<Vec<u8>>,
    emptied: &std::sync::mpsc::Sender<Vec<u8>>,
) -> io::Result<()> {
    for mut chunk in full {
        file.write_all(&chunk)?;
        chunk.clear();
        // The shard may be gone already.
        let _ = emptied.send(chunk);
    }
    file.sync_all()
}

impl Tape {
    /// Hands over what was recorded: if it is a chunk, or whatever there is if `all`.
    pub(crate) fn take(&mut self, recorder: &mut Recorder, all: bool) {
        let bytes = recorder.bytes();
        if bytes.is_empty() || bytes.len() < CHUNK && !all {
            return;
        }
        if let Some(chunks) = &self.chunks {
            let mut chunk = self.empty.try_recv().unwrap_or_default();
            chunk.extend_from_slice(bytes);
            let failed = match chunks.try_send(chunk) {
                Ok(()) => None,
                Err(TrySendError::Full(_)) => Some("its file is too slow"),
                Err(TrySendError::Disconnected(_)) => Some("its file cannot be written"),
            };
            if let Some(reason) = failed {
                tracing::error!(drive = self.name, reason, "the record ends here");
                self.chunks = None;
            }
        }
        recorder.clear();
    }
}
