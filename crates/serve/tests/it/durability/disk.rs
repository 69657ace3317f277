//! A disk in memory that loses its power.
//!
//! What was written is in the disk's cache until a flush, or FUA, makes it durable; reads see the cache. [`Power::cut`] loses any
//! part of the cache: whole writes, or single sectors of them. As every sector may or may not have reached the medium, and with
//! any of the contents it had since it was last durable, the order in which a disk writes its cache back is any order, too.
//! A sector never falls back behind what was made durable.
//!
//! The promises are kept to the letter: a flush makes durable what was *completed* before it was submitted and not a byte more,
//! and takes its time.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weir_config::Volume;
use weir_core::random::Rng;
use weir_core::{Flags, Instant, Op, Span, Tag};
use weir_serve::backend::{Backend, Context, Data, Job, Prepare, Traits};
use weir_uring::Completion;

use super::ledger::SECTOR;

/// The longest an operation takes, nanoseconds.
const LONGEST: u64 = 200_000;
/// Linux's EIO.
const EIO: u16 = 5;

/// The disks that there have been in this process, by name: they outlive servers.
static DISKS: Mutex<BTreeMap<String, Power>> = Mutex::new(BTreeMap::new());

/// The switch of a disk; clones switch the same one.
#[derive(Clone, Debug)]
pub(crate) struct Power(Arc<Mutex<State>>);

impl Power {
    /// A disk for the volume of that name, full of zeroes. `seed` draws what its cuts lose and how long its operations take.
    pub(crate) fn new(name: &str, size: usize, seed: u64) -> Self {
        let power = Self(Arc::new(Mutex::new(State {
            on: false,
            random: Rng::new(seed),
            medium: vec![0; size],
            versions: vec![0; size / SECTOR],
            cache: vec![0; size],
            unflushed: BTreeMap::new(),
            written: 0,
        })));
        let mut disks = DISKS.lock().unwrap_or_else(PoisonError::into_inner);
        disks.insert(name.into(), power.clone());
        power
    }

    /// Cuts the power: of what was not made durable any part is lost. What runs, and what comes, fails with EIO until the volume
    /// is opened again. Whether anything was lost.
    pub(crate) fn cut(&self) -> bool {
        self.state().cut()
    }

