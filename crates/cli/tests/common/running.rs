//! A server that a test has started.

use super::signal;
use rustix::process::Signal;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use weir_model::client::Address;

/// A running server.
pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) address: Address,
    pub(crate) log: Arc<Mutex<String>>,
    pub(crate) reader: JoinHandle<()>,
}

/// Starts the command and waits for the address it prints.
pub(crate) fn start(command: &mut Command) -> Running {
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    let log = Arc::<Mutex<String>>::default();
    let (lines, kept) = (BufReader::new(child.stderr.take().unwrap()), log.clone());
    let reader = thread::spawn(move || {
        for line in lines.lines() {
            *kept.lock().unwrap() += &(line.unwrap() + "\n");
        }
    });
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.as_mut().unwrap());
    out.read_line(&mut line).unwrap();
    let address = line.trim_end().parse();
    let address = address.unwrap_or_else(|e| panic!("{e}: {line:?}, {}", log.lock().unwrap()));
    Running {
        child,
        address,
        log,
        reader,
    }
}

impl Running {
    pub(crate) fn says(&self, what: &str) -> bool {
        self.log.lock().unwrap().contains(what)
    }

    /// Asks it to end; it must do so well.
    pub(crate) fn end(mut self) {
        signal(&self.child, Signal::TERM);
        let status = self.child.wait().unwrap().code();
        self.reader.join().unwrap();
        assert_eq!(status, Some(0), "{}", self.log.lock().unwrap());
    }
}
