//! Hostile clients: invalid input of all kinds, drawn from a seed.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::net::{Shutdown, shutdown};
use weir_config::ListenAddress;
use weir_core::random::Rng;
use weir_wire::nbd::{CommandFlags, NbdCommand, REQUEST_LEN};

use super::raw::{Raw, RawStream, header};
use super::until;

/// The number of connections that an attacker leaves open, with incomplete handshakes or unread
/// answers.
const LEFT_OPEN: usize = 8;
/// The largest number of connections of one flood.
const FLOOD: u64 = 12;
/// The time between two attacks, because the attacked clients need processor time as well.
const PAUSE: Duration = Duration::from_millis(2);

const GREETING_LEN: usize = 18;
const OPTION_MAGIC: &[u8] = b"IHAVEOPT";

/// An attack on one volume that continues until it is ended. It never sends a complete write, trim
/// or zeroing that the server could carry out, so that the data of the volume must not change.
#[derive(Debug)]
pub(crate) struct Attack {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Attack {
    /// Starts an attack. Returns when the first ten attempts have been made.
    pub(crate) fn start(address: &ListenAddress, export: &str, seed: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let done = Arc::new(AtomicU64::new(0));
        let mut attacker = Attacker {
            address: address.clone(),
            export: export.to_owned(),
            rng: Rng::new(seed),
            left_open: VecDeque::new(),
        };
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&done));
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                attacker.attack();
                counted.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(PAUSE);
            }
        });
        let attack = Self {
            stop,
            done,
            thread: Some(thread),
        };
        let has_begun = || attack.count() >= 10 || !attack.is_alive();
        until("the server keeps its attacker", has_begun);
        attack
    }

    /// Returns the number of attempts so far.
    pub(crate) fn count(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    fn is_alive(&self) -> bool {
        self.thread.as_ref().is_some_and(|t| !t.is_finished())
    }

    /// Ends the attack. Fails if the server did not accept a connection. Returns the number of
    /// attempts.
    pub(crate) fn end(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("it is ended once");
        thread.join().expect("the attacker can still connect");
        self.count()
    }
}

impl Drop for Attack {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The result is ignored, because the test has failed already.
            let _ = thread.join();
        }
    }
}

struct Attacker {
    address: ListenAddress,
    export: String,
    rng: Rng,
    left_open: VecDeque<RawStream>,
}

impl Attacker {
    /// Makes one attempt. Usually the server closes the connection during it.
    fn attack(&mut self) {
        let stream = RawStream::connect(&self.address).expect("the server accepts connections");
        stream.patience(Duration::from_millis(500));
        let kind = self.rng.range(0, 11);
        // The result is ignored, because the server closes connections over the limit immediately.
        let _ = match kind {
            0 => self.garbage(stream),
            1 => self.bad_option(stream),
            2 => self.half_a_handshake(stream),
            3 => self.huge_option(stream),
            4 => self.flood(),
            5 => self.bad_magic(),
            6 | 7 => self.wild_requests(),
            8 | 9 => self.half_a_write(),
            10 => self.never_reading(),
            _ => self.leaving_in_the_middle(),
        };
    }

    fn bytes(&mut self, most: u64) -> Vec<u8> {
        let length = self.rng.range(0, most);
        (0..length).map(|_| self.rng.next_u64() as u8).collect()
    }

    fn leave_open(&mut self, stream: RawStream) {
        self.left_open.push_back(stream);
        if self.left_open.len() > LEFT_OPEN {
            self.left_open.pop_front();
        }
    }

    /// Sends random bytes instead of a handshake.
    fn garbage(&mut self, mut stream: RawStream) -> io::Result<()> {
        let bytes = self.bytes(5000);
        stream.write_all(&bytes)
    }

    /// Sends valid client flags, followed by something other than an option or by an unknown
    /// option.
    fn bad_option(&mut self, mut stream: RawStream) -> io::Result<()> {
        greet(&mut stream)?;
        let mut bytes = OPTION_MAGIC.to_vec();
        let at = self.rng.range(0, 7) as usize;
        bytes[at] ^= self.rng.range(0, 255) as u8;
        bytes.extend(self.bytes(64));
        stream.write_all(&bytes)
    }

    /// Stops a handshake at any byte, and then closes the connection or leaves it open.
    fn half_a_handshake(&mut self, mut stream: RawStream) -> io::Result<()> {
        let mut whole = 3u32.to_be_bytes().to_vec();
        whole.extend(option(7, &go(&self.export)));
        let end = self.rng.range(0, whole.len() as u64 - 1) as usize;
        stream.write_all(&whole[..end])?;
        if self.rng.range(0, 1) == 0 {
            self.leave_open(stream);
        }
        Ok(())
    }

    /// Sends an option that announces too many bytes or has wrong inner lengths.
    fn huge_option(&mut self, mut stream: RawStream) -> io::Result<()> {
        greet(&mut stream)?;
        let kind = self.rng.range(1, 12) as u32;
        let mut bytes = option(kind, &go(&self.export));
        let lie = [u32::MAX, 1 << 31, 1 << 20, 5][self.rng.range(0, 3) as usize];
        // The length of the option, or that of the name in it.
        let at = if self.rng.range(0, 1) == 0 { 12 } else { 16 };
        bytes[at..at + 4].copy_from_slice(&lie.to_be_bytes());
        stream.write_all(&bytes)?;
        let more = self.bytes(20_000);
        stream.write_all(&more)
    }

