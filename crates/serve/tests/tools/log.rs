//! The log of the server, for tests that check it.

use std::io;
use std::sync::{Mutex, Once, PoisonError};

static LINES: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct LogWriter;

impl io::Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
        lines.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The log from a position on. Tests of one process run at the same time, so that each reads the
/// log by itself, and none takes lines from another.
pub(crate) struct LogReader {
    position: usize,
}

/// Returns a reader of the lines that are logged from now on. The first call starts to collect the
/// log.
pub(crate) fn listen() -> LogReader {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| {
        tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(|| LogWriter)
            .init();
    });
    let mut reader = LogReader { position: 0 };
    reader.take();
    reader
}

impl LogReader {
    /// Returns the text that was logged since the last call.
    pub(crate) fn take(&mut self) -> String {
        let lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&lines[self.position..]).into_owned();
        self.position = lines.len();
        text
    }
}
