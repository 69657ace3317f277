//! Many clients that start together, each on a thread and a connection of its own.
//!
//! [`Fleet::run`] connects all clients first. The threads then wait at a gate for the common start,
//! so that connecting takes no time from the measurement.

use crate::client::connection::{ConnectError, Connection};
use crate::client::program::{RunError, Settings, run};
use crate::load::{LoadClient, Program, Region, Trace};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};
use weir_core::rule::RuleViolation;
use weir_measure::Meter;
use weir_wire::nbd::Address;
use weir_wire::nbd::client::ClientHandshakeConfig;

/// The time limit of each client's handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The interval between two calls of `progress`.
const TICK: Duration = Duration::from_millis(100);

/// One client of a fleet, as it is configured.
#[derive(Debug, Clone)]
pub struct FleetMember {
    /// The client's name in results.
    pub name: String,
    /// The export to which the client connects.
    pub export: String,
    /// The client's program, whose times count from the common start.
    pub program: Program,
    /// The recorded load that the client plays. `None` if the program determines its requests.
    pub trace: Option<Arc<Trace>>,
    /// The part of the export that the client uses, or all of it if `None`.
    pub region: Option<Region>,
    /// The seed of the client's random choices.
    pub seed: u64,
}

/// Clients that start together, one thread and one connection each.
#[derive(Debug, Clone)]
pub struct Fleet {
    /// The address of the NBD server.
    pub address: Address,
    /// The clients, each of which has its own connection.
    pub members: Vec<FleetMember>,
    /// The time from the common start to the beginning of the measurement.
    ///
    /// It keeps the time in which other clients are still starting out of the results.
    pub warm_up: Duration,
    /// The length of the measurement, after which the clients stop.
    pub length: Duration,
    /// The longest time without a reply before a client ends with an error.
    pub patience: Duration,
}

/// The result of one client of a fleet.
#[derive(Debug)]
pub struct MemberOutcome {
    /// The client's measurements, in nanoseconds since the common start.
    pub meter: Meter,
    /// The reason why the client ended early, if it did.
    pub error: Option<RunError>,
}

/// The reason why a fleet did not start.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// A client could not connect to its export.
    #[error("client {name}: {error}")]
    Connect {
        /// The client's name.
        name: String,
        /// The cause.
        error: ConnectError,
    },
    /// A client's program is not valid on its export.
    #[error("client {name}: {error}")]
    Program {
        /// The client's name.
        name: String,
        /// The cause.
        error: RuleViolation,
    },
    /// The system could not start a thread for a client.
    #[error("client {name}: cannot start a thread: {error}")]
    Thread {
        /// The client's name.
        name: String,
        /// The cause.
        error: io::Error,
    },
}

impl Fleet {
    /// Runs all clients to the end of the measurement, and returns their results in the order of
    /// the members.
    ///
    /// All clients connect first and then start together. `progress` is called about ten times per
    /// second with the time since the start, and exactly when the measurement begins and ends.
    ///
    /// # Errors
    /// A client could not connect, its program does not fit its export, or its thread could not be
    /// started. In that case no client has run.
    pub fn run(
        &self,
        mut progress: impl FnMut(Duration),
    ) -> Result<Vec<MemberOutcome>, FleetError> {
        let (outcomes, _) = self.play(|passed| {
            progress(passed);
            true
        })?;
        Ok(outcomes)
    }

