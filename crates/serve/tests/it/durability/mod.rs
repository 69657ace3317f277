//! Power cuts on a drive while several clients write: all writes that a FLUSH or FUA has
//! acknowledged survive.

mod disk;
mod ledger;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use weir_config::ListenAddress;
use weir_core::random::Rng;
use weir_serve::{LiveServer, ServerOptions};
use weir_wire::nbd::{CommandFlags, NbdCommand};

use crate::tools::raw::{self, Raw};
use crate::tools::{Temp, parse};
use disk::Power;
use ledger::{PromiseLedger, SECTOR};

/// The number of sectors of the volume. It is small, so that clients often write to the same
/// sectors.
const SECTORS: u64 = 128;
const CLIENTS: u64 = 4;
/// The number of power cuts, each with a new server.
const CUTS: u64 = 100;

const NONE: CommandFlags = CommandFlags::EMPTY;

/// The state that the clients of one run share.
#[derive(Debug)]
struct PowerCutRun {
    ledger: Mutex<PromiseLedger>,
    power: Power,
    over: AtomicBool,
    /// The number of promises until the power is cut.
    left: Mutex<u64>,
    /// True if the cut lost data.
    lost: AtomicBool,
}

impl PowerCutRun {
    fn ledger(&self) -> MutexGuard<'_, PromiseLedger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a promise, and cuts the power immediately after the last one.
    fn promised(&self) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        *left = left.saturating_sub(1);
        if *left == 0 && !self.over.swap(true, Ordering::SeqCst) {
            self.lost.store(self.power.cut(), Ordering::SeqCst);
        }
    }
}

/// The request that was sent with a cookie.
enum PowerCutRequest {
    Write { number: usize, fua: bool },
    Flush(u64),
    Read,
}

/// Runs a client, which sends batches of one to four requests until the power is cut.
fn life(run: &PowerCutRun, mut client: Raw, mut rng: Rng) {
    while !run.over.load(Ordering::SeqCst) {
        let batch = rng.range(1, 5);
        let mut sent: Vec<(u64, PowerCutRequest)> = Vec::new();
        for _ in 0..batch {
            let first = rng.range(0, SECTORS);
            let sectors = first..(first + rng.range(1, 24)).min(SECTORS);
            let (offset, length) = (
                first * SECTOR as u64,
                (sectors.end - first) as u32 * SECTOR as u32,
            );
            let (command, flags, what, payload) = match rng.range(0, 8) {
                0 => (NbdCommand::Read, NONE, PowerCutRequest::Read, Vec::new()),
                1 | 2 => {
                    let number = run.ledger().flush();
                    (
                        NbdCommand::Flush,
                        NONE,
                        PowerCutRequest::Flush(number),
                        Vec::new(),
                    )
                }
                kind => {
                    let fua = kind == 3;
                    let number = run.ledger().write(sectors.clone(), fua);
                    let bytes = PromiseLedger::bytes(number, &sectors);
                    let what = PowerCutRequest::Write { number, fua };
                    (NbdCommand::Write, raw::fua(fua), what, bytes)
                }
            };
            let (offset, length) = match command {
                NbdCommand::Flush => (0, 0),
                _ => (offset, length),
            };
            let cookie = client.request(command, flags, offset, length, &payload);
            sent.push((cookie.unwrap(), what));
        }
        for _ in 0..sent.len() {
            let (cookie, ended) = client.answer().unwrap();
            let place = sent.iter().position(|(c, _)| *c == cookie);
            let (_, what) = sent.swap_remove(place.expect("an answer to each request, once"));
            if ended.is_err() {
                // The power is off, so the effect of this request is unknown.
                continue;
            }
            match what {
                PowerCutRequest::Write { number, fua } => {
                    run.ledger().written(number);
                    if fua {
                        run.promised();
                    }
                }
                PowerCutRequest::Flush(number) => {
                    run.ledger().flushed(number);
                    run.promised();
                }
                PowerCutRequest::Read => {}
            }
        }
    }
}

/// Starts a server on the disk of a volume. Returns the server and its address.
fn serve(directory: &Temp, volume: &str) -> (LiveServer, ListenAddress) {
    let text = format!(
        "listen.nbd = [\"unix:{}/nbd.sock\"]\n\
         [drive.d]\npolicy = \"none\"\nmax_transfer = \"4KiB\"\n\
         [volume.{volume}]\ndrive = \"d\"\nmemory = true\nsize = \"{}KiB\"\n",
        directory.path().display(),
        SECTORS * SECTOR as u64 / 1024
    );
    let options = ServerOptions {
        storage: disk::open,
        ..ServerOptions::default()
    };
    let server = LiveServer::start(&parse(&text), &options).unwrap_or_else(|e| panic!("{e}"));
    let address = server.addresses()[0].clone();
    (server, address)
}

#[test]
fn a_hundred_power_cuts_lose_no_durable_write() {
    let directory = Temp::new();
    let (mut at_stake, mut lossy) = (0, 0);
    for seed in 0..CUTS {
        let volume = format!("cut-{seed}");
        let power = Power::new(&volume, SECTORS as usize * SECTOR, seed);
        let (server, address) = serve(&directory, &volume);
        let mut rng = Rng::new(seed);
        let run = PowerCutRun {
            ledger: Mutex::default(),
            power,
            over: AtomicBool::new(false),
            left: Mutex::new(rng.range(1, 60)),
            lost: AtomicBool::new(false),
        };
        std::thread::scope(|scope| {
            for client in 0..CLIENTS {
                let connection = Raw::open(&address, &volume).unwrap();
                let rng = Rng::new(seed * CLIENTS + client);
                let run = &run;
                // All clients stop at the cut, so the server has no requests left.
                scope.spawn(move || life(run, connection, rng));
            }
        });
        drop(server);
        let left = run.power.contents();
        let ledger = run.ledger();
        let lost = ledger.check_all(&left);
        assert!(lost.is_empty(), "cut {seed}: lost {lost:?}");
        at_stake += ledger.promised();
        lossy += u32::from(run.lost.load(Ordering::SeqCst));
        if seed % 10 == 0 {
            // A client of the next server on this drive reads the same.
            let (_server, address) = serve(&directory, &volume);
            let mut client = Raw::open(&address, &volume).unwrap();
            let read = client.read(0, left.len() as u32);
            assert!(read.unwrap() == left, "cut {seed}");
        }
    }
    assert!(at_stake > 1000, "{at_stake} writes were promised");
    // Without promises, data can be lost. If it never was, this disk would reveal no bug.
    assert!(lossy > 50, "{lossy} of {CUTS} cuts lost something");
}
