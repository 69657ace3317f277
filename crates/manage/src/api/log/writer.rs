//! The thread that writes the log, and the bounded queue to it.

use super::repeats::Repeats;
use std::io::{self, ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// The maximum number of lines in the queue: at most 8 MiB with lines of the maximum length.
const WAITING: usize = 1024;
/// The minimum time between two reports of dropped lines.
const REPORTED_EVERY: Duration = Duration::from_secs(10);
/// The pause before another attempt to pass a message to the thread, or to write to a non-blocking
/// standard error.
const AGAIN: Duration = Duration::from_millis(5);

/// The reason in the report of dropped lines.
const WHY: &str = "standard error did not accept them in time, or failed";

/// The sending side of the queue.
#[derive(Debug)]
pub(super) struct LogQueue {
    messages: SyncSender<WriterMessage>,
    dropped: Arc<AtomicU64>,
}

#[derive(Debug)]
enum WriterMessage {
    /// A line of the log, with its line feed.
    Line(Vec<u8>),
    /// Text that is not a line of the log.
    Text(Vec<u8>),
    /// A request to write everything before it, including counts. The sender is dropped when that
    /// is done.
    Flush(SyncSender<()>),
}

impl LogQueue {
    /// Starts the thread, which writes to `out`.
    pub(super) fn start(out: impl Write + Send + 'static) -> io::Result<Self> {
        let (messages, waiting) = sync_channel(WAITING);
        let dropped = Arc::<AtomicU64>::default();
        let writer = Writer {
            out,
            torn: false,
            repeats: Repeats::default(),
            dropped: Arc::clone(&dropped),
            time: None,
            reported: 0,
            report_at: Instant::now(),
        };
        let thread = std::thread::Builder::new().name("weir-log".to_owned());
        thread.spawn(move || writer.run(&waiting))?;
        Ok(Self { messages, dropped })
    }

    /// Returns the counter of lines that were not written, because the queue was full or a write
    /// failed.
    pub(super) fn dropped(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.dropped)
    }

    /// Queues a line. Never waits: if the queue is full, the line is dropped and counted.
    pub(super) fn push(&self, line: Vec<u8>) {
        self.send(WriterMessage::Line(line));
    }

    /// Queues text that is not a line of the log, in the same way as [`push`](Self::push).
    pub(super) fn push_text(&self, text: Vec<u8>) {
        self.send(WriterMessage::Text(text));
    }

    fn send(&self, message: WriterMessage) {
        if self.messages.try_send(message).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Queues text, and waits within a time until it is written.
    pub(super) fn print(&self, text: Vec<u8>, within: Duration) {
        let deadline = Instant::now().checked_add(within);
        if self.send_until(WriterMessage::Text(text), deadline) {
            self.flush_until(deadline);
        }
    }

    /// Waits within a time until all queued lines are written.
    pub(super) fn flush(&self, within: Duration) {
        self.flush_until(Instant::now().checked_add(within));
    }

    fn flush_until(&self, deadline: Option<Instant>) {
        let (flushed, written) = sync_channel(0);
        if self.send_until(WriterMessage::Flush(flushed), deadline) {
            // The channel is closed without a message when everything is written.
            let _ = written.recv_timeout(left(deadline));
        }
    }

    /// Passes a message to the thread. Returns false if the queue had no space until `deadline`.
    fn send_until(&self, mut message: WriterMessage, deadline: Option<Instant>) -> bool {
        use std::sync::mpsc::TrySendError::{Disconnected, Full};
        loop {
            match self.messages.try_send(message) {
                Ok(()) => return true,
                Err(Full(again)) if !left(deadline).is_zero() => message = again,
                Err(Full(_) | Disconnected(_)) => return false,
            }
            std::thread::sleep(AGAIN);
        }
    }
}

/// Returns the time until `deadline`, or the maximum if there is no deadline.
fn left(deadline: Option<Instant>) -> Duration {
    deadline.map_or(Duration::MAX, |at| {
        at.saturating_duration_since(Instant::now())
    })
}

/// The state of the writer's thread.
#[derive(Debug)]
struct Writer<W> {
    out: W,
    /// True if only a part of the last line was written.
    torn: bool,
    repeats: Repeats,
    dropped: Arc<AtomicU64>,
    /// The time of the last line, in the subscriber's format.
    time: Option<Vec<u8>>,
    /// The number of dropped lines that have been reported.
    reported: u64,
    /// The earliest time of the next report.
    report_at: Instant,
}

impl<W: Write> Writer<W> {
    /// Writes messages until the queue is dropped.
    fn run(mut self, waiting: &Receiver<WriterMessage>) {
        loop {
            match waiting.recv_timeout(left(self.repeats.due())) {
                Ok(message) => self.take(message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let now = Instant::now();
            while let Some(sum) = self.repeats.sum(now) {
                self.write(&sum);
            }
        }
    }

    fn take(&mut self, message: WriterMessage) {
        match message {
            WriterMessage::Line(line) => {
                // A report of dropped lines has no time of its own.
                self.time = line.split(|byte| *byte == b' ').next().map(<[u8]>::to_vec);
                let lines = self.repeats.take(line, Instant::now());
                lines.iter().flatten().for_each(|line| self.write(line));
            }
            WriterMessage::Text(text) => {
                self.sum_up();
                self.write(&text);
            }
            // The sender is dropped at the end of this arm, which tells the waiting thread that all
            // is written.
            WriterMessage::Flush(_flushed) => {
                self.sum_up();
                // A flush can be the last chance for a report.
                self.report_at = Instant::now();
                self.report();
            }
        }
    }

    /// Writes the counts of all repeated lines, and forgets the lines.
    fn sum_up(&mut self) {
        let sums: Vec<Vec<u8>> = self.repeats.end().collect();
        for sum in sums {
            self.write(&sum);
        }
    }

    /// Writes a line, or counts it as dropped. After an error, the thread continues, because the
    /// next write can succeed.
    fn write(&mut self, line: &[u8]) {
        if self.write_whole(line).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        } else {
            self.report();
        }
    }

    /// Writes a line completely, or returns the first error.
    fn write_whole(&mut self, line: &[u8]) -> io::Result<()> {
        // The rest of a line that failed is lost. A line feed keeps the next line separate.
        if self.torn {
            self.write_part(b"\n")?;
            self.torn = false;
        }
        let mut rest = line;
        while !rest.is_empty() {
            rest = &rest[self.write_part(rest)?..];
            self.torn = !rest.is_empty();
        }
        Ok(())
    }

    /// Writes as many bytes as possible at once. Waits if the pipe is full.
    fn write_part(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.out.write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Another process that shares the pipe or terminal has made it non-blocking.
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(AGAIN),
                outcome => return outcome,
            }
        }
    }

    /// Writes the number of dropped lines, now that writes succeed.
    fn report(&mut self) {
        let dropped = self.dropped.load(Ordering::Relaxed);
        let lines = dropped - self.reported;
        let now = Instant::now();
        if lines > 0 && now >= self.report_at {
            let mut line = self.time.clone().unwrap_or_default();
            let said = format!("  WARN {lines} lines of the log were dropped: {WHY}\n");
            line.extend(said.as_bytes());
            if self.write_whole(&line).is_ok() {
                self.reported = dropped;
                self.report_at = now + REPORTED_EVERY;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::sync::Mutex;

    /// A standard error that accepts only some bytes.
    #[derive(Clone, Default)]
    struct FakeOutput {
        written: Arc<Mutex<Vec<u8>>>,
        /// The numbers of bytes that it accepts before each error.
        takes: Vec<usize>,
    }

    impl Write for FakeOutput {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut written = self.written.lock().unwrap();
            let room = match self.takes.first() {
                Some(0) => {
                    self.takes.remove(0);
                    return Err(ErrorKind::StorageFull.into());
                }
                Some(room) => bytes.len().min(*room),
                None => bytes.len(),
            };
            self.takes.iter_mut().take(1).for_each(|left| *left -= room);
            written.extend(&bytes[..room]);
            Ok(room)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl FakeOutput {
        fn text(&self) -> String {
            String::from_utf8(self.written.lock().unwrap().clone()).unwrap()
        }
    }

    fn line(number: usize) -> Vec<u8> {
        format!("{number}Z  INFO line {number}\n").into()
    }

    #[test]
    fn an_unread_log_blocks_no_writer_and_later_reports_dropped_lines() {
        let out = FakeOutput::default();
        let stuck = out.written.lock().unwrap();
        let queue = LogQueue::start(out.clone()).unwrap();
        for number in 0..2 * WAITING {
            queue.push(line(number));
        }
        queue.flush(Duration::from_millis(1));
        let dropped = queue.dropped.load(Ordering::Relaxed) as usize;
        // The queue takes half of the lines, and the thread may have one more.
        assert!(dropped + 1 >= WAITING, "{dropped}");
        drop(stuck);
        queue.flush(Duration::MAX);
        let text = out.text();
        let (first, second) = (line(0), format!("0Z  WARN {dropped} lines of the log"));
        assert!(text.as_bytes().starts_with(&first), "{text}");
        assert!(text.lines().nth(1).unwrap().starts_with(&second), "{text}");
        assert_eq!(text.lines().count(), 2 * WAITING - dropped + 1);
    }

    #[test]
    fn a_write_that_fails_ends_nothing_and_is_counted() {
        let out = FakeOutput {
            // Line 0 fails. Line 1 fails after 5 bytes. Line 2 fails at the line feed that ends
            // line 1.
            takes: vec![0, 5, 0],
            ..FakeOutput::default()
        };
        let queue = LogQueue::start(out.clone()).unwrap();
        for number in 0..5 {
            queue.push(line(number));
        }
        queue.flush(Duration::MAX);
        assert_eq!(queue.dropped.load(Ordering::Relaxed), 3);
        let expected = format!(
            "1Z  I\n3Z  INFO line 3\n3Z  WARN 3 lines of the log were dropped: {WHY}\n4Z  INFO line 4\n"
        );
        assert_eq!(out.text(), expected);
    }

    #[test]
    fn repetitions_are_summed_up_at_the_end() {
        let out = FakeOutput::default();
        let queue = LogQueue::start(out.clone()).unwrap();
        for second in 0..6 {
            queue.push(format!("{second}Z  INFO again\n").into());
        }
        queue.print(b"error: it ends\n".to_vec(), Duration::MAX);
        let text = out.text();
        let end = "5Z  INFO again (repeated 3 times in 30 s)\nerror: it ends\n";
        assert!(text.ends_with(end), "{text}");
        assert_eq!(text.lines().count(), 5);
    }
}