    /// Runs all clients as [`Self::run`] does, until `progress` returns false.
    ///
    /// Returns `None` if `progress` ended the run early. All clients have ended by then.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_while(
        &self,
        progress: impl FnMut(Duration) -> bool,
    ) -> Result<Option<Vec<MemberOutcome>>, FleetError> {
        let (outcomes, whole) = self.play(progress)?;
        Ok(whole.then_some(outcomes))
    }

    /// Runs the clients until the end, or until `progress` returns false. Returns the results, and
    /// true if the run reached its end.
    fn play(
        &self,
        mut progress: impl FnMut(Duration) -> bool,
    ) -> Result<(Vec<MemberOutcome>, bool), FleetError> {
        let ready = self.connect()?;
        let (gate, stop) = (Gate::default(), AtomicBool::new(false));
        thread::scope(|scope| {
            let threads = self.spawn(scope, ready, &gate, &stop)?;
            let start = Instant::now();
            gate.open(Start::At(start));
            let whole = self.watch(start, &threads, &mut progress);
            stop.store(true, Ordering::Relaxed);
            let outcomes = threads
                .into_iter()
                .map(|t| t.join().expect("a client does not panic"));
            // The gate was opened with a start time, so all of them have run.
            Ok((outcomes.flatten().collect(), whole))
        })
    }

    /// Waits until the measurement or all clients have ended. Returns false if `progress` returned
    /// false before that.
    fn watch<T>(
        &self,
        start: Instant,
        threads: &[ScopedJoinHandle<'_, T>],
        progress: &mut impl FnMut(Duration) -> bool,
    ) -> bool {
        let end = self.warm_up + self.length;
        let mut passed = Duration::ZERO;
        while passed < end && !threads.iter().all(ScopedJoinHandle::is_finished) {
            // The beginning and the end of the measurement are stops of their own, so that callers
            // can take readings for exactly that period.
            let stops = [passed + TICK, self.warm_up, end];
            let next = stops.into_iter().filter(|t| *t > passed).min();
            let at = start + next.unwrap_or(end);
            thread::sleep(at.saturating_duration_since(Instant::now()));
            passed = start.elapsed();
            if !progress(passed) {
                return false;
            }
        }
        true
    }

    fn connect(&self) -> Result<Vec<(Connection, LoadClient)>, FleetError> {
        let ready = self.members.iter().map(|member| {
            let name = || member.name.clone();
            let config = ClientHandshakeConfig::new(member.export.clone());
            let connection =
                Connection::open(&self.address, config, HANDSHAKE).map_err(|error| {
                    FleetError::Connect {
                        name: name(),
                        error,
                    }
                })?;
            let all = Region::new(0, connection.session().size);
            let region = member.region.unwrap_or(all);
            let client = match &member.trace {
                Some(trace) => LoadClient::replay(&member.program, trace.clone(), region),
                None => LoadClient::new(&member.program, member.seed, region),
            };
            let client = client.map_err(|error| FleetError::Program {
                name: name(),
                error,
            })?;
            Ok((connection, client))
        });
        ready.collect()
    }

    /// Starts one thread for each client. The threads wait at the gate.
    fn spawn<'s>(
        &'s self,
        scope: &'s Scope<'s, '_>,
        ready: Vec<(Connection, LoadClient)>,
        gate: &'s Gate,
        stop: &'s AtomicBool,
    ) -> Result<Vec<ScopedJoinHandle<'s, Option<MemberOutcome>>>, FleetError> {
        let mut threads = Vec::new();
        for ((connection, client), member) in ready.into_iter().zip(&self.members) {
            let work = move || {
                // The default timer slack of 50 us (prctl(2), `PR_SET_TIMERSLACK`) would be added
                // to each wait, as late requests of an open loop. If the call fails, requests are
                // only less punctual.
                let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
                let origin = gate.wait()?;
                Some(self.run_one(connection, client, origin, stop))
            };
            let named = thread::Builder::new().name(member.name.clone());
            match named.spawn_scoped(scope, work) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    // The scope joins the threads that were started already, so they must pass the
                    // gate.
                    gate.open(Start::Cancelled);
                    let name = member.name.clone();
                    return Err(FleetError::Thread { name, error });
                }
            }
        }
        Ok(threads)
    }

    fn run_one(
        &self,
        connection: Connection,
        client: LoadClient,
        origin: Instant,
        stop: &AtomicBool,
    ) -> MemberOutcome {
        let nanos = |d: Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
        let mut meter = Meter::new(nanos(self.warm_up), nanos(self.length));
        // Reads, writes and flushes are measured separately only if the program has several of
        // them.
        meter.measure_kinds(client.program().kinds());
        let settings = Settings {
            origin,
            stop,
            patience: self.patience,
        };
        let error = run(connection, client, &mut meter, &settings).err();
        MemberOutcome { meter, error }
    }
}

/// A barrier at which the threads of clients wait for their common start.
#[derive(Debug, Default)]
struct Gate {
    state: Mutex<Start>,
    opened: Condvar,
}

#[derive(Debug, Clone, Copy, Default)]
enum Start {
    #[default]
    Awaited,
    At(Instant),
    Cancelled,
}

impl Gate {
    fn open(&self, start: Start) {
        // Poisoning cannot leave a half-written state, because the state is replaced by one
        // assignment.
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = start;
        self.opened.notify_all();
    }

    /// Waits for the common start. Returns `None` if it was cancelled.
    fn wait(&self) -> Option<Instant> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match *state {
                Start::At(start) => return Some(start),
                Start::Cancelled => return None,
                Start::Awaited => {
                    let woken = self.opened.wait(state);
                    state = woken.unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}