    /// What a client would read; after a cut, what is left.
    pub(crate) fn contents(&self) -> Vec<u8> {
        self.state().cache.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Turns the disk of a volume on, with what is left on it.
pub(crate) fn open(volume: &Volume) -> io::Result<Box<dyn Prepare>> {
    let disks = DISKS.lock().unwrap_or_else(PoisonError::into_inner);
    let power = disks.get(&volume.name).cloned();
    let power = power.ok_or(io::ErrorKind::NotFound)?;
    power.state().on = true;
    Ok(Box::new(power))
}

impl Prepare for Power {
    fn size(&self) -> u64 {
        self.state().cache.len() as u64
    }

    fn traits(&self) -> Traits {
        Traits {
            guest: false,
            align: 1,
            preferred: 4096,
            read_only: false,
            trim: false,
            fast_zero: false,
            allocation: false,
        }
    }

    fn start(self: Box<Self>) -> io::Result<Box<dyn Backend>> {
        Ok(Box::new(Disk {
            power: *self,
            running: BTreeMap::new(),
            started: 0,
            waiting: Arc::default(),
        }))
    }
}

#[derive(Debug)]
struct State {
    on: bool,
    random: Rng,
    /// What a cut leaves, and the number of the write that each sector of it comes from.
    medium: Vec<u8>,
    versions: Vec<u64>,
    /// What reads see.
    cache: Vec<u8>,
    /// Writes that are not durable, by number.
    unflushed: BTreeMap<u64, Write>,
    written: u64,
}

/// Whole sectors, as a write left them in the cache.
#[derive(Debug)]
struct Write {
    first: usize,
    bytes: Vec<u8>,
    completed: bool,
}

impl State {
    /// Takes a write into the cache; gives its number.
    fn write(&mut self, job: &Job) -> u64 {
        let first = job.offset as usize;
        let here = &mut self.cache[first..first + job.length as usize];
        job.data
            .each_source(|at, bytes| here[at..at + bytes.len()].copy_from_slice(bytes));
        let write = Write {
            first: first / SECTOR,
            bytes: here.to_vec(),
            completed: false,
        };
        self.written += 1;
        self.unflushed.insert(self.written, write);
        self.written
    }

    /// What a flush that is submitted now covers.
    fn covered(&self) -> Vec<u64> {
        let writes = self.unflushed.iter();
        writes
            .filter(|(_, write)| write.completed)
            .map(|(number, _)| *number)
            .collect()
    }

    /// Brings sectors of a write to the medium: those for which `keep` says so and that are not newer there.
    fn harden(&mut self, number: u64, write: &Write, mut keep: impl FnMut() -> bool) {
        let sectors = (write.first..).zip(write.bytes.chunks_exact(SECTOR));
        for (sector, bytes) in sectors {
            let version = &mut self.versions[sector];
            if *version < number && keep() {
                *version = number;
                self.medium[sector * SECTOR..][..SECTOR].copy_from_slice(bytes);
            }
        }
    }

    /// Makes a write durable.
    fn sync(&mut self, number: u64) {
        if let Some(write) = self.unflushed.remove(&number) {
            self.harden(number, &write, || true);
        }
    }

    fn cut(&mut self) -> bool {
        self.on = false;
        // From a cut that loses all to one that loses nothing.
        let kept = self.random.range(0, 4);
        let mut random = Rng::new(self.random.next_u64());
        let mut chance = |of: u64| random.range(0, of - 1);
        for (number, write) in std::mem::take(&mut self.unflushed) {
            let torn = chance(3) == 0;
            let keep = chance(4) < kept;
            self.harden(number, &write, || if torn { chance(2) == 0 } else { keep });
        }
        let lost = self.cache != self.medium;
        self.cache.clone_from(&self.medium);
        lost
    }
}

/// The disk as a shard sees it.
#[derive(Debug)]
struct Disk {
    power: Power,
    /// What is under way, by its end.
    running: BTreeMap<(Instant, u64), Running>,
    started: u64,
    /// A thread sleeps until the next end and wakes the shard.
    waiting: Arc<AtomicBool>,
}

#[derive(Debug)]
struct Running {
    /// `None`: it was answered already.
    tag: Tag,
    data: Data,
    effect: Effect,
}

/// What happens at the end of an operation.
#[derive(Debug)]
enum Effect {
    None,
    /// A write is completed, and durable if so.
    Complete {
        number: u64,
        durable: bool,
    },
    /// These writes are durable.
    Sync(Vec<u64>),
}

impl Disk {
    /// The disk's state, if the power is on.
    fn on(&self) -> Result<MutexGuard<'_, State>, u16> {
        let state = self.power.state();
        if state.on { Ok(state) } else { Err(EIO) }
    }

    /// What a job does at once, what it does when it ends, and when that is.
    fn begin(&self, job: &mut Job, now: Instant) -> Result<(Effect, Instant), u16> {
        let mut state = self.on()?;
        let effect = match job.op {
            Op::Read => {
                let here = &state.cache[job.offset as usize..];
                job.data
                    .each_target(|at, bytes| bytes.copy_from_slice(&here[at..at + bytes.len()]));
                Effect::None
            }
            Op::Flush => Effect::Sync(state.covered()),
            Op::Write => Effect::Complete {
                number: state.write(job),
                durable: job.flags.has(Flags::FUA),
            },
            other => panic!("{other:?}: clients were not told of it"),
        };
        let takes = Span::from_nanos(state.random.range(0, LONGEST));
        Ok((effect, now + takes))
    }

    /// Has the shard woken when the next operation ends, or somewhat later if one that ends before has begun meanwhile.
    fn wait(&self, cx: &Context<'_>) {
        let Some(((end, _), _)) = self.running.first_key_value() else {
            return;
        };
        if !self.waiting.swap(true, Ordering::SeqCst) {
            let left = Duration::from_nanos(end.since(cx.now).as_nanos());
            let (waiting, caller) = (Arc::clone(&self.waiting), cx.caller());
            std::thread::spawn(move || {
                std::thread::sleep(left);
                waiting.store(false, Ordering::SeqCst);
                caller.call();
            });
        }
    }

    /// An operation ends.
    fn end(&self, effect: Effect) -> Result<(), u16> {
        let mut state = self.on()?;
        match effect {
            Effect::None => {}
            Effect::Complete {
                number,
                durable: true,
            } => state.sync(number),
            Effect::Complete { number, .. } => {
                if let Some(write) = state.unflushed.get_mut(&number) {
                    write.completed = true;
                }
            }
            Effect::Sync(numbers) => numbers.into_iter().for_each(|number| state.sync(number)),
        }
        Ok(())
    }
}

impl Backend for Disk {
    fn size(&self, _wanted: Option<u64>) -> io::Result<u64> {
        Ok(self.power.size())
    }

    fn submit(&mut self, mut job: Job, cx: &mut Context<'_>) {
        let (effect, end) = match self.begin(&mut job, cx.now) {
            Ok(begun) => begun,
            Err(errno) => return cx.finish(job.tag, Err(errno), job.data),
        };
        let running = Running {
            tag: job.tag,
            data: job.data,
            effect,
        };
        self.started += 1;
        self.running.insert((end, self.started), running);
        self.wait(cx);
    }

    fn completed(&mut self, _op: u32, _completion: Completion, _cx: &mut Context<'_>) {}

    fn woken(&mut self, cx: &mut Context<'_>) {
        while let Some(entry) = self.running.first_entry()
            && entry.key().0 <= cx.now
        {
            let running = entry.remove();
            let result = self.end(running.effect);
            cx.finish(running.tag, result, running.data);
        }
        self.wait(cx);
    }
}
