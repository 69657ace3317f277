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

/// Starts to collect the log, once per process.
pub(crate) fn listen() {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| {
        tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(|| LogWriter)
            .init();
    });
}

/// Returns the text that was logged since the last call.
pub(crate) fn take() -> String {
    let mut lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    let text = String::from_utf8_lossy(&lines).into_owned();
    lines.clear();
    text
}