    /// Opens many connections at once that send nothing.
    fn flood(&mut self) -> io::Result<()> {
        let count = self.rng.range(2, FLOOD);
        let streams: io::Result<Vec<RawStream>> = (0..count)
            .map(|_| RawStream::connect(&self.address))
            .collect();
        drop(streams?);
        Ok(())
    }

    fn bad_magic(&mut self) -> io::Result<()> {
        let mut raw = Raw::open(&self.address, &self.export)?;
        let mut bytes = header(NbdCommand::Read, CommandFlags::EMPTY, 1, 0, 4096);
        let at = self.rng.range(0, 3) as usize;
        bytes[at] ^= 1 << self.rng.range(0, 7);
        raw.stream.write_all(&bytes)?;
        let more = self.bytes(REQUEST_LEN as u64 * 3);
        raw.stream.write_all(&more)
    }

    /// Sends requests with any command and flags at any offset, but none that could change the
    /// volume.
    fn wild_requests(&mut self) -> io::Result<()> {
        let mut raw = Raw::open(&self.address, &self.export)?;
        let size = raw.session.size;
        for _ in 0..self.rng.range(1, 40) {
            let command = NbdCommand::from_wire(match self.rng.range(0, 9) {
                0 => self.rng.next_u64() as u16,
                known => known as u16,
            });
            let offset = match self.rng.range(0, 3) {
                0 => self.rng.next_u64(),
                1 => size - self.rng.range(0, 4096),
                2 => u64::MAX - self.rng.range(0, 4096),
                _ => self.rng.range(0, size),
            };
            let length = match self.rng.range(0, 3) {
                0 => self.rng.next_u64() as u32,
                1 => 0,
                _ => self.rng.range(0, 1 << 20) as u32,
            };
            let mut flags = match self.rng.range(0, 2) {
                0 => self.rng.next_u64() as u16,
                1 => 1 << self.rng.range(0, 4),
                _ => 0,
            };
            if command.modifies() {
                // No command has this flag, so the request is refused whatever its other fields
                // are.
                flags |= 1 << 14;
            }
            let flags = CommandFlags::from_bits(flags);
            let bytes = header(command, flags, self.rng.next_u64(), offset, length);
            raw.stream.write_all(&bytes)?;
        }
        // Reads some of the answers, and leaves a long read in the middle.
        let mut some = [0; 4096];
        let _ = raw.stream.read(&mut some);
        Ok(())
    }

    /// Sends a write to a range with other clients' data, without the last bytes of its payload.
    fn half_a_write(&mut self) -> io::Result<()> {
        let mut raw = Raw::open(&self.address, &self.export)?;
        let length = self.rng.range(1, 256 << 10);
        let offset = self.rng.range(0, raw.session.size - length);
        let bytes = header(
            NbdCommand::Write,
            CommandFlags::FUA,
            9,
            offset,
            length as u32,
        );
        raw.stream.write_all(&bytes)?;
        let sent = self.rng.range(0, length - 1) as usize;
        raw.stream.write_all(&vec![0xee; sent])?;
        if self.rng.range(0, 1) == 0 {
            self.leave_open(raw.stream);
        }
        Ok(())
    }

    /// Sends as many requests as the server takes, and reads no answer.
    fn never_reading(&mut self) -> io::Result<()> {
        let mut raw = Raw::open(&self.address, &self.export)?;
        raw.stream.never_wait();
        let length = 1 << self.rng.range(9, 20);
        for cookie in 0..1000 {
            let request = header(NbdCommand::Read, CommandFlags::EMPTY, cookie, 0, length);
            // The last write can be partial, which is irrelevant here.
            if raw.stream.write(&request).is_err() {
                break;
            }
        }
        self.leave_open(raw.stream);
        Ok(())
    }

    /// Disconnects while requests are outstanding, either immediately or by closing only one
    /// direction.
    fn leaving_in_the_middle(&mut self) -> io::Result<()> {
        let mut raw = Raw::open(&self.address, &self.export)?;
        for cookie in 0..self.rng.range(1, 60) {
            raw.send(NbdCommand::Read, cookie, 0, 64 << 10)?;
        }
        if self.rng.range(0, 1) == 0 {
            shutdown(&raw.stream.0, Shutdown::Write)?;
            self.leave_open(raw.stream);
        }
        Ok(())
    }
}

/// Receives the server's greeting and sends the client flags.
fn greet(stream: &mut RawStream) -> io::Result<()> {
    stream.read_exact(&mut [0; GREETING_LEN])?;
    stream.write_all(&3u32.to_be_bytes())
}

/// Returns the bytes of an option of the handshake.
pub(crate) fn option(kind: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = OPTION_MAGIC.to_vec();
    bytes.extend(kind.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    bytes
}

/// Returns the data of a GO option for an export, without information requests.
pub(crate) fn go(export: &str) -> Vec<u8> {
    let mut data = (export.len() as u32).to_be_bytes().to_vec();
    data.extend(export.as_bytes());
    data.extend([0, 0]);
    data
}
