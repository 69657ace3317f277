//! A server that a test has started as a child process.

use super::{Scratch, signal, weir};
use rustix::process::Signal;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use weir_model::client::{Address, ConnectError, Connection, Fleet, FleetMember};
use weir_model::load::Program;
use weir_wire::nbd::client::ClientHandshakeConfig;

/// A running server, with its log.
pub(crate) struct RunningServer {
    pub(crate) child: Child,
    pub(crate) address: Address,
    pub(crate) log: Arc<Mutex<String>>,
    pub(crate) reader: JoinHandle<()>,
}

/// Starts the command, and waits for the address that it prints.
pub(crate) fn start(command: &mut Command) -> RunningServer {
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    let log = Arc::<Mutex<String>>::default();
    // A thread reads the log until the server ends, so that a full pipe never blocks the server.
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
    RunningServer {
        child,
        address,
        log,
        reader,
    }
}

/// Starts a server with the file `weir.toml` in the scratch directory.
pub(crate) fn serve(scratch: &Scratch) -> RunningServer {
    start(&mut weir(scratch, "serve weir.toml"))
}

/// Connects a client to an export.
pub(crate) fn open(address: &Address, export: &str) -> Result<Connection, ConnectError> {
    Connection::open(address, ClientHandshakeConfig::new(export), PATIENCE)
}

/// Returns a fleet of clients, each of which runs a program on an export for the given time.
pub(crate) fn fleet(address: &Address, clients: &[(&str, Program)], length: Duration) -> Fleet {
    // Each client has a seed of its own, so that their accesses differ.
    let members = (1..)
        .zip(clients)
        .map(|(seed, (export, program))| FleetMember {
            name: (*export).to_owned(),
            export: (*export).to_owned(),
            program: *program,
            trace: None,
            region: None,
            seed,
        });
    Fleet {
        address: address.clone(),
        members: members.collect(),
        warm_up: Duration::ZERO,
        length,
        patience: PATIENCE,
    }
}

/// The longest time for which a client waits for a server.
const PATIENCE: Duration = Duration::from_mins(1);

impl RunningServer {
    pub(crate) fn says(&self, what: &str) -> bool {
        self.log.lock().unwrap().contains(what)
    }

    /// Asks the server to end, and checks that it ends without an error.
    pub(crate) fn end(mut self) {
        signal(&self.child, Signal::TERM);
        let status = self.child.wait().unwrap().code();
        self.reader.join().unwrap();
        assert_eq!(status, Some(0), "{}", self.log.lock().unwrap());
    }
}
